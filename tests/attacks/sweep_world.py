"""What the sweep's invocations meet, put back after each, and a command in a forked copy of this
process: how it ended, what it said.
"""

import contextlib
import importlib
import io
import json
import os
import resource
import shutil
import signal
import stat
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.eval.release_build import unmeasured

REPOSITORY = Path(__file__).resolve().parents[2]
RULES = REPOSITORY / "mlprogram/src/mlprogram/data/ane_rules.json"
USERS = """
    thesis/chapter.tex thesis-tiny/notes.txt build/mine/notes.txt
    build/KokoroVocoder-other-fp16.mlpackage/notes.txt hello.wav.parts/take1.wav
    music.wav clip.flac words.srt words.json log.jsonl picture.png page.html file
""".split()
LEXICON, TEXT = "kokoro\tkˈOkəɹO\nane\tˈAn\n", "Hello there. The year was 1984, and it cost $5.\n"
Stat = tuple[str, int, int, str]


@dataclass(frozen=True)
class World:
    """Responsibilities: 1. places; 2. a scan of everything; 3. all as it was."""

    root: Path

    @property
    def user(self):  # what a case sees as its home
        return self.root / "user"

    @classmethod
    # build the tiny packages and lay everything out: about twenty seconds
    def made(cls, root):
        world = cls(root)
        for name in ("user", "tmp", "cwd", "cache"):
            (root / name).mkdir(parents=True)
        os.environ |= {
            "TMPDIR": str(root / "tmp"),
            "KOKORO_ANE_CACHE": str(root / "cache"),
            "HOME": str(root / "user"),
        }
        os.environ |= {"HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(root / "cache")}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            packages(world)
        users_own(world.user)
        for part in ("user", "cache"):
            shutil.copytree(
                root / part, root / "template" / part, symlinks=True, copy_function=_copied
            )
        return world

    # every path below ROOT but the template: kind, size, time, where a link leads or its rights
    def scan(self):
        stats = {}
        open_ends = [entry.name for entry in os.scandir(self.root) if entry.name != "template"]
        while open_ends:
            name = open_ends.pop()
            try:
                status = (self.root / name).lstat()
            except FileNotFoundError:
                continue
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                stats[name] = ("folder", 0, 0, "")
                open_ends += [f"{name}/{entry.name}" for entry in os.scandir(self.root / name)]
            elif stat.S_ISLNK(mode):
                stats[name] = ("link", 0, 0, str((self.root / name).readlink()))
            else:
                stats[name] = (
                    "file" if stat.S_ISREG(mode) else "pipe",
                    status.st_size,
                    status.st_mtime_ns,
                    oct(mode),
                )
        return stats

    # remove what is new, copy what is gone or changed
    def put_back(self, whole, now):
        changed = {name for name, status in now.items() if status != whole.get(name)}
        for name in sorted(changed, reverse=True):
            path = self.root / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(
                missing_ok=True
            )
        for name in sorted((changed | (whole.keys() - now.keys())) & whole.keys()):
            path = self.root / name
            if not os.path.lexists(path):
                _restored(path, self.root / "template" / name)


def _restored(path, source):
    if source.is_dir() and not source.is_symlink():
        path.mkdir()
    elif not source.exists() and not source.is_symlink():
        path.mkdir()  # of the layout itself
    else:
        _copied(source, path)


def _copied(source, target):  # A file, a link or a pipe
    mode = Path(source).lstat().st_mode
    if stat.S_ISLNK(mode):
        return Path(target).symlink_to(Path(source).readlink())
    return os.mkfifo(target) if stat.S_ISFIFO(mode) else shutil.copy2(source, target)


def packages(world):
    """A tiny checkpoint in user/checkpoint, all that is built from it in user/build, its speech in
    the cache.
    """
    import pytest

    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.eval import release
    from kokoro_ane.pipeline import apply, build, bundle, vectors
    from kokoro_ane.quantize.speech import own_speech
    from tests.builds import small_config
    from tests.eval.release_build import unmeasured
    from tests.random_checkpoint import write_checkpoint

    checkpoint = write_checkpoint(world.user / "checkpoint", small_config(), 0, encoder=True)
    build_folder = world.user / "build"
    source = f"--checkpoint {checkpoint}"
    chain = f"{source} --build {build_folder}"
    lengths = f"{source} --out {build_folder} --buckets 40,240"
    assert build.main(f"vocoder {lengths}".split()) == 0
    assert build.main(f"encoder {lengths} --token-buckets 16,64".split()) == 0
    assert build.main(f"g2p --out {build_folder}".split()) == 0
    assert apply.main(f"--method w8 {chain}".split()) == 0
    voice = f"--out {build_folder}/vectors --voice slt:0.6,rms:0.4"
    assert vectors.main(f"{chain} {voice}".split()) == 0
    assert bundle.main(chain.split()) == 3
    for name in ("judged", "tuning"):
        own_speech(open_checkpoint(str(checkpoint)), name)
    with pytest.MonkeyPatch.context() as patch:
        unmeasured(patch)
        levels = "--methods fp16,w8 --no-build --workers 1"
        assert release.main(f"{chain} {levels}".split()) == 3


# what the user has beside that: work of years, a lexicon, a text, a recipe, and files that are none
def users_own(user):
    for name in USERS:
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text(f"years of work: {name}")
    (user / "lexicon.tsv").write_text(LEXICON, encoding="utf-8")
    (user / "text.txt").write_text(TEXT, encoding="utf-8")
    (user / "deep.json").write_text("[" * 200_000)
    (user / "empty").touch()
    (user / "binary").write_bytes(bytes(range(256)) * 64)
    (user / "dangling").symlink_to(user / "nothing")
    (user / "loop").symlink_to(user / "loop")
    os.mkfifo(user / "fifo")
    shutil.copy2(RULES, user / "ane_rules.json")
    shutil.copy2(REPOSITORY / "mlprogram" / "RULES.md", user / "page.md")
    recipe = {"checkpoint": "tiny", "checkpoint_sha256": "0" * 64, "format": 1}
    recipe |= {"budget": {"size": 0.5}, "forecast": {"size": 0.4}, "levels": {"a": "w8"}}
    (user / "recipe.json").write_text(json.dumps(recipe))


WORK, HANG, TRACEBACK = 90, 91, 99  # exit codes of ours
STANDS_IN = """
    kokoro_ane.core.builder.convert kokoro_ane.quantize.compress.level_of
    kokoro_ane.quantize.measure.LayerTrials.of
    kokoro_ane.runtimes.onnx.onnx_levels.written_file
    kokoro_ane.pipeline.intermediates.upstream_run
    kokoro_ane.eval.control_trials.ControlTrials
    kokoro_ane.eval.execution.Workers.measure tests.random_checkpoint.random_vocoder
    kokoro_ane.quantize.speech.check_speech
    kokoro_ane.pipeline.bundle_files.write_text_tables
    kokoro_ane.core.kokoro_int8.cache._decode kokoro_ane.core.kokoro_int8.packages.decode
""".split()
IMPORTED = """
    coremltools onnxruntime matplotlib.figure soundfile mlprogram.examine.ane
    kokoro_ane.g2p.phonemizer kokoro_ane.pipeline.synthesis kokoro_ane.quantize.compress
    kokoro_ane.eval.levels kokoro_ane.eval.report_page kokoro_ane.eval.terminal
    kokoro_ane.eval.reference kokoro_ane.runtimes.torch_runtime
    kokoro_ane.pipeline.validate
""".split()
MEMORY_BYTES = 24 << 30
POLITE = (signal.SIGINT, signal.SIGTERM)
# an audit event of the child, and how it tells of it
Hook = Callable[[str, tuple[Any, ...], Callable[[str], object]], None]


class Reached(BaseException):
    """It went to work."""


@dataclass(frozen=True)
class Ended:
    """Exit code or minus the signal's number; its standard error, with a traceback; the events that
    its hook noted.
    """

    code: int
    stderr: str = ""
    events: tuple[str, ...] = ()


def stood_in(modules):
    """Import everything, and put `Reached` in the place of what takes long. For the rest of this
    process's life.
    """
    import pytest

    def reached(*_, **__):
        raise Reached

    for name in (*modules, *IMPORTED):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    patch = pytest.MonkeyPatch()
    unmeasured(patch)
    for path in STANDS_IN:
        patch.setattr(path, reached)


def forked(module, argv, root, stdin=b"", hook=None, limit_s=600.0):
    """module.main(argv) in a copy of this process, in root/cwd."""
    signal.pthread_sigmask(signal.SIG_BLOCK, POLITE)
    process = os.fork()
    if not process:
        code = TRACEBACK
        try:
            code = _called(module, argv, root, stdin, hook)
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, POLITE)
    code = _code_in_time(process, limit_s)
    files = [root.parent / f"{name}-{process}" for name in ("stderr", "events")]
    stderr, events = (path.read_bytes() if path.is_file() else b"" for path in files)
    for path in files:
        path.unlink(missing_ok=True)
    return Ended(
        code,
        stderr.decode("utf-8", "replace"),
        tuple(os.fsdecode(part) for part in events.split(b"\0")[:-1]),
    )


def _called(module, argv, root, stdin, hook):
    # so that what it starts is ended with it; a session of its own would lose this one's priority
    os.setpgrp()
    os.chdir(root / "cwd")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    reading, writing = os.pipe()
    os.write(writing, stdin)
    os.close(writing)
    stderr, events = (
        os.open(root.parent / f"{name}-{os.getpid()}", os.O_WRONLY | os.O_CREAT)
        for name in ("stderr", "events")
    )
    for number, place in enumerate((reading, os.open(os.devnull, os.O_WRONLY), stderr)):
        os.dup2(place, number)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace")
    try:
        command = importlib.import_module(module)
        if hook is not None:
            sys.addaudithook(
                lambda event, arguments: hook(
                    event, arguments, lambda text: os.write(events, os.fsencode(text) + b"\0")
                )
            )
        # a background job's children ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _wait_until_up()
        code = command.main(argv)
        sys.stdout.flush()
        return code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Reached:
        return WORK
    except BaseException:  # noqa: BLE001  any of them is what is looked for
        traceback.print_exc()
        return TRACEBACK


def _wait_until_up():
    """Polite signals stay blocked until the command has its handlers: before that Python starts,
    which is not the command's.
    """
    module = importlib.import_module("kokoro_ane.core.errors")
    module.interruptible = _up(module.interruptible)  # type: ignore[attr-defined]


def _up(interruptible):
    @contextlib.contextmanager
    def up(**options):
        with interruptible(**options):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, POLITE)
            yield

    return up


def _code_in_time(process, limit_s):
    """How it ended by itself; else it is killed. Seconds in which it waited for a core do not
    count.
    """
    started, pause = time.monotonic(), 0.001
    while True:
        time.sleep(pause)
        # after the sleep: this process itself may have been stopped
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        pause = min(pause * 1.5, 0.05)
        if time.monotonic() - started - _queued_s(process) > limit_s:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return HANG


def _queued_s(process):  # seconds that it waited for a core
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
