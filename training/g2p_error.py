"""How wrong each reader of unknown words is: this project's network and espeak-ng on the same
held-out gold words, in one run, with one thread.

    python -m training.g2p_error                              # PyTorch with the bundled weights
    # and the package, word for word against PyTorch
    python -m training.g2p_error --package build/G2P.mlpackage
    python -m training.g2p_error --out build/g2p_words.json   # every figure as a file
    # the British network alone on the British gold words that no network saw
    python -m training.g2p_error --dialect gb

`word`: single words held out, relatives trained on. `family`: whole families held out with every
relative (training/g2p_words.py). `merged` forgives what lexica disagree on: the flap T counts as t,
and unstressed ɪ, ᵻ, ᵊ count as ə. Reliability is measured before and after the confidence was
fitted (training/g2p_network.py). Exit 0: the network is ahead of espeak-ng and the package answers
as PyTorch does (British: PER at most 6 %). Exit 1: not. A pipe's last line is one JSON object.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import conclude
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, command

if TYPE_CHECKING:
    from kokoro_ane.g2p.result import Dialect, Guess
    from training.error_rates import Rates
    from training.g2p_words import Split

OURS, PACKAGE, ESPEAK = "ours", "package", "espeak-ng"
UNSTRESSED_I = re.compile("(?<![ˈˌ])[ɪᵻᵊ]")
BRITISH_LIMIT_PER = 6.0
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
Reader = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class Row:
    """The figures of one reader on one list."""

    reader: str
    words: str
    rates: "Rates"
    merged: "Rates"
    words_per_cpu_second: float


def merged(phonemes: str) -> str:
    """The phonemes with the sounds that lexica disagree on made equal. Stress stays."""
    return UNSTRESSED_I.sub("ə", phonemes.replace("T", "t"))


def row(reader: str, read: Reader, name: str, words: dict[str, str]) -> Row:
    """The answers of one reader, timed and compared with the lexicon's."""
    from training.error_rates import error_rates

    # CPU time: other work on the machine does not count
    started = time.process_time()
    answers = read(list(words))
    seconds, expected = time.process_time() - started, list(words.values())
    forgiving = error_rates([merged(one) for one in answers], [merged(one) for one in expected])
    return Row(reader, name, error_rates(answers, expected), forgiving, len(words) / seconds)


def readers(package: Path | None) -> dict[str, Reader]:
    """The readers by name; each answers a list of words."""
    from kokoro_ane.g2p.espeak import espeak_ng
    from kokoro_ane.g2p.neural import NeuralG2P

    ours = NeuralG2P.load()
    by_name: dict[str, Reader] = {
        OURS: lambda words: [guess.phonemes for guess in ours.predict(words)]
    }
    if package is not None:
        from kokoro_ane.g2p.g2p_stage import package_run
        from mlprogram import Program

        executed = NeuralG2P(run=package_run(Program(package)))
        by_name[PACKAGE] = lambda words: [guess.phonemes for guess in executed.predict(words)]
    return by_name | {ESPEAK: espeak_ng}


def reliability(guesses: "Sequence[Guess]", expected: Sequence[str]) -> dict[str, Any]:
    """The confidence compared with the share of right words, stress counted: in each bin, and the
    expected calibration error in percentage points.
    """
    rows, error = [], 0.0
    for low, high in zip(BINS, BINS[1:], strict=False):
        inside = [
            (g, w)
            for g, w in zip(guesses, expected, strict=True)
            if low < g.confidence <= high or (low == 0 == g.confidence)
        ]
        if inside:
            confidence = 100 * sum(guess.confidence for guess, _ in inside) / len(inside)
            right = (
                100 * sum(guess.phonemes == phonemes for guess, phonemes in inside) / len(inside)
            )
            rows.append(
                {
                    "from": low,
                    "to": high,
                    "words": len(inside),
                    "said": round(confidence, 1),
                    "right": round(right, 1),
                }
            )
            error += abs(confidence - right) * len(inside) / len(expected)
    return {"bins": rows, "expected_error": round(error, 2)}


def both_reliabilities(words: dict[str, str], dialect: "Dialect") -> dict[str, Any]:
    """The reliability of the network's probability, and of the confidence that users see."""
    from kokoro_ane.g2p.neural import NeuralG2P

    shown = NeuralG2P.load(dialect=dialect)
    raw = NeuralG2P(run=shown.run, alphabet=shown.alphabet)
    expected = list(words.values())
    figures = {
        name: reliability(reader.predict(list(words)), expected)
        for name, reader in (("before", raw), ("after", shown))
    }
    before, after = (figures[name]["expected_error"] for name in ("before", "after"))
    print(
        f"confidence: {before} points from the share of right words as the network says it, {after}"
        " as fitted"
    )
    return figures


def british() -> tuple[list[Row], dict[str, Any]]:
    """The rows and figures of the British network alone: no other reader has its symbols."""
    from kokoro_ane.g2p.neural import WEIGHTS_OF, NeuralG2P, read_manifest
    from training.g2p_network import british_split

    words = british_split(read_manifest(WEIGHTS_OF["gb"])["training"]["seed"]).word
    ours = NeuralG2P.load(dialect="gb")
    rows = [
        row(
            OURS, lambda queries: [guess.phonemes for guess in ours.predict(queries)], "word", words
        )
    ]
    return rows, {
        "good": rows[0].rates.per <= BRITISH_LIMIT_PER,
        "reliability": both_reliabilities(words, "gb"),
    }


def differing(split: "Split", package: Path) -> dict[str, int]:
    """How many held-out words the package answers otherwise than PyTorch."""
    from kokoro_ane.g2p.g2p_stage import package_run
    from kokoro_ane.g2p.neural import NeuralG2P
    from mlprogram import Program

    words = [*split.word, *split.family]
    pair = (
        NeuralG2P.load().predict(words),
        NeuralG2P(run=package_run(Program(package))).predict(words),
    )
    return {
        "words": len(words),
        "differing": sum(one.phonemes != other.phonemes for one, other in zip(*pair, strict=True)),
    }


def print_table(rows: list[Row]) -> None:
    """Print the percentages of wrong sounds (PER) and of wrong words (WER)."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "words",
        "reader",
        "PER / WER",
        "with stress",
        "merged",
        "words per CPU second",
        title="held-out gold words",
    )
    for one in rows:
        plain, forgiving = one.rates, one.merged
        pairs = (
            (plain.per, plain.wer),
            (plain.stressed_per, plain.stressed_wer),
            (forgiving.per, forgiving.wer),
        )
        table.add_row(
            one.words,
            one.reader,
            *(f"{per:.2f} / {wer:.2f}" for per, wer in pairs),
            f"{one.words_per_cpu_second:,.0f}",
        )
    Console().print(table)


def ahead(rows: list[Row]) -> bool:
    """Whether ours has fewer errors than every other reader in all figures of both lists."""
    names = ("per", "wer", "stressed_per", "stressed_wer")
    ours = {one.words: one for one in rows if one.reader == OURS}
    pairs = [(ours[one.words], one) for one in rows if one.reader not in (OURS, PACKAGE)]
    return all(
        getattr(mine.rates, n) < getattr(other.rates, n)
        and getattr(mine.merged, n) < getattr(other.merged, n)
        for mine, other in pairs
        for n in names
    )


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("training.g2p_error", __doc__)
    parser.add_argument("--package", type=Path, help="a G2P .mlpackage to execute beside PyTorch")
    parser.add_argument("--out", type=Path, help="a .json for all figures")
    parser.add_argument(
        "--dialect", choices=("us", "gb"), default="us", help="whose network; gb: alone, no package"
    )
    arguments = parser.parse_args(argv)
    if arguments.dialect == "gb":
        if arguments.package is not None:
            raise InputError("--package holds the American network: not with --dialect gb")
        rows, figures = british()
        print_table(rows)
        return finished(arguments, {"rows": [asdict(one) for one in rows], **figures})
    if arguments.package is not None and not arguments.package.is_dir():
        raise InputError(
            f"--package {arguments.package}: no such package; `kokoro-ane build g2p` builds one"
        )
    import torch

    from kokoro_ane.g2p.neural import WEIGHTS, read_manifest
    from training.g2p_words import Split

    torch.set_num_threads(1)
    print("drawing the split", file=sys.stderr)
    split = Split.draw(read_manifest(WEIGHTS)["training"]["seed"])
    lists: dict[str, dict[str, str]] = {"word": split.word, "family": split.family}
    rows = []
    for name, words in lists.items():
        for reader, read in readers(arguments.package).items():
            print(f"{reader} reads {len(words)} words ({name})", file=sys.stderr)
            # the first call loads weights and starts processes
            read(list(words)[:64])
            rows.append(row(reader, read, name, words))
    print_table(rows)
    both = {**split.word, **split.family}
    figures = {
        "rows": [asdict(one) for one in rows],
        "ahead": ahead(rows),
        "reliability": both_reliabilities(both, "us"),
    }
    by_reader = {one.reader: one.rates for one in rows if one.words == "family"}
    figures["fewer_than_espeak"] = {
        name: round(
            100 * (1 - getattr(by_reader[OURS], name) / getattr(by_reader[ESPEAK], name)), 1
        )
        for name in ("per", "wer")
    }
    figures["package"] = (
        differing(split, arguments.package) if arguments.package is not None else None
    )
    print(
        f"family: {figures['fewer_than_espeak']['per']} % fewer wrong sounds than espeak-ng,"
        f" {figures['fewer_than_espeak']['wer']} % words"
    )
    figures["good"] = figures["ahead"] and not (figures["package"] or {}).get("differing")
    return finished(arguments, figures)


def finished(arguments: argparse.Namespace, figures: dict[str, Any]) -> int:
    """Write and print the figures; returns the exit code."""
    if arguments.out is not None:
        from kokoro_ane.core.staging import check_output, write_json

        write_json(check_output(arguments.out), figures)
    if figures["good"]:
        return conclude(arguments, figures, EXIT_GOOD, "the error rates keep their limits")
    return conclude(arguments, figures, EXIT_REJECTED, "an error rate misses its limit")


if __name__ == "__main__":
    raise SystemExit(main())
