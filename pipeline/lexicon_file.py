"""The lexicon as one sorted text file, for an app: misaki's gold and silver lists without JSON.

write_lexicon(Path("lexicon/us.tsv"), "us")      # returns the number of words

UTF-8, one word a line, sorted by bytes so that a port can search by halves. Columns, tab-separated: word, `g` (gold, by hand) or `s`
(silver, by espeak-ng), phonemes; a heteronym has instead one `TAG=phonemes` a part of speech, DEFAULT first. Lines of # are comments.
A word in both lists keeps its gold entry only. Source: misaki 0.9.4 (Apache-2.0), through g2p.misaki_data.
"""

from pathlib import Path

from g2p.misaki_data import MISAKI_VERSION, Entry, read
from g2p.result import Dialect

HEAD = (
    f"# English lexicon of misaki {MISAKI_VERSION} (https://github.com/hexgrad/misaki, Apache-2.0), as one table",
    "# word<TAB>g gold or s silver<TAB>phonemes, or TAG=phonemes for each part of speech; sorted by UTF-8 bytes",
)


def write_lexicon(path: Path, dialect: Dialect) -> int:
    """Write both lists of a dialect merged. Raises InputError where misaki's data is missing or another."""
    entries = {word: ("s", entry) for word, entry in read(f"{dialect}_silver").items()}
    entries |= {word: ("g", entry) for word, entry in read(f"{dialect}_gold").items()}
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
