"""100,000 real and random lines through the g2p: foreign symbols, empty words, lost words, wrong offsets. All must be 0.

    OMP_NUM_THREADS=1 python -m bench.g2p_property [--lines 100000] [--seed 0] [--dialect us|gb]

Exit 0: no line has a problem; 1: some have, the first twenty are printed. The last line of stdout is one JSON object.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from core.errors import EXIT_GOOD, EXIT_REJECTED, run_cli

BATCH = 500  # lines whose unknown words the neural model reads together
SHOWN = 20


def checked(count: int, seed: int, dialect: str) -> Iterator[tuple[str, list[str]]]:
    """Every line with what is wrong with its answer."""
    from bench.g2p_lines import lines, problems, warm
    from g2p import G2P

    g2p, source = G2P.load(dialect), lines(count, seed)
    while batch := list(islice(source, BATCH)):
        warm(g2p, batch)
        for line in batch:
            yield line, problems(g2p, line)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.g2p_property", description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dialect", choices=("us", "gb"), default="us")
    arguments = parser.parse_args(argv)
    from rich.console import Console
    from rich.progress import track

    started, found, bad, characters = time.process_time(), Counter(), 0, 0
    answers = checked(arguments.lines, arguments.seed, arguments.dialect)
    for line, wrong in track(answers, "lines", total=arguments.lines, console=Console(stderr=True), transient=True):
        characters += len(line)
        found.update(problem.split()[0] for problem in wrong)
        bad += bool(wrong)
        if wrong and bad <= SHOWN:
            print(wrong, ascii(line))
    seconds = time.process_time() - started
    print(f"{arguments.lines} lines, {characters} characters, {seconds:.0f} CPU seconds; lines with a problem: {bad}")
    print(json.dumps({"lines": arguments.lines, "characters": characters, "seed": arguments.seed, "dialect": arguments.dialect,
                      "bad": bad, "problems": found, "cpu_s": round(seconds, 1)}))  # fmt: skip
    return EXIT_GOOD if not bad else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
