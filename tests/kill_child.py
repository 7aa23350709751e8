"""A writing command in a forked process, which a signal meets at one of its writes, and what it said.

process = child(WRITERS["speak"], world, at=3)       # kill -9 before its fourth write
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.kill_writers import Writer
from tests.sweep_world import World

WRITES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink")
POLITE = (signal.SIGINT, signal.SIGTERM)


def child(writer: Writer, world: World, at: int | None = None, tell: int | None = None, how: tuple[int, ...] = (signal.SIGKILL,)) -> int:
    """Fork the command; `how` comes to it at its `at`th write. `tell`: where its writes are listed. Its words: see `said`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, POLITE)
    process = os.fork()
    if process:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, POLITE)
        return process
    code = 99
    try:
        os.setpgrp()
        os.chdir(world.root / "cwd")
        silent = os.open(os.devnull, os.O_RDWR)
        words = os.open(_words(world, os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, place in enumerate((silent, silent, words)):
            os.dup2(place, number)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
        module = import_module(writer.module if writer.module.startswith(("mlprogram", "tests")) else f"kokoro_ane.{writer.module}")
        sys.addaudithook(_hook(str(world.root), at, tell, how))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's children ignore it
        _wait_until_up()
        code = module.main([part.replace("{user}", str(world.user)) for part in writer.argv])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 98
    except BaseException:  # noqa: BLE001  told, and 99
        traceback.print_exc()
    finally:
        os._exit(code)
    return 0


def _wait_until_up() -> None:
    """Polite signals stay blocked until the command has its handlers: before that Python starts, which is not the command's."""
    for place in ("kokoro_ane.core.errors", "mlprogram.__main__"):
        module = import_module(place)
        module.interruptible = _up(module.interruptible)  # type: ignore[attr-defined]


def _up(interruptible: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def up(**given: bool) -> Iterator[None]:
        with interruptible(**given):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, POLITE)
            yield

    return up


def _words(world: World, process: int) -> Path:
    return world.root.parent / f"words-{process}"


def said(world: World, process: int) -> list[str]:
    """The lines on stderr of a child that has ended."""
    path = _words(world, process)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    path.unlink(missing_ok=True)
    return lines


def _hook(root: str, at: int | None, tell: int | None, how: tuple[int, ...]) -> Callable[[str, tuple[Any, ...]], None]:
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
            seen[0] += 1
            for number in how:
                os.kill(os.getpid(), number)
            return
        seen[0] += 1
        if tell is not None:
            os.write(tell, f"{event}\n".encode())

    return hook
