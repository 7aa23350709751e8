"""What makes ExecuTorch's files possible, and a bundle's packages in one .pte; its runtime where it
is installed; what is refused.
"""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.layers import AdaIN1d, Conv
from kokoro_ane.core.manifest import Manifest, hash_package
from kokoro_ane.encoder.albert import AlbertLayer
from kokoro_ane.encoder.functions import DurationFunction, Encoder
from kokoro_ane.encoder.lstm import OperatorLSTM, PrefixLSTM, ScanLSTM, unroll_lstms
from kokoro_ane.pipeline.bundle import main as bundle
from kokoro_ane.pipeline.delegate import DelegateOptions, choose_file, compare, load_manifests, main
from kokoro_ane.runtimes.executorch import pte_file
from kokoro_ane.runtimes.executorch.delegate_file import (
    compute_sizes,
    read_signatures,
    solve_length,
    take_packages,
)
from kokoro_ane.runtimes.executorch.delegate_file import write as write_delegates
from kokoro_ane.runtimes.executorch.plain_graph import CenteredNorm, PartedConv, make_plain
from kokoro_ane.runtimes.portable import PortableFunction, order_by_name
from mlprogram import Program
from tests.builds import uninstall
from tests.commands import refused
from tests.runtimes.test_portable import compare_at_any_length, needs

needs_executorch = needs("executorch")


@pytest.fixture
def without_executorch(monkeypatch):
    uninstall(monkeypatch, "executorch")


class TestLayers:
    @pytest.mark.parametrize("loop", [ScanLSTM, OperatorLSTM])
    @pytest.mark.parametrize("steps", [1, 2, 19])
    def test_a_loop_is_the_lstm(self, steps, loop):
        """Written out for ExecuTorch; an operator for TVM."""
        torch.manual_seed(0)
        lstm, x = PrefixLSTM(6, 4).eval(), torch.randn(1, steps, 6)
        replaced = unroll_lstms(torch.nn.ModuleList([lstm]), loop)[0]
        assert type(replaced) is loop
        with torch.no_grad():
            assert torch.allclose(replaced(x, None), lstm(x, None), atol=1e-6)

    def test_every_lstm_and_gelu_of_the_encoder_is_replaced(self, tiny_checkpoint):
        function = DurationFunction(Encoder.from_checkpoint(tiny_checkpoint)).eval()
        ids = torch.arange(1, 12, dtype=torch.int32)[None]
        inputs = ids, torch.randn(1, tiny_checkpoint.config.style_dim), torch.ones(1)
        copied = make_plain(function)
        assert not any(
            isinstance(module, PrefixLSTM) or type(module) is AlbertLayer
            for module in copied.modules()
        )
        with torch.no_grad():
            for written_out, stock in zip(copied(*inputs), function(*inputs), strict=True):
                assert snr_db(stock.numpy(), written_out.numpy()) > 100

    def test_the_centered_norm_is_adain_and_finite_where_nothing_varies(self):
        torch.manual_seed(0)
        norm, style = AdaIN1d(4, 3).eval(), torch.randn(1, 4, 1, 1)
        speech, constant = torch.randn(1, 3, 1, 50), torch.full((1, 3, 1, 50), 217.3)
        with torch.no_grad():
            expected = norm(speech, style, None)
            norm.__class__ = CenteredNorm
            assert torch.allclose(norm(speech, style, None), expected, atol=1e-5)
            assert torch.isfinite(norm(constant, style, None)).all()

    @pytest.mark.parametrize("channels", [1, 3, 7, 8])
    def test_a_convolution_in_parts_is_the_convolution(self, channels):
        torch.manual_seed(0)
        conv, x = Conv(8, 5, 3, stride=2, padding=2, dilation=2).eval(), torch.randn(1, 8, 1, 31)
        parted = PartedConv(conv, channels)
        assert max(part.shape[1] for part in parted.weights) == channels
        with torch.no_grad():
            assert torch.allclose(parted(x), conv(x), atol=1e-6)

    def test_values_go_by_name_where_a_file_knows_positions_only(self):
        class Difference(torch.nn.Module):
            def forward(self, b, a):
                return b - a, b + a

        ones, twos = torch.ones(1), torch.full((1,), 2.0)
        function = order_by_name(
            PortableFunction(Difference(), (ones, twos), ("b", "a"), ("z", "sum"), {}, {})
        )
        assert (function.inputs, function.outputs) == (("a", "b"), ("sum", "z"))
        assert [float(value) for value in function.module(*function.example)] == [3.0, -1.0]

    @needs_executorch
    def test_a_written_out_norm_runs_at_any_length(self, tmp_path):
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.style = AdaIN1d(4, 5), torch.nn.Parameter(torch.randn(1, 4, 1, 1))
                self.norm.__class__ = CenteredNorm

            def forward(self, x):
                return self.norm(x, self.style, None)

        block = Block().eval().requires_grad_(False)
        compare_at_any_length(pte_file, block, tmp_path, (3, 9, 70), limit_db=100)


NAMES = ("KokoroEncoder-tiny-fp16", "KokoroVocoder-tiny-padded-fp16")


@pytest.fixture(scope="module")
def manifests(tiny_build):
    return [Manifest.load(tiny_build / f"{name}.json") for name in NAMES]


class TestShapes:
    @given(times=st.integers(1, 900), rest=st.integers(0, 2000), length=st.integers(1, 5000))
    def test_a_size_gives_the_length_that_made_it(self, times, rest, length):
        text = (f"{times} * " if times > 1 else "") + "bucket" + (f" + {rest}" if rest else "")
        assert compute_sizes((1, text), {"bucket": length}) == (1, times * length + rest)
        assert solve_length(text, times * length + rest) == ("bucket", length)

    def test_numbers_and_what_is_not_known(self):
        assert compute_sizes((1, "3", 512), {}) == (1, 3, 512)
        for unknown in ("columns", "2 * 80", "rows * pitch", ""):
            refused("no input says how long", compute_sizes, (unknown,), {"bucket": 4})


class TestSignatures:
    def test_signatures_and_a_tail_on_the_host(self, manifests):
        methods = {
            signature.name: (inside, signature)
            for manifest in manifests
            for inside, signature in read_signatures(manifest)
        }
        assert list(methods) == ["duration", "prosody", "vocoder"]
        assert {name: inside for name, (inside, _) in methods.items()} == {
            "duration": "duration",
            "prosody": "prosody",
            "vocoder": "main",
        }
        for manifest in manifests:
            for _, signature in read_signatures(manifest):
                lengths = (
                    manifest.token_buckets if signature.name == "duration" else manifest.buckets
                )
                assert list(signature.lengths.values()) == [(lengths[0], lengths[-1])]
        trunk = {"waveform": {"shape": [1, 128, "1", "columns"], "dtype": "float16"}}
        with refused("no input says how long 'columns' is; a tail on the host"):
            list(read_signatures(dataclasses.replace(manifests[1], outputs=trunk)))


class TestWithoutExecutorch:
    @pytest.mark.usefixtures("without_executorch")
    def test_one_line_says_what_to_install(self, tmp_path, capfd):
        assert main([str(tmp_path)]) == 2
        assert 'pip install "kokoro-ane[executorch]"' in capfd.readouterr().err

    def test_a_name_says_that_it_is_not_releasable(self, tmp_path):
        data = {"checkpoint": {"name": "tiny"}, "releasable": False, "withheld": "a tiny one"}
        assert (
            choose_file(DelegateOptions(tmp_path / "bundle-tiny-p6"), data).name
            == "bundle-tiny-p6.pte"
        )
        with refused("has to say so: --out .*tiny-mine.pte"):
            choose_file(DelegateOptions(tmp_path, tmp_path / "mine.pte"), data)

    def test_files_of_another_runtime(self, manifests, tmp_path):
        for name in NAMES:
            text = json.loads((manifests[0].path.parent / f"{name}.json").read_text()) | {
                "package": f"{name}.onnx"
            }
            (tmp_path / f"{name}.json").write_text(json.dumps(text))
        data = {"encoder": [{"file": f"{NAMES[0]}.json"}], "vocoder": {"file": f"{NAMES[1]}.json"}}
        refused("only Core ML packages", load_manifests, tmp_path, data)


@pytest.fixture(scope="module")
def written(manifests, tmp_path_factory):
    path = tmp_path_factory.mktemp("delegate") / "x.pte"
    write_delegates(manifests, path)
    assert [child.name for child in path.parent.iterdir()] == ["x.pte"]
    return path


@needs_executorch
class TestFile:
    def test_packages_come_out_as_they_went_in_and_twice_the_same(
        self, manifests, written, tmp_path
    ):
        rows = compare(written, manifests)
        assert [row["method"] for row in rows] == ["duration", "prosody", "vocoder"]
        packages = take_packages(written, tmp_path)
        assert (
            packages["duration"].package
            == packages["prosody"].package
            != packages["vocoder"].package
        )
        # each package once
        assert (
            written.stat().st_size < sum(manifest.package_bytes for manifest in manifests) + 60_000
        )
        assert {hash_package(one.package) for one in packages.values()} == {
            manifest.package_sha256 for manifest in manifests
        }
        assert Program(packages["prosody"].package, function=packages["prosody"].function).inputs
        write_delegates(manifests, tmp_path / "again.pte")
        assert (tmp_path / "again.pte").read_bytes() == written.read_bytes()

    def test_another_package_inside_is_seen(self, manifests, tmp_path):
        copied = shutil.copytree(manifests[0].path.parent, tmp_path / "build")
        weights = next((copied / manifests[1].package).rglob("weight.bin"))
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
        write_delegates(
            [manifests[0], Manifest.load(copied / f"{NAMES[1]}.json")], tmp_path / "x.pte"
        )
        pytest.raises(CheckFailed, compare, tmp_path / "x.pte", manifests).match(
            "method vocoder does not hold"
        )

    def test_as_a_user_does_it(self, tiny_checkpoint, tiny_build, tmp_path, capsys):
        build = shutil.copytree(tiny_build, tmp_path / "build")
        assert bundle(f"--checkpoint {tiny_checkpoint.folder} --build {build}".split()) == 3
        assert main([str(build / "bundle-tiny-padded-fp16")]) == 0
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        file = Path(report["file"])
        assert file.name == "bundle-tiny-padded-fp16.pte"
        assert file.stat().st_size == report["bytes"]
        assert not report["releasable"]
        assert main([str(build / "bundle-tiny-padded-fp16"), "--out", str(tmp_path / "x.wav")]) == 2
