"""Upstream, unmodified, for parity: kokoro.istftnet and kokoro.model without the package's own __init__ (loguru, spaCy).

decoder = upstream_decoder(config, seed=0)
model = upstream_model(config, seed=0)                  # KModel; needs transformers
seams = upstream_seams(model, input_ids, style, speed=1.0)
"""

import importlib
import importlib.util
import logging
import sys
import tempfile
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bench.random_checkpoint import enliven_encoder
from pipeline.config import KokoroConfig
from pipeline.errors import InputError


def istftnet() -> types.ModuleType:
    """The module kokoro.istftnet as released on PyPI; InputError says how to get it."""
    if "kokoro" not in sys.modules:
        found = importlib.util.find_spec("kokoro")
        if found is None:
            raise InputError("upstream is not installed: `make venv` does it (pip install --no-deps kokoro==0.9.4)")
        bare = types.ModuleType("kokoro")
        bare.__path__ = list(found.submodule_search_locations)
        sys.modules["kokoro"] = bare
    return importlib.import_module("kokoro.istftnet")


def upstream_decoder(config: KokoroConfig, seed: int) -> torch.nn.Module:
    """Upstream's Decoder (complex path) with random weights; alphas are drawn in 0.05 to 2 so that Snake's quotient matters."""
    torch.manual_seed(seed)
    decoder = istftnet().Decoder(config.hidden_dim, config.style_dim, 80, **asdict(config.istftnet), disable_complex=False).eval()
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if ".alpha" in name:
                parameter.uniform_(0.05, 2.0)
            elif name.endswith("weight_g"):
                parameter.mul_(torch.empty_like(parameter).uniform_(0.5, 1.5))
        scale = decoder.generator.conv_post.weight_g
        scale.mul_(0.5 / scale.mean())
    return decoder


@contextmanager
def injected_noise(noise: torch.Tensor) -> Iterator[None]:
    """Replace upstream's three draws: initial phase and the unused third by zeros, the sine noise [B, 600F, 9] by `noise`."""
    rand, randn_like = torch.rand, torch.randn_like
    torch.rand = lambda *shape, **_: torch.full(shape, 0.37)
    torch.randn_like = lambda like, **_: noise.to(like.dtype) if like.shape == noise.shape else torch.zeros_like(like)
    try:
        yield
    finally:
        torch.rand, torch.randn_like = rand, randn_like


def kokoro_model() -> types.ModuleType:
    """The module kokoro.model; InputError says how to get transformers. Its logger, loguru's, is stood in for by the standard one."""
    istftnet()
    if importlib.util.find_spec("transformers") is None:
        raise InputError("transformers is not installed: `make venv` does it; upstream's KModel, the reference, needs it")
    if importlib.util.find_spec("loguru") is None and "loguru" not in sys.modules:
        stand_in = types.ModuleType("loguru")
        stand_in.logger = logging.getLogger("kokoro")
        sys.modules["loguru"] = stand_in
    return importlib.import_module("kokoro.model")


def upstream_model(config: dict[str, Any], seed: int, style: torch.Tensor, decoder: bool = True) -> torch.nn.Module:
    """Upstream's KModel with random weights that speak under `style` [1, 256].

    `decoder=False` puts one in its place that returns silence, for the encoder's seams alone.
    """
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.pth"
        torch.save({}, empty)  # KModel loads what the file holds: nothing
        known = {key: value for key, value in config.items() if key not in ("decoder", "name", "releasable")}
        model = kokoro_model().KModel(repo_id="none", config=known, model=str(empty)).eval()
    generator, model.decoder = model.decoder, Silence()
    enliven_encoder(model)
    _spread_durations(model, style)
    if decoder:
        model.decoder = generator
    return model


class Silence(torch.nn.Module):
    """Stands where the decoder stood; its inputs are what upstream hands over."""

    def forward(self, asr: torch.Tensor, f0: torch.Tensor, energy: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        return asr.new_zeros(1)


@torch.no_grad()
def _spread_durations(model: torch.nn.Module, style: torch.Tensor) -> None:
    """Turn the duration projection to where its input varies most, so that symbols differ; a random one gives all the same length."""
    projection, seen = model.predictor.duration_proj.linear_layer, []
    hook = projection.register_forward_pre_hook(lambda _m, given: seen.append(given[0][0]))
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, model.bert.config.vocab_size, (1, 200), generator=generator)
    model.forward_with_tokens(ids, style)
    hook.remove()
    middle = seen[0].mean(dim=0)  # [C]
    varied = torch.linalg.svd(seen[0] - middle, full_matrices=False)
    direction = varied.Vh[0] * (2.0 * len(seen[0]) ** 0.5 / varied.S[0])  # two standard deviations of logit to one of input
    projection.weight.copy_(projection.weight + direction)
    steps = torch.linspace(3.0, -12.0, len(projection.bias))  # the first frames are likely, the last are rare
    projection.bias.copy_(steps - projection.weight @ middle)


@torch.no_grad()
def upstream_seams(model: torch.nn.Module, input_ids: torch.Tensor, style: torch.Tensor, speed: float = 1.0) -> dict[str, torch.Tensor]:
    """Run KModel.forward_with_tokens and keep every seam: input_ids [1, n] with boundary tokens, style [1, 256].

    bert [1, n, 768], d_en [1, n, C], d [1, n, C + S], raw [1, n] (frames before rounding), durations [n], t_en [1, C, n], en [1, F, C + S],
    asr [1, C, F], f0_hz and energy [1, 2F], waveform. The dtype is the model's.
    """
    seams: dict[str, torch.Tensor] = {}
    watched = {"bert": model.bert, "d_en": model.bert_encoder, "d": model.predictor.text_encoder,
               "logits": model.predictor.duration_proj, "t_en": model.text_encoder}  # fmt: skip
    hooks = [m.register_forward_hook(lambda _m, _i, out, name=name: seams.__setitem__(name, out)) for name, m in watched.items()]
    hooks.append(model.predictor.shared.register_forward_pre_hook(lambda _m, given: seams.__setitem__("en", given[0])))
    names = ("asr", "f0_hz", "energy")
    hooks.append(model.decoder.register_forward_pre_hook(lambda _m, given: seams.update(zip(names, given[:3], strict=True))))
    before = torch.get_default_dtype()
    torch.set_default_dtype(style.dtype)  # upstream writes its alignment in the default type
    try:
        waveform, durations = model.forward_with_tokens(input_ids, style, speed)
    finally:
        torch.set_default_dtype(before)
        for hook in hooks:
            hook.remove()
    raw = torch.sigmoid(seams.pop("logits")).sum(dim=-1) / speed
    return seams | {"raw": raw, "durations": durations.reshape(-1), "waveform": waveform.flatten()}
