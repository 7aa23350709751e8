"""Every command against a hostile or careless call: exit 2, one line, within seconds, and not a
file of the user's is touched.
"""

import importlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from kokoro_ane.cli import COMMANDS, OWN_VERB
from kokoro_ane.cli import main as kokoro_ane
from kokoro_ane.core.staging import recover
from tests.commands import ROOT, everything, heeds_ctrl_c, ran
from tests.demo_voice import DEMO_VOICE

WORK = """
    thesis/chapter.tex thesis-tiny/notes.txt build/mine/notes.txt
    build/KokoroVocoder-tiny-fp16.mlpackage/notes.txt hello.wav.parts/take1.wav file
    s.srt log.png mine/decision.json mine/upstream.npz seams/torch.npz
""".split()
MINE = {
    "l.json": '{"a": "b"}',
    "mine/KokoroVocoder-tiny-fp16.json": "[]",
    "b/P.mlpackage/Manifest.json": "{}",
    "b/G2P.onnx": "x",
    "b/G2P.json": '{"package": "G2P.onnx", "package_sha256": "0"}',
    "bundle/vocabulary.json": "{}",
    "bundle/SHA256SUMS": "0  vocabulary.json",
    "away/x": "years",
    "seams/intermediates.json": '{"intermediates": {"onnx": []}}',
}
LINKS = {
    "loop": "loop",
    "link.srt": "s.srt",
    "linked.wav.parts": "mine",
    "away/decision.json": "s.srt",
    "away/KokoroVocoder-tiny-fp16.json": "s.srt",
}


def written(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def home(tiny, tmp_path):
    """A user's folder with work in it, a checkpoint, a file, a link in a circle, a pipe, a build
    folder with a package of somebody else, and files that something else needs.
    """
    written(tmp_path, dict.fromkeys(WORK, "years of work") | MINE)
    shutil.copytree(tiny, tmp_path / "ck")
    for name, target in LINKS.items():
        (tmp_path / name).symlink_to(tmp_path / target)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "deep.json").write_text("[" * 200_000)
    return tmp_path


def call(command, capsys):
    """The command in this process: exit code and the last line of stderr."""
    verb, *arguments = shlex.split(command)
    module = importlib.import_module(COMMANDS[verb][0])
    try:
        code = module.main([verb, *arguments] if verb in OWN_VERB else arguments)
    except SystemExit as stop:  # argparse
        code = stop.code
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return code, error.strip().splitlines()[-1]


OUTPUTS = [
    ("vectors --out {home}", "is not replaced"),
    ("vectors --out {home}/thesis", "is not replaced"),
    ("vectors --out {home}/build", "is not replaced"),
    ("vectors --out {home}/file", "is a file"),
    ("vectors --out {home}/file/v", "is a file, not a folder"),
    ("vectors --out /proc/v", "cannot write /proc/v"),
    ("vectors --out {home}/loop", "round in a circle"),
    ("vectors --out {home}/fifo", "a device, a pipe or a socket"),
    ("vectors --out {home}/" + "x" * 300, "File name too long"),
    ("vectors --out {home}/a\0b", "null byte"),
    ("bundle --out {home}/thesis-tiny", "is not replaced"),
    ("bundle --method ../../x", "unknown method '../../x'"),
    ("quality --method fp16 --out {home}/thesis", "ends in 'nothing'"),
    ("quality --method fp16 --out {home}/fifo/x.json", "not a folder"),
    ("quality --method fp16 --out /dev/null", "ends in 'nothing'"),
    ("release --out {home}/file", "is a file, not a folder"),
    ("release --out /proc/x", "cannot write /proc/x"),
    ("speak abc. -o {home}/hello.wav", "hello.wav.parts is not replaced"),
    ("speak abc. -o {home}/thesis", "ends in 'nothing'"),
    ("speak abc. -o {home}/a.wav --timestamps {home}/thesis", "ends in 'nothing'"),
    ("build vocoder --out {home}/file", "is a file, not a folder"),
    (
        "build vocoder --buckets 20 --out {home}/build",
        "KokoroVocoder-tiny-fp16.mlpackage is not replaced",
    ),
    ("quantize --method w8 --build {home}/file", "is a file, not a folder"),
    ("sensitivity --recipe {home}/file", "ends in 'nothing'"),
    ("validate --phonemes a --save-dir {home}/file", "is a file: a folder"),
    (
        "validate --phonemes a --save-dir {home}/thesis",
        "it has no intermediates.json of this command",
    ),
    ("ane {home}/build --json {home}/thesis", "is a folder: name a file in it"),
    ("ane {home}/build --json /proc/x.json", "cannot write /proc/x.json"),
    ("report --out {home}/thesis", "nothing was decided"),
]
INPUTS = [
    ("speak --file {home}/fifo -o {home}/a.wav", ""),
    ("speak --file {home}/thesis -o {home}/a.wav", "is a folder"),
    ("speak a\0b -o {home}/a.wav --runtime torch --phonemes", ""),
    (
        f"speak abc. -o {{home}}/a.wav --voice ../../x --runtime torch --checkpoint {DEMO_VOICE}",
        "no voice",
    ),
    ("speak abc. -o {home}/a.wav --method ../../x", "unknown method"),
    ("g2p abc --lexicon {home}/fifo", "it is not a file"),
    ("g2p abc --lexicon {home}/thesis", "it is not a file"),
    ("g2p abc --lexicon {home}/deep.json", "is not JSON"),
    ("g2p --file {home}/fifo", ""),
    ("g2p --file {home}/loop", ""),
    ("vectors --check {home}/thesis", "holds no vectors"),
    ("bundle --verify {home}/thesis", "does not exist"),
    ("bundle --verify {home}/loop", "does not exist"),
    ("quantize --method mixed --recipe {home}/deep.json --build {home}/build", "nested too deep"),
    ("validate --phonemes a --seed " + "9" * 30, ""),
    ("speak a -o {home}/a.wav --seed " + "9" * 30 + " --runtime torch", ""),
    ("quality --method fp16 --seed -" + "9" * 30, ""),
    ("describe {home}/thesis", "not an .mlpackage"),
    ("describe {home}/loop", ""),
    ("ane {home}/build --rules {home}/deep.json", "not JSON"),
    ("ane {home}/build --rules {home}/thesis", ""),
    ("doctor --nonsense", "unrecognized"),
    ("device-report --read {home}/deep.json", "nested too deep"),
    ("device-report {home}/build", "on a Mac"),
]
WITHOUT_CHECKPOINT = ("g2p", "describe", "ane", "device-report", "doctor")


NEEDED = [
    (
        "speak --file {home}/s.srt -o {home}/a.wav --timestamps {home}/s.srt",
        "file and timestamps are the same file",
    ),
    (
        "speak --file {home}/s.srt -o {home}/a.wav --timestamps {home}/link.srt",
        "file and timestamps are the same file",
    ),
    (
        "speak Hi. -o {home}/a.wav --lexicon {home}/l.json --timestamps {home}/l.json",
        "timestamps are the same file",
    ),
    ("speak Hi. -o {home}/a.wav --timestamps {home}/ck/config.json", "part of the checkpoint"),
    ("speak Hi. -o {home}/ck/voices/new.wav", "part of the checkpoint"),
    ("speak Hi. -o {home}/b/P.mlpackage/a.wav", "inside the package P.mlpackage"),
    ("speak Hi. -o {home}/linked.wav", "linked.wav.parts: it is a link"),
    ("speak Hi. -o {home}/a.wav --timestamps {home}/bundle/vocabulary.json", "SHA256SUMS names it"),
    ("ane {home}/b/P.mlpackage --json {home}/b/G2P.json", "a manifest or record"),
    ("ane {home}/b/P.mlpackage --json {home}/b/G2P.onnx", "G2P.json is a manifest or record"),
    (
        "ane {home}/b/P.mlpackage --json {home}/b/P.mlpackage/Manifest.json",
        "inside the package P.mlpackage",
    ),
    (
        "ane {home}/b/P.mlpackage --plot {home}/b/P.mlpackage/x.png",
        "inside the package P.mlpackage",
    ),
    ("ane {home}/s.srt --json {home}/s.srt", "package and json are the same file"),
    (
        "ane {home}/b/P.mlpackage --json {home}/new.png --plot {home}/new.png",
        "json and plot are the same file",
    ),
    (
        "ane {home}/b/P.mlpackage --json {home}/l.json --rules {home}/l.json",
        "json and rules are the same file",
    ),
    ("quality --method fp16 --out {home}/b/G2P.json", "no JSON object with clips"),
    ("sensitivity --recipe {home}/ck/config.json", "part of the checkpoint"),
    (
        "sensitivity --log {home}/log.jsonl",
        "log.png is not replaced: it was not written by this command",
    ),
    (
        "release --out {home}/mine",
        "decision.json is not replaced: it is no JSON object with verdict and provenance",
    ),
    ("release --out {home}/away", "decision.json: it is a link"),
    (
        "build vocoder --buckets 20 --out {home}/mine",
        "KokoroVocoder-tiny-fp16.json is not replaced",
    ),
    ("build vocoder --buckets 20 --out {home}/away", "KokoroVocoder-tiny-fp16.json: it is a link"),
    (
        "validate --phonemes a --save-dir {home}/mine",
        "it has no intermediates.json of this command",
    ),
    ("validate --phonemes a --save-dir {home}/seams", "it holds torch.npz, which was not written"),
]


@pytest.mark.parametrize("command, message", [*OUTPUTS, *INPUTS, *NEEDED])
def test_refused_in_one_line_and_nothing_touched(command, message, home, capsys):
    before, start = everything(home), time.monotonic()
    if "--checkpoint" not in command and not command.startswith(WITHOUT_CHECKPOINT):
        command += " --checkpoint {home}/ck"
    code, line = call(command.format(home=home), capsys)
    assert code == 2, line
    assert message in line, line
    assert len(line) < 1000, line
    assert everything(home) == before
    assert time.monotonic() - start < 60  # a hang, not a speed


def test_a_forged_leftover_replaces_nothing(home, capsys):
    forged = {"ready": ("thesis", "file"), "old": ("thesis", "file")}
    for part, names in forged.items():
        for name in names:
            aside = home / f"out/.staged-{part}-{name}"
            written(home, {f"out/{aside.name}/{part}/{name}": "theirs"})
            (aside / "owner.lock").touch()
    written(home, dict.fromkeys(("out/file", "out/thesis/notes.txt"), "years of work"))
    before, out = everything(home), home / "out" / "x.wav"
    assert kokoro_ane(f"speak Hi. -o {out} --checkpoint {DEMO_VOICE} --runtime torch".split()) == 0
    assert out.stat().st_size > 10_000
    left = [line for line in capsys.readouterr().err.splitlines() if "is left alone" in line]
    out.unlink()
    assert everything(home) == before
    for part, names in forged.items():
        for name in names:
            (line,) = {line for line in left if f".staged-{part}-{name} is left alone" in line}
            assert len(line) < 400


@pytest.mark.parametrize("part", ["ready", "old", "ready/x", "old/x"])
def test_a_leftover_with_links_moves_nothing(part, home, capsys):
    aside = home / "out/.staged-e"
    (aside / part).parent.mkdir(parents=True)
    (aside / "owner.lock").touch()
    written(home, {"mine/x": "years of work"})
    (aside / part).symlink_to(home / "mine" / ("x" if "/" in part else ""))
    before = everything(home)
    recover(home / "out")
    assert everything(home) == before
    assert "is left alone" in capsys.readouterr().err


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
    code, line = call(command, capsys)
    assert code == 2
    assert line.startswith("error: ")
    assert not wav.exists()


def test_a_terminal_that_knows_only_ascii():
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = ran(sys.executable, *"-m g2p hello".split(), text=False, env=os.environ | ascii_only)
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
