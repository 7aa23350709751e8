"""One invocation: in a forked copy of this process, or as a command of its own, and how it ended.

ended = forked(case, root, limit_s=10.0)
"""

import contextlib
import importlib
import io
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.sweep_calls import CALLS, TRAINING, Case

ASIDE = re.compile(r"/\.(staged|aside)-|\.parts/|\.jsonl$|\.lock$")  # .parts, .jsonl: chunks of a book, measured layers, as they come
WORK, TRACEBACK, HANG, CRASH, KILLED = "work", "traceback", "hang", "crash", "killed"
STANDS_IN = (  # what takes seconds: whoever comes there was let in
    "core.build.converted", "core.export.convert", "quantize.build.compressed", "quantize.build.balanced",
    "quantize.measure.LayerTrials.of", "quantize.onnx_weights.compressed_file",
    "pipeline.runs.upstream_run", "eval.try_controls.ControlTrials", "eval.workers.Workers._started",
    "bench.random_checkpoint.random_vocoder",
    "quantize.features.check_speech", "eval.packages._run", "eval.power.is_found", "core.kokoro_int8.cache._decode",
    "core.kokoro_int8.decode.decode",
)  # fmt: skip
MEMORY_BYTES = 24 << 30
NAMELESS = getattr(os, "O_TMPFILE", -1)  # a file without a name, in a folder
PIPE = 10_000  # characters of what a case says; more would fill the pipe that carries them


class Reached(BaseException):
    """It went to work."""


@dataclass(frozen=True)
class Ended:
    """Exit code or what happened instead; what it said on stderr; the trace, if there is one; a file it wrote under its own name."""

    code: int | str
    error: str = ""
    trace: str = ""
    direct: str = ""


def reached(*_: object, **__: object) -> NoReturn:
    """Instead of seconds of work."""
    raise Reached


def stood_in() -> None:
    """Import everything, and put `reached` in the place of what takes long. For the rest of this process's life."""
    import pytest

    from tests.sweep_world import unmeasured

    for command in CALLS:
        importlib.import_module(Case(0, command, ()).module)
    for name in ("coremltools", "onnxruntime", "matplotlib.figure", "soundfile", "g2p.phonemizer", "pipeline.conductor", "quantize.build",
    "eval.levels",
                 "eval.report_page", "eval.release_table", "eval.corpus", "mlprogram.examine.ane", "pipeline.runtimes.torch",
                 "pipeline.validate"):  # fmt: skip
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    patch = pytest.MonkeyPatch()
    unmeasured(patch)
    for path in STANDS_IN:
        with contextlib.suppress(ImportError, AttributeError):
            patch.setattr(path, reached)


def _only_here() -> None:
    """No other process and no network: of a child that is no command of CALLS."""
    subprocess.Popen.__init__ = reached  # type: ignore[method-assign]
    socket.socket.connect = reached  # type: ignore[method-assign]


def forked(case: Case, root: Path, limit_s: float) -> Ended:
    """Run it in a copy of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setpgrp()  # so that what it starts is ended with it; a session of its own would lose this one's priority
            os.close(reading)
            ended = _called(case, root)
            with os.fdopen(writing, "w", errors="backslashreplace") as pipe:
                json.dump(vars(ended), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        slow = _wait(child, limit_s)
        said = "" if slow else pipe.read()
    if slow:
        return Ended(WORK if slow == "works" and (case.command not in CALLS or case.command in TRAINING) else HANG, trace=KILLED)
    return Ended(**json.loads(said)) if said else Ended(CRASH)


def _called(case: Case, root: Path) -> Ended:
    os.chdir(root / "cwd")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if case.command not in CALLS:
        _only_here()
    error = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    sys.stdin, sys.stdout = io.TextIOWrapper(io.BytesIO(case.stdin)), io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    sys.stderr = error
    trace, direct = "", writes_watched(root)
    try:
        code: Any = importlib.import_module(case.module).main(case.given)
        sys.stdout.flush()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except Reached:
        code = WORK
    except BaseException:  # noqa: BLE001  any of them is what is looked for
        code, trace = TRACEBACK, traceback.format_exc()
    error.flush()
    said = error.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    written = next((name for name in direct if (root / name).parent.is_dir()), "")  # elsewhere nothing was opened
    return Ended(code, said if len(said) < PIPE else f"{said[: PIPE // 2]}\n{said[-PIPE // 2 :]}", trace[-PIPE:], written)


def writes_watched(root: Path) -> list[str]:
    """From now on in this process: the files below ROOT that are opened for writing and are neither aside nor temporary."""
    found: list[str] = []
    nameless: set[str] = set()

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes) and given[2] & (os.O_WRONLY | os.O_RDWR):
            place = os.path.join(root, "cwd", os.fsdecode(given[0]))  # noqa: PTH118  an event of every open
            temporary = place.startswith(f"{root}/tmp/")
            if given[2] & NAMELESS == NAMELESS:  # Python tells of the folder too, as of a file
                nameless.add(place)
                found[:] = [name for name in found if f"{root}/{name}" != place]
            elif place not in nameless and place.startswith(f"{root}/") and not temporary and not ASIDE.search(place):
                found.append(place.removeprefix(f"{root}/"))

    sys.addaudithook(hook)
    return found


def _wait(child: int, limit_s: float) -> str:
    """ "" when it ended by itself; else it was killed: "works" where it used its core, "waits" where it did not."""
    started, pause = time.monotonic(), 0.001
    while True:
        time.sleep(pause)
        ended, _ = os.waitpid(child, os.WNOHANG)  # after the sleep: this process itself may have been stopped
        if ended:
            return ""
        pause = min(pause * 1.5, 0.05)
        busy, queued = _times(child)
        if time.monotonic() - started - queued > limit_s:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "works" if busy > limit_s / 2 else "waits"


def _times(process: int) -> tuple[float, float]:
    """Seconds on a core, and seconds of waiting for one."""
    try:
        busy, queued, _ = Path(f"/proc/{process}/schedstat").read_text().split()
        return int(busy) / 1e9, int(queued) / 1e9
    except (OSError, ValueError):
        return 0.0, 0.0


def as_command(case: Case, root: Path, surroundings: str, limit_s: float = 20.0) -> Ended:
    """Run it as a user would, in `surroundings`. Work that takes longer than the limit is ended there."""
    environment = dict(os.environ) | {"PYTHONPATH": str(root / "repository")}
    command = [sys.executable, "-m", case.module.removesuffix(".__main__"), *case.given]
    more: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with contextlib.ExitStack() as held:
        _worsened(surroundings, environment, more, root, held)
        process = held.enter_context(subprocess.Popen(command, cwd=root / "cwd", env=environment, start_new_session=True, **more))
        if surroundings == "reader":
            process.stdout.close()
            process.stdout = None
        try:
            _, error = process.communicate(case.stdin if more["stdin"] == subprocess.PIPE else None, timeout=limit_s * 6)
        except subprocess.TimeoutExpired:
            idle_s = limit_s * 6 - sum(_times(process.pid))
            os.killpg(process.pid, signal.SIGKILL)
            return Ended(HANG if idle_s > limit_s * 2 else WORK, trace=KILLED)
    said = error.decode("utf-8", "replace")
    crashed = process.returncode < 0
    trace = said if "Traceback" in said or crashed else ""
    return Ended(CRASH if crashed else TRACEBACK if trace else process.returncode, f"[{surroundings}] {said[-200_000:]}", trace)


def _worsened(surroundings: str, environment: dict[str, str], more: dict[str, Any], root: Path, held: contextlib.ExitStack) -> None:
    """What a machine may be like."""
    change: dict[str, Callable[[], object]] = {
        "ascii": lambda: environment.update({"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}),
        "full": lambda: more.update(stdout=os.open("/dev/full", os.O_WRONLY)),
        "no temporary folder": lambda: environment.update(TMPDIR="/nonexistent"),
        "no home": lambda: environment.pop("HOME"),
        "cache is a file": lambda: environment.update(KOKORO_ANE_CACHE=str(root / "user" / "file")),
        "cache is read-only": lambda: environment.update(KOKORO_ANE_CACHE="/proc/x"),
        "small files": lambda: more.update(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))),
        "no standard input": lambda: more.update(stdin=subprocess.DEVNULL),
    }
    change.get(surroundings, lambda: None)()
