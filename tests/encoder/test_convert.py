"""The encoder: its build as a user types it, upstream's KModel beside it, and padding that changes
nothing.
"""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.checks import ProgramFacts, snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import PADDING_ID
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.encoder import encoder_stage
from kokoro_ane.encoder.encoder_stage import FORBIDDEN, EncoderPackage
from kokoro_ane.encoder.encoder_steps import (
    Encoded,
    EncoderBackend,
    encode,
    encode_phonemes,
    pack_frames,
)
from kokoro_ane.encoder.functions import (
    PARTS,
    DurationFunction,
    Encoder,
    ProsodyFunction,
    make_torch_functions,
)
from kokoro_ane.encoder.lstm import PrefixLSTM
from kokoro_ane.pipeline.build import main
from mlprogram import Program
from tests.builds import left_behind
from tests.commands import refused
from tests.demo_voice import DEMO_VOICE
from tests.parity import (
    SEAMS,
    Case,
    both_models,
    cases,
    encoded_by_upstream,
    encoded_by_us,
    real_styles,
    row,
)
from tests.random_checkpoint import enliven_encoder, kokoro_config, tiny_config, upstream_state

ROOT = Path(__file__).resolve().parents[2]
NAME = "KokoroEncoder-tiny-fp16"
# of the shared packages: tests/conftest.py
BUCKETS = "--buckets 40,160,640 --token-buckets 16,64,192".split()


def some_ids(tiny_checkpoint, count):
    """Ids of `count` symbols, one after another in the order of the vocabulary, every seventh of
    it.
    """
    symbols = sorted(tiny_checkpoint.config.vocab)
    return encode_phonemes(
        "".join(symbols[(7 * i + count) % len(symbols)] for i in range(count)),
        tiny_checkpoint.config.vocab,
    )


def build(tiny_checkpoint, out, *flags):
    place = f"encoder --checkpoint {tiny_checkpoint.folder} --out {out}".split()
    return main([*place, *BUCKETS, *flags])


class TestBuild:
    def test_manifest_says_everything(self, tiny_build, tiny_checkpoint):
        manifest = Manifest.load(tiny_build / f"{NAME}.json")
        manifest.verify()
        assert manifest.functions == {"duration": "duration", "prosody": "prosody"}
        assert manifest.token_buckets == (16, 64, 192)
        assert manifest.buckets == (40, 160, 640)
        assert manifest.compute_units["default"] == "CPU_AND_GPU"
        assert manifest.source["kept_fp32"] == {
            "duration": ["duration_predictor"],
            "prosody": ["f0_predictor"],
        }
        assert manifest.inputs["duration"]["input_ids"]["padding"] == -1
        assert manifest.checkpoint_sha256 == tiny_checkpoint.network_sha256
        assert not manifest.releasable

    @pytest.mark.parametrize(
        ("function", "lstms", "lengths"),
        [("duration", 5, {16, 64, 192}), ("prosody", 1, {40, 160, 640})],
    )
    def test_structure(self, tiny_build, function, lstms, lengths):
        program = Program(tiny_build / f"{NAME}.mlpackage", function=function)
        facts = ProgramFacts.from_program(
            program, "input_ids" if function == "duration" else "frames", FORBIDDEN
        )
        assert facts.operations["lstm"] == lstms
        assert facts.forbidden == {}
        assert facts.count < 400
        flexible = [spec for spec in program.inputs.values() if spec.shapes]
        assert len(flexible) == 1
        assert {shape[-1] for shape in flexible[0].shapes} == lengths

    def test_durations_run_in_fp32_and_text_in_fp16(self, tiny_build):
        """Not what is declared but what runs: every value on the way to a duration is finer than
        fp16, none of the text encoder's is.
        """
        fine, coarse = [], []

        def hook(_name, op_type, value):
            if op_type in ("lstm", "linear", "layer_norm", "conv"):
                (coarse if torch.equal(value.half().to(value.dtype), value) else fine).append(
                    op_type
                )

        ids = torch.randint(
            0, 100, (1, 64), generator=torch.Generator().manual_seed(0), dtype=torch.int32
        )
        program = Program(tiny_build / f"{NAME}.mlpackage", function="duration")
        program(
            {"input_ids": ids, "style": real_styles()[0][:, 128:], "speed": torch.ones(1)},
            hook=hook,
        )
        # text encoder; an lstm gives three
        assert {kind: coarse.count(kind) for kind in coarse} == {
            "conv": 3,
            "layer_norm": 3,
            "lstm": 3,
        }
        assert fine.count("linear") >= 20
        assert fine.count("layer_norm") >= 10
        assert "lstm" in fine

    def test_any_length_through_the_package(self, tiny_build, tiny_checkpoint):
        """Durations of every token equal PyTorch's; features within fp16's rounding."""
        package, twin = (
            EncoderPackage((tiny_build / f"{NAME}.json",)),
            make_torch_functions(Encoder.from_checkpoint(tiny_checkpoint)),
        )
        for length in (1, 14, 15, 33):
            ids, style = some_ids(tiny_checkpoint, length), real_styles()[length % 6][:, 128:]
            expected, got = (
                encode(backend, ids, style, 1.0)
                for backend in (EncoderBackend(twin, package.limits), package.backend)
            )
            assert torch.equal(expected.durations, got.durations)
            figures = encoder_stage.compare_outputs([(expected, got)], "fp16")
            assert all(figure.holds for figure in figures), figures

    @pytest.mark.parametrize(("off", "holds"), [(1e-5, True), (0.01, False)])
    def test_a_duration_at_a_half_may_round_either_way(self, off, holds):
        one = Encoded(*[torch.full((4,), 1.5)] * 8)
        other = replace(one, raw=one.raw + off, durations=one.durations + 1)
        figures = encoder_stage.compare_outputs([(one, other)], "fp32")
        assert all(figure.holds for figure in figures) == holds

    def test_fp32_package_equals_pytorch(self, tiny_build):
        checks = Manifest.load(tiny_build / "KokoroEncoder-tiny-fp32.json").checks
        assert min(f["value"] for f in checks["figures"] if f["unit"] == "dB") >= 100
        assert [facts["fp16_operations"] for facts in checks["structure"].values()] == [0, 0]

    def test_ios17_gives_two_packages_that_work_together(
        self, tiny_build, tiny_checkpoint, tmp_path
    ):
        assert build(tiny_checkpoint, tmp_path, "--target", "iOS17") == 0
        names = ("KokoroEncoderDuration-tiny-fp16", "KokoroEncoderProsody-tiny-fp16")
        assert left_behind(tmp_path) == sorted(
            f"{name}.{kind}" for name in names for kind in ("json", "mlpackage")
        )
        paths = tuple(tmp_path / f"{name}.json" for name in names)
        ids, style = some_ids(tiny_checkpoint, 7), real_styles()[0][:, 128:]
        one = encode(EncoderPackage((tiny_build / f"{NAME}.json",)).backend, ids, style, 1.0)
        assert torch.equal(encode(EncoderPackage(paths).backend, ids, style, 1.0).f0_hz, one.f0_hz)
        refused("holds no function 'prosody'", EncoderPackage, paths[:1])

    def test_a_checkpoint_without_an_encoder_is_named(self, tmp_path, capsys):
        folder = tmp_path / "vocoder_only"
        shutil.copytree(DEMO_VOICE, folder)
        weights = next(folder.glob("*.pth"))
        state = torch.load(weights, weights_only=True)
        torch.save({name: state[name] for name in ("decoder", "text_encoder")}, weights)
        assert main(["encoder", "--checkpoint", str(folder), "--out", str(tmp_path / "out")]) == 2
        assert "checkpoint 'demo' has no encoder" in capsys.readouterr().err
        assert left_behind(tmp_path / "out") == []


LIMIT_DB = 90.0


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    encoder = Encoder(KokoroConfig.from_dict(tiny_config(), "test")).eval()
    enliven_encoder(encoder)
    return encoder


def junk(*shape, seed):
    return 100 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def both_durations(encoder, length, padding, seed):
    """What the duration function returns for random ids, and for the same with `padding` after
    them.
    """
    function, style = DurationFunction(encoder), real_styles()[seed % 6][:, 128:]
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 178, (1, length), generator=generator, dtype=torch.int32)
    return [function(x, style, torch.ones(1)) for x in (ids, torch.cat([ids, padding], dim=1))]


def both_curves(encoder, frames, extra, seed, change):
    """F0 and energy of random frames at exact length, each beside that of the same padded frames
    after a change of theirs.
    """
    function, style = ProsodyFunction(encoder), real_styles()[seed % 6][:, 128:]
    en = torch.randn(1, 16, 1, frames, generator=torch.Generator().manual_seed(seed)).numpy()
    exact, padded = (torch.from_numpy(pack_frames(en, frames + more)) for more in (0, extra))
    change(padded)
    return zip(function(exact, style), function(padded, style), strict=True)


class TestPadding:
    @settings(max_examples=12, deadline=None)
    @given(length=st.integers(1, 60), extra=st.integers(0, 150), seed=st.integers(0, 9))
    @torch.no_grad()
    def test_lstm_equals_the_packed_one(self, length, extra, seed):
        torch.manual_seed(seed)
        ours, stock = PrefixLSTM(12, 8), torch.nn.LSTM(12, 8, batch_first=True, bidirectional=True)
        stock.load_state_dict(ours.state_dict())
        x = torch.cat([torch.randn(1, length, 12), junk(1, extra, 12, seed=seed)], dim=1)
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            x, torch.tensor([length]), batch_first=True
        )
        expected, _ = torch.nn.utils.rnn.pad_packed_sequence(
            stock(packed)[0], batch_first=True, total_length=length + extra
        )
        inside = (torch.arange(length + extra) < length).float()[None, :, None]  # [1, T, 1]
        assert torch.allclose(ours(x, inside), expected, atol=1e-6)

    @torch.no_grad()
    def test_lstm_padding_is_exactly_harmless_in_fp16_weights_too(self):
        """Not small: zero. The backward state after 500 padded steps is the initial one, bit for
        bit.
        """
        torch.manual_seed(0)
        lstm = PrefixLSTM(12, 8)
        for parameter in lstm.parameters():
            parameter.copy_(parameter.half().float() * 8)
        x, inside = torch.zeros(1, 500, 12), torch.zeros(1, 500, 1)
        add_flag, state = torch.cat([x, (1 - inside) * 1e4], dim=2), torch.zeros(2, 1, 8)
        _, hidden, cell = torch.lstm(
            add_flag, (state, state), lstm.make_flag_weights(), True, 1, 0.0, False, True, True
        )
        assert hidden.abs().max() == 0
        assert cell.abs().max() == 0

    @settings(max_examples=8, deadline=None)
    @given(length=st.integers(3, 60), extra=st.integers(1, 200), seed=st.integers(0, 9))
    @torch.no_grad()
    def test_duration_function_at_any_padding(self, encoder, length, extra, seed):
        padding = torch.full((1, extra), PADDING_ID, dtype=torch.int32)
        exact, padded = both_durations(encoder, length, padding, seed)
        for reference, other in zip(exact, padded, strict=True):
            assert snr_db(reference.numpy(), other[..., :length].numpy()) >= LIMIT_DB
        _, hidden, text = padded
        assert hidden[..., length:].abs().max() == 0
        assert text[..., length:].abs().max() == 0

    @settings(max_examples=8, deadline=None)
    @given(frames=st.integers(2, 80), extra=st.integers(1, 300), seed=st.integers(0, 9))
    @torch.no_grad()
    def test_prosody_function_with_junk_in_the_padding(self, encoder, frames, extra, seed):
        def with_junk(padded):
            padded[:, :-1, :, frames:] = junk(1, 16, 1, extra, seed=seed)

        for reference, other in both_curves(encoder, frames, extra, seed, with_junk):
            assert snr_db(reference.numpy(), other[:, : 2 * frames].numpy()) >= LIMIT_DB

    @torch.no_grad()
    def test_control_without_the_mask_it_fails(self, encoder):
        """The same tokens and frames with the padding declared to be speech: every seam is far
        off.
        """
        exact, unmasked = both_durations(encoder, 20, torch.zeros(1, 40, dtype=torch.int32), 0)
        for reference, other in zip(exact, unmasked, strict=True):
            assert snr_db(reference.numpy(), other[..., :20].numpy()) < 60

        def unmask(padded):
            padded[:, -1] = 1

        for reference, other in both_curves(encoder, 20, 40, 0, unmask):
            assert snr_db(reference.numpy(), other[:, :40].numpy()) < 60


@pytest.fixture(scope="module")
def models():
    return both_models(tiny_config(), seed=0)


class TestParity:
    def test_every_key_of_upstream_and_no_other(self, models):
        upstream, encoder = models
        for name in PARTS:
            theirs = {
                key: value.shape for key, value in getattr(upstream, name).state_dict().items()
            }
            assert {
                key: value.shape
                for key, value in upstream_state(getattr(encoder, name)).items()
                if ".norm." not in key
            } == {
                key: shape
                for key, shape in theirs.items()
                if ".norm." not in key  # AdaIN's unit affine is folded away
            }

    def test_both_precisions_agree_at_every_seam(self, models):
        """Durations equal, features to rounding: 1 to 510 phonemes, padded by tokens and frames."""
        upstream, encoder = (model.double() for model in models)
        try:
            for case in cases(6, seed=1):
                figures = row(upstream, partial(encoded_by_us, encoder), case)
                assert figures["changed"] == 0
                assert min(figures["snr_db"].values()) >= 110, figures
        finally:
            for model in models:
                model.float()
        rows = [
            row(models[0], partial(encoded_by_us, models[1]), case) for case in cases(12, seed=2)
        ]
        assert len(rows) == 12
        assert sum(r["tokens"] for r in rows) > 700
        assert sum(r["changed"] for r in rows) == 0
        assert min(r["snr_db"][name] for r in rows for name in SEAMS) >= LIMIT_DB

    def test_durations_follow_symbols_and_style_and_older_checkpoints_load(self, models):
        durations = encoded_by_upstream(models[0], next(cases(1, seed=3))).durations
        assert len(durations.unique()) >= 6
        case = next(cases(1, seed=3))
        other, theirs = (
            Case(case.ids, case.style * 0.5, case.speed, 0, 0),
            encoded_by_upstream(models[0], case),
        )
        assert not torch.equal(
            theirs.durations, encoded_by_us(models[1], other, theirs.durations).durations
        )
        state = {key: value.clone() for key, value in models[0].bert.state_dict().items()}
        state["embeddings.position_ids"] = torch.arange(512)[None]
        Encoder(KokoroConfig.from_dict(tiny_config(), "test")).bert.load_state_dict(state)

    @pytest.mark.slow
    def test_full_size_float32(self):
        full = both_models(kokoro_config(), seed=0)
        rows = [row(full[0], partial(encoded_by_us, full[1]), case) for case in cases(8, seed=4)]
        assert sum(r["changed"] for r in rows) == 0
        assert min(r["snr_db"][name] for r in rows for name in SEAMS) >= LIMIT_DB
