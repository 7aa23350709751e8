"""Markup: what XML can hold is found as expat finds it, elements hold over sentences, what has no
effect is counted, and no tag is spoken.
"""

import random
import xml.parsers.expat

import pytest

from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.chunks import segments
from kokoro_ane.g2p.result import Result
from kokoro_ane.g2p.ssml import ELEMENT, MARKUP, NAMES, TOOLS


@pytest.fixture(scope="module")
def us() -> G2P:
    return G2P.load("us")


def said(result: Result) -> str:
    """The words that are spoken in lower case, pauses and marks left out."""
    left_out = ("pause", "punctuation")
    return " ".join(word.spoken for word in result.words if word.source not in left_out).lower()


def counted(result: Result) -> list[str]:
    """What was not understood."""
    return [why.partition(": ")[2] for _, _, why in result.drops if "not understood" in why]


# Every element of SSML 1.1 and its attributes, in documents of which nothing leaks
ELEMENTS = [
    ("<speak>Hello there. How are you?</speak>", "Hello there How are you", []),
    ('<?xml version="1.0"?>\n<speak version="1.1" xml:lang="en">Go.</speak>', "Go", []),
    ("<ssml:speak>Hi <ssml:break/>you</ssml:speak>", "Hi you", []),
    ("<speak><p>One two.</p><p>Three.</p></speak>", "One two Three", []),
    ("<speak><s>One</s><s>Two</s></speak>", "One Two", []),
    ("<s>One.</s><s>Two.</s>", "One Two", []),
    ("<speak>a <token>big</token> <w>dog</w></speak>", "a big dog", []),
    ('<w role="x:VB">read</w> it', "read it", ['<w role="x:VB">']),
    ('<lang xml:lang="fr">chat</lang> noir', "chat noir", ['<lang xml:lang="fr">']),
    ('<voice name="x">One. Two.</voice>', "One Two", ['<voice name="x">']),
    ("<desc>a bell. rings</desc> here", "here", []),
    ("<metadata>Not. Said.</metadata> here", "here", []),
    ('<meta name="x" content="y"/>here', "here", []),
    ('go <mark name="x"/>on', "go on", []),
    ('<lexicon uri="a.pls" xml:id="x"/>here', "here", ['<lexicon uri="a.pls" xml:id="x"/>']),
    ('<lookup ref="x">here</lookup>', "here", ['<lookup ref="x">']),
    ('<audio src="a.mp3">a <desc>purr</desc>cat</audio>', "a cat", ['<audio src="a.mp3">']),
    ('<prosody pitch="high">up</prosody>', "up", ['<prosody pitch="high">']),
    ('<prosody rate="slow">slow</prosody>', "slow", []),
    ('<prosody rate="why">x y</prosody>', "x y", ['<prosody rate="why">']),
    ('<emphasis level="strong">One. Two</emphasis> three', "One Two three", []),
    ('<emphasis level="loud">one</emphasis>', "one", ['<emphasis level="loud">']),
    ('Wait<break time="2000"/>here', "Wait here", ['<break time="2000"/>']),
    ("Wait<break strength='none'/>here", "Wait here", []),
    ("Wait <break time=“1s”/> here <break time=1s/> now", "Wait here now", []),
    ("<speak><![CDATA[5 < 6]]> &amp; on</speak>", "five less than six and on", []),
    ("<speak>a<!-- no. Not this --> b<?do not?></speak>", "a b", []),
    ('<!DOCTYPE speak [<!ENTITY x "y">]><speak>a</speak>', "a",
     ['<!DOCTYPE speak [<!ENTITY x "y">]>']),
    ('<mstts:silence value="1s"/>here', "here", ['<mstts:silence value="1s"/>']),
    ('<mstts:express-as style="sad">One. Two.</mstts:express-as>', "One Two",
     ['<mstts:express-as style="sad">']),
    ('<amazon:effect name="whispered">psst</amazon:effect>', "psst",
     ['<amazon:effect name="whispered">']),
    ("<speak>a <unheard-of>b</unheard-of> c</speak>", "a b c", ["<unheard-of>"]),
    ("<speak>a <par><media>b</media></par></speak>", "a b", ["<par>", "<media>"]),
    ('<silence msec="500"/> a <pitch middle="5">b</pitch>', "a b", ['<pitch middle="5">']),
    ('<speak><voice name="x"><s>a <emphasis>b</voice></speak>', "a b", ['<voice name="x">']),
    ("one</speak> two</prosody>", "one two", ["</speak>", "</prosody>"]),
    ('<sub alias="Dr. Who. Yes">W. He</sub> left', "doctor Who Yes left", []),
    ('<sub alias="A &amp; B">x <b>y</b></sub> left', "A and B left", []),
    # words in angle brackets, comparisons and HTML are no SSML
    ("press <Enter> or <token>. if a<b and c>d", "press Enter or token if A less than B and C"
     " greater than D", []),
    ("H<sub>2</sub>O, <b>bold</b><br>text", "H two O bold text", []),
    ("a <std::vector> of <host:port>", "a std vector of host port", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words", "named"), ELEMENTS)
def test_no_element_is_spoken_and_what_has_no_effect_is_counted(
    us: G2P, text: str, words: str, named: list[str]
) -> None:
    result = us.phonemize(text)
    assert said(result) == words.lower()
    assert counted(result) == named
    assert all(text[word.start : word.end] == word.text for word in result.words)


SAY_AS = [
    ("ordinal", "", "3", "third"),
    ("ordinal", "", "1,112", "one thousand one hundred twelfth"),
    ("cardinal", "", "2026", "two thousand twenty-six"),
    ("cardinal", "", "-12.5", "minus twelve point five"),
    ("cardinal", "", "many", None),
    ("date", "yyyymmdd", "1960-09-10", "September tenth nineteen sixty"),
    ("date", "dm", "10-9", "September tenth"),
    ("date", "mdy", "13/14/2025", None),
    ("expletive", "", "darn", "bleep"),
    ("currency", "", "$42.01", "forty two dollars and one cent"),
    ("unit", "", "10 foot", "ten foot"),
    ("no such", "", "x", None),
]


@pytest.mark.parametrize(("kind", "form", "content", "words"), SAY_AS)
def test_say_as(us: G2P, kind: str, form: str, content: str, words: str | None) -> None:
    result = us.phonemize(f'<say-as interpret-as="{kind}" format="{form}">{content}</say-as>')
    assert words is None or said(result).replace("-", " ") == words.lower().replace("-", " ")
    assert len(counted(result)) == (words is None)


def test_ranks_in_other_languages() -> None:
    said_in = {
        language: said(G2P.load(language).phonemize('<say-as interpret-as="ordinal">3</say-as>'))
        for language in ("es", "it", "fr", "pt")
    }
    assert said_in == {"es": "tercero", "it": "terzo", "fr": "troisième", "pt": "terceiro"}


def test_elements_hold_from_sentence_to_sentence(us: G2P) -> None:
    text = '<speak><prosody rate="slow">One. <p>Two.</p> <desc>No. No.</desc>Three</prosody> four.'
    words = [word for result in us.sentences(text) for word in result.words]
    assert [(word.text, word.rate) for word in words if word.text.isalpha()] == [
        ("One", 0.8), ("Two", 0.8), ("Three", 0.8), ("four", 1.0)
    ]  # fmt: skip


PAUSES = [
    ("[pause:1.5s]", 1.5),
    ("[pause 300 ms]", 0.3),
    ("[Pause=500ms]", 0.5),
    ("[pause]", 0.4),
    ("{pause}", 0.4),
    ("{break:2}", 2.0),
    ("{pause 250}", 0.25),
    ("[[slnc 500]]", 0.5),
    ("<#0.5#>", 0.5),
    ("\\pau=700\\", 0.7),
]


@pytest.mark.parametrize(("tag", "seconds"), PAUSES)
def test_pauses_of_other_tools(us: G2P, tag: str, seconds: float) -> None:
    for text in (f"One {tag} two.", f"One{tag}two."):
        result = us.phonemize(text)
        assert [word.pause_s for word in result.words if word.pause_s] == [
            pytest.approx(seconds)
        ], text
        assert said(result) == "one two"


TAGS = (
    "<|endoftext|>|[[rate 200]]|[[emph +]]|[INST]|[/INST]|<<SYS>>|[laughs]|[clears throat]|<sigh>"
    "|[S1]|\\rst\\|\\spd=90\\|[whispers]"
)


@pytest.mark.parametrize("tag", TAGS.replace("|>", ">").replace("<|", "<").split("|"))
def test_other_tools_tags_are_counted(us: G2P, tag: str) -> None:
    tag = tag.replace("<endoftext>", "<|endoftext|>")
    result = us.phonemize(f"One {tag} two.")
    assert said(result) == "one two"
    assert counted(result) == [tag]


def test_the_role_of_a_chat_template_is_not_said(us: G2P) -> None:
    text = "<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\nHi.<|im_end|>"
    assert said(us.phonemize(text)) == "hello there hi"


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


def document(generator: random.Random, depth: int = 0) -> str:
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


def in_expat(text: str) -> list[tuple[int, str]]:
    """Where expat sees markup begin, and which kind."""
    parser, seen = xml.parsers.expat.ParserCreate(), []

    def at(kind: str) -> None:
        seen.append((parser.CurrentByteIndex, kind))

    parser.StartElementHandler = lambda name, _: at(f"start {name}")
    parser.EndElementHandler = lambda name: at(f"end {name}")
    parser.CommentHandler = lambda _: at("comment")
    parser.StartCdataSectionHandler = lambda: at("cdata")
    parser.ProcessingInstructionHandler = lambda *_: at("instruction")
    parser.Parse(text, True)
    return seen


def in_markup(text: str) -> list[tuple[int, str]]:
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
def test_markup_is_found_as_expat_finds_it(seed: int) -> None:
    text = f"<speak>{document(random.Random(seed))}</speak>"
    # expat tells an empty element's end at the place behind it
    ends = [kind for _, kind in in_expat(text)]
    assert [kind for _, kind in in_markup(text)] == ends
    starts = [one for one in in_expat(text) if not one[1].startswith("end ")]
    assert [one for one in in_markup(text) if not one[1].startswith("end ")] == starts


@pytest.mark.parametrize("seed", range(100))
def test_no_cut_is_inside_markup_however_the_text_arrives(seed: int) -> None:
    generator = random.Random(seed)
    text = f"<speak>{' '.join(document(generator) for _ in range(12))}</speak>"
    whole = list(segments(text))
    assert all(text[offset : offset + len(part)] == part for offset, part in whole)
    spans = [match.span() for match in MARKUP.finditer(text)]
    inside = [place for place, _ in whole if any(a < place < b for a, b in spans)]
    assert inside == []
    step = generator.choice((1, 7, 100, 3000))
    assert whole == list(segments(text[at : at + step] for at in range(0, len(text), step)))


def test_the_patterns_hold_what_they_name() -> None:
    assert {"break", "prosody", "media", "lang"} <= NAMES
    assert "say-as" in ELEMENT
    assert "slnc" in TOOLS
