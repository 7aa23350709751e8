"""Durations that float32 itself leaves open: tokens whose exact value lies nearer to a half than float32 can tell.

    exact = raw_durations(upstream.double(), ids, style, speed)
    rounding(exact, upstream_in_float32, ours)["changed_decided"]      # 0, or somebody is wrong

A duration is round(raw). Where raw is close to a half, two correct float32 programs may part, upstream's on another machine too. Rule:
float32's own error is the largest distance between upstream's raw durations in float32 and in float64 in this run; a token is undecided
where its float64 value is that near to a half or nearer. All others are decided, and must be equal. At most UNDECIDED_LIMIT of the tokens
may be undecided, so that the rule cannot excuse a coarse program.
"""

from typing import Any

import torch
from torch import Tensor

UNDECIDED_LIMIT = 1e-3


@torch.no_grad()
def raw_durations(model: torch.nn.Module, ids: tuple[int, ...], style: Tensor, speed: float) -> Tensor:
    """Upstream's frames a token before rounding [n] in the model's dtype: KModel.forward_with_tokens (kokoro 0.9.4) up to there.

    ids with boundary tokens; style [1, 256].
    """
    dtype, tokens = next(model.parameters()).dtype, torch.tensor([ids])  # [1, n]
    prosody, outside = style[:, 128:].to(dtype), torch.zeros_like(tokens, dtype=torch.bool)
    d_en = model.bert_encoder(model.bert(tokens, attention_mask=(~outside).int())).transpose(1, 2)  # [1, C, n]
    predictor = model.predictor
    d = predictor.text_encoder(d_en, prosody, torch.tensor([len(ids)]), outside)  # [1, n, C + S]
    return torch.sigmoid(predictor.duration_proj(predictor.lstm(d)[0])).sum(dim=2)[0] / speed


def frames_of(raw: Tensor) -> Tensor:
    """Rounded as upstream does: half to even, at least 1."""
    return raw.round().clamp(min=1)


def rounding(exact: Tensor, theirs: Tensor, ours: Tensor) -> dict[str, Any]:
    """Counts over tokens [n]: exact is upstream in float64, theirs upstream in float32, ours who is compared.

    `open` lists the undecided tokens: index, float64's distance above a half, and what theirs and ours have there.
    """
    exact, theirs, ours = (raw.double() for raw in (exact, theirs, ours))
    half = exact.clamp(min=1).floor() + 0.5  # below 1 nothing turns: a token lasts at least one frame
    own_error = float((theirs - exact).abs().max())
    undecided = (exact - half).abs() <= own_error
    wrong = frames_of(ours) != frames_of(exact)
    indices = undecided.nonzero().flatten().tolist()
    return {
        "float32_error": own_error,
        "our_error": float((ours - exact).abs().max()),
        "undecided": len(indices),
        "changed_decided": int((wrong & ~undecided).sum()),
        "changed_undecided": int((wrong & undecided).sum()),
        "upstream_changed": int((frames_of(theirs) != frames_of(exact)).sum()),
        "open": [[i, *(float(raw[i] - half[i]) for raw in (exact, theirs, ours))] for i in indices],
    }


def acceptable(counts: dict[str, Any], tokens: int) -> bool:
    """Every decided token equal, and few enough undecided."""
    return counts["changed_decided"] == 0 and counts["undecided"] <= max(1.0, UNDECIDED_LIMIT * tokens)
