"""Whether each channel of a compressed package is its parent's: the weights as they are decoded,
compared with those that they were made from.

    parent, package = (Path(f"KokoroVocoder-{level}.mlpackage") for level in ("fp16", "w8"))
    # () where every channel is right
    find_wrong_scales(read_layer_pairs(parent, package), balanced=False)
    find_wrong_scales(level.list_pairs(vocoder))

A wrong scale is an error along the channel's own weights, rounding one in all directions, so the
two are told apart without a listener. What balancing moves is taken out or left out: factors of
input channels, and affines, whose rows it divides (quantize/balance.py).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from kokoro_ane.quantize import Pair
from mlprogram import open_program

# of the error along over that across: 2.4 at most in eleven built levels, where 4 is 4 % of scale
# in w8 and a third in p4
MOST = 4.0
# of a layer's usual channel: weights that lie on the table's own values have no error across
LEAST = 0.01
# what the converter adds to the names of weights in float and of unpacked ones
IN_FLOAT, UNPACKED = "_to_fp16", "_cast_fp16"
AFFINE, TRANSPOSED = "_fc_", "conv_transpose"


def find_wrong_scales(pairs: Iterable[Pair], balanced: bool = False) -> tuple[str, ...]:
    """One line for each layer with channels of another scale than its parent's. `balanced`: whether
    the channels of the compressed ones alone are balanced.
    """
    problems = []
    for name, before, after in pairs:
        if balanced and AFFINE in name:
            continue
        excess = scale_errors(before, after, balanced)
        # [channels] far along the channel's own weights, compared with the error across them
        wrong = np.flatnonzero(excess > MOST)
        if len(wrong):
            problems.append(
                f"{name}: {len(wrong)} of {len(excess)} channels have another scale than the"
                f" parent's, the first is {wrong[0]}"
            )
    return tuple(problems)


def scale_errors(before: np.ndarray, after: np.ndarray, balanced: bool = False) -> np.ndarray:
    """Weights [O, I, ...] of the parent and of the package -> [O]: |gain - 1| times the channel's
    norm, over its error across its weights, or over the layer's median of that, or over a hundredth
    of its median norm, whichever is largest.
    """
    # [O, I, taps]
    old, new = (
        np.asarray(weights, np.float64).reshape(*weights.shape[:2], -1)
        for weights in (before, after)
    )
    if balanced:
        # Each input channel has a factor of its own: the median over outputs, which a few wrong
        # scales do not move.
        ratios = (old * new).sum(axis=2) / np.maximum(np.square(old).sum(axis=2), 1e-30)
        old = old * np.median(ratios, axis=0)[:, None]
    old, new = (weights.reshape(len(weights), -1) for weights in (old, new))  # [O, I taps]
    norms = np.linalg.norm(old, axis=1)
    # the least-squares factor from a channel's old weights to its new ones [O]
    gains = (old * new).sum(axis=1) / np.maximum(np.square(norms), 1e-30)
    across = np.linalg.norm(new - gains[:, None] * old, axis=1)
    # A channel whose weights lie on the table's values has hardly any error across them: it is
    # measured by the layer's usual one.
    usual = max(np.median(across), LEAST * np.median(norms), 1e-30)
    return np.abs(gains - 1) * norms / np.maximum(across, usual)


def read_layer_pairs(parent_path: Path, package_path: Path) -> Iterator[Pair]:
    """Name and weights [O, I, ...] of every compressed layer, the parent's first; one that was
    converted to another form is left out.
    """
    parent, package = open_program(parent_path), open_program(package_path)
    # Names of the weights whose axis 0 is inputs: of transposed convolutions.
    transposed = {
        op.inputs["weight"][0] for op in package.function.body.walk() if op.op_type == TRANSPOSED
    }
    for stored in package.storage.weights:
        name = f"{stored.removesuffix(UNPACKED)}{IN_FLOAT}"
        if not stored.endswith(UNPACKED) or name not in parent.storage.weights:
            continue
        before, after = parent.plan.constants[name].value, package.plan.constants[stored].value
        if before.ndim == 4:
            # A convolution whose taps became outputs (vocoder/scaled_conv.py): [O taps, I, 1, 1].
            outputs, inputs, _, taps = before.shape
            if after.shape == (outputs * taps, inputs, 1, 1):
                before = before.transpose(0, 3, 1, 2).reshape(after.shape)
        if before.shape == after.shape:
            if stored in transposed:
                before, after = before.swapaxes(0, 1), after.swapaxes(0, 1)
            yield name, before, after
