"""How wrong each reader of unknown words is: this project's network and espeak-ng on the same
held-out gold words.

    python -m kokoro_g2p.training.g2p_error                 # the bundled American weights
    # the British network alone, on the British gold words that no network saw
    python -m kokoro_g2p.training.g2p_error --dialect gb

`word`: single words held out, relatives trained on. `family`: whole families held out with every
relative (training/g2p_words.py). Exit 0: the network has fewer errors than espeak-ng everywhere
(British: at most 6 % of sounds wrong). Exit 1: not. A pipe's last line is one JSON object.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from kokoro_g2p.commands import (
    EXIT_GOOD,
    EXIT_REJECTED,
    CommandParser,
    command,
    conclude,
    print_table,
)
from kokoro_g2p.espeak import read_by_espeak
from kokoro_g2p.neural import WEIGHTS_OF, NeuralG2P, read_manifest
from kokoro_g2p.result import US, Dialect
from kokoro_g2p.training.error_rates import Rates, compute_error_rates
from kokoro_g2p.training.g2p_network import draw_british_split
from kokoro_g2p.training.g2p_words import Split

OURS, ESPEAK = "ours", "espeak-ng"
# espeak-ng's British symbols are others, so the British network has a limit in espeak-ng's place.
BRITISH_LIMIT_PER = 6.0
Reader = Callable[[Sequence[str]], list[str]]
Row = tuple[str, str]  # of words, and whose


def load_readers(dialect: Dialect) -> dict[str, Reader]:
    """Return the readers by name; each answers a list of words with phonemes."""
    network = NeuralG2P.load(dialect=dialect)
    readers: dict[str, Reader] = {
        OURS: lambda words: [guess.phonemes for guess in network.predict(words)]
    }
    return readers | ({ESPEAK: read_by_espeak} if dialect == US else {})


def list_held_out(dialect: Dialect) -> dict[str, dict[str, str]]:
    """Return the lists of words that the bundled weights of a dialect never saw."""
    seed = read_manifest(WEIGHTS_OF[dialect])["training"]["seed"]
    if dialect == US:
        split = Split.draw(seed)
        return {"word": split.word, "family": split.family}
    return {"word": draw_british_split(seed).word}


def is_ahead(rates: Mapping[Row, Rates]) -> bool:
    """Whether ours has fewer errors than espeak-ng in every figure of every list."""
    figures = ("per", "wer", "stressed_per", "stressed_wer")
    return all(
        getattr(rates[name, OURS], figure) < getattr(theirs, figure)
        for (name, reader), theirs in rates.items()
        if reader != OURS
        for figure in figures
    )


@command
def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = CommandParser("kokoro_g2p.training.g2p_error", __doc__)
    parser.add_argument(
        "--dialect", choices=("us", "gb"), default="us", help="whose network; gb: alone"
    )
    arguments = parser.parse_args(argv)
    rates: dict[Row, Rates] = {}
    for name, words in list_held_out(arguments.dialect).items():
        for reader, read in load_readers(arguments.dialect).items():
            print(f"{reader} reads {len(words)} words ({name})", file=sys.stderr)
            rates[name, reader] = compute_error_rates(read(list(words)), list(words.values()))
    rows = [
        (*row, f"{one.per:.2f} / {one.wer:.2f}", f"{one.stressed_per:.2f} / {one.stressed_wer:.2f}")
        for row, one in rates.items()
    ]
    print_table("held-out gold words", ("words", "reader", "PER / WER", "with stress"), rows)
    is_british = arguments.dialect != US
    good = rates["word", OURS].per <= BRITISH_LIMIT_PER if is_british else is_ahead(rates)
    report = {"good": good} | {" ".join(row): asdict(one) for row, one in rates.items()}
    if good:
        return conclude(arguments, report, EXIT_GOOD, "the error rates keep their limits")
    return conclude(arguments, report, EXIT_REJECTED, "an error rate misses its limit")


if __name__ == "__main__":
    raise SystemExit(main())
