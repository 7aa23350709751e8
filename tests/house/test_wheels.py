"""The three wheels install every file of the rooms and work beside a user's files of the same
names; and the calls of `import kokoro_ane`.
"""

import os
import re
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

import build_backend
import kokoro_ane
from kokoro_ane import __version__
from kokoro_ane.cli import COMMANDS
from tests.commands import ROOT, ran, refused, tracked
from tests.demo_voice import DEMO_VOICE

SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
NOT_INSTALLED = (
    "bench",
    "training",
    "tests",
    "docs",
    "mlprogram/tests",
    "mlprogram/examples",
    "g2p/tests",
    "g2p/src/kokoro_g2p/training",
)
ROOMS = {place.split("/")[0] for place in SETUP["package-dir"].values()}
# 3.4 of them are what `streaming` predicts for kokoro-int8 (vocoder/data), 1.3 what its voices add,
# 2.1 nineteen voices, 0.6 its stored variation
WHEEL_MB = {"kokoro_ane": 9.5, "kokoro_g2p": 9.6, "coreml_mlprogram": 0.2}
DATA = ".json .npz .npy .txt .tsv .gz .flac .pth .pt .xz .onnx .css .js .html .typed".split()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    copy = tmp_path_factory.mktemp("tree")
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    flags = "-q --no-deps --no-build-isolation --disable-pip-version-check"
    command = f"-m pip wheel {flags} -w {copy}/dist {copy} {copy}/g2p {copy}/mlprogram"
    done = ran(sys.executable, *command.split())
    assert done.returncode == 0, done.stderr
    return sorted((copy / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheels, tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return site


def run(site, folder, *command):
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = ran(sys.executable, *command, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_names_and_every_file_of_the_rooms_are_installed(site):
    names = {path.name for path in site.iterdir() if path.suffix != ".dist-info"}
    assert names == {"kokoro_ane", "kokoro_g2p", "mlprogram"}
    assert {path.name for path in site.glob("*.dist-info")} == {
        f"{name}-{__version__}.dist-info"
        for name in ("kokoro_ane", "kokoro_g2p", "coreml_mlprogram")
    }
    assert not list(site.rglob("__pycache__"))
    assert not [path for path in site.rglob("*") if path.is_symlink()]
    missing = []
    for name in tracked():
        top = name.split("/")[0]
        if top in ("mlprogram", "g2p"):
            home = name.removeprefix(f"{top}/src/")
        elif top == "kokoro_ane":
            home = name
        elif top in ROOMS:
            home = f"kokoro_ane/{name}"
        else:
            continue
        skipped = name.startswith(NOT_INSTALLED) or (ROOT / name).is_symlink()
        if name.endswith((".py", *DATA)) and not skipped and not (site / home).is_file():
            missing.append(name)
    assert not missing
    installed = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert not [
        name
        for name in installed
        for room in NOT_INSTALLED
        if name.startswith((f"{room}/", f"kokoro_ane/{room}/"))
    ]


def test_the_wheels_stay_small(wheels):
    sizes_mb = {wheel.name.split("-")[0]: wheel.stat().st_size / 1e6 for wheel in wheels}
    assert set(sizes_mb) == set(WHEEL_MB)
    assert not {name: size for name, size in sizes_mb.items() if size > WHEEL_MB[name]}


def test_it_works_beside_a_users_own_files_of_the_same_names(site, tmp_path):
    files = "eval bench g2p pipeline quantize tests".split()
    packages = [f"{name}/__init__" for name in "core vocoder encoder runtimes".split()]
    for name in (*files, *packages):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise SystemExit('a file of the user')")
    pages = [run(site, tmp_path, "-m", "kokoro_ane", page) for page in ("--help", "more")]
    usage = "".join(pages)
    assert all(verb in usage for verb in COMMANDS)
    code = """
import kokoro_ane, mlprogram, sys
assert all(hasattr(kokoro_ane, name) for name in kokoro_ane.__all__)
samples, rate_hz = kokoro_ane.speak("Hello.", checkpoint=sys.argv[1])
assert abs(samples).max() > 0.01 and samples.dtype == "float32" and rate_hz == 24000
print(kokoro_ane.__file__, mlprogram.__file__, len(samples) / rate_hz)
"""
    *modules, seconds = run(site, tmp_path, "-c", code, str(DEMO_VOICE)).split()
    assert [path for path in modules if not Path(path).is_relative_to(site)] == []
    assert 0.3 < float(seconds) < 3


def test_in_pips_clone_the_two_others_are_of_the_same_commit_and_elsewhere_of_a_version(tmp_path):
    """`pip install git+URL` clones into a folder of this name."""
    git = ran("git", "rev-parse", "HEAD", "--path-format=absolute", "--git-common-dir")
    commit, origin = git.stdout.split()
    asked = {}
    for name in ("pip-req-build-x", "mine"):
        clone = tmp_path / name
        assert ran("git", "clone", "-q", f"file://{origin}", clone).returncode == 0
        assert ran("git", "checkout", "-q", commit, cwd=clone).returncode == 0
        # the tree's own, which may not be committed yet
        for file in ("build_backend.py", "pyproject.toml"):
            shutil.copy(ROOT / file, clone)
        code = "import build_backend as b; print(b.prepare_metadata_for_build_wheel('.'))"
        done = ran(sys.executable, "-c", code, cwd=clone)
        assert done.returncode == 0, done.stderr
        metadata = clone / done.stdout.split()[-1] / "METADATA"
        lines = metadata.read_text(encoding="utf-8").splitlines()
        named = [line for line in lines if re.match("Requires-Dist: (kokoro-g2p|coreml-)", line)]
        asked[name] = sorted(line.removeprefix("Requires-Dist: ") for line in named)
    place = f"git+file://.{origin}@{commit}#subdirectory="
    assert asked["pip-req-build-x"] == [
        f'coreml-mlprogram @ {place}mlprogram ; extra == "build"',
        f"kokoro-g2p @ {place}g2p",
    ]
    assert asked["mine"] == [
        f'coreml-mlprogram=={__version__}; extra == "build"',
        f"kokoro-g2p=={__version__}",
    ]


def test_a_password_in_an_address_is_not_stored():
    text = build_backend.with_places('"kokoro-g2p==0.2.0"', "https://me:secret@host/repo", "abc")
    assert text == '"kokoro-g2p @ git+https://host/repo@abc#subdirectory=g2p"'


def test_compress_refuses_a_level_that_there_is_not():
    with refused("unknown method 'nothing'"):
        kokoro_ane.compress("nothing")


def test_every_public_name_is_there_and_no_other():
    assert all(getattr(kokoro_ane, name).__doc__ for name in kokoro_ane.__all__)
    assert set(kokoro_ane.__all__) <= set(dir(kokoro_ane))
    assert not hasattr(kokoro_ane, "sing")


def test_speak_gives_the_samples_of_its_seed(tiny_checkpoint):
    options = {"voice": "slt", "checkpoint": str(tiny_checkpoint.folder)}
    (one, rate_hz), (same, _), (other, _) = (
        kokoro_ane.speak("Hello.", seed=seed, **options) for seed in (0, 0, 1)
    )
    assert rate_hz == 24_000
    assert one.dtype == np.float32
    assert one.ndim == 1
    assert len(one) % 600 == 0
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_build_writes_a_checked_package(tiny_checkpoint, tmp_path):
    (manifest,) = kokoro_ane.build(
        "vocoder", checkpoint=str(tiny_checkpoint.folder), buckets=(40,), out=tmp_path
    )
    assert manifest.path == tmp_path / "KokoroVocoder-tiny-padded-fp16.json"
    assert manifest.buckets == (40,)
    manifest.verify()


def test_judge_gives_verdict_and_figures(placed, measured):
    checkpoint, build = placed
    judged = kokoro_ane.judge(
        "fp16", checkpoint=str(checkpoint.folder), build=build, clips=2, workers=1
    )
    # 2 clips of 24
    assert judged.verdict == "UNDECIDED"
    assert judged.reasons
    assert not judged.broken
    assert judged.figures["pesq"]["mean"]
    assert judged.package_bytes > 10_000
    assert judged.file.is_file()
    assert len(measured) == 2


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: kokoro_ane.build("vocader"), "no stage 'vocader'"),
        (lambda: kokoro_ane.build("vocoder", precision="fp8"), "give fp16 or fp32"),
        (lambda: kokoro_ane.build("vocoder", layout="round", checkpoint=str(DEMO_VOICE)), "round"),
        (lambda: kokoro_ane.judge("w9"), "w9 is no level"),
        (lambda: kokoro_ane.judge("fp16", checkpoint="nowhere"), "neither a folder"),
        (lambda: kokoro_ane.speak("Hi.", "nobody", checkpoint=str(DEMO_VOICE)), "nobody"),
        (lambda: kokoro_ane.open_checkpoint("nowhere"), "neither a folder"),
    ],
)
def test_a_name_that_there_is_not(call, message):
    pytest.raises(kokoro_ane.InputError, call).match(message)
