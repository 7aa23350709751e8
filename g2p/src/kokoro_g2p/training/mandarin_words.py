"""Build the word list of Mandarin from pypinyin's readings and jieba's frequencies.

    pip install pypinyin==0.55.0 jieba==0.42.1 opencc-python-reimplemented==0.1.7
    python -m kokoro_g2p.training.mandarin_words && make hashes

A list of the commonest words, and of every other word that would be read otherwise if its parts
were: words as jieba counts them, readings as pypinyin gives them word by word, which is what misaki
does at run time. An entry is the word's cost and, where they are not the usual ones of its
characters, its syllables (languages/chinese.py). A pipe's last line is one JSON object.
"""

import gzip
import json
import math
import re
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from kokoro_g2p.bundled import DATA, read_json
from kokoro_g2p.commands import EXIT_GOOD, CommandParser, command, conclude
from kokoro_g2p.files import open_aside
from kokoro_g2p.languages.lattice import FREE, LONGEST, UNLISTED, Lattice

HAN = re.compile("[\u4e00-\u9fff]+")
FIRST, LAST, FIRST_SYLLABLE = 0x4E00, 0x9FFF, 0x100
UNREAD = "-"
STEP = 0.25  # of the logarithm of a frequency: one unit of cost
RAREST, LEAST_PHRASE = 4, 3  # count of a word in jieba; characters of a phrase without one
COMMON = 50  # count of a short word that keeps the rows for single characters away


def find_data_file(package: str, name: str) -> Path:
    """A file of an installed package."""
    return Path(str(distribution(package).locate_file(name)))


def read_frequencies() -> dict[str, int]:
    """Words of Chinese characters with their counts in jieba's dictionary."""
    counts = {}
    for line in find_data_file("jieba", "jieba/dict.txt").read_text(encoding="utf-8").splitlines():
        word, count, *_ = line.split(" ")
        if HAN.fullmatch(word) and len(word) <= LONGEST:
            counts[word] = int(count)
    return counts


def build(commonest: int) -> dict[str, Any]:
    """Return `words` with their entries, `names` of the syllables, and `readings` of the
    characters.
    """
    from pypinyin import Style, lazy_pinyin

    tables = read_json("chinese.json")
    corrected = [(re.compile(form), place, said) for form, place, said in tables["corrected"]]
    polyphones = {row[0] for row in tables["polyphones"]}

    def read(word: str) -> list[str]:
        answers = lazy_pinyin(word, style=Style.TONE3, neutral_tone_with_five=True)
        # pypinyin answers with the character where it has no reading
        syllables = [UNREAD if HAN.match(answer) else answer for answer in answers]
        # corrections by hand go before pypinyin's reading
        for form, place, said in corrected:
            if form.fullmatch(word):
                syllables[place] = said
        return syllables

    counts = read_frequencies()
    total = sum(counts.values())
    for word in tables["left_out"].split():
        counts.pop(word, None)
    usual = {chr(point): read(chr(point))[0] for point in range(FIRST, LAST + 1)}
    readings: dict[str, list[str]] = {}
    words: dict[str, str] = {}

    def compute_cost(count: int) -> int:
        return round((math.log(total) - math.log(max(count, 1))) / STEP)

    def add(word: str, count: int, reading: list[str]) -> None:
        words[word] = chr(ord(FREE) + compute_cost(count))
        if reading != [usual[character] for character in word]:
            readings[word] = reading

    def is_needed(word: str) -> bool:
        """Whether the parts of a word are read otherwise than it, or by their neighbours."""
        parts = lattice.cut(word)
        by_parts = [
            syllable
            for part in parts
            for syllable in readings.get(part, [usual[character] for character in part])
        ]
        is_common = len(word) > 3 or counts.get(word, 0) >= COMMON
        is_decided = not polyphones.isdisjoint(parts)
        return by_parts != read(word) or (is_common and is_decided)

    lattice = Lattice(words, {})
    for word, count in counts.items():
        # A character that costs more than an unlisted one gains nothing by an entry.
        if len(word) == 1 and compute_cost(count) < UNLISTED:
            add(word, count, read(word))
    # Equally frequent words in the order of their code points, the same in every process
    several = sorted((word for word in counts if len(word) > 1), key=lambda w: (-counts[w], w))
    for word in several[:commonest]:
        add(word, counts[word], read(word))
    # from the shortest on, so that a long word is judged by parts that are there
    for word in sorted(several[commonest:], key=lambda word: (len(word), -counts[word], word)):
        if counts[word] >= RAREST and is_needed(word):
            add(word, counts[word], read(word))
    phrases = json.loads(
        find_data_file("pypinyin", "pypinyin/phrases_dict.json").read_text(encoding="utf-8")
    )
    for word in sorted(phrases, key=lambda word: (len(word), word)):
        fits = HAN.fullmatch(word) and LEAST_PHRASE <= len(word) <= LONGEST
        if fits and word not in words and is_needed(word):
            # A phrase without a count costs as much as a rare word.
            add(word, RAREST, read(word))
    names = sorted({*usual.values(), *(name for reading in readings.values() for name in reading)})
    place = {name: chr(FIRST_SYLLABLE + number) for number, name in enumerate(names)}
    return {
        "words": {
            word: entry + "".join(place[name] for name in readings.get(word, ()))
            for word, entry in words.items()
        },
        "names": names,
        "readings": "".join(place[usual[chr(point)]] for point in range(FIRST, LAST + 1)),
    }


def read_simplified() -> Mapping[str, str]:
    """Traditional characters, each with the simplified one that stands for it most often."""
    lines = find_data_file(
        "opencc-python-reimplemented", "opencc/dictionary/TSCharacters.txt"
    ).read_text(encoding="utf-8")
    folded = {}
    for line in lines.splitlines():
        # The first of several simplified characters is the most frequent.
        old, new = line.split("\t")[0], line.split("\t")[1].split(" ")[0]
        if HAN.fullmatch(old) and HAN.fullmatch(new) and old != new:
            folded[old] = new
    return folded


def write_packed(target: Path, content: str) -> int:
    """Write a text as .gz, aside and renamed, and return its size."""
    with open_aside(target) as aside:
        # Without a time stamp the same text gives the same bytes.
        aside.write_bytes(gzip.compress(content.encode(), compresslevel=9, mtime=0))
    return target.stat().st_size


@command
def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = CommandParser("kokoro_g2p.training.mandarin_words", __doc__)
    parser.add_argument("--out", type=Path, default=DATA, help="the folder of the lists")
    parser.add_argument("--commonest", type=int, default=8_000, help="words listed in any case")
    arguments = parser.parse_args(argv)
    built = build(arguments.commonest)
    folded = read_simplified()
    rows = [f"{word}\t{entry}" for word, entry in sorted(built["words"].items())]
    lines = (" ".join(built["names"]), built["readings"], "".join(folded), "".join(folded.values()))
    sizes = {
        name: write_packed(arguments.out / name, "\n".join(content))
        for name, content in (("chinese.txt.gz", rows), ("chinese_characters.txt.gz", lines))
    }
    report = {"bytes": sizes, "words": len(rows), "syllables": len(built["names"])}
    return conclude(arguments, report, EXIT_GOOD, f"{len(rows)} words: {arguments.out}")


if __name__ == "__main__":
    raise SystemExit(main())
