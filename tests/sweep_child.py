"""One invocation in a forked copy of this process, and how it ended.

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
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.sweep_calls import CALLS, Case

ASIDE = re.compile(r"/\.(staged|aside)-|\.parts/|\.jsonl$|\.lock$")  # .parts, .jsonl: chunks of a book, measured layers, as they come
WORK, TRACEBACK, HANG, CRASH, KILLED = "work", "traceback", "hang", "crash", "killed"
STANDS_IN = (  # what takes seconds: whoever comes there was let in
    "kokoro_ane.core.builder.converted", "kokoro_ane.core.export.convert", "kokoro_ane.quantize.compress.compressed",
    "kokoro_ane.quantize.measure.LayerTrials.of", "kokoro_ane.runtimes.onnx.onnx_levels.compressed_file",
    "kokoro_ane.pipeline.intermediates.upstream_run", "kokoro_ane.eval.faults.ControlTrials",
    "kokoro_ane.eval.execution.Workers._started",
    "bench.random_checkpoint.random_vocoder",
    "kokoro_ane.quantize.speech.check_speech", "kokoro_ane.quantize.locator.run_command", "kokoro_ane.core.kokoro_int8.cache._decode",
    "kokoro_ane.core.kokoro_int8.packages.decode",
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
    for name in (
        "coremltools", "onnxruntime", "matplotlib.figure", "soundfile", "mlprogram.examine.ane", "kokoro_ane.g2p.phonemizer",
        "kokoro_ane.pipeline.synthesis", "kokoro_ane.quantize.compress", "kokoro_ane.eval.levels", "kokoro_ane.eval.report_page",
        "kokoro_ane.eval.terminal", "kokoro_ane.eval.reference", "kokoro_ane.runtimes.torch_runtime", "kokoro_ane.pipeline.validate",
    ):  # fmt: skip
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    patch = pytest.MonkeyPatch()
    unmeasured(patch)
    for path in STANDS_IN:
        patch.setattr(path, reached)


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
        if not _in_time(child, limit_s):
            return Ended(HANG, trace=KILLED)
        said = pipe.read()
    return Ended(**json.loads(said)) if said else Ended(CRASH)


def _called(case: Case, root: Path) -> Ended:
    os.chdir(root / "cwd")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
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


def _in_time(child: int, limit_s: float) -> bool:
    """Whether it ended by itself; else it was killed. Seconds in which it waited for a core do not count."""
    started, pause = time.monotonic(), 0.001
    while True:
        time.sleep(pause)
        ended, _ = os.waitpid(child, os.WNOHANG)  # after the sleep: this process itself may have been stopped
        if ended:
            return True
        pause = min(pause * 1.5, 0.05)
        if time.monotonic() - started - _queued_s(child) > limit_s:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False


def _queued_s(process: int) -> float:
    """Seconds that it waited for a core."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
