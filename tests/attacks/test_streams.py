"""Streams that are closed, full or not read to the end, Python without docstrings, too little
memory, files of 2 TB: a line and exit 2.
"""

import os
import resource
import shutil
import sys
from importlib import import_module

import numpy as np
import pytest

from kokoro_ane.cli import COMMANDS
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.tensor_files import read_npz
from kokoro_ane.speech.corpus import load
from kokoro_g2p.part_of_speech import PATH, Tagger
from tests.commands import own_lines, ran, refused
from tests.demo_voice import DEMO_VOICE

HUGE = 2 << 40
CLOSED, FULL, AWAY = (
    "standard output is closed",
    "No space left on device",
    "the reader of the output went away",
)


def shell(line, before=None, **more):
    """Exit code, stdout and the lines of stderr of `kokoro-ane LINE`."""
    line = f"exec 3>&1; {sys.executable} -m kokoro_ane {line}"
    done = ran(*"bash -o pipefail -c".split(), line, env=os.environ | more, preexec_fn=before)
    return done.returncode, done.stdout, own_lines(done.stderr.splitlines())


@pytest.mark.parametrize("verb", ["--help", "speak --help", "more", "g2p hello"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_that_takes_nothing(verb, unbuffered):
    """Python ends with 1 or 120 and a traceback for some of these, with 0 for others."""
    for to, why in (
        (">&-", CLOSED),
        ("1</dev/null", "Bad file descriptor"),
        (">/dev/full", FULL),
        ("| true", AWAY),
    ):
        if unbuffered and to != ">/dev/full":
            continue  # of the two ways to write, the rest is the same
        code, _, lines = shell(f"{verb} {to}", PYTHONUNBUFFERED=unbuffered)
        assert code == 2, (to, lines)
        assert len(lines) == 1, (to, lines)
        assert lines[0].startswith("error: "), (to, lines)
        assert why in lines[0], (to, lines)


def test_a_closed_input_a_closed_stderr_and_no_docstrings(tmp_path):
    speak = f"speak - --checkpoint {DEMO_VOICE} --runtime torch -o {tmp_path / 'x.wav'}"
    code, _, (line,) = shell(f"{speak} <&-")
    assert code == 2
    assert "nothing to say" in line
    assert shell("speak 2>&-") == (2, "", [])
    for line in ("speak --help", "build vocoder --help", "more", "g2p hello"):
        # without docstrings, of which help is made
        assert shell(line, PYTHONOPTIMIZE="2")[0] == 0, line


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_usage_error_is_one_line(verb, capsys):
    for arguments in (["--nope"], ["--checkpoint"], "a b --seed x c".split()):
        with pytest.raises(SystemExit, match="2"):
            import_module(COMMANDS[verb][0]).main(arguments)
        output = capsys.readouterr()
        assert not output.out
        assert len(output.err.splitlines()) == 1
        assert output.err.startswith("error: ")
        assert "--help`" in output.err


@pytest.mark.parametrize(
    "verb",
    [
        f"speak hi --checkpoint {DEMO_VOICE} --runtime torch --stream",
        f"quantize --method w8 --checkpoint {DEMO_VOICE}",
        f"bundle --checkpoint {DEMO_VOICE}",
    ],
)
@pytest.mark.parametrize("kilobytes", [200_000, 400_000])
def test_too_little_memory_to_import(verb, kilobytes):
    code, _, lines = shell(
        verb, lambda: resource.setrlimit(resource.RLIMIT_AS, (kilobytes << 10, kilobytes << 10))
    )
    assert code == 2, lines[-3:]
    assert lines[-1] == "error: there is not enough memory for this input", lines[-3:]


def sparse(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, HUGE)
    return path


@pytest.mark.parametrize(
    "name", "random.pth voices/a.bin voices/a.npy voices/a.pt config.json".split()
)
def test_a_checkpoint_of_2_tb(name, tiny, tmp_path, capsys):
    folder = shutil.copytree(tiny, tmp_path / "checkpoint")
    for path in (folder / "voices").iterdir() if name.startswith("voices") else ():
        path.unlink()
    sparse(folder / name)
    flags = f"--runtime torch --layout padded --checkpoint {folder} -o {tmp_path}/a.wav".split()
    assert import_module("kokoro_ane.pipeline.speak").main(["abc", "--phonemes", *flags]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_packages_and_models_of_2_tb(tiny_build, tmp_path, capsys):
    path = next(tiny_build.glob("KokoroVocoder*fp16.json"))
    manifest = Manifest.load(path)
    sparse(tmp_path / manifest.package / "Data" / "weights.bin")
    (tmp_path / path.name).write_bytes(path.read_bytes())
    with refused("no file of a checkpoint, package or bundle has more"):
        Manifest.load(tmp_path / path.name).verify()  # before it is read
    assert (
        import_module("mlprogram.__main__").main(["describe", str(sparse(tmp_path / "x.mlmodel"))])
        == 2
    )
    assert "less than 2 GiB" in capsys.readouterr().err


DAMAGE = {  # of a member's header: place there, place in the archive's own list, what stands there
    "encrypted": (6, 8, 1),
    "of an unknown method": (8, 10, 99),
    "of another method, LZMA": (8, 10, 14),
    "of a wrong sum": (14, 16, 1),
    "cut off": (),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_npz_is_bad_input(how, tmp_path):
    path, content = tmp_path / "x.npz", bytearray(PATH.read_bytes())
    if DAMAGE[how]:
        in_header, in_list, value = DAMAGE[how]
        content[in_header] = content[content.index(b"PK\x01\x02") + in_list] = value
    else:
        del content[len(content) // 2 :]
    path.write_bytes(content)
    for read in (read_npz, load, Tagger.load):
        pytest.raises(InputError, read, path)
    np.savez(path, id="a")
    with refused("input_ids"):
        load(path)


def test_a_failed_build_leaves_no_empty_folder(tmp_path, monkeypatch, capsys):
    from kokoro_ane.core import builder
    from kokoro_ane.core.errors import CheckFailed

    def refused(*_):
        raise CheckFailed("SNR is 1 dB")

    monkeypatch.setattr(builder, "convert", refused)
    (tmp_path / "kept").mkdir()
    for out in ("a/b/c", "kept/x", "kept"):
        assert (
            import_module("kokoro_ane.pipeline.build").main(f"g2p --out {tmp_path}/{out}".split())
            == 1
        )
        assert [path.name for path in tmp_path.rglob("*")] == ["kept"]
