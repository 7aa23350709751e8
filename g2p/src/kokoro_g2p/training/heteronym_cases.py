"""Measure heteronyms in sentences of a writer who is not in the training data: the bundled table,
the default sense, the best fixed sense of each word, and espeak-ng.

    python -m kokoro_g2p.training.heteronym_cases [--no-espeak] [--misses]

A sentence is right when the sense chosen sounds like the expected one. espeak-ng's phonemes differ
from misaki's, so it gets the sense whose phonemes are nearest to what it says about that place, and
a tie counts for it. `best fixed` knows the answers: the sense most frequent in the set, word by
word. `shuffled` is ours with the other words in random order. Exit 0: ours keeps its limit and is
ahead of `best fixed`; 1: not. A pipe's last line is one JSON object.
"""

import csv
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kokoro_g2p.commands import (
    EXIT_GOOD,
    EXIT_REJECTED,
    CommandParser,
    command,
    conclude,
    print_table,
)
from kokoro_g2p.errors import InputError

SENTENCES = Path(__file__).resolve().parents[3] / "tests/data/heteronyms_sealed.tsv"
LIMIT = 0.92  # share of the sentences
# words before and after the place where espeak-ng's word is looked for
NEAR = 3


@dataclass(frozen=True)
class HeteronymCase:
    """A sentence as words and marks, the place of its heteronym, the senses of that word (Kokoro
    phonemes by key), and the key expected.
    """

    sentence: str
    words: tuple[str, ...]
    at: int
    senses: Mapping[str, str]
    key: str

    @property
    def word(self) -> str:
        """The heteronym in lower case."""
        return self.words[self.at].lower()


# the key chosen
Choice = Callable[[HeteronymCase], str]


def read_cases() -> list[HeteronymCase]:
    """Read the judged sentences. Raises InputError for a line whose key its word does not have."""
    from kokoro_g2p.lexicon import Lexicon
    from kokoro_g2p.part_of_speech import find_nth, split_words

    lexicon = Lexicon.load("us")
    cases = []
    with SENTENCES.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            words = split_words(row["sentence"])
            at = find_nth(words, row["word"], int(row["occurrence"]))
            # Polish has senses, polish has one
            listing = lexicon.find(words[at])
            senses = {
                key: sound for key, sound in ((listing and listing.senses) or {}).items() if sound
            }
            if row["key"] not in senses:
                raise InputError(
                    f"{SENTENCES.name}: {row['word']} has the keys"
                    f" {', '.join(senses) or 'none'}, not {row['key']}"
                )
            cases.append(
                HeteronymCase(
                    row["sentence"],
                    words,
                    at,
                    senses,
                    row["key"],
                )
            )
    return cases


def is_right(case: HeteronymCase, key: str) -> bool:
    """Whether the sense of `key` sounds like the expected one."""
    return case.senses[key] == case.senses[case.key]


def load_choice() -> Choice:
    """Return the choice of the bundled table."""
    from kokoro_g2p.heteronyms import Heteronyms

    chooser = Heteronyms.load()
    return lambda case: chooser.choose(case.words, case.at, tuple(case.senses))


def shuffle_words(choice: Choice, seed: int) -> Choice:
    """Return `choice` on the same words in random order, the heteronym at its place: a control
    without context.
    """
    generator = random.Random(seed)

    def choose(case: HeteronymCase) -> str:
        # the heteronym stays where it is
        others = [*case.words[: case.at], *case.words[case.at + 1 :]]
        generator.shuffle(others)
        words = (*others[: case.at], case.words[case.at], *others[case.at :])
        return choice(HeteronymCase(case.sentence, words, case.at, case.senses, case.key))

    return choose


def find_best_fixed(cases: Sequence[HeteronymCase]) -> Choice:
    """Return for each word the sound most frequent among `cases`: no method without context does
    better on them.
    """
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        # Senses are counted by sound, since keys of one sound are equally right.
        counts.setdefault(case.word, Counter())[case.senses[case.key]] += 1
    best = {word: sounds.most_common(1)[0][0] for word, sounds in counts.items()}
    return lambda case: next(
        (key for key, sound in case.senses.items() if sound == best[case.word]), "DEFAULT"
    )


def find_nearest(case: HeteronymCase, answer: Sequence[str]) -> str:
    """Return the key of the sense nearest to one of the words of `answer` around the heteronym's
    place; the expected one where it is among the nearest.
    """
    from kokoro_g2p.alphabet import edit_distance

    # espeak-ng's answer has no marks: words before the place are counted
    place = sum(any(letter.isalnum() for letter in word) for word in case.words[: case.at])
    around = answer[max(0, place - NEAR) : place + NEAR + 1]
    distance = {
        key: min(edit_distance(sound, word) for word in around)
        for key, sound in case.senses.items()
    }
    least = min(distance.values())
    # a tie counts for espeak-ng
    return case.key if distance[case.key] == least else min(distance, key=lambda key: distance[key])


def load_espeak_choice(cases: Iterable[HeteronymCase]) -> Choice:
    """Return espeak-ng's choice. Raises InputError when it is not installed."""
    from kokoro_g2p.espeak import from_espeak, open_backend

    open_backend("en-us")  # finds the library
    from phonemizer.backend import EspeakBackend

    # marks are left out, because `find_nearest` counts words
    speaker = EspeakBackend(language="en-us", with_stress=True, tie="^")
    sentences = [case.sentence for case in cases]
    words = {
        sentence: [from_espeak(word) for word in answer.split()]
        for sentence, answer in zip(sentences, speaker.phonemize(sentences), strict=True)
    }
    return lambda case: find_nearest(case, words[case.sentence])


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = CommandParser("kokoro_g2p.training.heteronym_cases", __doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the shuffled control")
    parser.add_argument("--no-espeak", action="store_true")
    parser.add_argument("--misses", action="store_true", help="print the sentences ours gets wrong")
    arguments = parser.parse_args(argv)
    cases = read_cases()
    table = load_choice()
    choices: dict[str, Choice] = {
        "default": lambda case: "DEFAULT",
        "best fixed": find_best_fixed(cases),
        "shuffled": shuffle_words(table, arguments.seed),
        "ours": table,
    }
    if not arguments.no_espeak:
        choices["espeak-ng"] = load_espeak_choice(cases)
    figures = {
        name: sum(is_right(case, choice(case)) for case in cases) / len(cases)
        for name, choice in choices.items()
    }
    for case in cases if arguments.misses else ():
        if not is_right(case, table(case)):
            print(f"{case.word}: {table(case)}, expected {case.key}: {case.sentence}")
    shares = [f"{100 * share:.1f} %" for share in figures.values()]
    print_table(f"{len(cases)} sentences", [*figures], [shares])
    good = figures["ours"] >= max(LIMIT, figures["best fixed"])
    report = {"accuracy": figures, "good": good}
    if good:
        return conclude(arguments, report, EXIT_GOOD, "the table keeps its limit")
    return conclude(arguments, report, EXIT_REJECTED, "the table misses its limit")


if __name__ == "__main__":
    raise SystemExit(main())
