"""Lists, random numbers, classifier outputs, box suppression.

    MISC["random_normal"].run(shape=[2, 3], generator=torch.Generator().manual_seed(0))

Definitions: coremltools 9.0, mil/ops/defs/iOS15/tensor_operation.py, random.py, control_flow.py,
classify.py. A list is a Python list of tensors and never changed in place. Random operations draw
from the caller's generator and ignore `seed`: Core ML's own stream is not published.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from mlprogram.dtypes import BY_NAME
from mlprogram.ops.kernel import Scalars, kernel


def make_list(
    elem_shape: Scalars, init_length: int = 1, dynamic_length: bool = True, dtype: str = "fp32"
) -> list[Tensor]:
    """A list of zeros; a dimension named by a string is open and starts at 1."""
    sizes = (
        # The shape comes as one vector or as several scalars.
        elem_shape[0] if len(elem_shape) == 1 and isinstance(elem_shape[0], list) else elem_shape
    )
    shape = [n if isinstance(n, int) else 1 for n in sizes]
    return [torch.zeros(shape, dtype=BY_NAME[dtype].torch) for _ in range(init_length)]


def list_length(ls: Tensor) -> Tensor:
    """Number of elements."""
    return torch.tensor(len(ls), dtype=torch.int32)


def list_read(ls: Tensor, index: int) -> Tensor:
    """The element at `index`."""
    return ls[index]


def list_write(ls: Tensor, index: int, value: Tensor) -> list[Tensor]:
    """The list with `value` at `index`, grown with zeros if it is too short."""
    # A new list: the old one may still be read by another step.
    grown = list(ls) + [torch.zeros_like(value) for _ in range(index + 1 - len(ls))]
    grown[index] = value
    return grown


def list_gather(ls: Tensor, indices: list[int]) -> Tensor:
    """Elements at `indices`, stacked along a new first axis."""
    return torch.stack([ls[i] for i in indices])


def list_scatter(ls: Tensor, indices: list[int], value: Tensor) -> list[Tensor]:
    """The list with value[k] at indices[k]."""
    written: Any = ls  # a list of tensors, as every list value is at run time
    for index, row in zip(indices, value, strict=True):
        written = list_write(written, index, row)
    return written


def random_bernoulli(
    shape: list[int], generator: torch.Generator, prob: float = 0.5, seed: int = -1
) -> Tensor:
    """1 with probability `prob`, else 0."""
    return (torch.rand(shape, generator=generator) < prob).float()


def random_categorical(
    x: Tensor, generator: torch.Generator, mode: str = "logits", size: int = 1, seed: int = -1
) -> Tensor:
    """`size` classes for each row of x [N, classes], drawn by its logits or probabilities: [N,
    size].
    """
    # multinomial takes weights that do not add up to 1, so `probs` go in as they are.
    weights = torch.softmax(x, -1) if mode == "logits" else x
    return torch.multinomial(weights, size, replacement=True, generator=generator)


def random_normal(
    shape: list[int],
    generator: torch.Generator,
    mean: float = 0.0,
    stddev: float = 1.0,
    seed: int = -1,
) -> Tensor:
    """Normal numbers."""
    return torch.randn(shape, generator=generator) * stddev + mean


def random_uniform(
    shape: list[int],
    generator: torch.Generator,
    low: float = 0.0,
    high: float = 1.0,
    seed: int = -1,
) -> Tensor:
    """Uniform numbers in [low, high)."""
    return torch.rand(shape, generator=generator) * (high - low) + low


def classify(probabilities: Tensor, classes: list) -> tuple[Any, dict]:
    """(the class of the largest probability, a text or an integer tensor, and {class:
    probability}).
    """
    values = probabilities.flatten().tolist()
    flat = classes if isinstance(classes, list) else [classes]
    names = [str(c) if isinstance(c, str) else int(c) for c in flat]
    # Of equal probabilities the first class wins.
    best = names[max(range(len(values)), key=values.__getitem__)]
    return best if isinstance(best, str) else torch.tensor(best), dict(
        zip(names, values, strict=True)
    )


def non_maximum_suppression(
    boxes: Tensor,
    scores: Tensor,
    iou_threshold: float,
    max_boxes: int,
    score_threshold: float | None = None,
    per_class_suppression: bool = False,
) -> tuple[Tensor, ...]:
    """Boxes in descending order of score without those that overlap a better one by more than
    `iou_threshold`.

    Before iOS 17 (with score_threshold): boxes [N, B, 4], scores [N, B, K] -> boxes, scores,
    indices [N, max], counts [N]. From iOS 17: boxes [N, 4, B], scores [N, K, B] and no counts. What
    is missing is padded with zeros, indices with -1.
    """
    old = score_threshold is not None
    # [N, B, 4] and [N, B, K], whichever way the file has them
    rows, marks = (boxes, scores) if old else (boxes.mT, scores.mT)
    by_image = [
        _select_boxes(b, s, iou_threshold, score_threshold, max_boxes, per_class_suppression)
        for b, s in zip(rows, marks, strict=True)
    ]
    # [N, max] with -1 where no box is left
    places = torch.full((len(by_image), max_boxes), -1)
    for i, survivors in enumerate(by_image):
        places[i, : len(survivors)] = torch.tensor(survivors, dtype=torch.long)
    real = (places >= 0).unsqueeze(-1)
    # -1 reads box 0 in its place, and the factor `real` turns that into zeros.
    picked = [
        torch.take_along_dim(t, places.clamp(min=0).unsqueeze(-1), 1) * real for t in (rows, marks)
    ]
    if old:
        return (*picked, places, torch.tensor([len(k) for k in by_image]))
    return (picked[0].mT, picked[1].mT, places)


def _select_boxes(
    boxes: Tensor, scores: Tensor, limit: float, least: float | None, count: int, per_class: bool
) -> list[int]:
    best, kind = scores.max(-1)
    survivors: list[int] = []
    # From the best score down, so that a box is only held against better ones.
    for i in torch.sort(best, descending=True, stable=True)[1].tolist():
        # Scores only fall from here on, so the first one too low ends the search.
        if len(survivors) == count or (least is not None and best[i] < least):
            break
        # Suppression by class lets boxes of different kinds overlap.
        rivals = [k for k in survivors if not per_class or kind[k] == kind[i]]
        if all(_compute_overlap(boxes[i], boxes[k]) <= limit for k in rivals):
            survivors.append(i)
    return survivors


def _compute_overlap(a: Tensor, b: Tensor) -> float:
    """Intersection over union of two boxes (x, y, width, height), (x, y) the centre."""
    low, high = (
        torch.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2),
        torch.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2),
    )
    # Boxes apart have a negative side, and no area in common.
    shared = (high - low).clamp(min=0).prod()
    return float(shared / (a[2:].prod() + b[2:].prod() - shared))


MISC = MappingProxyType(
    {
        "classify": kernel(classify),
        "list_gather": kernel(list_gather, half=True),
        "list_length": kernel(list_length, half=True),
        "list_read": kernel(list_read, half=True),
        "list_scatter": kernel(list_scatter, half=True),
        "list_write": kernel(list_write, half=True),
        "make_list": kernel(make_list),
        "non_maximum_suppression": kernel(non_maximum_suppression),
        "random_bernoulli": kernel(random_bernoulli),
        "random_categorical": kernel(random_categorical),
        "random_normal": kernel(random_normal),
        "random_uniform": kernel(random_uniform),
    }
)
