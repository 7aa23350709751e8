"""Networks that people convert, with random weights of a seed: what bench.models executes beside PyTorch.

    case = NETWORKS["BERT-base"].make(tiny=False)
    case.module(*case.calls[0].values())

ResNet, MobileNet, ViT, BERT and Whisper are transformers' own modules in their published sizes; LSTM and GRU are torch.nn's; the cache
transformer is written here. `tiny` keeps the architecture and shrinks widths and depths, for tests. A case is one module and the calls it
is given: inputs by name in the order of `forward`, with the axes that are ranges in the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """A module, the calls it gets one after the other, ranged axes {input: {axis: (least, most)}}, and its states."""

    module: nn.Module
    calls: tuple[dict[str, Tensor], ...]
    outputs: tuple[str, ...] = ("y",)
    ranges: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    states: tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """Where the module comes from, and how to make it."""

    origin: str
    make: Callable[[bool], Case]


class Called(nn.Module):
    """A module with a `forward` of tensors in, tensors out."""

    def __init__(self, module: nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self._call = module, forward

    def forward(self, *inputs: Tensor) -> Any:
        return self._call(self.module, *inputs)


def _first(module: nn.Module, *inputs: Tensor) -> Tensor:
    return module(*inputs, return_dict=False)[0]


def _image(module: nn.Module, size: int) -> Case:
    return Case(Called(module, _first), ({"x": torch.randn(1, 3, size, size)},))


def resnet(tiny: bool) -> Case:
    """ResNet-50, 224 x 224."""
    from transformers import ResNetConfig, ResNetForImageClassification

    small = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 5} if tiny else {"num_labels": 1000}
    return _image(ResNetForImageClassification(ResNetConfig(**small)), 32 if tiny else 224)


def mobilenet(tiny: bool) -> Case:
    """MobileNet V2 1.0, 224 x 224."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    small = {"depth_multiplier": 0.25, "num_labels": 5} if tiny else {"num_labels": 1000}
    module = MobileNetV2ForImageClassification(MobileNetV2Config(**small))
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):  # its own initial weights make every layer quieter, down to values that fp16 does not have
            nn.init.kaiming_normal_(layer.weight)
    return _image(module, 32 if tiny else 224)


_TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def vit(tiny: bool) -> Case:
    """ViT-B/16, 224 x 224."""
    from transformers import ViTConfig, ViTForImageClassification

    small = {"image_size": 32, "num_labels": 5, **_TINY} if tiny else {"num_labels": 1000}
    return _image(ViTForImageClassification(ViTConfig(attn_implementation="eager", **small)), 32 if tiny else 224)


def bert(tiny: bool) -> Case:
    """BERT-base, 128 tokens of which 100 are seen; the mask is the additive one, [1, 1, 1, tokens]."""
    from transformers import BertConfig, BertModel

    config = BertConfig(attn_implementation="eager", **({"vocab_size": 50, **_TINY} if tiny else {}))
    tokens = 8 if tiny else 128
    mask = torch.zeros(1, 1, 1, tokens)
    mask[..., tokens * 100 // 128 :] = -1e4

    def forward(module: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
        return module(ids.long(), attention_mask=mask, return_dict=False)[0]

    ids = torch.randint(0, config.vocab_size, (1, tokens), dtype=torch.int32)
    return Case(Called(BertModel(config), forward), ({"ids": ids, "mask": mask},))


def _whisper(tiny: bool) -> Any:
    from transformers import WhisperConfig

    small = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    small |= {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_source_positions": 10, "vocab_size": 50, "pad_token_id": 0}
    return WhisperConfig(attn_implementation="eager", **(small if tiny else {}))


def whisper_encoder(tiny: bool) -> Case:
    """Whisper-tiny's encoder over 30 s: features [1, 80, 3000]."""
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = _whisper(tiny)
    return Case(Called(WhisperEncoder(config), _first), ({"x": torch.randn(1, 80, 2 * config.max_source_positions)},))


class WhisperStep(nn.Module):
    """One token of Whisper's decoder: caches [layers, 1, heads, length, size] in, the same with one more column out."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        from transformers.models.whisper.modeling_whisper import WhisperDecoder

        self.decoder, self.layers, self.width = WhisperDecoder(config), config.decoder_layers, config.d_model

    def forward(self, token: Tensor, position: Tensor, mask: Tensor, k: Tensor, v: Tensor, cross_k: Tensor, cross_v: Tensor) -> tuple:
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache

        own, cross = DynamicCache(), DynamicCache()
        for i in range(self.layers):
            own.update(k[i], v[i], i)
            cross.update(cross_k[i], cross_v[i], i)
        y = self.decoder(
            input_ids=token.long(),
            position_ids=position.long(),
            attention_mask=mask,
            encoder_hidden_states=k.new_zeros(1, 1, self.width),  # the cross cache holds what is read of them
            past_key_values=EncoderDecoderCache(own, cross),
            use_cache=True,
        )
        layers = y.past_key_values.self_attention_cache.layers
        return y.last_hidden_state, torch.stack([layer.keys for layer in layers]), torch.stack([layer.values for layer in layers])


def whisper_step(tiny: bool) -> Case:
    """Whisper-tiny's decoder, one token, with caches of three lengths inside the range."""
    config = _whisper(tiny)
    heads, size = config.decoder_attention_heads, config.d_model // config.decoder_attention_heads
    shape = (config.decoder_layers, 1, heads)
    cross = {f"cross_{n}": torch.randn(*shape, config.max_source_positions, size) for n in "kv"}
    calls = []
    for length in (3, 20, 400):
        cache = {n: torch.randn(*shape, length, size) for n in "kv"}
        place = torch.tensor([[length]], dtype=torch.int32)
        calls.append({"token": place % 50, "position": place, "mask": torch.zeros(1, 1, 1, length + 1), **cache, **cross})
    ranges = {"mask": {3: (2, 448)}, "k": {3: (1, 447)}, "v": {3: (1, 447)}}
    return Case(WhisperStep(config), tuple(calls), ("y", "k_out", "v_out"), ranges)


class Lstm(nn.Module):
    """A bidirectional LSTM, [batch, steps, features]."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, bidirectional=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


class Gru(nn.Module):
    """A GRU; coremltools writes it as a loop."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(features, hidden, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


def gated_walk(x: Tensor, steps: int, w: Tensor, u: Tensor, w_new: Tensor, u_new: Tensor) -> Tensor:
    """The sum of the states [batch, features] of a minimal gated unit over x [steps, batch, features], one step after the other."""
    h = torch.zeros_like(x[0])
    total = torch.zeros_like(x[0])
    for t in range(steps):
        forget = torch.sigmoid(nn.functional.linear(x[t], w) + nn.functional.linear(h, u))
        fresh = torch.tanh(nn.functional.linear(x[t], w_new) + forget * nn.functional.linear(h, u_new))
        h = h + forget * (fresh - h)
        total = total + h
    return total


class GatedLoop(nn.Module):
    """A recurrent cell that no layer of Core ML computes: a while_loop. PyTorch runs the same loop in Python."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(hidden, features) * features**-0.5 for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        walk = torch.jit.script(gated_walk) if torch.jit.is_tracing() else gated_walk
        return walk(x.transpose(0, 1), int(x.shape[1]), *self.weights)


def _recurrent(make: Callable[[int, int], nn.Module], steps: int, width: int) -> Callable[[bool], Case]:
    def build(tiny: bool) -> Case:
        features, count = (6, 9) if tiny else (width, steps)
        return Case(make(features, features), ({"x": torch.randn(1, count, features)},))

    return build


class CacheBlock(nn.Module):
    """Attention over the cache and a feed-forward layer, norms first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split(self, x: Tensor) -> list[Tensor]:
        rows = self.qkv(self.norm1(x)).reshape(1, -1, 3, self.heads, x.shape[-1] // self.heads)
        return list(rows.permute(2, 0, 3, 1, 4))  # three of [1, heads, tokens, size]

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5 + mask
        seen = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2)  # [1, tokens, heads, size]
        x = x + self.out(seen.reshape(1, -1, x.shape[-1]))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class CacheTransformer(nn.Module):
    """Decoder with its keys and values as states [layers, heads, most, size]; the mask [1, 1, tokens, end] says where to write."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, most: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(most, width)
        self.blocks, self.last = nn.ModuleList(CacheBlock(width, heads) for _ in range(layers)), nn.LayerNorm(width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(layers, heads, most, width // heads))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        end = mask.shape[-1]
        begin = end - ids.shape[-1]
        x = self.tokens(ids) + self.places(torch.arange(0, end)[begin:end])
        for i, block in enumerate(self.blocks):
            q, k, v = block.split(x)
            self.keys[i : i + 1, :, begin:end, :] = k.half().to(k.dtype)  # Core ML's states are fp16
            self.values[i : i + 1, :, begin:end, :] = v.half().to(v.dtype)
            x = block(x, q, self.keys[i : i + 1, :, :end, :], self.values[i : i + 1, :, :end, :], mask)
        return self.last(x)


def cache_transformer(tiny: bool) -> Case:
    """A prompt, then eight tokens one by one."""
    vocabulary, width, heads, layers, most, prompt = (50, 16, 2, 2, 24, 5) if tiny else (8000, 512, 8, 6, 256, 64)
    ids = torch.randint(0, vocabulary, (1, prompt + 8), dtype=torch.int32)
    calls = [{"ids": ids[:, :prompt], "mask": torch.full((prompt, prompt), -1e4).triu(1)[None, None]}]  # [1, 1, prompt, prompt]
    calls += [{"ids": ids[:, i : i + 1], "mask": torch.zeros(1, 1, 1, i + 1)} for i in range(prompt, prompt + 8)]
    ranges = {"ids": {1: (1, prompt)}, "mask": {2: (1, prompt), 3: (1, most)}}
    return Case(CacheTransformer(vocabulary, width, heads, layers, most), tuple(calls), ranges=ranges, states=("keys", "values"))


NETWORKS: Mapping[str, Network] = {
    "ResNet-50": Network("transformers", resnet),
    "MobileNet V2": Network("transformers", mobilenet),
    "ViT-B/16": Network("transformers", vit),
    "BERT-base": Network("transformers", bert),
    "Whisper-tiny encoder": Network("transformers", whisper_encoder),
    "Whisper-tiny decoder step": Network("transformers", whisper_step),
    "BiLSTM 256, 200 steps": Network("torch.nn", _recurrent(Lstm, 200, 256)),
    "GRU 256, 200 steps": Network("torch.nn", _recurrent(Gru, 200, 256)),
    "GRU 32, 100 steps": Network("torch.nn", _recurrent(Gru, 100, 32)),
    "loop 256, 200 steps": Network("bench.networks", _recurrent(GatedLoop, 200, 256)),
    "loop 32, 100 steps": Network("bench.networks", _recurrent(GatedLoop, 100, 32)),
    "KV cache, states, ranged": Network("bench.networks", cache_transformer),
}
