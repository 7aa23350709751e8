"""Seeded bad invocations of every verb, and a table of what went wrong: nothing should.

    python -m tests.attacks.sweep --count 10000 [--seed 0] [--workers 2]
    # one case again, with its whole output
    python -m tests.attacks.sweep --only 4711 [--seed 0]

Each case is a forked copy of a process that has imported everything; work that takes seconds
(conversions, judging) is stood in for by "it went to work". Looked for: tracebacks, hangs, files
that are lost, left, or written elsewhere or in place, words that say nothing. The worlds lie in
TMPDIR. Exit 0: nothing went wrong. Exit 1: something did. The last line of stdout is one JSON
object.
"""

import argparse
import gc
import json
import multiprocessing
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mlprogram.errors import LONGEST_LINE
from tests.attacks.sweep_calls import CALLS, Case, actions_of, drawn
from tests.attacks.sweep_world import HANG, USERS, WORK, Ended, Stat, World, forked, stood_in

FAULTS = "traceback hang lost outside leftover direct unclear".split()
ASIDE = re.compile(r"(^|/)\.staged-|\.part$")
# written under their own names: chunks of a book, measured layers
KEPT = re.compile(r"/\.staged-|\.parts/|\.jsonl$|\.lock$")
NAMELESS = getattr(os, "O_TMPFILE", -1)  # a file without a name, in a folder
DONE = (0, 1, 3)


@dataclass(frozen=True)
class Verdict:
    """One case: how it ended and what was wrong with it."""

    number: int
    command: str
    code: int
    faults: dict[str, str] = field(default_factory=dict)
    report: str = ""


def judged(
    case: Case, ended: Ended, before: dict[str, Stat], after: dict[str, Stat], root: Path
) -> Verdict:
    """Every fault by name, with words that are the same for the same cause; before, after: scans of
    World; events: see `writes_told`.
    """
    faults: dict[str, str] = {}
    if "Traceback (most recent" in ended.stderr or ended.code not in (0, 1, 2, 3, WORK, HANG):
        faults["traceback"] = _cause(ended)
    if ended.code == HANG:
        faults["hang"] = case.command
    places = _places(case, root)
    new = [name for name in after if name not in before and not name.startswith("cache")]
    files = [name for name in new if after[name][0] != "folder"]
    left = [
        name
        for name in new
        if ASIDE.search(name) or (name.startswith("tmp/") and name != "tmp/.ses")
    ]
    # those are kept on purpose
    left += [
        name for name in files if ended.code == 2 and not ("/cache/" in name or ".parts/" in name)
    ]
    lists = {
        "lost": [
            name
            for name in before
            if after.get(name) != before[name] and _is_lost(name, before, after, places, ended)
        ],
        "leftover": left,
        "outside": [name for name in files if name not in left and not _within(name, places)],
        "direct": [
            name
            for name in ended.events
            if f"+{name}" not in ended.events and not name.startswith("+")
        ],
    }
    faults |= {
        fault: re.sub(r"\.staged-\w+|tmp\w{8}|[0-9a-f]{12,}", "*", min(names))
        for fault, names in lists.items()
        if names
    }
    line = next((text for text in reversed(ended.stderr.splitlines()) if "error: " in text), "")
    if ended.code == 2 and (
        not line or (line.startswith("error: ") and len(line) > LONGEST_LINE + len("error: "))
    ):
        faults["unclear"] = line[:80] or ended.stderr[-80:]
    report = (
        f"{[argument[:300] for argument in case.argv]} {case.damage} -> {ended.code}:"
        f" {line[:300]}\n{ended.stderr[-1500:]}"
    )
    return Verdict(case.number, case.command, ended.code, faults, report if faults else "")


def _cause(ended: Ended) -> str:  # exception and the last line of ours on its way
    rooms = "core|g2p|encoder|vocoder|runtimes|pipeline|mlprogram|quantize|eval|bench"
    frames = re.findall(rf'File "[^"]*?/((?:{rooms})/[^"]*)", line (\d+)', ended.stderr)
    last = (ended.stderr.strip().splitlines() or [str(ended.code)])[-1]
    return f"{last.split(':')[0][:60]} in {':'.join(frames[-1]) if frames else '?'}"


# where it was asked to write, as names below ROOT
def _places(case: Case, root: Path) -> list[str]:
    places = []
    for text in case.outputs():
        try:
            place = os.path.realpath(root / "cwd" / Path(text).expanduser())
        except (ValueError, OSError, RuntimeError):
            continue
        places.append(os.path.relpath(place, root))
    return places


def _within(name: str, places: list[str]) -> bool:
    parts = (name, name.partition(".parts/")[0])
    return any(
        part == place or part.startswith(f"{place}/")
        for part in parts
        for place in places
        if place not in (".", "..")
    )


def _is_lost(
    name: str, before: dict[str, Stat], after: dict[str, Stat], places: list[str], ended: Ended
) -> bool:
    """Whether this change is a loss: nobody's work changes but a file that was named as output;
    ours only where it was asked for.
    """
    if (
        (before[name][0] == "folder" and after.get(name, ("",))[0] == "folder")
        or name.startswith("cache")
        or "/cache/" in name
    ):
        return False
    users = name.removeprefix("user/") in USERS or name.endswith(
        ("thesis.tex", "notes.txt", ".hidden")
    )
    if users or not name.startswith("user/"):
        return not (name in places and ended.code in DONE)
    if ended.code in DONE and _within(name, places):
        return name not in after and name.endswith("Manifest.json")
    return ".parts/" not in name


def writes_told(root: Path) -> Callable[..., None]:
    """A hook for `forked`: files below ROOT opened for writing that are neither aside nor
    temporary; + before those without a name.
    """

    def hook(event: str, arguments: tuple[Any, ...], tell: Callable[[str], object]) -> None:
        if (
            event == "open"
            and isinstance(arguments[0], str | bytes)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        ):
            # an event of every open
            place = os.path.join(root, "cwd", os.fsdecode(arguments[0]))  # noqa: PTH118
            ours = (
                place.startswith(f"{root}/")
                and not place.startswith(f"{root}/tmp/")
                and not KEPT.search(place)
            )
            # elsewhere nothing is opened
            if ours and os.path.isdir(os.path.dirname(place)):  # noqa: PTH112, PTH120
                tell(
                    ("+" if arguments[2] & NAMELESS == NAMELESS else "")
                    + place.removeprefix(f"{root}/")
                )

    return hook


class Sweep:
    """Responsibilities: 1. spoil, call, look, put back; 2. one verdict a case."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        modules = {name: Case(0, name, ()).module for name in CALLS}
        self.flags = {name: actions_of(module) for name, module in modules.items()}
        stood_in(list(modules.values()))
        self.whole = world.scan()
        gc.collect()
        gc.freeze()  # a copy shares what is not touched

    def verdict(self, number: int) -> Verdict:  # what case `number` did to the user
        root, case = self.world.root, drawn(self.seed, number, self.flags, self.world.root)
        for damage in case.damage:
            damage.done(root)
        before = self.world.scan()
        ended = forked(
            case.module, case.arguments, root, case.stdin, writes_told(root), limit_s(case)
        )
        after = self.world.scan()
        verdict = judged(case, ended, before, after, root)
        self.world.put_back(self.whole, after)
        return verdict


# 10 s, for what is to be spoken 25 ms a character more (3000 digits: 45 minutes of it)
def limit_s(case: Case) -> float:
    length = max(map(len, case.argv[:1]), default=0) if case.command == "speak" else 0
    return 10.0 + (length / 40 if length <= 5000 else 0)


# these cases, in a world of their own; faults are said as they come
def part(numbers: range, seed: int) -> list[Verdict]:
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="sweep-", ignore_cleanup_errors=True) as place:
        sweep = Sweep(World.made(Path(place) / "w"), seed)
        for number in numbers:
            verdicts.append(verdict := sweep.verdict(number))
            for fault, what in verdict.faults.items():
                print(
                    f"#{number} {verdict.command} {fault}: {what}\n  {verdict.report[-600:]}",
                    file=sys.stderr,
                    flush=True,
                )
    return verdicts


def table(verdicts: list[Verdict]) -> dict[str, int]:  # print counts by command; the faults of all
    codes = {"exit 0": 0, "1": 1, "2": 2, "3": 3, "to work": WORK}
    print(f"{'command':<32}{'cases':>9}" + "".join(f"{name:>12}" for name in (*codes, *FAULTS)))
    for command in (*sorted({verdict.command for verdict in verdicts}), "all"):
        rows = [verdict for verdict in verdicts if command in (verdict.command, "all")]
        ended, faults = (
            Counter(verdict.code for verdict in rows),
            Counter(fault for verdict in rows for fault in verdict.faults),
        )
        counts = [ended[code] for code in codes.values()] + [faults[fault] for fault in FAULTS]
        print(f"{command:<32}{len(rows):>9}" + "".join(f"{count:>12}" for count in counts))
    return {fault: faults[fault] for fault in FAULTS}


def main(argv: list[str] | None = None) -> int:  # exit code of the sweep
    parser = argparse.ArgumentParser(
        prog="tests.attacks.sweep", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=10_000, help="cases (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--only", type=int, help="this case alone, with its whole output")
    arguments = parser.parse_args(argv)
    if arguments.only is not None:
        print(part(range(arguments.only, arguments.only + 1), arguments.seed)[0])
        return 0
    shares = [
        range(share, arguments.count, arguments.workers) for share in range(arguments.workers)
    ]
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool:
        verdicts = [
            verdict
            for share_verdicts in pool.map(partial(part, seed=arguments.seed), shares)
            for verdict in share_verdicts
        ]
    counts = table(verdicts)
    print(json.dumps({"cases": len(verdicts), "seed": arguments.seed, **counts}))
    return int(any(counts.values()))


if __name__ == "__main__":
    from tests.attacks.sweep import main  # one module identity, however it was started

    raise SystemExit(main())
