"""A user's folder with everything in it, and a command in a forked copy of this process there: how
it ended and what it printed.
"""

import contextlib
import importlib
import io
import multiprocessing
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import traceback
from typing import NamedTuple

import pytest

from kokoro_ane.cli import main as kokoro_ane
from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.speech.speech import load_own_speech
from mlprogram.__main__ import main as mlprogram
from tests.commands import ROOT, everything
from tests.eval.release_build import unmeasured

# Work of years, which no command may touch.
USERS = """
    thesis/chapter.tex thesis-tiny/notes.txt build/mine/notes.txt
    build/KokoroVocoder-other-fp16.mlpackage/notes.txt hello.wav.parts/take1.wav music.wav clip.flac
    words.srt words.json log.jsonl picture.png page.html file .hidden
""".split()
INPUTS = {
    "lexicon.tsv": "kokoro\tkˈOkəɹO\nane\tˈAn\n",
    "text.txt": "Hello there. The year was 1984, and it cost $5.\n",
    "deep.json": "[" * 200_000,
    "empty": "",
    "recipe.json": '{"checkpoint": "tiny", "checkpoint_sha256": "%s", "format": 1, "budget": '
    '{"size": 0.5}, "forecast": {"size": 0.4}, "levels": {"a": "w8"}}' % ("0" * 64),
}
CK, BUILD = "--checkpoint {user}/checkpoint", "--build {user}/build"
# From packages to a decision, with each command's exit code.
MADE = """
    0 quantize --method w8 CK BUILD
    0 vectors CK BUILD --out {user}/build/vectors --voice slt:0.6,rms:0.4
    3 bundle CK BUILD
    3 release CK BUILD --methods fp16,w8 --no-build --workers 1
"""
WORK, HANG, TRACEBACK = 90, 91, 99  # exit codes of this harness
# What takes long: the command has gone to work.
LONG = """
    core.builder.convert quantize.compress.make_level quantize.candidates.Candidates.measure
    runtimes.onnx.onnx_levels.write_level pipeline.intermediates.run_upstream
    eval.workers.Workers.measure speech.speech.check_speech
    pipeline.bundle_files.write_text_tables core.kokoro_int8.cache._decode
    core.kokoro_int8.packages.decode
""".split()
IMPORTED = """
    coremltools onnxruntime soundfile mlprogram.examine.ane
    kokoro_g2p.phonemizer kokoro_ane.pipeline.synthesis kokoro_ane.quantize.compress
    kokoro_ane.eval.levels kokoro_ane.eval.report_page kokoro_ane.eval.terminal
    kokoro_ane.eval.reference kokoro_ane.runtimes.torch_runtime kokoro_ane.pipeline.validate
""".split()


class Reached(BaseException):
    """The command went to work."""


class Ended(NamedTuple):
    """Exit code, or minus a signal's number; standard error."""

    code: int
    stderr: str = ""


def words(command, user):
    """A command's arguments. CK, BUILD: the user's checkpoint and packages."""
    text = command.replace("CK", CK).replace("BUILD", BUILD)
    return [word.replace("{user}", str(user)) for word in shlex.split(text)]


class World:
    """Everything below root: user (which is the home), cwd, cache, tmp."""

    def __init__(self, root):
        self.root, self.user, self.template = root, root / "user", root.parent / "template"
        for name in ("user", "tmp", "cwd", "cache"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def environment(self):
        cache = str(self.root / "cache")
        places = {"TMPDIR": str(self.root / "tmp"), "HOME": str(self.user)}
        return places | {"KOKORO_ANE_CACHE": cache, "XDG_CACHE_HOME": cache, "HF_HUB_OFFLINE": "1"}

    def fill(self, checkpoint, build, g2p_weights):
        """A checkpoint, all that is built of it, its speech in the cache, and the user's work."""
        shutil.copytree(checkpoint, self.user / "checkpoint")
        shutil.copytree(build, self.user / "build")
        with pytest.MonkeyPatch.context() as patch:
            unmeasured(patch)
            for name, value in self.environment().items():
                patch.setenv(name, value)
            g2p = f"0 build g2p --weights {g2p_weights} --out {{user}}/build"
            for line in (g2p, *filter(None, map(str.strip, MADE.splitlines()))):
                code, _, command = line.partition(" ")
                with contextlib.redirect_stdout(io.StringIO()):
                    assert kokoro_ane(words(command, self.user)) == int(code), command
            for name in ("judged", "tuning"):
                load_own_speech(open_checkpoint(str(self.user / "checkpoint")), name)
        for name, text in (dict.fromkeys(USERS, "years of work") | INPUTS).items():
            (self.user / name).parent.mkdir(parents=True, exist_ok=True)
            (self.user / name).write_text(text, encoding="utf-8")
        (self.user / "binary").write_bytes(bytes(range(256)) * 64)
        (self.user / "dangling").symlink_to(self.user / "nothing")
        (self.user / "loop").symlink_to(self.user / "loop")
        os.mkfifo(self.user / "fifo")
        rules = ROOT / "mlprogram"
        shutil.copy2(rules / "src/mlprogram/data/ane_rules.json", self.user)
        shutil.copy2(rules / "RULES.md", self.user / "page.md")
        self.root.rename(self.template)
        return self

    def put_back(self):
        """All as it was filled."""
        shutil.rmtree(self.root, ignore_errors=True)
        subprocess.run(["cp", "-a", self.template, self.root], check=True)

    def scan(self):
        return everything(self.root)

    def forked(self, argv, stdin=b"", limit_s=10):
        """Run the command in a copy of this process, in root/cwd, for `limit_s` of processor time
        at most.
        """
        (self.root.parent / "stdin").write_bytes(stdin)
        inputs = (argv, limit_s)
        process = multiprocessing.get_context("fork").Process(target=self._called, args=inputs)
        process.start()
        process.join(12 * limit_s)  # of wall time: cores are shared
        code = process.exitcode
        if code is None:
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
        stderr = (self.root.parent / "stderr").read_bytes().decode("utf-8", "replace")
        return Ended(HANG if code in (None, -signal.SIGXCPU) else code, stderr)

    def _called(self, argv, limit_s):
        code = TRACEBACK
        try:
            os.setpgrp()  # so that what it starts is ended with it
            os.chdir(self.root / "cwd")
            os.environ.update(self.environment())
            resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
            places = [self.root.parent / name for name in ("stdin", os.devnull, "stderr")]
            modes = (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT | os.O_TRUNC] * 2)
            opened = [os.open(*pair) for pair in zip(places, modes, strict=True)]
            for number, descriptor in enumerate(opened):
                os.dup2(descriptor, number)
            sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w", encoding="utf-8")
            sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace")
            sys.argv = ["kokoro-ane", *argv]
            # A background job's children ignore the one, the tests end with the other.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            code = (mlprogram if argv[0] == "rules" else kokoro_ane)(argv)
            sys.stdout.flush()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Reached:
            code = WORK
        except BaseException:  # noqa: BLE001  any of them is what is looked for
            traceback.print_exc()
        finally:
            os._exit(code)


@contextlib.contextmanager
def going_to_work():
    """What takes long is replaced by `Reached`; everything is imported before it is copied."""

    def reached(*_, **__):
        raise Reached

    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with pytest.MonkeyPatch.context() as patch:
        unmeasured(patch)
        for name in LONG:
            patch.setattr(f"kokoro_ane.{name}", reached)
        yield
