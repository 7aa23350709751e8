"""The pronunciation of every word that g2p lists, as one sorted text file for an app that does not
run g2p's rules (`bundle --text words`).

write_lexicon(Path("lexicon/us.tsv"), "us")      # returns the number of words

UTF-8, one word a line, sorted by bytes so that a port can search by halves. Columns, tab-separated:
word, list, phonemes in Kokoro's symbols; a heteronym has instead one `TAG=phonemes` a part of
speech, DEFAULT first; `TAG=` alone is said letter by letter. Lines of # are comments. Lists: `o`
ours by hand, `g` misaki's gold, `c` CMUdict in Kokoro's symbols, `s` misaki's silver, by espeak-ng,
`m` a listed stem with its ending, `r` g2p's other rules (letters, an abbreviation, a small word as
it stands alone). Sources: misaki 0.9.4 (Apache-2.0), CMUdict (BSD, g2p/data/cmudict.LICENSE.txt).
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kokoro_ane.g2p.lexicon import DEFAULT, Lexicon
from kokoro_ane.g2p.normalize import normalize
from kokoro_ane.g2p.phonemizer import G2P
from kokoro_ane.g2p.reading import Reader
from kokoro_ane.g2p.result import GB, US, Dialect
from kokoro_ane.g2p.weak_forms import WEAK
from kokoro_ane.g2p.word_lists import MISAKI_VERSION
from kokoro_ane.pipeline.text_tables import LISTS, languages_for

HEAD = (
    (
        f"# English lexicon of misaki {MISAKI_VERSION} (https://github.com/hexgrad/misaki,"
        " Apache-2.0), as one table"
    ),
    "# and CMUdict (https://github.com/cmusphinx/cmudict, BSD), mapped to Kokoro's symbols",
    (
        "# word<TAB>o ours, g gold, c CMUdict, s silver, m stem and ending, r rule<TAB>phonemes, or"
        " TAG=phonemes for each part of speech; sorted by UTF-8 bytes"
    ),
)
LETTERS = LISTS | {"morphology": "m"}


def dialects_for(voices: Iterable[str]) -> tuple[Dialect, ...]:
    """The English dialects that these voices speak; a name of another kind counts as American."""
    return tuple(dialect for dialect in (US, GB) if dialect in languages_for(voices))


def write_lexicon(path: Path, dialect: Dialect) -> int:
    """Write the words of a dialect and return their number. Raises InputError where misaki's data
    is missing or of another version.
    """
    lines = lexicon_lines(dialect)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("\n".join((*HEAD, *lines, "")).encode())
    return len(lines)


@cache
def lexicon_lines(dialect: Dialect) -> tuple[str, ...]:
    """One line for each word, sorted by bytes: what the reader finds where the normalizer leaves
    the word as it is, else what all of g2p says.
    """
    lexicon = Lexicon.load(dialect)
    reader, g2p = Reader(lexicon, None), G2P.load(dialect)
    lines = []
    for word in lexicon.words:
        # a heteronym has a column for each part of speech, the default first
        reading = reader.read(word)
        columns, source = [reading.phonemes], LETTERS.get(reading.source, "r")
        if reading.senses is not None:
            tags = sorted(reading.senses, key=lambda tag: (tag != DEFAULT, tag))
            columns = [f"{tag}={reading.senses[tag] or ''}" for tag in tags]
        elif not _is_looked_up(word, lexicon):
            spoken = said_alone(g2p, word)
            columns, source = [spoken], source if spoken == reading.phonemes else "r"
        lines.append("\t".join((word, source, *columns)))
    return tuple(sorted(lines, key=str.encode))


def said_alone(g2p: G2P, word: str) -> str:
    """What g2p says of a text of this word, without its marks."""
    words = g2p.phonemize(word).words
    return " ".join(spoken.phonemes for spoken in words if spoken.source != "punctuation")


def _is_looked_up(word: str, lexicon: Lexicon) -> bool:
    """Whether g2p looks the word up as it is written, and reads it alike in every sentence."""
    tokens = normalize(word, dialect=lexicon.dialect, known=lexicon.lists).tokens
    as_written = [(token.kind, token.text) for token in tokens] == [("word", word)]
    return as_written and word.lower() not in WEAK
