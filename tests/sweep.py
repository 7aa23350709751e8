"""Thousands of seeded bad invocations over all commands, and a table of what went wrong: nothing should.

    python -m tests.sweep --count 10000 [--seed 0] [--fresh 500] [--workers 2] [--place /dev/shm] [--log sweep.jsonl --minutes 9]
    python -m tests.sweep --only 4711 [--seed 0]             # one case again, with all that it said

Each case is a forked copy of a process that has imported everything; work that takes seconds (conversions, judging, training) is stood in
for by "it went to work". --fresh more are commands of their own: one half cases of before, which must end with the exit code that the
copy had; the other good calls in bad surroundings: no room, no home, a terminal of ASCII, a reader that goes away. Exit 0: nothing went
wrong. Exit 1: something did. Exit 3: --minutes ended it. The last line of stdout is one JSON object.
"""

import argparse
import gc
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.sweep_calls import CALLS, Case, actions_of, drawn, other_commands
from tests.sweep_child import WORK, Ended, as_command, forked, stood_in
from tests.sweep_judge import FAULTS, Verdict, judged
from tests.sweep_world import World


class Sweep:
    """Responsibilities: 1. spoil, call, look, put back; 2. one verdict a case."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        self.flags = {name: actions_of(Case(0, name, ()).module) for name in (*CALLS, *other_commands())}
        stood_in()
        self.whole = world.scan()
        gc.collect()
        gc.freeze()  # a copy shares what is not touched

    def case(self, number: int) -> Case:
        """As drawn; every file of the repository's copy is named by its place."""
        return drawn(self.seed, number, self.flags, self.world.root)

    def verdict(self, case: Case, call: Callable[[Case], Ended]) -> Verdict:
        """What it did to the user."""
        spoilt = [damage.kind for damage in case.damage if damage.done(self.world.root)]
        in_full = case.command not in CALLS or case.number % 25 == 0 or any("repository" in text for text in (*case.argv, *spoilt))
        before = self.world.scan(in_full)
        started = time.monotonic()
        ended = call(case)
        after = self.world.scan(in_full)
        verdict = judged(case, ended, before, after, self.world.root, time.monotonic() - started)
        self.world.put_back(self.whole, after)
        return replace(verdict, spoilt=(*case.spoilt, *spoilt))

    def forked(self, number: int) -> Verdict:
        """In a copy of this process."""
        return self.verdict(self.case(number), lambda case: forked(case, self.world.root, limit_s(case)))

    def alone(self, number: int, known: dict[int, Verdict]) -> Verdict | None:
        """As a command of its own. Even: a case that is `known` from its copy. Odd: a good call in bad surroundings. None: no shell can."""
        case, draw = self.case(number), random.Random(f"{self.seed}/{number}/alone")
        if number % 2:
            command = draw.choice(sorted(CALLS))
            argv = [a.replace("{user}", str(self.world.user)) for a in draw.choice(CALLS[command])]
            argv = [a.replace("{repository}", str(self.world.root / "repository")) for a in argv]
            case = Case(number, command, tuple(argv))
        elif case.command not in CALLS or known[number].code == WORK or not all(map(_can_be_typed, case.argv)):
            return None
        found = self.verdict(case, lambda case: as_command(case, self.world.root, draw.choice(SURROUNDINGS) if number % 2 else ""))
        return replace(found if number % 2 else agreed(found, known[number]), alone=True)


def _can_be_typed(argument: str) -> bool:
    """Whether a system takes it as an argument: no zero byte, no half of a surrogate pair that stands for no byte, not too long."""
    try:
        return b"\0" not in os.fsencode(argument) and len(argument) <= 100_000
    except UnicodeEncodeError:
        return False


def agreed(alone: Verdict, copied: Verdict) -> Verdict:
    """A command of its own ends as its copy in the warm process did, or that is a fault of the sweep."""
    if alone.code == copied.code or copied.faults:
        return alone
    faults = alone.faults | {"differs": f"{copied.code} in the copy, {alone.code} alone"}
    return replace(alone, faults=faults, said=alone.said or f"{alone.spoilt}")


def limit_s(case: Case) -> float:
    """10 s, for what is to be spoken 25 ms a character more (3000 digits: 45 minutes of it); 1.2 s for training and benches."""
    said = max(map(len, case.argv[:1]), default=0) if case.command == "speak" and len(case.argv[0]) <= 5000 else 0
    return 10.0 + said / 40 if case.command in CALLS else 1.2


SURROUNDINGS = (
    "ascii", "full", "reader", "no temporary folder", "no home", "cache is a file", "cache is read-only", "small files",
    "no standard input",
)  # fmt: skip


def part(arguments: argparse.Namespace, share: int) -> list[Verdict]:
    """Every `workers`th case, in a world of its own."""
    place, ends = Path(tempfile.mkdtemp(prefix="sweep-", dir=arguments.place)), time.monotonic() + 60 * arguments.minutes
    try:
        sweep = Sweep(World.made(place / "w"), arguments.seed)
        found = [verdict for verdict in _known(arguments.log) if verdict.number % arguments.workers == share]
        copies = {verdict.number: verdict for verdict in found if not verdict.alone}
        alone = {verdict.number for verdict in found if verdict.alone}
        for number in range(share, arguments.count, arguments.workers):
            if time.monotonic() > ends:
                break
            if number not in copies:
                copies[number] = sweep.forked(number)
                found += _kept(arguments.log, copies[number])
            due = len(alone) * arguments.workers * arguments.count < arguments.fresh * (number + 1)
            if due and number not in alone and (told := _kept(arguments.log, sweep.alone(number, copies))):
                alone.add(number)
                found += told
        return found
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _known(log: Path | None) -> list[Verdict]:
    """Of an earlier run that was ended."""
    lines = log.read_text(encoding="utf-8").splitlines() if log is not None and log.is_file() else []
    return [Verdict(**json.loads(line)) for line in lines]


def _kept(log: Path | None, verdict: Verdict | None) -> list[Verdict]:
    """Said and written down; none where there was none."""
    if verdict is None:
        return []
    for fault, what in verdict.faults.items():
        print(f"#{verdict.number} {verdict.command} {fault}: {what}", file=sys.stderr, flush=True)
    if log is not None:
        with log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(vars(verdict)) + "\n")
    return [verdict]


def shares(arguments: argparse.Namespace) -> list[Verdict]:
    """All parts, each in a process of its own where there are several."""
    if arguments.workers == 1:
        return part(arguments, 0)
    names = ("count", "seed", "fresh", "place", "workers", "minutes", "log")
    given = [word for name in names if getattr(arguments, name) is not None for word in (f"--{name}", str(getattr(arguments, name)))]
    command = [sys.executable, "-m", "tests.sweep", *given, "--share"]
    running = [subprocess.Popen([*command, str(share)], stdout=subprocess.PIPE, text=True) for share in range(arguments.workers)]
    found = []
    for process in running:
        said, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"a part of the sweep ended with {process.returncode}")
        found += [Verdict(**data) for data in json.loads(said.splitlines()[-1])]
    return found


def table(verdicts: list[Verdict]) -> dict[str, int]:
    """Print counts by command and the faults, each kind once; what was counted."""
    counts = {fault: sum(fault in verdict.faults for verdict in verdicts) for fault in FAULTS}
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
    print()
    for what, count in known.most_common(60):
        print(f"{count:>6}  {what}")
    return counts


def main(argv: list[str] | None = None) -> int:
    """Exit code of the sweep."""
    parser = argparse.ArgumentParser(prog="tests.sweep", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="cases in forked processes (default: %(default)s)")
    parser.add_argument("--fresh", type=int, default=500, help="commands of their own beside them (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()), help="where the sandbox is made (default: %(default)s)")
    parser.add_argument("--log", type=Path, help="keeps every verdict; a run that was ended goes on from there")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no case begins later than this")
    parser.add_argument("--only", type=int, help="this case alone, with all that it said")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.share is not None:
        print(json.dumps([vars(verdict) for verdict in part(arguments, arguments.share)]))
        return 0
    if arguments.only is not None:
        with tempfile.TemporaryDirectory(dir=arguments.place) as place:
            sweep = Sweep(World.made(Path(place) / "w"), arguments.seed)
            print(sweep.case(arguments.only))
            print(sweep.forked(arguments.only))
        return 0
    verdicts = shares(arguments)
    counts = table(verdicts)
    alone = sum(verdict.alone for verdict in verdicts)
    print(json.dumps({"cases": len(verdicts), "alone": alone, "seed": arguments.seed, **counts}))
    return 1 if any(counts.values()) else 3 if len(verdicts) - alone < arguments.count or alone < arguments.fresh else 0


if __name__ == "__main__":
    from tests.sweep import main  # one module identity, however it was started

    raise SystemExit(main())
