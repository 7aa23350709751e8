"""Put a scale that follows time before convolutions: a smooth one where kernels reach a quarter of a frame at most (42 of the generator's
blocks), every column its own in the decoder's blocks.

    copy = following(balanced, envelope_caps(balanced, clips))

A smooth envelope's cap is what one value in 100,000 exceeds, largest over the clips: single peaks are cut as a fixed range cuts them.
"""

import copy
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from torch import Tensor, nn

from core.blocks import AdainResBlk1d
from core.contract import PROSODY_PER_FRAME
from core.layers import Conv
from core.modules import replace_module
from quantize.equalize import watched
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs
from vocoder.prepared import RANGE, Envelope, PreparedConv, TappedConv

CAP_BEYOND = 1e-5
REACH_FRAMES = 0.25  # where a kernel reaches further, the envelope's ripple is louder than the codes' noise (docs/quantization.md)


def followed(vocoder: Vocoder) -> Mapping[str, int]:
    """Columns a frame of each convolution of the generator's residual blocks with so short a reach, by path: the first stage's first."""
    generator, chosen = vocoder.generator, {}
    for stage in range(len(generator.ups)):
        columns = PROSODY_PER_FRAME * math.prod(generator.rates[: stage + 1])
        first = stage * generator.blocks_per_stage
        roots = (f"generator.noise_res.{stage}.", *(f"generator.resblocks.{first + block}." for block in range(generator.blocks_per_stage)))
        for path, module in vocoder.named_modules():
            if isinstance(module, Conv) and path.startswith(roots) and reach(module) <= REACH_FRAMES * columns:
                chosen[path] = columns
    return MappingProxyType(chosen)


def tapped(vocoder: Vocoder) -> tuple[str, ...]:
    """Convolutions of the decoder's blocks: a column is half a frame at least, so that kernels of three reach too far for an envelope."""
    blocks = {path: module for path, module in vocoder.named_modules() if isinstance(module, AdainResBlk1d)}
    names = (f"{path}.{name}" for path in blocks for name in ("conv1", "conv2", "conv1x1"))
    return tuple(path for path in names if isinstance(vocoder.get_submodule(path), Conv))


def reach(conv: Conv) -> int:
    """Columns that the kernel looks at on either side."""
    return int(conv.dilation[1] * (conv.kernel_size[1] - 1) // 2)


def envelope_caps(vocoder: Vocoder, clips: Iterable[VocoderInputs], columns: bool = True) -> dict[str, float]:
    """What hardly a value exceeds, by path of what can be followed: how far a smooth envelope may rise, RANGE times how far any falls.
    `columns`: the decoder's too."""
    caps = dict.fromkeys((*followed(vocoder), *(tapped(vocoder) if columns else ())), 0.0)

    def note(path: str, _: nn.Module, given: tuple[Tensor, ...]) -> None:
        if path in caps:
            caps[path] = max(caps[path], exceeded(given[0], CAP_BEYOND))

    watched(vocoder, clips, note)
    return caps


def following(vocoder: Vocoder, caps: Mapping[str, float]) -> Vocoder:
    """A copy in which the convolutions that `caps` names divide their input by an envelope; the same but for its ripple."""
    prepared, columns = copy.deepcopy(vocoder), followed(vocoder)
    for path, cap in caps.items():
        conv = prepared.get_submodule(path)
        assert isinstance(conv, Conv), path
        smooth = path in columns
        ready = PreparedConv(conv, envelope=Envelope(columns[path], cap)) if smooth else TappedConv(conv, floor=cap / RANGE)
        replace_module(prepared, path, ready)
    return prepared.eval()


def exceeded(x: Tensor, beyond: float, share: float = 1.0) -> float:
    """The magnitude that so large a part of x's values exceeds; at 0 the largest. `share`: of x that is not padding."""
    magnitudes = x.abs().flatten()
    rank = max(1, round(beyond * share * magnitudes.numel()))
    return float(magnitudes.max() if rank == 1 else magnitudes.topk(rank).values[-1])
