"""A tiny random checkpoint folder in upstream's format, for structure tests: seconds to convert,
every code path of the real one.

folder = write_checkpoint(tmp_path, tiny_config())
"""

import copy
import json

import torch

from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import VOICE_SHAPE
from kokoro_ane.core.layers import Snake, StyleAffine
from kokoro_ane.encoder.functions import PARTS, Encoder, TextEncoder
from kokoro_ane.vocoder.decoder import Vocoder

WEIGHTS, VOICES = "random.pth", ("slt", "rms", "awb")
KOKORO_ISTFTNET = {
    "upsample_kernel_sizes": [20, 12],
    "upsample_rates": [10, 6],
    "gen_istft_hop_size": 5,
    "gen_istft_n_fft": 20,
    "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
    "resblock_kernel_sizes": [3, 7, 11],
    "upsample_initial_channel": 512,
}


def kokoro_config():
    """Kokoro-82M's config.json (hexgrad/Kokoro-82M), without the vocabulary's symbols."""
    return {
        "istftnet": copy.deepcopy(KOKORO_ISTFTNET),
        "dim_in": 64,
        "dropout": 0.2,
        "hidden_dim": 512,
        "max_conv_dim": 512,
        "max_dur": 50,
        "multispeaker": True,
        "n_layer": 3,
        "n_mels": 80,
        "n_token": 178,
        "style_dim": 128,
        "text_encoder_kernel_size": 5,
        "plbert": {
            "hidden_size": 768,
            "num_attention_heads": 12,
            "intermediate_size": 2048,
            "max_position_embeddings": 512,
            "num_hidden_layers": 12,
            "dropout": 0.1,
        },
        "vocab": {"a": 43},
    }


def tiny_config():
    """The same architecture, 1/16 as wide."""
    config = kokoro_config() | {
        "hidden_dim": 16,
        "decoder": {"hidden_dim": 24, "asr_res_dim": 8},
        "name": "tiny",
        "releasable": False,
    }
    config["istftnet"]["upsample_initial_channel"] = 32
    config["plbert"] |= {
        "hidden_size": 24,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
    }
    return config


def upstream_state(module):
    """The state dict that upstream's class would hold for `module`: what core/layers.py loads,
    undone.
    """
    state = {}
    for path, layer in module.named_modules():
        tensors = {name: p.detach() for name, p in layer.named_parameters(recurse=False)}
        if isinstance(layer, Snake):
            # upstream keeps a ParameterList: [1, C, 1] under the bare name of the entry
            tensors = {"": layer.alpha.detach().squeeze(-1)}
        elif hasattr(layer, "upstream_shape"):
            weight = tensors["weight"] = tensors["weight"].reshape(layer.upstream_shape())
            if isinstance(layer, StyleAffine):
                gain, shift = tensors["bias"].chunk(2)
                tensors["bias"] = torch.cat([gain - 1, shift])
            if layer.weight_norm:
                norm = weight.flatten(1).norm(dim=1).view(-1, 1, 1)
                tensors |= {"weight_g": norm, "weight_v": tensors.pop("weight")}
        state |= {f"{path}.{name}".strip("."): value.clone() for name, value in tensors.items()}
    return state


def random_vocoder(config, seed):
    """Random weights with lively alphas and a modest output level."""
    torch.manual_seed(seed)
    vocoder = Vocoder(config)
    with torch.no_grad():
        for name, parameter in vocoder.named_parameters():
            if name.endswith("alpha"):
                parameter.uniform_(0.05, 2.0)
        vocoder.generator.conv_post.weight.mul_(0.5)
    return vocoder.eval()


@torch.no_grad()
def enliven_encoder(parts):
    """Random weights of bert, bert_encoder and predictor (upstream's or ours) that say something:
    symbols differ, F0 is about 180 Hz.
    """
    for name, parameter in parts.named_parameters():
        if name.endswith(("weight_g", "gamma", "LayerNorm.weight", "layer_norm.weight")):
            parameter.mul_(torch.empty_like(parameter).uniform_(0.5, 1.5))
        elif name.endswith(("beta", "LayerNorm.bias")):
            parameter.uniform_(-0.5, 0.5)
        elif "attention.dense.weight" in name:
            parameter.mul_(0.3)  # else twelve random layers make all symbols alike
        elif "bert" in name and name.endswith("weight") and parameter.dim() == 2:
            parameter.mul_(6.0 if name.startswith("bert_encoder") else 2.0)
        elif "weight_ih" in name:
            parameter.mul_(1.5)
    parts.predictor.F0_proj.weight.mul_(200.0)
    parts.predictor.F0_proj.bias.fill_(180.0)


def encoder_states(config, seed):
    """Random state dicts of the encoder's four parts, under upstream's keys."""
    torch.manual_seed(seed)
    encoder = Encoder(config)
    enliven_encoder(encoder)
    projection = encoder.predictor.duration_proj.linear_layer
    with torch.no_grad():
        projection.weight.mul_(8.0)
        # the first frames are likely, the last are rare
        projection.bias.copy_(torch.linspace(2.0, -18.0, config.max_dur))
    return {name: upstream_state(getattr(encoder, name)) for name in PARTS}


def write_checkpoint(folder, config, seed=0, encoder=False):
    """config.json, random.pth and voices/ in `folder`, as hexgrad's repository lays them out;
    `encoder=True` adds the other parts.
    """
    (folder / "voices").mkdir(parents=True, exist_ok=True)
    parsed = KokoroConfig.from_dict(config, "test")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    parts = {"decoder": random_vocoder(parsed, seed), "text_encoder": TextEncoder(parsed)}
    states = {name: upstream_state(part) for name, part in parts.items()} | (
        encoder_states(parsed, seed) if encoder else {}
    )
    state = {
        name: {f"module.{key}": value for key, value in part.items()}
        for name, part in states.items()
    }
    torch.save(state, folder / WEIGHTS)
    for name in VOICES:
        torch.save(
            torch.randn(VOICE_SHAPE) * (0.25 if encoder else 1.0), folder / "voices" / f"{name}.pt"
        )
    return folder
