"""The lexicon as one sorted text file, for an app: misaki's gold and silver lists, CMUdict and our own, without JSON.

write_lexicon(Path("lexicon/us.tsv"), "us")      # returns the number of words

UTF-8, one word a line, sorted by bytes so that a port can search by halves. Columns, tab-separated: word, list, phonemes; a heteronym has
instead one `TAG=phonemes` a part of speech, DEFAULT first. Lines of # are comments. Lists: `o` ours by hand, `g` misaki's gold, `c` CMUdict
in Kokoro's symbols (American), `s` misaki's silver, by espeak-ng. A word in several keeps its first entry in this order, as g2p does.
Sources: misaki 0.9.4 (Apache-2.0), CMUdict (BSD, g2p/data/cmudict.LICENSE.txt).
"""

from pathlib import Path

from g2p.lists import CMUDICT, OURS, ListFile
from g2p.misaki_data import MISAKI_VERSION, Entry, read
from g2p.result import US, Dialect

HEAD = (
    f"# English lexicon of misaki {MISAKI_VERSION} (https://github.com/hexgrad/misaki, Apache-2.0), as one table",
    "# and CMUdict (https://github.com/cmusphinx/cmudict, BSD), mapped to Kokoro's symbols",
    "# word<TAB>o ours, g gold, c CMUdict or s silver<TAB>phonemes, or TAG=phonemes for each part of speech; sorted by UTF-8 bytes",
)


def write_lexicon(path: Path, dialect: Dialect) -> int:
    """Write the lists of a dialect merged. Raises InputError where misaki's data is missing or another."""
    entries: dict[str, tuple[str, Entry]] = {word: ("s", entry) for word, entry in read(f"{dialect}_silver").items()}
    if dialect == US:
        entries |= {word: ("c", entry) for word, entry in ListFile(CMUDICT).items()}
    entries |= {word: ("g", entry) for word, entry in read(f"{dialect}_gold").items()}
    entries |= {word: ("o", entry) for word, entry in ListFile(OURS[dialect]).items()}
    lines = [f"{word}\t{source}\t{columns(entry)}" for word, (source, entry) in entries.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("\n".join((*HEAD, *sorted(lines, key=str.encode), "")).encode())
    return len(lines)


def columns(entry: Entry) -> str:
    """Phonemes, or TAG=phonemes pairs; a tag without a reading of its own stands alone (`TAG=`)."""
    if isinstance(entry, str):
        return entry
    tags = sorted(entry, key=lambda tag: (tag != "DEFAULT", tag))
    return "\t".join(f"{tag}={entry[tag] or ''}" for tag in tags)
