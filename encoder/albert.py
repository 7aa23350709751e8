"""ALBERT as Kokoro uses it: one transformer layer applied twelve times to symbols and positions.
Upstream's keys, no transformers.

    hidden = Albert(config.plbert, config.n_token)(input_ids, inside)   # [1, T, 768]

One utterance at a time, so every reshape has a single -1. Source of the architecture: Lan et al.,
arXiv 1909.11942; keys: transformers.AlbertModel. The pooler and the token types past the first are
in the checkpoint and never reach the output.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import Modules, PlbertConfig

# AlbertConfig's defaults, which upstream does not change
EMBEDDING_SIZE, TOKEN_TYPES, NORM_EPSILON = 128, 2, 1e-12
# Taken off the score of a padded key: its weight is then exactly 0 in fp16 and fp32. Finite, since
# the engine is reported not to handle -inf in a soft maximum (apple/coreai-models,
# neural_engine_rules.md, seen in September 2026).
EXCLUDED = 1e4


class Embeddings(nn.Module):
    """Symbol, position and the one token type, summed and normalized."""

    def __init__(self, config: PlbertConfig, symbols: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(symbols, EMBEDDING_SIZE)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, EMBEDDING_SIZE)
        self.token_type_embeddings = nn.Embedding(TOKEN_TYPES, EMBEDDING_SIZE)
        self.LayerNorm = nn.LayerNorm(EMBEDDING_SIZE, eps=NORM_EPSILON)

    def forward(self, input_ids: Tensor, inside: Tensor) -> Tensor:
        """input_ids [1, T], inside [1, T, 1] -> [1, T, 128]. Positions are a running sum of the
        mask: an arange would need a shape operation.
        """
        # [1, T]: 0 .. n - 1, then n - 1 in the padding
        positions = (torch.cumsum(inside.squeeze(2), dim=1) - 1).to(input_ids.dtype)
        both = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        # Every token is of the first type.
        return self.LayerNorm(both + self.token_type_embeddings.weight[0])

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        state.pop(prefix + "position_ids", None)  # 0 .. 511, which older transformers stored
        super()._load_from_state_dict(state, prefix, *rest)


class SelfAttention(nn.Module):
    """Self-attention over the unpadded keys, with its residual and norm."""

    def __init__(self, config: PlbertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.head_size = width // self.heads
        self.query, self.key, self.value, self.dense = (nn.Linear(width, width) for _ in range(4))
        self.LayerNorm = nn.LayerNorm(width, eps=NORM_EPSILON)

    def forward(self, x: Tensor, excluded: Tensor) -> Tensor:
        """x [1, T, width], excluded [1, 1, 1, T] (0, or -EXCLUDED in the padding) -> [1, T,
        width].
        """
        query, key, value = (
            self._split_heads(layer(x)) for layer in (self.query, self.key, self.value)
        )
        # [1, heads, T, T]
        scores = (query / math.sqrt(self.head_size)) @ key.transpose(2, 3) + excluded
        mixed = (torch.softmax(scores, dim=-1) @ value).transpose(1, 2)  # [1, T, heads, head_size]
        return self.LayerNorm(x + self.dense(mixed.reshape(1, -1, self.heads * self.head_size)))

    def _split_heads(self, x: Tensor) -> Tensor:
        # [1, heads, T, head_size]
        return x.reshape(1, -1, self.heads, self.head_size).transpose(1, 2)


class AlbertLayer(nn.Module):
    """Attention, then two linear layers with tanh-approximated GELU, each with residual and
    norm.
    """

    def __init__(self, config: PlbertConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.ffn = nn.Linear(config.hidden_size, config.intermediate_size)
        self.ffn_output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.full_layer_layer_norm = nn.LayerNorm(config.hidden_size, eps=NORM_EPSILON)

    def forward(self, x: Tensor, excluded: Tensor) -> Tensor:
        """[1, T, width] -> [1, T, width]."""
        x = self.attention(x, excluded)
        return self.full_layer_layer_norm(
            self.ffn_output(F.gelu(self.ffn(x), approximate="tanh")) + x
        )


class LayerGroup(nn.Module):
    """Upstream's key `albert_layer_groups.0.albert_layers.0`."""

    def __init__(self, config: PlbertConfig) -> None:
        super().__init__()
        self.albert_layers = Modules([AlbertLayer(config)])


class Transformer(nn.Module):
    """Widen the embedding, then apply the one layer `repeats` times."""

    def __init__(self, config: PlbertConfig) -> None:
        super().__init__()
        self.embedding_hidden_mapping_in = nn.Linear(EMBEDDING_SIZE, config.hidden_size)
        self.albert_layer_groups = Modules([LayerGroup(config)])
        self.repeats = config.num_hidden_layers

    def forward(self, x: Tensor, excluded: Tensor) -> Tensor:
        """[1, T, 128] -> [1, T, width]."""
        # [1, T, width]
        x = self.embedding_hidden_mapping_in(x)
        for _ in range(self.repeats):
            x = self.albert_layer_groups[0].albert_layers[0](x, excluded)
        return x


class Albert(nn.Module):
    """Responsibilities: 1. embed the symbols; 2. mix them. The padding has no influence on the
    result inside, and its own result means nothing.
    """

    def __init__(self, config: PlbertConfig, symbols: int) -> None:
        super().__init__()
        self.embeddings = Embeddings(config, symbols)
        self.encoder = Transformer(config)
        # in the checkpoint, never read
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, input_ids: Tensor, inside: Tensor) -> Tensor:
        """input_ids [1, T] (any valid id in the padding), inside [1, T, 1] -> [1, T, width]."""
        # 0 inside and -EXCLUDED in the padding, alike for every head and query
        excluded = ((inside - 1) * EXCLUDED).transpose(1, 2).unsqueeze(1)  # [1, 1, 1, T]
        return self.encoder(self.embeddings(input_ids, inside), excluded)
