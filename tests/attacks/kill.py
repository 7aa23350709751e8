"""kill -9 at every rename and at other writes of the important writing commands, then the command
again: nothing is lost. Ctrl-C and SIGTERM, once and twice, at some of the writes too.

    python -m tests.attacks.kill [--command speak] [--others 6] [--signals 8]

Each kill is a real signal to a forked process that runs the real command on a tiny checkpoint; only
conversions are read from an earlier run. The world lies in TMPDIR. Counted: finished things that
cannot be read any more, half things that a reader takes, files that are left after the next
command, next commands that do not work, an end by Ctrl-C or SIGTERM that is not exit 2 and one
line. Exit 0: none. The last line of stdout is one JSON object.
"""

import argparse
import io
import itertools
import json
import os
import random
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import soundfile
from matplotlib.image import imread

from kokoro_ane.core.data_files import sha256_of
from kokoro_ane.core.errors import EXIT_BAD_INPUT, InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.process import INTERRUPTED
from kokoro_ane.core.staging import recover
from kokoro_ane.pipeline.assembly import Assembly
from kokoro_ane.pipeline.bundle_files import verify_bundle
from kokoro_ane.pipeline.decision_file import read_decision
from kokoro_ane.pipeline.vector_files import load_index
from tests.attacks.sweep import ASIDE
from tests.attacks.sweep_calls import CK, VOCODER, B
from tests.attacks.sweep_world import Ended, Hook, Stat, World, forked
from tests.eval.release_build import unmeasured

FAULTS = "lost half left stuck unclear".split()
HOW = (
    (signal.SIGINT,),
    (signal.SIGTERM,),
    (signal.SIGINT, signal.SIGINT),
    (signal.SIGTERM, signal.SIGINT),
)
SITUATIONS = ("nothing there before", "an old one there")
WRITES = "os.rename os.remove os.rmdir os.mkdir os.truncate os.chmod os.link os.symlink".split()
CONVERSIONS = ("kokoro_ane.core.builder.convert",)


def whole(path: Path) -> object:
    """What a reader of such a thing does; it raises where half of one stands there. A package is
    taken by nobody without its manifest.
    """
    beside, text = path.with_suffix(".json"), lambda: path.read_text(encoding="utf-8")
    match path.suffix or path.name:
        case ".mlpackage" | ".json" if path.with_suffix(".mlpackage").exists():
            return Manifest.load(beside).verify() if beside.exists() else None
        case ".json":
            readers = {
                "decision.json": read_decision,
                "manifest.json": lambda path: Assembly.load(path).verify(),
            }
            return readers.get(path.name, lambda _: json.loads(text()))(path)
        case ".wav":
            samples, _ = soundfile.read(path)
            assert len(samples)
            assert path.stat().st_size == 44 + 2 * len(samples)
        case ".png":
            return imread(path).size
        case "vectors":
            for tensor in (
                tensor
                for utterance in load_index(path)["utterances"]
                for tensor in utterance["tensors"].values()
            ):
                assert sha256_of(path / tensor["file"]) == tensor["sha256"]
        case "bundle-tiny":
            return verify_bundle(path)
        case "listening":
            assert len(list(path.glob("*.wav")))
            assert (path / "README.txt").is_file()
            assert (path / "sheet.csv").is_file()
        case kind:
            return text().index({".html": "</html>", ".srt": "-->", ".md": ""}[kind])
    return None


@dataclass(frozen=True)
class Writer:
    """One command, the places that it fills below user/, its good exit code, and what is cleared
    before it runs.
    """

    name: str
    module: str
    argv: str
    places: str
    code: int = 0
    clear: str = "nothing"

    def read(self, path: Path) -> str:
        """What the reader of such a thing says: whole; refused, which is well before the next
        command; half, which never is.
        """
        try:
            whole(path)
            return "whole"
        except InputError as problem:
            return f"refused: {problem}"
        except Exception as problem:  # noqa: BLE001  whatever a reader trips over is half a thing
            return f"half: {type(problem).__name__} {problem}"


_W8 = "build/KokoroVocoder-tiny-w8"
_LIST = (
    Writer(
        "build-vocoder",
        "kokoro_ane.pipeline.build",
        f"vocoder {CK} --buckets 40 --out {{user}}/new",
        "new/KokoroVocoder-tiny-fp16.mlpackage new/KokoroVocoder-tiny-fp16.json",
    ),
    Writer(
        "quantize",
        "kokoro_ane.pipeline.apply",
        f"--method w8 {CK} {B}",
        f"{_W8}.mlpackage {_W8}.json build/KokoroVocoder-tiny-fp16.json",
        clear="user/build/*-w8.*",
    ),
    Writer(
        "speak",
        "kokoro_ane.pipeline.speak",
        "'Hello there. One more. And one.' -o {user}/new.wav --timestamps {user}/new.srt"
        f" {CK} {B} --runtime torch",
        "new.wav new.srt",
    ),
    Writer(
        "vectors",
        "kokoro_ane.pipeline.vectors",
        f"{CK} {B} --out {{user}}/new/vectors --voice slt",
        "new/vectors",
    ),
    Writer(
        "bundle",
        "kokoro_ane.pipeline.bundle",
        f"{CK} {B} --out {{user}}/new/bundle-tiny",
        "new/bundle-tiny",
        3,
    ),
    Writer(
        "report",
        "kokoro_ane.eval.report",
        f"{CK} {B}",
        "build/release/report.html build/release/listening build/release/decision.json",
    ),
    Writer(
        "ane",
        "kokoro_ane.pipeline.examine",
        f"ane {VOCODER}-fp16.mlpackage --chip m1 --no-device --json {{user}}/new.json"
        " --plot {user}/new.png",
        "new.json new.png",
    ),
)
WRITERS = {writer.name: writer for writer in _LIST}
_NOW: list[Any] = ["", 0]  # the writer whose conversions are kept, and how many it has had


def _once(real: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """A conversion that is made in a writer's first run and read from disk in the others: by order,
    which is the same in all.
    """

    def convert(*inputs: Any, **more: Any) -> Any:
        import coremltools as ct

        _NOW[1] += 1
        path = folder / f"{_NOW[0]}-{_NOW[1]}.mlpackage"
        if path.is_dir():
            return ct.models.MLModel(str(path), skip_model_load=True)
        model = real(*inputs, **more)
        shutil.copytree(model.package_path, path.with_suffix(".aside"))
        path.with_suffix(".aside").rename(path)
        return model

    return convert


def primed(world: World) -> None:
    """Put the stand-ins in place: conversions are read. For the rest of this process's life."""
    import pytest

    patch = pytest.MonkeyPatch()
    unmeasured(patch)
    folder = world.root.parent / "primed"
    folder.mkdir(exist_ok=True)
    for place in CONVERSIONS:
        module = import_module(place.rpartition(".")[0])
        patch.setattr(place, _once(getattr(module, place.rpartition(".")[2]), folder))


def striking(root: str, at: int | None, how: tuple[int, ...]) -> Hook:
    """A hook that tells of writes below ROOT, before they happen; `how` comes at the `at`th."""
    seen = itertools.count()

    def hook(event: str, arguments: tuple[Any, ...], tell: Callable[[str], object]) -> None:
        if event == "open":
            writes = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) and str(
                arguments[0]
            ).startswith(root)
        else:
            writes = event in WRITES and (
                str(arguments[0]).startswith(root) or not str(arguments[0]).startswith("/")
            )
        if writes and next(seen) == at:
            for number in how:
                os.kill(os.getpid(), number)
        elif writes:
            tell(event)

    return hook


@dataclass
class Counts:
    """What was seen of one command."""

    renames: int = 0
    kills: int = 0
    signals: int = 0
    faults: dict[str, list[str]] = field(default_factory=lambda: {fault: [] for fault in FAULTS})

    def numbers(self) -> dict[str, int]:  # all of it, counted
        faults = {fault: len(cases) for fault, cases in self.faults.items()}
        return {"renames": self.renames, "kills": self.kills, "signals": self.signals, **faults}


class Kills:
    """Responsibilities: 1. one writer, one situation; 2. kill, look, go on, look again, put
    back.
    """

    def __init__(self, world: World, writer: Writer, old: bool, counts: Counts) -> None:
        self.world, self.writer, self.counts, self.name = (
            world,
            writer,
            counts,
            f"{writer.name}, {SITUATIONS[old]}",
        )
        self.things = [world.user / place for place in writer.places.split()]
        _NOW[:] = [writer.name, 0]
        self.plain = world.scan()
        self.clear()
        bare = world.scan()
        if old:
            self.whole_run()
        self.before = world.scan()
        made = [
            name for name, status in self.before.items() if status[0] == "file" and name not in bare
        ]
        self.saved = {name: (world.root / name).read_bytes() for name in made}
        self.finished = [path for path in self.things if path.exists()]

    # the command, which `how` meets before its `at`th write
    def run(self, at: int | None = None, how: tuple[int, ...] = ()) -> Ended:
        argv = [
            part.replace("{user}", str(self.world.user)) for part in shlex.split(self.writer.argv)
        ]
        return forked(
            self.writer.module, argv, self.world.root, hook=striking(str(self.world.root), at, how)
        )

    def whole_run(self) -> tuple[str, ...]:  # its writes in order
        ended = self.run()
        assert ended.code == self.writer.code, (
            f"{self.name}: the command itself does not work: {ended.stderr[-600:]}"
        )
        return ended.events

    def clear(self) -> None:  # remove what this writer is to find missing
        for path in self.world.root.glob(self.writer.clear):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def put_back(self) -> None:  # as it was before the run
        self.world.put_back(self.plain, self.world.scan())
        self.clear()
        for name, content in self.saved.items():
            (self.world.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.world.root / name).write_bytes(content)

    def at_write(self, number: int, how: tuple[int, ...] = (signal.SIGKILL,)) -> None:
        """Killed before its `number`th write. Ctrl-C and SIGTERM end with exit 2 and one line, or
        come too late and change nothing.
        """
        ended = self.run(number, how)
        where = (
            f"{self.name}, {'+'.join(signal.Signals(each).name for each in how)} at write {number}"
        )
        if how == (signal.SIGKILL,):
            self.counts.kills += ended.code == -signal.SIGKILL
        else:
            interrupted = ended.code == EXIT_BAD_INPUT and ended.stderr.splitlines()[-1:] == [
                f"error: {INTERRUPTED}"
            ]
            self.counts.signals += interrupted
            if not (interrupted or ended.code == self.writer.code) or "Traceback" in ended.stderr:
                self.counts.faults["unclear"].append(
                    f"{where}: exit {ended.code}: {ended.stderr[-600:]}"
                )
        self.judge(where)

    # what stands there now, and after the same command once more
    def judge(self, where: str) -> None:
        faults, readable = self.counts.faults, self.readable()
        for parent in {path.parent for path in self.things if path.parent.is_dir()}:
            with redirect_stderr(io.StringIO()):
                recover(parent)  # as every command begins that reads or writes there
        recovered = self.readable()
        faults["lost"] += [
            f"{where}: {path.name}: {recovered.get(path)}"
            for path in self.finished
            if recovered.get(path) != "whole"
        ]
        ended = self.run()
        faults["stuck"] += [f"{where}: then exit {ended.code}: {ended.stderr[-300:]}"] * (
            ended.code != self.writer.code
        )
        for state in (readable, recovered, self.readable()):
            faults["half"] += [
                f"{where}: {path.name}: {message}"
                for path, message in state.items()
                if message.startswith("half")
            ]
        now = self.world.scan()
        faults["left"] += [
            f"{where}: {name}"
            for name in now
            if name not in self.before and _is_left(name, now[name])
        ]
        self.put_back()

    def readable(self) -> dict[Path, str]:  # what each reader says
        return {path: self.writer.read(path) for path in self.things if os.path.lexists(path)}


def _is_left(name: str, status: Stat) -> bool:
    if name == "tmp/.ses":  # onnxruntime's own, one file however often it runs
        return False
    return (
        bool(ASIDE.search(name))
        or (name.startswith("tmp/") and status[0] != "folder")
        or name.endswith(".parts")
    )


def run_writer(world: World, writer: Writer, others: int, signals: int, seed: int = 0) -> Counts:
    """Both situations: every rename and the write after it, some other writes, some polite
    signals.
    """
    counts, draw = Counts(), random.Random(f"{seed}/{writer.name}")
    for old in (False, True):
        kills = Kills(world, writer, old, counts)
        writes = kills.whole_run()
        kills.put_back()
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


def main(argv: list[str] | None = None) -> int:  # exit code of the harness
    parser = argparse.ArgumentParser(prog="tests.attacks.kill", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--command", action="append", choices=tuple(WRITERS), help="only this writer, repeatable"
    )
    parser.add_argument(
        "--others",
        type=int,
        default=6,
        help="writes that are no renames, drawn, in each situation (default: %(default)s)",
    )
    parser.add_argument(
        "--signals",
        type=int,
        default=8,
        help="Ctrl-C, SIGTERM and both twice, in each situation (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments, total = parser.parse_args(argv), dict.fromkeys(Counts().numbers(), 0)
    with tempfile.TemporaryDirectory() as place:
        world = World.made(Path(place) / "w")
        primed(world)
        print(" " * 20 + "".join(f"{name:>8}" for name in total))
        for name in arguments.command or WRITERS:
            counts = run_writer(
                world, WRITERS[name], arguments.others, arguments.signals, arguments.seed
            )
            print(
                f"{name:<20}" + "".join(f"{number:>8}" for number in counts.numbers().values()),
                flush=True,
            )
            for what in [what for cases in counts.faults.values() for what in cases][:8]:
                print(f"    {what}", flush=True)
            total = {key: total[key] + number for key, number in counts.numbers().items()}
    print(json.dumps(total))
    return int(any(total[fault] for fault in FAULTS))


if __name__ == "__main__":
    from tests.attacks.kill import main  # one module identity, however it was started

    raise SystemExit(main())
