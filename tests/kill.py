"""kill -9 at every rename, at other writes and at random moments of every writing command, then the command again: nothing is lost.
Ctrl-C and SIGTERM, once and twice, at writes and moments; two processes at once, one of them killed or not.

    python -m tests.kill [--command build-vocoder] [--others 6] [--moments 6] [--signals 6] [--pairs 2] [--place /dev/shm]

Each kill is a real signal to a forked process that runs the real command on a tiny checkpoint; only conversions are read from an earlier
run, and clips are found perfect unheard. Counted: finished things that cannot be read any more, half things that a reader takes, files
that are left after the next command, next commands that do not work, an end by Ctrl-C or SIGTERM that is not exit 2 and one line.
Exit 0: none. The last line of stdout is one JSON object.
"""

import argparse
import io
import json
import os
import random
import signal
import tempfile
import time
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import EXIT_BAD_INPUT
from core.staging import recover
from mlprogram.scratch import INTERRUPTED
from tests.kill_child import child, said
from tests.kill_writers import WRITERS, Writer, primed, primed_for
from tests.sweep_child import _times
from tests.sweep_judge import ASIDE
from tests.sweep_world import Stat, World

FAULTS = ("lost", "half", "left", "stuck", "unclear")
HOW = ((signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT))
SITUATIONS = ("nothing there before", "an old one there")


@dataclass
class Counts:
    """What was seen of one command."""

    renames: int = 0
    kills: int = 0
    signals: int = 0
    pairs: int = 0
    lost: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """How many of them are faults."""
        return sum(len(getattr(self, fault)) for fault in FAULTS)


class Kills:
    """Responsibilities: 1. one writer, one situation; 2. kill, look, go on, look again, put back."""

    def __init__(self, world: World, writer: Writer, old: bool, counts: Counts) -> None:
        self.world, self.writer, self.counts = world, writer, counts
        self.name = f"{writer.name}, {SITUATIONS[old]}"
        primed_for(writer.name)
        self.plain = world.scan()
        if writer.clear:
            for pattern in writer.clear:
                _remove(world, pattern)
        bare = world.scan()
        if old:
            process = child(writer, world)
            assert self.ended(process) in writer.codes, f"{self.name}: the command itself does not work: {said(world, process)[-3:]}"
        self.before = world.scan()
        made = [name for name, status in self.before.items() if status[0] == "file" and name not in bare]
        self.saved = {name: (world.root / name).read_bytes() for name in made}
        self.finished = [path for path in writer.things(world.user) if path.exists()]

    def ended(self, process: int) -> int:
        """Its exit code; minus the signal's number where it was killed."""
        _, status = os.waitpid(process, 0)
        return os.waitstatus_to_exitcode(status)

    def writes(self) -> tuple[list[str], float]:
        """The writes of a whole run in order, and the seconds of processor time that it takes."""
        reading, writing = os.pipe()
        process = child(self.writer, self.world, tell=writing)
        os.close(writing)
        busy = 0.0
        with os.fdopen(reading) as pipe:
            named = pipe.read()
            busy = _times(process)[0]
        assert self.ended(process) in self.writer.codes, f"{self.name}: {said(self.world, process)[-3:]}"
        self.put_back()
        return named.split(), busy

    def put_back(self) -> None:
        """As it was before the run."""
        self.world.put_back(self.plain, self.world.scan())
        for pattern in self.writer.clear:
            _remove(self.world, pattern)
        for name, content in self.saved.items():
            (self.world.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.world.root / name).write_bytes(content)

    def at_write(self, number: int, how: tuple[int, ...] = (signal.SIGKILL,)) -> None:
        """Killed before its `number`th write."""
        process = child(self.writer, self.world, at=number, how=how)
        self.told(process, how, f"write {number}")

    def at_moment(self, busy_s: float, how: tuple[int, ...] = (signal.SIGKILL,)) -> None:
        """Killed when it has used so much processor time."""
        process = child(self.writer, self.world)
        self.wait(process, busy_s)
        for number in how:
            os.kill(process, number)
        self.told(process, how, f"{busy_s:.2f} s")

    def two(self, later_s: float, killed: bool) -> None:
        """A second one begins when the first has used so much processor time; or the first is killed then, while the second works."""
        first = child(self.writer, self.world)
        self.wait(first, 0.0 if killed else later_s)
        second = child(self.writer, self.world)
        if killed:
            self.wait(first, later_s)
            os.kill(first, signal.SIGKILL)
        where = f"two at once, {later_s:.2f} s{', one killed' if killed else ''}"
        for process in (first, second):
            code, words = self.ended(process), said(self.world, process)
            if code not in self.writer.codes and not (killed and process == first and code == -signal.SIGKILL):
                self.counts.stuck.append(f"{self.name}, {where}: exit {code}: {words[-1:]}")
        self.counts.pairs += 1
        self.judge(where)

    def wait(self, process: int, busy_s: float) -> None:
        """Until it has used so much processor time, or ended."""
        while _times(process)[0] < busy_s and not os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.001)

    def told(self, process: int, how: tuple[int, ...], where: str) -> None:
        """Count it; Ctrl-C and SIGTERM end with exit 2 and one line, or come too late and change nothing."""
        code, words = self.ended(process), said(self.world, process)
        where = f"{'+'.join(signal.Signals(number).name for number in how)} at {where}"
        if how == (signal.SIGKILL,):
            self.counts.kills += code == -signal.SIGKILL
        else:
            interrupted = code == EXIT_BAD_INPUT and words[-1:] == [f"error: {INTERRUPTED}"]
            self.counts.signals += interrupted
            if not (interrupted or code in self.writer.codes) or any("Traceback" in line for line in words):
                self.counts.unclear.append(f"{self.name}, {where}: exit {code}: {words[-12:]}")
        self.judge(where)

    def judge(self, where: str) -> None:
        """What stands there now, and after the same command once more."""
        where = f"{self.name}, {where}"
        readable = self.readable()
        for parent in {path.parent for path in self.writer.things(self.world.user) if path.parent.is_dir()}:
            with redirect_stderr(io.StringIO()):
                recover(parent)  # as every command begins that reads or writes there
        recovered = self.readable()
        self.counts.lost += [f"{where}: {path.name}: {recovered.get(path)}" for path in self.finished if recovered.get(path) != "whole"]
        again = child(self.writer, self.world)
        code, words = self.ended(again), said(self.world, again)
        if code not in self.writer.codes:
            self.counts.stuck.append(f"{where}: then exit {code}: {words[-3:]}")
        after = self.readable()
        for found in (readable, recovered, after):
            self.counts.half += [f"{where}: {path.name}: {said}" for path, said in found.items() if said.startswith("half")]
        now: dict[str, Stat] = self.world.scan()
        self.counts.left += [f"{where}: {name}" for name in now if name not in self.before and _is_left(name, now[name])]
        self.put_back()

    def readable(self) -> dict[Path, str]:
        """What each reader says: whole; refused, which is well before the next command; half, which never is."""
        return {path: self.writer.read(path) for path in self.writer.things(self.world.user) if os.path.lexists(path)}


def _is_left(name: str, status: Stat) -> bool:
    if name == "tmp/.ses":  # onnxruntime's own, one file however often it runs
        return False
    return bool(ASIDE.search(name)) or (name.startswith("tmp/") and status[0] != "folder") or name.endswith(".parts")


def _remove(world: World, pattern: str) -> None:
    import shutil

    for path in world.root.glob(pattern):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def run_writer(world: World, writer: Writer, others: int, moments: int, seed: int, signals: int = 0, pairs: int = 0) -> Counts:
    """Both situations: every rename and the write after it, some other writes, some moments; polite signals; two at once."""
    counts, draw = Counts(), random.Random(f"{seed}/{writer.name}")
    for old in (False, True):
        kills = Kills(world, writer, old, counts)
        writes, busy = kills.writes()
        renames = [number for number, event in enumerate(writes) if event == "os.rename"]
        counts.renames += len(renames)
        points = {*renames, *(number + 1 for number in renames)}
        rest = sorted(set(range(len(writes))) - points)
        for number in sorted(points | set(draw.sample(rest, min(others, len(rest))))):
            kills.at_write(number)
        for _ in range(moments):
            kills.at_moment(draw.uniform(0, busy))
        for number in range(signals):
            how = HOW[number // 2 % len(HOW)]
            kills.at_write(draw.randrange(len(writes)), how) if number % 2 and writes else kills.at_moment(draw.uniform(0, busy), how)
        for number in range(pairs):
            kills.two(draw.uniform(0, busy), killed=number % 2 == 1)
        world.put_back(kills.plain, world.scan())
    return counts


def main(argv: list[str] | None = None) -> int:
    """Exit code of the harness."""
    parser = argparse.ArgumentParser(prog="tests.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--command", action="append", choices=tuple(WRITERS), help="only this writer, repeatable")
    parser.add_argument("--others", type=int, default=6, help="writes that are no renames, drawn, in each situation (default: %(default)s)")
    parser.add_argument("--moments", type=int, default=6, help="random moments in each situation (default: %(default)s)")
    parser.add_argument("--signals", type=int, default=8, help="Ctrl-C, SIGTERM and both twice, in each situation (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=2, help="two processes at once, in each situation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args(argv)
    found: dict[str, Counts] = {}
    with tempfile.TemporaryDirectory(dir=arguments.place) as place:
        world = World.made(Path(place) / "w")
        primed(world)
        print(" " * 20 + "".join(f"{name:>8}" for name in ("renames", "kills", "signals", "pairs", *FAULTS)))
        for name in arguments.command or WRITERS:
            given = (arguments.others, arguments.moments, arguments.seed, arguments.signals, arguments.pairs)
            one = found[name] = run_writer(world, WRITERS[name], *given)
            faults = [getattr(one, fault) for fault in FAULTS]
            numbers = (one.renames, one.kills, one.signals, one.pairs, *map(len, faults))
            print(f"{name:<20}" + "".join(f"{number:>8}" for number in numbers), flush=True)
            for what in [what for fault in faults for what in fault][:8]:
                print(f"    {what}", flush=True)
    total = {name: sum(getattr(one, name) for one in found.values()) for name in ("renames", "kills", "signals", "pairs")}
    total |= {name: sum(len(getattr(one, name)) for one in found.values()) for name in FAULTS}
    print(json.dumps(total))
    return int(any(one.wrong for one in found.values()))


if __name__ == "__main__":
    from tests.kill import main  # one module identity, however it was started

    raise SystemExit(main())
