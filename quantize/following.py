"""Put a scale that follows time before the convolutions of the last stage, whose kernels reach a fifth of a frame.

    copy = following(balanced, clips)

The envelope's cap is what one value in 100,000 exceeds, largest over the clips: single peaks are cut as a fixed range cuts them.
"""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from core.contract import COLUMNS_PER_FRAME
from core.layers import Conv
from quantize.equalize import replace_module, watched
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs
from vocoder.prepared import Envelope, PreparedConv

CAP_BEYOND = 1e-5


def followed(vocoder: Vocoder) -> tuple[str, ...]:
    """Paths of the convolutions of the last stage's blocks, the spectrum's branch first."""
    generator, last = vocoder.generator, len(vocoder.generator.ups) - 1
    first = last * generator.blocks_per_stage
    roots = (f"generator.noise_res.{last}.", *(f"generator.resblocks.{first + block}." for block in range(generator.blocks_per_stage)))
    return tuple(path for path, module in vocoder.named_modules() if isinstance(module, Conv) and path.startswith(roots))


@torch.no_grad()
def following(vocoder: Vocoder, clips: Iterable[VocoderInputs]) -> Vocoder:
    """A copy whose convolutions there scale their input by an envelope of its own. Renders the same but for the ripple."""
    chosen = followed(vocoder)
    caps = dict.fromkeys(chosen, 0.0)

    def note(path: str, _: nn.Module, given: tuple[Tensor, ...]) -> None:
        if path in caps:
            caps[path] = max(caps[path], exceeded(given[0], CAP_BEYOND))

    watched(vocoder, clips, note)
    prepared = copy.deepcopy(vocoder)
    for path in chosen:
        conv = prepared.get_submodule(path)
        assert isinstance(conv, Conv), path
        replace_module(prepared, path, PreparedConv(conv, envelope=Envelope(COLUMNS_PER_FRAME, caps[path])))
    return prepared.eval()


def exceeded(x: Tensor, beyond: float, share: float = 1.0) -> float:
    """The magnitude that so large a part of x's values exceeds; at 0 the largest. `share`: of x that is not padding."""
    magnitudes = x.abs().flatten()
    rank = max(1, round(beyond * share * magnitudes.numel()))
    return float(magnitudes.max() if rank == 1 else magnitudes.topk(rank).values[-1])
