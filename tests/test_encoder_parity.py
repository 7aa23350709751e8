"""The PyTorch encoder against upstream's unmodified KModel, dynamic and packed: random weights, real voice styles, any padding."""

from functools import partial

import pytest
import torch

from bench.encoder_parity import SEAMS, Case, both_models, cases, encoded_by_upstream, encoded_by_us, row
from bench.random_checkpoint import kokoro_config, tiny_config
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.layers import upstream_state
from kokoro_ane.encoder.functions import PARTS, Encoder

LIMIT_DB = 90.0


@pytest.fixture(scope="module")
def models() -> tuple[torch.nn.Module, Encoder]:
    return both_models(tiny_config(), seed=0)


def test_every_key_of_upstream_and_no_other(models: tuple) -> None:
    upstream, encoder = models
    for name in PARTS:
        theirs = {key: value.shape for key, value in getattr(upstream, name).state_dict().items()}
        assert {key: value.shape for key, value in upstream_state(getattr(encoder, name)).items() if ".norm." not in key} == {
            key: shape
            for key, shape in theirs.items()
            if ".norm." not in key  # AdaIN's unit affine is folded away
        }


def test_float64_agrees_at_every_seam(models: tuple) -> None:
    """Durations equal, features to rounding: 1 to 510 phonemes, padded by tokens and frames."""
    upstream, encoder = (model.double() for model in models)
    try:
        for case in cases(6, seed=1):
            found = row(upstream, partial(encoded_by_us, encoder), case)
            assert found["changed"] == 0
            assert min(found["snr_db"].values()) >= 110, found
    finally:
        for model in models:
            model.float()


def test_float32_durations_equal_and_features_90_db(models: tuple) -> None:
    rows = [row(models[0], partial(encoded_by_us, models[1]), case) for case in cases(12, seed=2)]
    assert len(rows) == 12 and sum(r["tokens"] for r in rows) > 700
    assert sum(r["changed"] for r in rows) == 0
    assert min(r["snr_db"][name] for r in rows for name in SEAMS) >= LIMIT_DB


def test_durations_differ_by_symbol_so_that_equality_says_something(models: tuple) -> None:
    durations = encoded_by_upstream(models[0], next(cases(1, seed=3))).durations
    assert len(durations.unique()) >= 6


def test_control_another_style_changes_durations(models: tuple) -> None:
    case = next(cases(1, seed=3))
    other = Case(case.ids, case.style * 0.5, case.speed, 0, 0)
    theirs = encoded_by_upstream(models[0], case)
    assert not torch.equal(theirs.durations, encoded_by_us(models[1], other, theirs.durations).durations)


def test_position_ids_of_older_checkpoints_are_accepted(models: tuple) -> None:
    state = {key: value.clone() for key, value in models[0].bert.state_dict().items()}
    state["embeddings.position_ids"] = torch.arange(512)[None]
    Encoder(KokoroConfig.from_dict(tiny_config(), "test")).bert.load_state_dict(state)


def test_text_encoder_alone_and_in_padded_batches(models: tuple) -> None:
    theirs, ours = (model.text_encoder.double() for model in models)
    ids, lengths = torch.randint(1, 178, (3, 40), generator=torch.Generator().manual_seed(0)), torch.tensor([40, 7, 23])
    try:
        with torch.no_grad():
            wanted = theirs(ids, lengths, torch.arange(40) >= lengths[:, None])  # [3, C, 40]
            batch, alone = ours(ids, lengths)[:, :, 0], ours(ids[1:2, :7], None)[:, :, 0]
        assert snr_db(wanted.numpy(), batch.numpy()) >= 110
        assert snr_db(wanted[1:2, :, :7].numpy(), alone.numpy()) >= 110
    finally:
        for model in models:
            model.float()


@pytest.mark.slow
def test_full_size_float32() -> None:
    full = both_models(kokoro_config(), seed=0)
    rows = [row(full[0], partial(encoded_by_us, full[1]), case) for case in cases(8, seed=4)]
    assert sum(r["changed"] for r in rows) == 0
    assert min(r["snr_db"][name] for r in rows for name in SEAMS) >= LIMIT_DB
