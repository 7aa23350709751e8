"""Upstream with random weights, for parity; how it is loaded and watched stands in pipeline/upstream.py.

decoder = upstream_decoder(config, seed=0)
model = upstream_model(config, seed=0, style=style)     # KModel; needs transformers
"""

from dataclasses import asdict
from typing import Any

import torch

from bench.random_checkpoint import enliven_encoder
from core.config import KokoroConfig
from pipeline.upstream import Silence, empty_model, injected_noise, istftnet, upstream_seams

__all__ = ["injected_noise", "istftnet", "upstream_decoder", "upstream_model", "upstream_seams"]


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


def upstream_model(config: dict[str, Any], seed: int, style: torch.Tensor, decoder: bool = True) -> torch.nn.Module:
    """Upstream's KModel with random weights that speak under `style` [1, 256].

    `decoder=False` puts one in its place that returns silence, for the encoder's seams alone.
    """
    torch.manual_seed(seed)
    model = empty_model(config)
    generator, model.decoder = model.decoder, Silence()
    enliven_encoder(model)
    _spread_durations(model, style)
    if decoder:
        model.decoder = generator
    return model


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
