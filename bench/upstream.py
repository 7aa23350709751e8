"""Upstream's unmodified decoder, for parity: kokoro.istftnet without the package's own __init__ (loguru, spaCy, transformers).

decoder = upstream_decoder(config)
"""

import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import torch

from pipeline.config import KokoroConfig
from pipeline.errors import InputError


def istftnet() -> types.ModuleType:
    """The module kokoro.istftnet as released on PyPI; InputError says how to get it."""
    found = importlib.util.find_spec("kokoro")
    if found is None:
        raise InputError("upstream is not installed: `make venv` does it (pip install --no-deps kokoro==0.9.4)")
    if "kokoro" not in sys.modules:
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
