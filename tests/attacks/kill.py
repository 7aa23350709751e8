"""kill -9 at every rename and at other writes of the important writing commands, then the command
again: nothing is lost. Ctrl-C and SIGTERM, once and twice, at some of the writes too.

Each is a real signal to a forked process that runs the real command on a tiny checkpoint; only
conversions are read. A fault is a finished thing that cannot be read any more (lost), half a thing
that a reader takes (half), a file that is left after the next command (left), a next command that
does not work (stuck), an end by Ctrl-C or SIGTERM that is not exit 2 and one line (unclear).
"""

import contextlib
import io
import shutil
import signal
from collections import Counter
from typing import NamedTuple

import soundfile
from matplotlib.image import imread

from kokoro_ane.core.data_files import sha256_of
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.process import INTERRUPTED
from kokoro_ane.core.staging import recover
from kokoro_ane.pipeline.bundle_files import verify_bundle
from kokoro_ane.pipeline.decision_file import read_decision
from kokoro_ane.pipeline.vector_files import load_index
from tests.attacks.sweep import ASIDE, VOCODER
from tests.attacks.world import words
from tests.commands import parsed

KILL, INT, TERM = (signal.SIGKILL,), (signal.SIGINT,), (signal.SIGTERM,)
POLITE = (INT, TERM, INT + INT, TERM + INT)


class Writer(NamedTuple):
    """One command, the places that it fills below the user's folder, its good exit code, and what
    is cleared before it runs.
    """

    argv: str
    places: str
    code: int = 0
    clear: str = "nothing"


W8 = "build/KokoroVocoder-tiny-padded-w8"
WRITERS = {
    "build": Writer(
        "build vocoder CK --buckets 40,160,640 --out {user}/new",
        "new/KokoroVocoder-tiny-padded-fp16.mlpackage new/KokoroVocoder-tiny-padded-fp16.json",
    ),
    "quantize": Writer(
        "quantize --method w8 CK BUILD", f"{W8}.mlpackage {W8}.json", 0, "user/build/*-w8.*"
    ),
    "speak": Writer(
        "speak 'Hello there. One more. And one.' -o {user}/new.wav --timestamps {user}/new.srt CK"
        " --runtime torch",
        "new.wav new.srt",
    ),
    "vectors": Writer("vectors CK BUILD --out {user}/new/vectors --voice slt", "new/vectors"),
    "bundle": Writer("bundle CK BUILD --out {user}/new/bundle-tiny", "new/bundle-tiny", 3),
    "report": Writer(
        "report CK BUILD",
        "build/release/report.html build/release/listening build/release/decision.json",
    ),
    "ane": Writer(
        f"ane {VOCODER}-fp16.mlpackage --chip m1 --no-device --json {{user}}/new.json --plot"
        " {user}/new.png",
        "new.json new.png",
    ),
}


def whole(path):
    """What a reader of such a thing does; it raises where half of one stands there. A package is
    taken by nobody without its manifest.
    """
    manifest = path.with_suffix(".json")
    if path.with_suffix(".mlpackage").exists():
        if manifest.exists():
            Manifest.load(manifest).verify()
    elif path.suffix == ".wav":
        assert path.stat().st_size == 44 + 2 * len(soundfile.read(path)[0]) > 44
    elif path.name == "vectors":
        for utterance in load_index(path)["utterances"]:
            for tensor in utterance["tensors"].values():
                assert sha256_of(path / tensor["file"]) == tensor["sha256"]
    elif path.name == "listening":
        assert list(path.glob("*.wav"))
        assert {"README.txt", "sheet.csv"} <= {child.name for child in path.iterdir()}
    elif path.suffix in (".html", ".srt"):
        path.read_text(encoding="utf-8").index("-->" if path.suffix == ".srt" else "</html>")
    else:
        readers = {"decision.json": read_decision, "bundle-tiny": verify_bundle}
        readers |= {path.name: imread} if path.suffix == ".png" else {}
        readers.get(path.name, parsed)(path)


def state_of(paths):
    """By path that is there: whole; refused, which is well before the next command; half, which
    never is.
    """
    states = {}
    for path in paths:
        if path.exists():
            try:
                whole(path)
                states[path] = "whole"
            except InputError:
                states[path] = "refused"
            except Exception as problem:  # noqa: BLE001  whatever a reader trips over is half a thing
                states[path] = f"half: {problem!r}"
    return states


class Kills:
    """One writer, where nothing or an old one stands: kill, look, go on, look again, put back."""

    def __init__(self, world, writer, old):
        self.world, self.writer, self.counts, self.faults = world, writer, Counter(), []
        self.places, self.old = [world.user / place for place in writer.places.split()], old
        self.put_back()
        self.before, self.finished = world.scan(), state_of(self.places)
        self.writes = self.run().writes
        assert set(state_of(self.places).values()) == {"whole"}

    def put_back(self):
        self.world.put_back()
        for path in self.world.root.glob(self.writer.clear):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self.old:
            assert self.run().code == self.writer.code, "the command itself does not work"

    def run(self, at=None, signals=()):
        return self.world.forked(words(self.writer.argv, self.world.user), b"", (at, signals), 600)

    def points(self):
        """Every rename and the write behind it."""
        renames = [n for n, write in enumerate(self.writes) if write.startswith("os.rename")]
        self.counts["renames"] = len(renames)
        return sorted({*renames, *(number + 1 for number in renames)})

    def strike(self, number, signals=KILL):
        """Signals before its `number`th write; Ctrl-C and SIGTERM may come too late."""
        self.put_back()
        ended = self.run(number, signals)
        lines = ended.stderr.splitlines()
        interrupted = ended.code == 2 and lines[-1:] == [f"error: {INTERRUPTED}"]
        if signals == KILL:
            self.counts["kills"] += ended.code == -signal.SIGKILL
        else:
            self.counts["signals"] += interrupted
            clear = interrupted or ended.code == self.writer.code
            self.note("unclear", number, [lines] * (not clear or "Traceback" in ended.stderr))
        states = [state_of(self.places)]
        with contextlib.redirect_stderr(io.StringIO()):
            for parent in {path.parent for path in self.places if path.parent.is_dir()}:
                recover(parent)  # as every command begins that reads or writes there
        states.append(state_of(self.places))
        lost = [p for p in self.finished if states[1].get(p) != "whole"]
        self.note("lost", number, lost)
        again = self.run()
        self.note("stuck", number, [again.stderr[-300:]] * (again.code != self.writer.code))
        states.append(state_of(self.places))
        self.note(
            "half", number, [s for state in states for s in state.values() if s[:4] == "half"]
        )
        self.note("left", number, filter(self.is_left, self.world.scan().keys() - self.before))

    def is_left(self, name):
        """onnxruntime keeps one file of its own, however often it runs."""
        temporary = name.startswith("tmp/") and not (self.world.root / name).is_dir()
        return name != "tmp/.ses" and (ASIDE.search(name) or temporary or name.endswith(".parts"))

    def note(self, fault, number, cases):
        self.faults += [f"{fault}, write {number}: {case}" for case in cases]
