"""Markup: what XML can hold is found as expat finds it, elements hold over sentences, what has no
effect is counted, and no tag is spoken.
"""

import random
import xml.parsers.expat

import pytest

from kokoro_g2p import G2P
from kokoro_g2p.errors import InputError
from kokoro_g2p.phonemizer import load_reader
from kokoro_g2p.ssml import MARKUP, check_languages, voices_in
from reader_tests.lines import pieces_of
from reader_tests.names import rows


@pytest.fixture(scope="module")
def us():
    return G2P.load("us")


def spoken_words(result):
    """The words that are spoken in lower case, pauses and marks left out."""
    left_out = ("pause", "punctuation")
    return (
        " ".join(word.spoken for word in result.words if word.source not in left_out)
        .lower()
        .replace("-", " ")
    )


def counted(result):
    """What was not understood."""
    return [why.partition(": ")[2] for _, _, why in result.drops if "not understood" in why]


def cases(*kinds):
    """Columns of g2p/tests/data/markup.tsv behind the kind."""
    return [row[1:] for row in rows("markup") if row[0] in kinds]


@pytest.mark.parametrize(("text", "words", "named"), cases("element", "say-as"))
def test_no_markup_is_spoken_and_what_has_no_effect_is_counted(us, text, words, named):
    text = text.replace("⏎", "\n")
    result = us.phonemize(text)
    assert spoken_words(result) == words.replace("-", " ")
    assert counted(result) == (named.split(" ¦ ") if named else [])
    assert all(text[word.start : word.end] == word.text for word in result.words)


def test_elements_hold_from_sentence_to_sentence(us):
    text = '<speak><prosody rate="slow">One. <p>Two.</p> <desc>No. No.</desc>Three</prosody> four.'
    words = [word for result in us.sentences(text) for word in result.words]
    assert [(word.text, word.rate) for word in words if word.text.isalpha()] == [
        ("One", 0.8), ("Two", 0.8), ("Three", 0.8), ("four", 1.0)
    ]  # fmt: skip


def test_a_voice_holds_until_another_is_named(us):
    text = (
        '<speak>One <voice name="bf_emma"><p>two.</p> Three</voice> four. [voice:am_adam 0.8]Five.'
        " Six [voice:af_sky] seven.</speak> Eight."
    )
    words = [word for result in us.sentences(text) for word in result.words]
    assert [(word.text, word.voice, word.rate) for word in words if word.text.isalpha()] == [
        ("One", "", 1.0),
        ("two", "bf_emma", 1.0),
        ("Three", "bf_emma", 1.0),
        ("four", "", 1.0),
        ("Five", "am_adam", 0.8),
        ("Six", "am_adam", 0.8),
        ("seven", "af_sky", 1.0),
        ("Eight", "", 1.0),
    ]
    assert voices_in(text) == ["bf_emma", "am_adam", "af_sky"]


def test_what_another_voice_says_is_read_in_its_language():
    reader, spanish = G2P.load("us"), G2P.load("es")
    reader.follow(lambda voice: spanish if voice[0] == "e" else reader)
    parts = [one.phonemes for one in reader.sentences("Go. [voice:ef_dora] Hola. [voice:af_x] Go.")]
    go = reader.phonemize("Go.").phonemes
    assert parts == [go, spanish.phonemize("Hola.").phonemes, go]


@pytest.mark.parametrize(("dialect", "text", "pieces"), cases("lang"))
def test_what_is_of_another_language_is_read_by_its_reader(dialect, text, pieces):
    result = G2P.load(dialect).phonemize(text)
    read = [piece.partition(":")[::2] for piece in pieces.split(" ¦ ")]
    phonemes = [load_reader(language, None).phonemize(piece).phonemes for language, piece in read]
    assert result.phonemes == " ".join(phonemes)
    assert all(text[word.start : word.end] == word.text for word in result.words)
    assert [text[start:end] for start, end, why in result.drops if why == "emoji"] == [
        character for character in text if character == "😀"
    ]


def test_a_language_that_is_not_held_is_counted_and_one_that_nobody_reads_is_refused(us):
    few, text = G2P.load("us"), '<lang xml:lang="fr">Rad</lang>'
    few.others.held = ("us",)
    assert few.phonemize(text).phonemes == us.phonemize("Rad").phonemes
    assert counted(few.phonemize(text)) == ['<lang xml:lang="fr">']
    check_languages(f'{text} <html xml:lang="de">')
    with pytest.raises(InputError, match='<lang xml:lang="de">: this language is not read'):
        check_languages(f'{text} <lang xml:lang="de">Rad</lang>')


@pytest.mark.parametrize(("tag", "seconds", "_"), cases("pause"))
def test_pauses_of_other_tools(us, tag, seconds, _):
    for text in (f"One {tag} two.", f"One{tag}two."):
        result = us.phonemize(text)
        pauses = [word.pause_s for word in result.words if word.pause_s]
        assert pauses == [pytest.approx(float(seconds))], text
        assert spoken_words(result) == "one two"


NAMES_OF_TESTS = ("speak", "p", "break", "prosody", "mstts:x", "a.b-c", "_d")
BLANKS = (" ", "\n")
VALUES = ('"1s"', "'a > b'", '"x&amp;y"', '"don\'t"', "''", '"<"'.replace("<", "&lt;"))


PLAIN_PIECES = (
    "word ",
    "Dr. X. ",
    "1 &lt; 2 ",
    "] ",
    "<!-- a <b> - c. D -->",
    "<![CDATA[ a <b> ] & ]]>",
    "<?target some words?>",
)


def document(generator, depth=0):
    """Well-formed XML of tags, comments, CDATA, instructions and words."""
    pieces = []
    for _ in range(generator.randint(1, 4)):
        name = generator.choice(NAMES_OF_TESTS)
        named = "".join(
            f"{generator.choice(BLANKS)}a{place} = {generator.choice(VALUES)}"
            for place in range(generator.randint(0, 3))
        )
        inner = document(generator, depth + 1) if depth < 4 else ""
        kinds = (f"<{name}{named} />", f"<{name}{named}>{inner}</{name} >", *PLAIN_PIECES)
        pieces.append(generator.choice(kinds))
    return "".join(pieces)


def in_expat(text):
    """Where expat sees markup begin, and which kind."""
    parser, seen = xml.parsers.expat.ParserCreate(), []

    def at(kind):
        seen.append((parser.CurrentByteIndex, kind))

    parser.StartElementHandler = lambda name, _: at(f"start {name}")
    parser.EndElementHandler = lambda name: at(f"end {name}")
    parser.CommentHandler = lambda _: at("comment")
    parser.StartCdataSectionHandler = lambda: at("cdata")
    parser.ProcessingInstructionHandler = lambda *_: at("instruction")
    parser.Parse(text, True)
    return seen


def in_markup(text):
    """The same of MARKUP."""
    seen = []
    for match in MARKUP.finditer(text):
        place, name = match.start(), match["name"]
        if name:
            seen += [(place, f"{'end' if match['closes'] else 'start'} {name}")]
            seen += [(place, f"end {name}")] if match["empty"] else []
        else:
            kinds = {"<!-": "comment", "<![": "cdata"}
            seen.append((place, kinds.get(match[0][:3], "instruction")))
    return seen


@pytest.mark.parametrize("seed", range(200))
def test_markup_is_found_as_expat_finds_it(seed):
    text = f"<speak>{document(random.Random(seed))}</speak>"
    # expat tells an empty element's end at the place behind it
    ends = [kind for _, kind in in_expat(text)]
    assert [kind for _, kind in in_markup(text)] == ends
    starts = [one for one in in_expat(text) if not one[1].startswith("end ")]
    assert [one for one in in_markup(text) if not one[1].startswith("end ")] == starts


@pytest.mark.parametrize("seed", range(100))
def test_no_cut_is_inside_markup_however_the_text_arrives(seed):
    generator = random.Random(seed)
    text = f"<speak>{' '.join(document(generator) for _ in range(12))}</speak>"
    whole = pieces_of(text, generator.choice((1, 7, 100, 3000)))
    spans = [match.span() for match in MARKUP.finditer(text)]
    assert [place for place, _ in whole if any(a < place < b for a, b in spans)] == []
