"""kill -9 at every rename and at other writes of the important writing commands, then the command again: nothing is lost.
Ctrl-C and SIGTERM, once and twice, at some of the writes too.

    python -m tests.kill [--command speak] [--others 6] [--signals 6]

Each kill is a real signal to a forked process that runs the real command on a tiny checkpoint; only conversions are read from an earlier
run. The world lies in TMPDIR. Counted: finished things that cannot be read any more, half things that a reader takes, files that are left
after the next command, next commands that do not work, an end by Ctrl-C or SIGTERM that is not exit 2 and one line.
Exit 0: none. The last line of stdout is one JSON object.
"""

import argparse
import io
import json
import os
import random
import shutil
import signal
import tempfile
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path

from kokoro_ane.core.errors import EXIT_BAD_INPUT
from kokoro_ane.core.staging import recover
from mlprogram.scratch import INTERRUPTED
from tests.kill_child import child, said
from tests.kill_writers import WRITERS, Writer, primed, primed_for
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
    faults: dict[str, list[str]] = field(default_factory=lambda: {fault: [] for fault in FAULTS})

    def numbers(self) -> dict[str, int]:
        """All of it, counted."""
        faults = {fault: len(found) for fault, found in self.faults.items()}
        return {"renames": self.renames, "kills": self.kills, "signals": self.signals, **faults}


class Kills:
    """Responsibilities: 1. one writer, one situation; 2. kill, look, go on, look again, put back."""

    def __init__(self, world: World, writer: Writer, old: bool, counts: Counts) -> None:
        self.world, self.writer, self.counts = world, writer, counts
        self.name = f"{writer.name}, {SITUATIONS[old]}"
        primed_for(writer.name)
        self.plain = world.scan()
        self.clear()
        bare = world.scan()
        if old:
            code, words = self.ended(child(writer, world))
            assert code in writer.codes, f"{self.name}: the command itself does not work: {words[-3:]}"
        self.before = world.scan()
        made = [name for name, status in self.before.items() if status[0] == "file" and name not in bare]
        self.saved = {name: (world.root / name).read_bytes() for name in made}
        self.finished = [path for path in writer.things(world.user) if path.exists()]

    def ended(self, process: int) -> tuple[int, list[str]]:
        """Its exit code, minus the signal's number where it was killed; what it said."""
        _, status = os.waitpid(process, 0)
        return os.waitstatus_to_exitcode(status), said(self.world, process)

    def writes(self) -> list[str]:
        """The writes of a whole run in order."""
        reading, writing = os.pipe()
        process = child(self.writer, self.world, tell=writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            named = pipe.read().split()
        code, words = self.ended(process)
        assert code in self.writer.codes, f"{self.name}: {words[-3:]}"
        self.put_back()
        return named

    def clear(self) -> None:
        """Remove what this writer is to find missing."""
        for path in [path for pattern in self.writer.clear for path in self.world.root.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def put_back(self) -> None:
        """As it was before the run."""
        self.world.put_back(self.plain, self.world.scan())
        self.clear()
        for name, content in self.saved.items():
            (self.world.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.world.root / name).write_bytes(content)

    def at_write(self, number: int, how: tuple[int, ...] = (signal.SIGKILL,)) -> None:
        """Killed before its `number`th write. Ctrl-C and SIGTERM end with exit 2 and one line, or come too late and change nothing."""
        code, words = self.ended(child(self.writer, self.world, at=number, how=how))
        where = f"{self.name}, {'+'.join(signal.Signals(each).name for each in how)} at write {number}"
        if how == (signal.SIGKILL,):
            self.counts.kills += code == -signal.SIGKILL
        else:
            interrupted = code == EXIT_BAD_INPUT and words[-1:] == [f"error: {INTERRUPTED}"]
            self.counts.signals += interrupted
            if not (interrupted or code in self.writer.codes) or any("Traceback" in line for line in words):
                self.counts.faults["unclear"].append(f"{where}: exit {code}: {words[-12:]}")
        self.judge(where)

    def judge(self, where: str) -> None:
        """What stands there now, and after the same command once more."""
        faults, readable = self.counts.faults, self.readable()
        for parent in {path.parent for path in self.writer.things(self.world.user) if path.parent.is_dir()}:
            with redirect_stderr(io.StringIO()):
                recover(parent)  # as every command begins that reads or writes there
        recovered = self.readable()
        faults["lost"] += [f"{where}: {path.name}: {recovered.get(path)}" for path in self.finished if recovered.get(path) != "whole"]
        code, words = self.ended(child(self.writer, self.world))
        if code not in self.writer.codes:
            faults["stuck"].append(f"{where}: then exit {code}: {words[-3:]}")
        for found in (readable, recovered, self.readable()):
            faults["half"] += [f"{where}: {path.name}: {told}" for path, told in found.items() if told.startswith("half")]
        now: dict[str, Stat] = self.world.scan()
        faults["left"] += [f"{where}: {name}" for name in now if name not in self.before and _is_left(name, now[name])]
        self.put_back()

    def readable(self) -> dict[Path, str]:
        """What each reader says: whole; refused, which is well before the next command; half, which never is."""
        return {path: self.writer.read(path) for path in self.writer.things(self.world.user) if os.path.lexists(path)}


def _is_left(name: str, status: Stat) -> bool:
    if name == "tmp/.ses":  # onnxruntime's own, one file however often it runs
        return False
    return bool(ASIDE.search(name)) or (name.startswith("tmp/") and status[0] != "folder") or name.endswith(".parts")


def run_writer(world: World, writer: Writer, others: int, signals: int, seed: int = 0) -> Counts:
    """Both situations: every rename and the write after it, some other writes, some polite signals."""
    counts, draw = Counts(), random.Random(f"{seed}/{writer.name}")
    for old in (False, True):
        kills = Kills(world, writer, old, counts)
        writes = kills.writes()
        renames = [number for number, event in enumerate(writes) if event == "os.rename"]
        counts.renames += len(renames)
        points = {*renames, *(number + 1 for number in renames)}
        rest = sorted(set(range(len(writes))) - points)
        for number in sorted(points | set(draw.sample(rest, min(others, len(rest))))):
            kills.at_write(number)
        for number in range(signals):
            kills.at_write(draw.randrange(len(writes)), HOW[number % len(HOW)])
        world.put_back(kills.plain, world.scan())
    return counts


def main(argv: list[str] | None = None) -> int:
    """Exit code of the harness."""
    parser = argparse.ArgumentParser(prog="tests.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--command", action="append", choices=tuple(WRITERS), help="only this writer, repeatable")
    parser.add_argument("--others", type=int, default=6, help="writes that are no renames, drawn, in each situation (default: %(default)s)")
    parser.add_argument("--signals", type=int, default=8, help="Ctrl-C, SIGTERM and both twice, in each situation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    total = dict.fromkeys(Counts().numbers(), 0)
    with tempfile.TemporaryDirectory() as place:
        world = World.made(Path(place) / "w")
        primed(world)
        print(" " * 20 + "".join(f"{name:>8}" for name in total))
        for name in arguments.command or WRITERS:
            counts = run_writer(world, WRITERS[name], arguments.others, arguments.signals, arguments.seed)
            print(f"{name:<20}" + "".join(f"{number:>8}" for number in counts.numbers().values()), flush=True)
            for what in [what for found in counts.faults.values() for what in found][:8]:
                print(f"    {what}", flush=True)
            total = {key: total[key] + number for key, number in counts.numbers().items()}
    print(json.dumps(total))
    return int(any(total[fault] for fault in FAULTS))


if __name__ == "__main__":
    from tests.kill import main  # one module identity, however it was started

    raise SystemExit(main())
