"""A bundle's packages in one .pte: what goes in comes out, byte for byte; shapes by name; what cannot be delegated is refused."""

import dataclasses
import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import lengths_of, sizes, solved
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.export import package_sha256
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline.bundle import main as bundle
from kokoro_ane.pipeline.delegate import compare, file_for, main, manifests_of, parse_arguments
from kokoro_ane.runtimes.executorch.delegate_file import packages_in, signatures, write
from kokoro_ane.runtimes.executorch.pte_file import write as write_xnnpack
from kokoro_ane.runtimes.portable import PortableFunction
from mlprogram import Program

NAMES = ("KokoroEncoder-tiny-fp16", "KokoroVocoder-tiny-fp16")
needs_executorch = pytest.mark.skipif(importlib.util.find_spec("executorch") is None, reason="executorch is an extra")
without_executorch = pytest.mark.skipif(importlib.util.find_spec("executorch") is not None, reason="executorch is installed")


@pytest.fixture(scope="module")
def manifests(tiny_build: Path) -> list[Manifest]:
    return [Manifest.load(tiny_build / f"{name}.json") for name in NAMES]


class TestShapes:
    @given(times=st.integers(1, 900), rest=st.integers(0, 2000), length=st.integers(1, 5000))
    def test_a_size_gives_the_length_that_made_it(self, times: int, rest: int, length: int) -> None:
        text = (f"{times} * " if times > 1 else "") + "bucket" + (f" + {rest}" if rest else "")
        assert sizes((1, text), {"bucket": length}) == (1, times * length + rest)
        assert solved(text, times * length + rest) == {"bucket": length}

    def test_numbers_and_what_is_not_known(self) -> None:
        assert sizes((1, "3", 512), {}) == (1, 3, 512)
        assert solved(7, 7) == {}
        for unknown in ("columns", "2 * 80", "rows * pitch", ""):
            with pytest.raises(InputError, match="no input says how long"):
                sizes((unknown,), {"bucket": 4})

    def test_two_lengths_of_one_tensor(self) -> None:
        shapes = {"features": ((1, 7, 3, 42), (1, 7, 10, 156)), "style": ((1, 4),)}
        assert lengths_of({"features": (1, 7, "rows", "pitch + 36"), "style": (1, 4)}, shapes) == {"rows": (3, 10), "pitch": (6, 120)}


class TestSignatures:
    def test_of_both_packages(self, manifests: list[Manifest]) -> None:
        found = {signature.name: (inside, signature) for manifest in manifests for inside, signature in signatures(manifest)}
        assert list(found) == ["duration", "prosody", "vocoder"]
        assert {name: inside for name, (inside, _) in found.items()} == {"duration": "duration", "prosody": "prosody", "vocoder": "main"}
        for manifest in manifests:
            for _, signature in signatures(manifest):
                lengths = manifest.token_buckets if signature.name == "duration" else manifest.buckets
                assert list(signature.lengths.values()) == [(lengths[0], lengths[-1])]

    def test_a_tail_on_the_host_is_one_line(self, manifests: list[Manifest]) -> None:
        trunk = {"waveform": {"shape": [1, 128, "1", "columns"], "dtype": "float16"}}
        with pytest.raises(InputError, match="no input says how long 'columns' is; a tail on the host"):
            list(signatures(dataclasses.replace(manifests[1], outputs=trunk)))

    def test_every_output_is_as_long_as_the_package_makes_it(self, manifests: list[Manifest]) -> None:
        for manifest in manifests:
            for _, signature in signatures(manifest):
                low = {name: ends[0] for name, ends in signature.lengths.items()}
                shapes = {name: sizes(signature.inputs[name]["shape"], low) for name in signature.program.inputs}
                kinds = {name: np.int32 if spec.dtype == "int32" else np.float32 for name, spec in signature.program.inputs.items()}
                made = signature.program({name: np.ones(shape, kinds[name]) for name, shape in shapes.items()})
                for name, value in made.items():
                    assert tuple(value.shape) == sizes(signature.outputs[name]["shape"], low), name


class TestWithoutExecutorch:
    @without_executorch
    def test_one_line_says_what_to_install(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert main([str(tmp_path)]) == 2
        assert 'pip install "kokoro-ane[executorch]"' in capfd.readouterr().err

    def test_a_name_says_that_it_is_not_releasable(self, tmp_path: Path) -> None:
        data = {"checkpoint": {"name": "tiny"}, "releasable": False, "withheld": "a tiny one"}
        assert file_for(parse_arguments([str(tmp_path / "bundle-tiny-p6")]), data).name == "bundle-tiny-p6.pte"
        with pytest.raises(InputError, match="has to say so: --out .*tiny-mine.pte"):
            file_for(parse_arguments([str(tmp_path), "--out", str(tmp_path / "mine.pte")]), data)

    def test_files_of_another_runtime(self, manifests: list[Manifest], tmp_path: Path) -> None:
        for name in NAMES:
            text = json.loads((manifests[0].path.parent / f"{name}.json").read_text()) | {"package": f"{name}.onnx"}
            (tmp_path / f"{name}.json").write_text(json.dumps(text))
        data = {"encoder": [{"file": f"{NAMES[0]}.json"}], "vocoder": {"file": f"{NAMES[1]}.json"}}
        with pytest.raises(InputError, match="only Core ML packages"):
            manifests_of(tmp_path, data)


@pytest.fixture(scope="module")
def written(manifests: list[Manifest], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("delegate") / "x.pte"
    write(manifests, path)
    assert [child.name for child in path.parent.iterdir()] == ["x.pte"]
    return path


@needs_executorch
class TestFile:
    def test_packages_come_out_as_they_went_in(self, manifests: list[Manifest], written: Path, tmp_path: Path) -> None:
        rows = compare(written, manifests)
        assert [row["method"] for row in rows] == ["duration", "prosody", "vocoder"]
        found = packages_in(written, tmp_path)
        assert found["duration"].package == found["prosody"].package != found["vocoder"].package
        assert written.stat().st_size < sum(manifest.package_bytes for manifest in manifests) + 60_000  # each package once
        assert {package_sha256(one.package) for one in found.values()} == {manifest.package_sha256 for manifest in manifests}
        assert Program(found["prosody"].package, function=found["prosody"].function).inputs

    def test_the_same_twice(self, manifests: list[Manifest], written: Path, tmp_path: Path) -> None:
        write(manifests, tmp_path / "again.pte")
        assert (tmp_path / "again.pte").read_bytes() == written.read_bytes()

    def test_another_package_inside_is_seen(self, manifests: list[Manifest], tmp_path: Path) -> None:
        copied = shutil.copytree(manifests[0].path.parent, tmp_path / "build")
        weights = next((copied / manifests[1].package).rglob("weight.bin"))
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
        write([manifests[0], Manifest.load(copied / f"{NAMES[1]}.json")], tmp_path / "x.pte")
        with pytest.raises(CheckFailed, match="method vocoder does not hold"):
            compare(tmp_path / "x.pte", manifests)

    def test_a_file_that_holds_none(self, tmp_path: Path) -> None:
        double = PortableFunction(torch.nn.Linear(2, 2), (torch.ones(3, 2),), ("x",), ("y",), {"x": {0: "rows"}}, {"rows": 9})
        write_xnnpack(double, tmp_path / "xnnpack.pte")
        (tmp_path / "noise.pte").write_bytes(bytes(range(256)) * 9)
        (tmp_path / "empty.pte").touch()
        for name, said in (("xnnpack", "is for XnnpackBackend"), ("noise", "holds no package"), ("empty", "holds no package")):
            with pytest.raises(InputError, match=said):
                packages_in(tmp_path / f"{name}.pte", tmp_path / "out")

    def test_as_a_user_does_it(self, tiny_checkpoint: Checkpoint, tiny_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
        build = shutil.copytree(tiny_build, tmp_path / "build")
        assert bundle(["--checkpoint", str(tiny_checkpoint.folder), "--build", str(build)]) == 3
        assert main([str(build / "bundle-tiny-fp16")]) == 0
        said = json.loads(capsys.readouterr().out.splitlines()[-1])
        file = Path(said["file"])
        assert file.name == "bundle-tiny-fp16.pte" and file.stat().st_size == said["bytes"] and not said["releasable"]
        assert main([str(build / "bundle-tiny-fp16"), "--out", str(tmp_path / "x.wav")]) == 2
