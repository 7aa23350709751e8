"""Text encoder against upstream's class, and the alignment.

pytest tests/test_demo_text_encoder.py
"""

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest
import torch

from bench.upstream import istftnet
from core.config import KokoroConfig
from core.layers import upstream_state
from encoder.text_encoder import TextEncoder, aligned

PARITY_DB = 100.0
CONFIG = Path(__file__).parents[1] / "demo/checkpoint/config.json"


def upstream_text_encoder(config: KokoroConfig, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """kokoro.modules.TextEncoder; its module also wants transformers.AlbertModel, which this test does not."""
    if "kokoro" not in sys.modules:
        istftnet()
    if importlib.util.find_spec("transformers") is None:
        stand_in = types.ModuleType("transformers")
        stand_in.AlbertModel = torch.nn.Module
        monkeypatch.setitem(sys.modules, "transformers", stand_in)
    modules = importlib.import_module("kokoro.modules")
    torch.manual_seed(0)
    encoder = modules.TextEncoder(config.hidden_dim, config.text_encoder_kernel_size, config.n_layer, config.n_token).double().eval()
    for name, parameter in encoder.named_parameters():
        if name.endswith(("weight_g", "gamma", "beta")):
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return encoder


def ratio_db(wanted: torch.Tensor, got: torch.Tensor) -> float:
    """Signal to error."""
    return float(10 * torch.log10(wanted.square().sum() / (wanted - got).square().sum().clamp(min=1e-300)))


def test_equals_upstream_alone_and_in_padded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    config = KokoroConfig.load(CONFIG)
    theirs = upstream_text_encoder(config, monkeypatch)
    ours = TextEncoder(config).double()
    ours.load_state_dict({key: tensor.clone() for key, tensor in theirs.state_dict().items()}, strict=True)
    ids, lengths = torch.randint(1, 178, (3, 40)), torch.tensor([40, 7, 23])
    outside = torch.arange(40) >= lengths[:, None]
    with torch.no_grad():
        wanted, got = theirs(ids, lengths, outside), ours(ids, lengths)  # [3, C, 40] and [3, C, 1, 40]
        assert ratio_db(wanted, got[:, :, 0]) >= PARITY_DB
        alone = ours(ids[1:2, :7], None)
        assert ratio_db(wanted[1:2, :, :7], alone[:, :, 0]) >= PARITY_DB


def test_state_goes_out_under_upstreams_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    config = KokoroConfig.load(CONFIG)
    theirs, ours = upstream_text_encoder(config, monkeypatch), TextEncoder(config)
    state = upstream_state(ours)
    assert {key: value.shape for key, value in state.items()} == {key: value.shape for key, value in theirs.state_dict().items()}


def test_alignment_repeats_columns() -> None:
    text = torch.arange(3.0).view(1, 1, 1, 3)
    assert aligned(text, torch.tensor([2, 1, 3])).flatten().tolist() == [0, 0, 1, 2, 2, 2]
