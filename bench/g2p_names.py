"""Names and frequent words that lists lack: how many a listener would call wrong, ours beside espeak-ng's.

    python -m bench.g2p_names [--no-espeak] [--misses]

The words are tests/data/g2p/{names,frequent_words,frequent_later,frequent_next,british_words,british_later}.tsv with every
pronunciation that counts as right; each set was frozen before its first run (docs/g2p.md). Forgiven is what no listener calls a
mistake: secondary stress, the flap, a weak vowel's colour (ə ɪ ᵻ ᵊ), ɑ for ɔ, vowels that merge before ɹ. Primary stress counts.
Exit 0: at most 3 % wrong in each list; 1: more. The last line of stdout is one JSON object.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.markdown import print_markdown
from core.errors import EXIT_GOOD, EXIT_REJECTED, run_cli

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "g2p"
LIMIT_PERCENT = 3.0
PRIMARY, VOWELS, WEAK = "ˈ", "AIOQWYaeiouæɐɑɒɔəɛɜɪʊʌᵊᵻ", "ᵻᵊʌɐ"
SAME = {"ˌ": "", "T": "t", " ": "", "ː": "", "ɔɹ": "oɹ", "ɔ": "ɑ", "ɜ": "ə", "tʃ": "ʧ", "dʒ": "ʤ"}
BEFORE_R = {"əɹ": "ɚ", "ɛɹ": "Eɹ", "æɹ": "Eɹ", "Aɹ": "Eɹ", "oɹ": "Oɹ", "ɪɹ": "iɹ", "ʊɹ": "uɹ"}
Accepted = Mapping[str, Sequence[str]]


def heard(phonemes: str, weak_i: str) -> str:
    """`phonemes` as a listener sorts them; `weak_i`: what an unstressed ɪ counts as, ə or i."""
    for old, new in SAME.items():
        phonemes = phonemes.replace(old, new)
    found, stressed = [], False
    for symbol in phonemes:
        if not stressed:
            symbol = "ə" if symbol in WEAK else weak_i if symbol == "ɪ" else symbol
        stressed = symbol == PRIMARY or (stressed and symbol not in VOWELS)
        found.append(symbol)
    text = "".join(found).replace("ɹɹ", "ɹ")
    for old, new in BEFORE_R.items():
        text = text.replace(old, new)
    return text


def alike(one: str, other: str) -> bool:
    """Whether a listener would take both for the same word."""
    return any(heard(one, weak_i) == heard(other, weak_i) for weak_i in "əi")


def read_words(name: str) -> dict[str, dict[str, list[str]]]:
    """List name -> word -> accepted pronunciations, of one file. In names.tsv the first column names the list."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in (FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            *head, word, accepted = line.split("\t")
            part = head[0] if name == "names" else name
            found.setdefault(part, {})[word] = accepted.split()
    return found


def wrong(read: Callable[[str], str], accepted: Accepted) -> dict[str, str]:
    """Words said otherwise than every accepted pronunciation, with what was said."""
    said = {word: read(word) for word in accepted}
    return {word: said[word] for word, forms in accepted.items() if not any(alike(said[word], form) for form in forms)}


def ours(dialect: str) -> Callable[[str], str]:
    """The whole front end on the word alone."""
    from g2p import G2P

    g2p = G2P.load(dialect)
    return lambda word: g2p.phonemize(word).phonemes


def espeak(words: Sequence[str]) -> Callable[[str], str]:
    """espeak-ng's American voice."""
    from bench.g2p_readers import espeak_ng

    return dict(zip(words, espeak_ng(list(words)), strict=True)).__getitem__


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.g2p_names", description=__doc__.splitlines()[0])
    parser.add_argument("--no-espeak", action="store_true")
    parser.add_argument("--misses", action="store_true", help="print the words ours says wrong")
    arguments = parser.parse_args(argv)
    american = ("names", "frequent_words", "frequent_later", "frequent_next")
    lists = {part: (words, "us") for name in american for part, words in read_words(name).items()}
    lists |= {name: (read_words(name)[name], "gb") for name in ("british_words", "british_later")}
    rows, figures = [], {}
    for part, (words, dialect) in lists.items():
        misses = {"ours": wrong(ours(dialect), words)}
        if dialect == "us" and not arguments.no_espeak:
            misses["espeak-ng"] = wrong(espeak(list(words)), words)
        figures[part] = {reader: round(100 * len(found) / len(words), 2) for reader, found in misses.items()}
        rows.append((part, str(len(words)), *(f"{figures[part].get(reader, float('nan')):.1f} %" for reader in ("ours", "espeak-ng"))))
        for word, said in misses["ours"].items() if arguments.misses else ():
            print(f"{part}: {word} {said}, wanted {' or '.join(words[word])}")
    print_markdown(("list", "words", "ours wrong", "espeak-ng wrong"), rows)
    good = all(found["ours"] <= LIMIT_PERCENT for found in figures.values())
    print(json.dumps({"wrong_percent": figures, "good": good}))
    return EXIT_GOOD if good else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
