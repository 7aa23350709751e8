"""kill -9 at every rename, at other writes and at random moments of every writing command, then the command again: nothing is lost.

    python -m tests.kill [--command build-vocoder] [--others 6] [--moments 6] [--place /dev/shm]

Each kill is a real SIGKILL of a forked process that runs the real command on a tiny checkpoint; only conversions are read from an earlier
run, and clips are found perfect unheard. Counted: finished things that cannot be read any more, half things that a reader takes, files
that are left after the next command, next commands that do not work. Exit 0: none. The last line of stdout is one JSON object.
"""

import argparse
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from core.staging import recover
from tests.kill_writers import WRITERS, Writer, primed, primed_for
from tests.sweep_child import _times
from tests.sweep_judge import ASIDE
from tests.sweep_world import Stat, World

WRITES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink")
SITUATIONS = ("nothing there before", "an old one there")


@dataclass
class Counts:
    """What was seen of one command."""

    renames: int = 0
    kills: int = 0
    lost: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """How many of them are faults."""
        return len(self.lost) + len(self.half) + len(self.left) + len(self.stuck)


def child(writer: Writer, world: World, at: int | None = None, tell: int | None = None) -> int:
    """Fork the command; it dies by SIGKILL at its `at`th write. `tell`: where its writes are listed."""
    process = os.fork()
    if process:
        return process
    code = 99
    try:
        os.setpgrp()
        os.chdir(world.root / "cwd")
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1) if "KILL_SHOWS" in os.environ else (0, 1, 2):
            os.dup2(silent, number)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
        sys.addaudithook(_hook(str(world.root), at, tell))
        code = import_module(writer.module).main([part.replace("{user}", str(world.user)) for part in writer.argv])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 98
    except BaseException:  # noqa: BLE001  told, and 99
        traceback.print_exc()
    finally:
        os._exit(code)
    return 0


def _hook(root: str, at: int | None, tell: int | None) -> Callable[[str, tuple[Any, ...]], None]:
    """Counts writes below ROOT, before they happen."""
    seen = [0]

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            writes = bool(given[2] & (os.O_WRONLY | os.O_RDWR)) and str(given[0]).startswith(root)
        else:
            writes = event in WRITES and (str(given[0]).startswith(root) or not str(given[0]).startswith("/"))
        if not writes:
            return
        if at == seen[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        seen[0] += 1
        if tell is not None:
            os.write(tell, f"{event}\n".encode())

    return hook


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
            assert self.ended(child(writer, world)) in writer.codes, f"{self.name}: the command itself does not work"
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
            said = pipe.read()
            busy = _times(process)[0]
        assert self.ended(process) in self.writer.codes, self.name
        self.put_back()
        return said.split(), busy

    def put_back(self) -> None:
        """As it was before the run."""
        self.world.put_back(self.plain, self.world.scan())
        for pattern in self.writer.clear:
            _remove(self.world, pattern)
        for name, content in self.saved.items():
            (self.world.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.world.root / name).write_bytes(content)

    def at_write(self, number: int) -> None:
        """Killed before its `number`th write."""
        self.judge(self.ended(child(self.writer, self.world, at=number)), f"write {number}")

    def at_moment(self, busy_s: float) -> None:
        """Killed when it has used so much processor time."""
        process = child(self.writer, self.world)
        while _times(process)[0] < busy_s and not os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.001)
        os.kill(process, signal.SIGKILL)
        self.judge(self.ended(process), f"{busy_s:.2f} s")

    def judge(self, code: int, where: str) -> None:
        """What stands there now, and after the same command once more."""
        self.counts.kills += code == -signal.SIGKILL
        where = f"{self.name}, {where}"
        readable = self.readable()
        for parent in {path.parent for path in self.writer.things(self.world.user) if path.parent.is_dir()}:
            with redirect_stderr(io.StringIO()):
                recover(parent)  # as every command begins that reads or writes there
        recovered = self.readable()
        self.counts.lost += [f"{where}: {path.name}: {recovered.get(path)}" for path in self.finished if recovered.get(path) != "whole"]
        again = self.ended(child(self.writer, self.world))
        if again not in self.writer.codes:
            self.counts.stuck.append(f"{where}: exit {again}")
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


def run_writer(world: World, writer: Writer, others: int, moments: int, seed: int) -> Counts:
    """Both situations: every rename and the write after it, some other writes, some moments."""
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
        world.put_back(kills.plain, world.scan())
    return counts


def main(argv: list[str] | None = None) -> int:
    """Exit code of the harness."""
    parser = argparse.ArgumentParser(prog="tests.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--command", action="append", choices=tuple(WRITERS), help="only this writer, repeatable")
    parser.add_argument("--others", type=int, default=6, help="writes that are no renames, drawn, in each situation (default: %(default)s)")
    parser.add_argument("--moments", type=int, default=6, help="random moments in each situation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args(argv)
    found: dict[str, Counts] = {}
    with tempfile.TemporaryDirectory(dir=arguments.place) as place:
        world = World.made(Path(place) / "w")
        primed(world)
        for name in arguments.command or WRITERS:
            found[name] = run_writer(world, WRITERS[name], arguments.others, arguments.moments, arguments.seed)
            one = found[name]
            row = f"{one.renames:>8}{one.kills:>8}{len(one.lost):>8}{len(one.half):>8}{len(one.left):>8}{len(one.stuck):>8}"
            print(f"{name:<20}{row}", flush=True)
            for what in (*one.lost, *one.half, *one.left, *one.stuck)[:8]:
                print(f"    {what}", flush=True)
    total = {"renames": sum(one.renames for one in found.values()), "kills": sum(one.kills for one in found.values())}
    total |= {name: sum(len(getattr(one, name)) for one in found.values()) for name in ("lost", "half", "left", "stuck")}
    print(json.dumps(total))
    return int(any(one.wrong for one in found.values()))


if __name__ == "__main__":
    from tests.kill import main  # one module identity, however it was started

    raise SystemExit(main())
