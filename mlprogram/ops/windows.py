"""Padding arithmetic that convolutions and pooling share.

    amounts(pad_type="same", pad=None, size=(10,), kernel=(3,), strides=(2,))  # [(0, 1)]

Source: coremltools 9.0, mil/ops/defs/_utils.py (aggregated_pad, spatial_dimensions_out_shape).
"""

from __future__ import annotations

from collections.abc import Sequence

from mlprogram.errors import ProgramError


def amounts(
    pad_type: str, pad: Sequence[int] | None, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """(before, after) for every spatial axis; `kernel` is the effective one, dilation included.

    `same` puts the odd element after, `same_lower` before. Raises ProgramError for another pad type than valid, custom, same, same_lower.
    """
    if pad_type == "valid":
        return [(0, 0)] * len(size)
    if pad_type == "custom":
        pad = pad or [0] * 2 * len(size)
        return [(pad[2 * i], pad[2 * i + 1]) for i in range(len(size))]
    if pad_type not in ("same", "same_lower"):
        raise ProgramError(f"pad type '{pad_type}' is unknown; one of valid, custom, same, same_lower")
    totals = [max(0, s * -(-n // s) - n + k - s) for n, k, s in zip(size, kernel, strides, strict=True)]
    if pad_type == "same":
        return [(t // 2, t - t // 2) for t in totals]
    return [(t - t // 2, t // 2) for t in totals]


def flat(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The pairs in the order torch.nn.functional.pad wants: last axis first."""
    return [n for pair in reversed(pairs) for n in pair]
