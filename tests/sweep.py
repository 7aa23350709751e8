"""Seeded bad invocations of every verb, and a table of what went wrong: nothing should.

    python -m tests.sweep --count 10000 [--seed 0] [--workers 2]
    python -m tests.sweep --only 4711 [--seed 0]             # one case again, with all that it said

Each case is a forked copy of a process that has imported everything; work that takes seconds (conversions, judging) is stood in for by
"it went to work". The worlds lie in TMPDIR. Exit 0: nothing went wrong. Exit 1: something did. The last line of stdout is one JSON object.
"""

import argparse
import gc
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.sweep_calls import CALLS, Case, actions_of, drawn
from tests.sweep_child import forked, stood_in
from tests.sweep_judge import FAULTS, Verdict, judged
from tests.sweep_world import World


class Sweep:
    """Responsibilities: 1. spoil, call, look, put back; 2. one verdict a case."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        self.flags = {name: actions_of(Case(0, name, ()).module) for name in CALLS}
        stood_in()
        self.whole = world.scan()
        gc.collect()
        gc.freeze()  # a copy shares what is not touched

    def case(self, number: int) -> Case:
        """As drawn."""
        return drawn(self.seed, number, self.flags, self.world.root)

    def verdict(self, case: Case) -> Verdict:
        """What it did to the user."""
        for damage in case.damage:
            damage.done(self.world.root)
        before = self.world.scan()
        started = time.monotonic()
        ended = forked(case, self.world.root, limit_s(case))
        after = self.world.scan()
        verdict = judged(case, ended, before, after, self.world.root, time.monotonic() - started)
        self.world.put_back(self.whole, after)
        return verdict


def limit_s(case: Case) -> float:
    """10 s, for what is to be spoken 25 ms a character more (3000 digits: 45 minutes of it)."""
    said = max(map(len, case.argv[:1]), default=0) if case.command == "speak" and len(case.argv[0]) <= 5000 else 0
    return 10.0 + said / 40


def part(numbers: range, seed: int) -> list[Verdict]:
    """These cases, in a world of their own; faults are said as they come."""
    found = []
    with tempfile.TemporaryDirectory(prefix="sweep-", ignore_cleanup_errors=True) as place:
        sweep = Sweep(World.made(Path(place) / "w"), seed)
        for number in numbers:
            found.append(verdict := sweep.verdict(sweep.case(number)))
            for fault, what in verdict.faults.items():
                print(f"#{number} {verdict.command} {fault}: {what}", file=sys.stderr, flush=True)
    return found


def shares(count: int, seed: int, workers: int) -> list[Verdict]:
    """All cases, every `workers`th in a process of its own."""
    parts = [range(share, count, workers) for share in range(workers)]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        return [verdict for found in pool.map(partial(part, seed=seed), parts) for verdict in found]


def table(verdicts: list[Verdict]) -> dict[str, int]:
    """Print counts by command and the faults, each kind once; what was counted."""
    print(f"{'command':<32}{'cases':>7}{'exit 0':>8}{'1':>6}{'2':>7}{'3':>6}{'to work':>9}" + "".join(f"{fault:>12}" for fault in FAULTS))
    for command in (*sorted({verdict.command for verdict in verdicts}), "all"):
        own = [verdict for verdict in verdicts if command in (verdict.command, "all")]
        codes = Counter(str(verdict.code) for verdict in own)
        row = "".join(f"{codes[name]:>{width}}" for name, width in (("0", 8), ("1", 6), ("2", 7), ("3", 6), ("work", 9)))
        print(f"{command:<32}{len(own):>7}{row}" + "".join(f"{sum(fault in v.faults for v in own):>12}" for fault in FAULTS))
    known: Counter[str] = Counter()
    for verdict in verdicts:
        for fault, what in verdict.faults.items():
            known[f"{fault}: {what}"] += 1
            if known[f"{fault}: {what}"] == 1:
                print(f"\n#{verdict.number} {verdict.command} {fault}: {what}\n  {verdict.said[-600:]}")
    return {fault: sum(fault in verdict.faults for verdict in verdicts) for fault in FAULTS}


def main(argv: list[str] | None = None) -> int:
    """Exit code of the sweep."""
    parser = argparse.ArgumentParser(prog="tests.sweep", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="cases (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--only", type=int, help="this case alone, with all that it said")
    arguments = parser.parse_args(argv)
    if arguments.only is not None:
        print(part(range(arguments.only, arguments.only + 1), arguments.seed)[0])
        return 0
    verdicts = shares(arguments.count, arguments.seed, arguments.workers)
    counts = table(verdicts)
    print(json.dumps({"cases": len(verdicts), "seed": arguments.seed, **counts}))
    return int(any(counts.values()))


if __name__ == "__main__":
    from tests.sweep import main  # one module identity, however it was started

    raise SystemExit(main())
