"""The table of g2p/languages/italian.py, learned from words and what espeak-ng says of them.

    python -m g2p.training.italian [--words 90000] [--out g2p/data/italian.txt.gz]

Words: the commonest of `wordfreq` 3.1.1 in Italian (no frequency is kept). Sounds: espeak-ng through misaki 0.9.4, as the Italian voices
were trained; both are needed for development only. A context is kept where it decides otherwise than the shorter ones that are kept, and
at least LEAST words show it; a word among the 10,000 commonest that the contexts still read wrong is kept whole. The half of the 10,000
commonest words that judges (bench/g2p_languages.py) can be left out: --held-out. The last line of stdout is one JSON object.
"""

import argparse
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from core.errors import EXIT_GOOD, run_cli
from core.staging import staged
from g2p.alphabet import PRIMARY
from g2p.languages.italian import TABLE, Unit, contexts, endings, folded, sounds, units, whole
from g2p.symbols import KNOWN

LEAST = 2
Votes = Mapping[str, Counter[str]]


def aligned(word: str, phonemes: str) -> tuple[list[Unit], list[str], int] | None:
    """Units of a word, the choice of each, and the place of the stress; None where the sounds are not those of the spelling."""
    cut = units(word)
    answers = _answers([_choices(unit) for unit in cut], phonemes.replace(PRIMARY, "")) if phonemes.count(PRIMARY) == 1 else None
    if answers is None:
        return None
    before = phonemes.index(PRIMARY)
    places = [place for place in range(len(cut)) if len("".join(answers[:place])) == before and answers[place]]
    return (cut, answers, places[0]) if places else None


def _answers(choices: Sequence[Sequence[str]], sounds_left: str) -> list[str] | None:
    """One choice a unit that together are the sounds, the longer first; None where there is none."""
    if not choices:
        return None if sounds_left else []
    for choice in sorted(choices[0], key=len, reverse=True):
        rest = _answers(choices[1:], sounds_left[len(choice) :]) if sounds_left.startswith(choice) else None
        if rest is not None:
            return [choice, *rest]
    return None


def _choices(unit: Unit) -> tuple[str, ...]:
    extra = {"gn": ("ɲɲ",), "n": ("n", "ŋ")}.get(unit.letters, ())
    return (*unit.choices, *extra)


def plain(phonemes: str) -> str:
    """Without what the rules do not aim at: secondary stress, long vowels."""
    return re.sub("(?<=[aeiouɛɔɪʊ])ː", "", phonemes.replace("ˌ", "").replace("̪", ""))


def sayable(phonemes: str) -> bool:
    """Whether it is one word of Kokoro's symbols."""
    return " " not in phonemes and KNOWN.issuperset(phonemes)


def kept(found: Votes, chains: Iterable[Sequence[str]]) -> dict[str, str]:
    """The keys that decide otherwise than the next shorter one does. `chains`: keys from full to short, each inside the one before it."""
    shorter: dict[str, str] = {}
    for chain in chains:
        own = list(dict.fromkeys(chain))  # a window beyond the end of the word is the one before it
        shorter.update(zip(own, own[1:], strict=False))
    table: dict[str, str] = {}
    decided: dict[str, str] = {}
    for key in sorted(found, key=len):
        count, default = found[key], decided.get(shorter.get(key, ""), "")
        best = max(sorted(count), key=count.__getitem__)
        if default in count and count[default] == count[best]:
            best = default
        decided[key] = default if default and sum(count.values()) < LEAST else best
        if decided[key] != default:
            table[key] = decided[key]
    return table


def learned(said: Mapping[str, str]) -> dict[str, str]:
    """The table of contexts."""
    stress: dict[str, Counter[str]] = defaultdict(Counter)
    choice: dict[str, Counter[str]] = defaultdict(Counter)
    stress_chains, chains = [], []
    for word, phonemes in said.items():
        found = aligned(word, phonemes)
        if found is None:
            continue
        cut, answers, main = found
        vowels = [place for place, unit in enumerate(cut) if unit.vowel]
        if main in vowels:
            stress_chains.append([*endings(word)])
            for key in stress_chains[-1]:
                stress[key][str(len(vowels) - vowels.index(main))] += 1
        for place, (unit, answer) in enumerate(zip(cut, answers, strict=True)):
            if len(unit.choices) > 1:
                chains.append([*contexts(word, unit, "<" if place < main else "=" if place == main else ">")])
                for key in chains[-1]:
                    choice[key][answer] += 1
    return kept(stress, stress_chains) | kept(choice, chains)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="g2p.training.italian", description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=90_000, help="how many of the commonest words (default: %(default)s)")
    parser.add_argument("--held-out", action="store_true", help="without the words that bench.g2p_languages judges with")
    parser.add_argument("--out", type=Path, default=TABLE)
    arguments = parser.parse_args(argv)
    from g2p.training.languages import COMMONEST, espeak, frequent_words, judged

    commonest = frozenset(frequent_words("it", COMMONEST))
    frequent = (word for word in frequent_words("it", arguments.words) if folded(word) == word)
    words = [word for word in frequent if not (arguments.held_out and word in commonest and judged(word))]
    said = {folded(word): plain(phonemes) for word, phonemes in zip(words, espeak("it", words), strict=True)}
    table = learned(said)
    wrong = (word for word in map(folded, words[:COMMONEST]) if sounds(word, table) != said[word])
    table |= {whole(word): said[word] for word in wrong if sayable(said[word])}
    right = sum(sounds(word, table) == phonemes for word, phonemes in said.items())
    content = gzip.compress("".join(f"{key}\t{value}\n" for key, value in sorted(table.items())).encode("utf-8"), mtime=0)
    with staged(arguments.out) as aside:
        aside.write_bytes(content)
    share = 100 * right / len(said)
    print(f"{len(said)} words, {len(table)} contexts, {len(content) / 1000:.0f} kB; {share:.1f} % of the words as learned")
    print(json.dumps({"words": len(said), "contexts": len(table), "bytes": len(content), "right": right}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
