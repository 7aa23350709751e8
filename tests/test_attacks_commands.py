"""Every command against a hostile or careless call: exit 2, one line, within seconds, and not a file of the user's is touched."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.random_checkpoint import tiny_config, write_checkpoint
from core.checkpoint import Checkpoint
from kokoro_ane import COMMANDS, OWN_VERB

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("tiny"), tiny_config())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with work in it, a file, a link in a circle, a pipe, and a build folder with a package of somebody else."""
    for name in (
        "thesis/chapter.tex",
        "thesis-tiny/notes.txt",
        "build/mine/notes.txt",
        "build/KokoroVocoder-tiny-fp16.mlpackage/notes.txt",
        "hello.wav.parts/take1.wav",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("years of work")
    (tmp_path / "file").write_text("years of work")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "deep.json").write_text("[" * 200_000)
    return tmp_path


def everything(folder: Path) -> dict[str, str]:
    """What stands where, and what is in it."""
    return {path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))}


def call(verb: str, arguments: list[str], capsys: pytest.CaptureFixture) -> tuple[int, str]:
    """The verb in this process: exit code and the last line of stderr."""
    module = importlib.import_module(COMMANDS[verb][0])
    try:
        code = module.main([verb, *arguments] if verb in OWN_VERB else arguments)
    except SystemExit as stop:  # argparse
        code = stop.code
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return code, error.strip().splitlines()[-1]


OUTPUTS = [
    ("vectors", ["--out", "{home}"], "is not replaced"),
    ("vectors", ["--out", "{home}/thesis"], "is not replaced"),
    ("vectors", ["--out", "{home}/build"], "is not replaced"),
    ("vectors", ["--out", "{home}/file"], "is a file"),
    ("vectors", ["--out", "{home}/file/v"], "is a file, not a folder"),
    ("vectors", ["--out", "/proc/v"], "cannot write /proc/v"),
    ("vectors", ["--out", "{home}/loop"], "round in a circle"),
    ("vectors", ["--out", "{home}/fifo"], "a device, a pipe or a socket"),
    ("vectors", ["--out", "{home}/" + "x" * 300], "File name too long"),
    ("vectors", ["--out", "{home}/a\0b"], "null byte"),
    ("bundle", ["--out", "{home}/thesis-tiny"], "is not replaced"),
    ("bundle", ["--method", "../../x"], "unknown method '../../x'"),
    ("quality", ["--method", "fp16", "--out", "{home}/thesis"], "ends in 'nothing'"),
    ("quality", ["--method", "fp16", "--out", "{home}/fifo/x.json"], "not a folder"),
    ("quality", ["--method", "fp16", "--out", "/dev/null"], "ends in 'nothing'"),
    ("release", ["--out", "{home}/file"], "is a file, not a folder"),
    ("release", ["--out", "/proc/x"], "cannot write /proc/x"),
    ("speak", ["abc.", "-o", "{home}/hello.wav"], "hello.wav.parts is not replaced"),
    ("speak", ["abc.", "-o", "{home}/thesis"], "ends in 'nothing'"),
    ("speak", ["abc.", "-o", "{home}/a.wav", "--timestamps", "{home}/thesis"], "ends in 'nothing'"),
    ("build", ["vocoder", "--out", "{home}/file"], "is a file, not a folder"),
    ("build", ["vocoder", "--buckets", "20", "--out", "{home}/build"], "KokoroVocoder-tiny-fp16.mlpackage is not replaced"),
    ("quantize", ["--method", "w8", "--build", "{home}/file"], "is a file, not a folder"),
    ("sensitivity", ["--recipe", "{home}/file"], "ends in 'nothing'"),
    ("reconstruct", ["--method", "w8a8", "--out", "{home}/file"], "is a file, not a folder"),
    ("validate", ["--phonemes", "a", "--save-dir", "{home}/file"], "is a file, not a folder"),
    ("ane", ["{home}/build", "--json", "{home}/thesis"], "not a file that could be replaced"),
    ("ane", ["{home}/build", "--json", "/proc/x.json"], "cannot write /proc/x.json"),
    ("report", ["--out", "{home}/thesis"], "nothing was decided"),
]
INPUTS = [
    ("speak", ["--file", "{home}/fifo", "-o", "{home}/a.wav"], ""),
    ("speak", ["--file", "{home}/thesis", "-o", "{home}/a.wav"], "is a folder"),
    ("speak", ["a\0b", "-o", "{home}/a.wav", "--runtime", "torch", "--phonemes"], ""),
    ("speak", ["abc.", "-o", "{home}/a.wav", "--voice", "../../x"], "no voice"),
    ("speak", ["abc.", "-o", "{home}/a.wav", "--method", "../../x"], "unknown method"),
    ("g2p", ["abc", "--lexicon", "{home}/fifo"], "it is not a file"),
    ("g2p", ["abc", "--lexicon", "{home}/thesis"], "it is not a file"),
    ("g2p", ["abc", "--lexicon", "{home}/deep.json"], "is not JSON"),
    ("g2p", ["--file", "{home}/fifo"], ""),
    ("g2p", ["--file", "{home}/loop"], ""),
    ("vectors", ["--check", "{home}/thesis"], "holds no vectors"),
    ("bundle", ["--verify", "{home}/thesis"], "does not exist"),
    ("bundle", ["--verify", "{home}/loop"], "does not exist"),
    ("quantize", ["--method", "mixed", "--recipe", "{home}/deep.json", "--build", "{home}/build"], "nested too deep"),
    ("validate", ["--phonemes", "a", "--seed", "9" * 30], ""),
    ("speak", ["a", "-o", "{home}/a.wav", "--seed", "9" * 30, "--runtime", "torch"], ""),
    ("quality", ["--method", "fp16", "--seed", "-" + "9" * 30], ""),
    ("describe", ["{home}/thesis"], "not an .mlpackage"),
    ("describe", ["{home}/loop"], ""),
    ("ane", ["{home}/build", "--rules", "{home}/deep.json"], "not JSON"),
    ("ane", ["{home}/build", "--rules", "{home}/thesis"], ""),
    ("doctor", ["--nonsense"], "unrecognized"),
]
WITHOUT_CHECKPOINT = ("g2p", "describe", "ane", "doctor")


@pytest.mark.parametrize(("verb", "arguments", "message"), [*OUTPUTS, *INPUTS])
def test_refused_in_one_line_and_nothing_touched(
    verb: str, arguments: list[str], message: str, home: Path, checkpoint: Path, capsys: pytest.CaptureFixture
) -> None:
    before, start = everything(home), time.monotonic()
    given = [argument.format(home=home) for argument in arguments]
    if verb not in WITHOUT_CHECKPOINT:
        given += ["--checkpoint", str(checkpoint)]
    code, line = call(verb, given, capsys)
    assert code == 2 and message in line and len(line) < 1000, line
    assert everything(home) == before
    assert time.monotonic() - start < 60  # a hang, not a speed


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "dangling link"])
@pytest.mark.parametrize("place", ["random.pth", "config.json", "voices"])
def test_a_checkpoint_of_odd_files(kind: str, place: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))
    path = folder / place
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    make = {"folder": path.mkdir, "fifo": lambda: os.mkfifo(path)}
    make.get(kind, lambda: path.symlink_to(path if kind == "loop" else folder / "nothing"))()
    code, line = call(
        "speak", ["abc", "--phonemes", "-o", str(tmp_path / "a.wav"), "--runtime", "torch", "--checkpoint", str(folder)], capsys
    )
    assert code == 2 and line.startswith("error: ") and not (tmp_path / "a.wav").exists()


def run(*command: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, check=False, timeout=120, **more)


def test_a_terminal_that_knows_only_ascii() -> None:
    done = run("-m", "g2p", "hello", env=os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"})
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["words"] == 1


def test_a_reader_that_goes_away() -> None:
    """`kokoro-ane doctor | head -0`."""
    process = subprocess.Popen([sys.executable, "-m", "kokoro_ane", "doctor"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    error = process.stderr.read()
    assert process.wait(60) == 2 and b"Traceback" not in error and b"reader of the output went away" in error


WRITER = """
import sys, time
from pathlib import Path
from core.errors import run_cli
from core.staging import staged
def main(argv):
    with staged(Path(argv[0])) as aside:
        aside.write_text("half")
        print("writing", flush=True)
        time.sleep(60)
    return 0
raise SystemExit(run_cli(main, sys.argv[1:]))
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_while_writing(kill: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """The old file stays, the half one is never seen; SIGTERM and Ctrl-C clean up, after kill -9 the next command does and says so."""
    from core.staging import write_json

    (tmp_path / "x.json").write_text("old")
    heeds = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731 - a background job's children ignore it
    command = [sys.executable, "-c", WRITER, str(tmp_path / "x.json")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=heeds) as process:
        process.stdout.readline()
        write_json(tmp_path / "y.json", {})  # two processes at once: the living one's folder is left alone
        process.send_signal(kill)
    assert (tmp_path / "x.json").read_text() == "old"
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert len(left) == (kill == signal.SIGKILL)
    write_json(tmp_path / "y.json", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "y.json"]
    assert ("an earlier run was killed" in capsys.readouterr().err) == (kill == signal.SIGKILL)


def test_a_figure_half_kept_goes_when_its_store_is_opened(tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    """The next run of the same measurement may have nothing to write into that folder."""
    from eval.store import Store

    floors = Store.open(tmp_path, tiny_checkpoint, seed=0).folder / "seed_floor"
    floors.mkdir(parents=True)
    command = [sys.executable, "-c", WRITER, str(floors / "x.json")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()
        Store.open(tmp_path, tiny_checkpoint, seed=0)
        assert len(list(floors.iterdir())) == 1  # its owner lives
        process.kill()
    Store.open(tmp_path, tiny_checkpoint, seed=0)
    assert not list(floors.iterdir())
