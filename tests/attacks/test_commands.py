"""Every command against a hostile or careless call: exit 2, one line, within seconds, and not a
file of the user's is touched.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from kokoro_ane.cli import main as kokoro_ane
from kokoro_ane.core.errors import LONGEST_LINE
from kokoro_ane.core.staging import recover
from mlprogram.__main__ import main as mlprogram
from tests.commands import ROOT, everything, heeds_ctrl_c, own_lines, ran

WORK = """
    thesis/chapter.tex thesis-tiny/notes.txt build/mine/notes.txt
    build/KokoroVocoder-tiny-padded-fp16.mlpackage/notes.txt hello.wav.parts/take1.wav file
    dir.wav/x s.srt log.png mine/decision.json empty/readme
""".split()
MINE = {
    "l.json": '{"a": "b"}',
    "mine/KokoroVocoder-tiny-padded-fp16.json": "[]",
    "b/P.mlpackage/Manifest.json": "{}",
    "b/G2P.onnx": "x",
    "b/G2P.json": '{"package": "G2P.onnx", "package_sha256": "0"}',
    "bundle/vocabulary.json": "{}",
    "bundle/SHA256SUMS": "0  vocabulary.json",
    "away/x": "years",
    "deep.json": "[" * 200_000,
}
LINKS = {
    "loop": "loop",
    "link.srt": "s.srt",
    "linked.wav.parts": "mine",
    "away/decision.json": "s.srt",
    "away/KokoroVocoder-tiny-padded-fp16.json": "s.srt",
    "zero": "/dev/zero",
}


def written(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def users_folder(folder, checkpoint):
    """A user's folder with work in it, a checkpoint, a file, a link in a circle, a pipe, a build
    folder with a package of somebody else, and files that something else needs.
    """
    written(folder, dict.fromkeys(WORK, "years of work") | MINE)
    shutil.copytree(checkpoint, folder / "ck")
    shutil.copytree(checkpoint, folder / "voiceless", ignore=shutil.ignore_patterns("voices"))
    for name, target in LINKS.items():
        (folder / name).symlink_to(folder / target)
    os.mkfifo(folder / "fifo")
    (folder / "latin").write_bytes(b"abc \xff")
    return folder


@pytest.fixture
def home(tiny, tmp_path):
    return users_folder(tmp_path, tiny)


@pytest.fixture(scope="module")
def untouched(tiny_checkpoint, tmp_path_factory):
    """A folder that stays as it is, and all that is in it."""
    folder = users_folder(tmp_path_factory.mktemp("home"), tiny_checkpoint.folder)
    return folder, everything(folder)


def call(command, capsys):
    """The command in this process: exit code and the lines of stderr but those about other tests'
    killed processes.
    """
    arguments = shlex.split(command)
    try:
        code = (mlprogram if arguments[0] == "rules" else kokoro_ane)(arguments)
    except SystemExit as stop:  # argparse
        code = stop.code
    return code, own_lines(capsys.readouterr().err.strip().splitlines())


# What is typed => words of the one line. {home} is the user's folder; P stands for `--phonemes
# --runtime torch`, --checkpoint {home}/ck is added.
REFUSALS = (Path(__file__).parent / "refusals.txt").read_text(encoding="utf-8").splitlines()
WITHOUT_CHECKPOINT = ("g2p", "device-report", "doctor", "rules", "build g2p")
WITHOUT_CHECKPOINT += ("bundle --verify",)
ODD = {"long": "a" * 300, "nul": "\0", "digits": "9" * 30, "lone": "\udcff", "pair": "\ud800\udc00"}


@pytest.mark.parametrize("row", REFUSALS)
def test_refused_in_one_line_and_nothing_touched(row, untouched, tiny_build, capsys):
    if sys.platform != "linux" and ("/proc" in row or "coreml" in row):
        pytest.skip("Linux only")
    if "onnx" in row and not find_spec("onnxruntime"):
        pytest.skip("onnxruntime is not installed")
    (command, _, message), (home, before), start = row.partition(" =>"), untouched, time.monotonic()
    if "--checkpoint" not in command and not command.startswith(WITHOUT_CHECKPOINT):
        command += " --checkpoint {home}/ck"
    command = command.replace(" P", " --phonemes --runtime torch")
    package = tiny_build / "KokoroVocoder-tiny-padded-fp16.mlpackage"
    places = {"home": home, "package": package, "packages": tiny_build}
    code, lines = call(command.format(**places, **ODD), capsys)
    assert code == 2, lines
    assert [line for line in lines if line.startswith("error: ")] == lines[-1:]
    assert message.strip() in lines[-1]
    assert len(lines[-1]) <= LONGEST_LINE + len("error: ")
    assert not any("Traceback" in line for line in lines)
    assert everything(home) == before
    assert time.monotonic() - start < 60  # a hang, not a speed


@pytest.mark.parametrize("link", ["", "new", "old", "old/x"])
def test_a_forged_leftover_replaces_and_moves_nothing(link, home, capsys):
    aside = home / "out/.staged-kokoro-ane-e"
    for part in ("new", "old"):
        written(home, {f"out/{aside.name}/{part}/{name}": "theirs" for name in ("thesis", "file")})
    if link:
        shutil.rmtree(aside / link, ignore_errors=True)
        (aside / link).symlink_to(home / "mine" / ("x" if "/" in link else ""))
    mine = ("out/file", "out/thesis/notes.txt", "mine/x")
    written(home, dict.fromkeys(mine, "years of work"))
    recover(home / "out")
    assert all((home / name).read_text() == "years of work" for name in mine)
    assert not aside.exists()
    assert "an earlier run was killed" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "dangling link"])
@pytest.mark.parametrize("place", ["random.pth", "config.json", "voices"])
def test_a_checkpoint_of_odd_files(kind, place, tiny, tmp_path, capsys):
    folder = shutil.copytree(tiny, tmp_path / "checkpoint")
    path = folder / place
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    make = {"folder": path.mkdir, "fifo": lambda: os.mkfifo(path)}
    make.get(kind, lambda: path.symlink_to(path if kind == "loop" else folder / "nothing"))()
    wav = tmp_path / "a.wav"
    command = f"speak abc --phonemes -o {wav} --runtime torch --checkpoint {folder}"
    code, lines = call(command, capsys)
    assert code == 2
    assert lines[-1].startswith("error: ")
    assert not wav.exists()


def test_a_terminal_that_knows_only_ascii():
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = ran(
        sys.executable, *"-m kokoro_g2p hello".split(), text=False, env=os.environ | ascii_only
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["words"] == 1


WRITER = """
import sys, time
from pathlib import Path
from kokoro_ane.core.errors import run_cli
from kokoro_ane.core.staging import staged
def main(argv):
    with staged(Path(argv[0])) as aside:
        aside.write_text("half")
        print("writing", flush=True)
        time.sleep(60)
    return 0
raise SystemExit(run_cli(main, sys.argv[1:]))
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_while_writing(kill, tmp_path, capsys):
    """The old file stays, the half one is never seen; SIGTERM and Ctrl-C clean up, after kill -9
    the next command does and says so.
    """
    from kokoro_ane.core.staging import write_json

    (tmp_path / "x.json").write_text("old")
    command = [sys.executable, "-c", WRITER, str(tmp_path / "x.json")]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=heeds_ctrl_c,
    ) as process:
        process.stdout.readline()
        # two processes at once: the living one's folder is left alone
        write_json(tmp_path / "y.json", {})
        process.send_signal(kill)
    assert (tmp_path / "x.json").read_text() == "old"
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert len(left) == (kill == signal.SIGKILL)
    write_json(tmp_path / "y.json", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "y.json"]
    assert ("an earlier run was killed" in capsys.readouterr().err) == (kill == signal.SIGKILL)


def test_a_figure_half_kept_goes_when_its_store_is_opened(tiny_checkpoint, tmp_path):
    """The next run of the same measurement may have nothing to write into that folder."""
    from kokoro_ane.eval.store import Store

    floors = Store.open(tmp_path, tiny_checkpoint, seed=0).folder / "vocoder-variation"
    floors.mkdir(parents=True)
    command = [sys.executable, "-c", WRITER, str(floors / "x.json")]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        process.stdout.readline()
        Store.open(tmp_path, tiny_checkpoint, seed=0)
        assert len(list(floors.iterdir())) == 1  # its owner lives
        process.kill()
    Store.open(tmp_path, tiny_checkpoint, seed=0)
    assert not list(floors.iterdir())
