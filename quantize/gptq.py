"""Palettes fitted to what their layer reads: each column's rounding error is carried to the columns not yet rounded (GPTQ).

    fits = fits_of(checkpoint, vocoder, paths)      # what each layer reads in the tuning set's sentences
    table, index = fits[path](weight, bits=4)       # as quantize.palette.palette

GPTQ (Frantar et al. 2023, arXiv 2210.17323) with the 2^bits values of a palette for a grid; the palette's k-means weighs each weight by its
input's power (as SqueezeLLM weighs by sensitivity, arXiv 2306.07629). On sentences that took no part a layer's output error falls by 2 to
9 dB against the plain palette at 4 bits: neighbouring columns of speech resemble one another.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.checkpoint import Checkpoint
from core.contract import JUDGED, TUNING
from core.corpus import require_disjoint
from core.layers import Conv, ConvTranspose
from quantize.activations import FIRST_SEED
from quantize.equalize import watched
from quantize.features import text_encoder, vocoder_inputs
from quantize.palette import palette
from quantize.speech import own_speech, speakers
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs

DAMPING = 0.1  # of the mean power, added to every input's: 0.01 fits the tuning sentences better and others worse, 1 both worse
MOST_COLUMNS = 1500  # of a sentence, evenly spaced
STEP = 128  # columns rounded before the error reaches those beyond


@dataclass(frozen=True)
class Unfolded:
    """A convolution as one matrix product. A transposed one makes `stride` outputs from the same inputs: each is a row of its own."""

    kernel: int
    stride: int
    dilation: int
    padding: int
    transposed: bool

    @classmethod
    def of(cls, layer: nn.Module) -> "Unfolded":
        """Of an ungrouped Conv or ConvTranspose."""
        assert isinstance(layer, Conv | ConvTranspose) and layer.groups == 1
        kernel, stride, dilation = layer.kernel_size[1], layer.stride[1], layer.dilation[1]
        return cls(kernel, stride, dilation, int(layer.padding[1]), isinstance(layer, ConvTranspose))

    @property
    def taps(self) -> int:
        """Columns of x that make one output."""
        return -(-self.kernel // self.stride) if self.transposed else self.kernel

    def inputs(self, x: Tensor) -> Tensor:
        """x [1, I, 1, S] -> [n, I taps]: what makes n outputs, evenly spaced, at most MOST_COLUMNS."""
        margin = self.taps - 1 if self.transposed else self.padding
        padded = F.pad(x[0, :, 0], (margin, margin))  # [I, S']
        step, hop = (-1, 1) if self.transposed else (self.dilation, self.stride)
        reach = (self.taps - 1) * abs(step)
        count = (padded.shape[1] - reach - 1) // hop + 1
        starts = torch.linspace(0, count - 1, min(count, MOST_COLUMNS)).long() * hop + (reach if self.transposed else 0)
        return torch.stack([padded[:, starts + tap * step] for tap in range(self.taps)], dim=1).flatten(0, 1).T  # [n, I taps]

    def matrix(self, weight: Tensor) -> Tensor:
        """Weight [O, I, 1, k], or [I, O, 1, k] of a transposed one -> [O, I taps] or [O stride, I taps]."""
        if not self.transposed:
            return weight.flatten(1)  # [O, I k]
        inner, out = weight.shape[:2]
        whole = F.pad(weight[:, :, 0], (0, self.taps * self.stride - self.kernel))  # [I, O, taps stride]
        return whole.view(inner, out, self.taps, self.stride).permute(1, 3, 0, 2).reshape(out * self.stride, -1)

    def weight(self, matrix: Tensor, like: Tensor) -> Tensor:
        """The inverse of `matrix`, in the shape of `like`."""
        if not self.transposed:
            return matrix.view_as(like)
        inner, out = like.shape[:2]
        whole = matrix.view(out, self.stride, inner, self.taps).permute(2, 0, 3, 1)  # [I, O, taps, stride]
        return whole.reshape(inner, out, -1)[..., : self.kernel].unsqueeze(2)


@torch.no_grad()
def input_moments(vocoder: Vocoder, clips: Iterable[VocoderInputs], paths: Collection[str]) -> dict[str, Tensor]:
    """Mean of x x^T over the columns that each named convolution multiplies: {path: [I taps, I taps]}."""
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}

    def note(path: str, layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        if path in paths:
            columns = Unfolded.of(layer).inputs(given[0])
            size = columns.shape[1]
            sums.setdefault(path, torch.zeros(size, size)).addmm_(columns.T, columns)
            counts[path] = counts.get(path, 0) + len(columns)

    watched(vocoder, clips, note)
    return {path: total / counts[path] for path, total in sums.items()}


def fitted_palette(weight: np.ndarray, bits: int, unfolded: Unfolded, moments: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """As quantize.palette.palette, for a convolution's weight and the moments [I taps, I taps] of its inputs."""
    exact = torch.from_numpy(weight.astype(np.float32))
    matrix = unfolded.matrix(exact)
    power = unfolded.weight(moments.diagonal().expand_as(matrix), exact)  # of the input that each weight multiplies
    table, _ = palette(weight, bits, importance=power.numpy())
    values = torch.from_numpy(table.astype(np.float32))
    index = rounded(matrix, values, moments)
    return table, unfolded.weight(index, exact).numpy().reshape(-1).astype(np.uint8)


@torch.no_grad()
def rounded(matrix: Tensor, values: Tensor, moments: Tensor) -> Tensor:
    """Index of a value for every weight of `matrix` [O, I], such that the product with inputs of these moments [I, I] changes little."""
    order = torch.argsort(moments.diagonal(), descending=True, stable=True)
    carry = _carry(moments[order][:, order])
    left, borders = matrix[:, order].clone(), (values[1:] + values[:-1]) / 2
    index = torch.zeros(left.shape, dtype=torch.long)
    for start in range(0, len(order), STEP):
        stop = min(start + STEP, len(order))
        errors = torch.zeros(len(left), stop - start)
        for column in range(start, stop):
            index[:, column] = torch.bucketize(left[:, column].contiguous(), borders)
            error = (left[:, column] - values[index[:, column]]) / carry[column, column]
            left[:, column:stop] -= error[:, None] * carry[column, column:stop]
            errors[:, column - start] = error
        left[:, stop:] -= errors @ carry[start:stop, stop:]
    return index[:, torch.argsort(order)]


def _carry(moments: Tensor) -> Tensor:
    """Upper Cholesky factor of the inverse of the damped moments. An input that is always zero has the damping alone."""
    damped = moments + torch.eye(len(moments)) * DAMPING * moments.diagonal().mean().clamp(min=1e-12)
    return torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True)


@dataclass(frozen=True, eq=False)
class Fit:
    """fitted_palette for one layer: fit(weight, bits) -> table, index."""

    unfolded: Unfolded
    moments: Tensor

    def __call__(self, weight: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
        return fitted_palette(weight, bits, self.unfolded, self.moments)


def fits_of(checkpoint: Checkpoint, vocoder: Vocoder, paths: Collection[str]) -> dict[str, Fit]:
    """What fits palettes to the named convolutions of a vocoder, by the whole tuning set in two voices a sentence; none for no path.

    Two: the decoder has one column a frame, so that a set of two minutes gives its widest layers fewer than two columns an input. Four
    minutes of one core on real Kokoro, under a progress bar on stderr.
    """
    from rich.console import Console
    from rich.progress import track

    if not paths:
        return {}
    clips = (clip for shift in (0, 1) for clip in tuning_sentences(checkpoint, vocoder, shift))
    total = 2 * len(own_speech(checkpoint, TUNING))
    shown = track(clips, "sentences to fit palettes to", total=total, console=Console(stderr=True), transient=True)
    moments = input_moments(vocoder, shown, frozenset(paths))
    return {path: Fit(Unfolded.of(vocoder.get_submodule(path)), found) for path, found in moments.items()}


def tuning_sentences(checkpoint: Checkpoint, vocoder: Vocoder, shift: int) -> Iterator[VocoderInputs]:
    """The tuning set's sentences, each with its prosody, in the style of the voice `shift` places on."""
    sentences = own_speech(checkpoint, TUNING)
    require_disjoint(sentences, own_speech(checkpoint, JUDGED))
    encoder, voices = text_encoder(checkpoint), speakers(checkpoint, TUNING)
    for number, sentence in enumerate(sentences):
        said = replace(sentence, voice=voices[(number + shift) % len(voices)])
        yield vocoder_inputs(checkpoint, vocoder, encoder, said, seed=FIRST_SEED + shift * len(sentences) + number)
