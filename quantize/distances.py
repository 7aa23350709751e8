"""How far a compressed vocoder's speech is from the vocoder's own, as the mean square of a vector
that is zero where they are equal, and what gradients of such a vector tell of each output.

    vector = VECTORS[SPEECH](samples, reference) - VECTORS[SPEECH](reference, reference)
    moments = read_output_moments(vocoder, sentences, ("decode.0.conv1",), seed=0)  # by path

The two kinds:

- `speech`: differences of 10 log10 power in the bins of frames within 40 dB of the loudest.
- `pauses`: samples of quiet frames over the level that they have, since nothing masks a sound
  there, and frames that one hears do not tell of it.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import Checkpoint
from kokoro_ane.quantize.statistics import read_shares
from kokoro_ane.speech import make_calibration_inputs
from kokoro_ane.vocoder import (
    Vocoder,
    VocoderInputs,
    cut_excerpt,
    make_reference_arguments,
    render_reference,
)

N_FFT, HOP_SAMPLES = 1024, 256
# power floor below the mean of the active frames; active = this far below the loudest
FLOOR_DB, ACTIVE_DB = 50.0, 40.0
# a pause is where 30 ms are so far below the loudest; its level has a floor further down
PAUSE_DB, PAUSE_FLOOR_DB, PAUSE_SAMPLES = 30.0, 55.0, 720
EXCERPT_FRAMES = 80  # two seconds
SPEECH, PAUSES = KINDS = ("speech", "pauses")


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A piece of a sentence, and of which kind its distance counts."""

    kind: str
    inputs: VocoderInputs


def compute_speech_vector(samples: Tensor, reference: Tensor) -> Tensor:
    """Samples [n] -> 10 log10 of the power of every bin of the reference's active frames."""
    power, own = spectral_power(samples), spectral_power(reference)  # [bins, frames]
    # silence between words would count like speech, and bins far below it like those one hears
    loudness = own.mean(dim=0)
    active = loudness > loudness.max() * 10 ** (-ACTIVE_DB / 10)
    floor = own[:, active].mean() * 10 ** (-FLOOR_DB / 10)
    return 10 * torch.log10(power[:, active] + floor)


def spectral_power(samples: Tensor) -> Tensor:
    """Samples [n] -> power [bins, frames]."""
    window = torch.hann_window(N_FFT, dtype=samples.dtype)
    return torch.stft(samples, N_FFT, HOP_SAMPLES, window=window, return_complex=True).abs() ** 2


def compute_pause_vector(samples: Tensor, reference: Tensor) -> Tensor:
    """Samples [n] -> those of the reference's pauses over its RMS of 30 ms around them,
    floored.
    """
    power = running_power(reference)
    loudest = power.max()
    quiet = power < loudest * 10 ** (-PAUSE_DB / 10)
    floor = loudest * 10 ** (-PAUSE_FLOOR_DB / 10)
    return samples[quiet] / torch.sqrt(power[quiet] + floor)


def running_power(samples: Tensor) -> Tensor:
    """Samples [n] -> the mean power of PAUSE_SAMPLES around each [n]."""
    squares = samples.square()[None, None]
    # The window is odd, so that the result has the samples' length.
    return F.avg_pool1d(squares, PAUSE_SAMPLES + 1, 1, PAUSE_SAMPLES // 2)[0, 0]


VECTORS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {SPEECH: compute_speech_vector, PAUSES: compute_pause_vector}
)


def cut_excerpts(checkpoint: Checkpoint, vocoder: Vocoder, seed: int, count: int) -> list[Excerpt]:
    """Two seconds of each of the `count` longest sentences of the tuning set, for speech, and the
    two seconds that hold the most of a pause between words, of the `count` sentences that have
    most.
    """
    sentences = list(make_calibration_inputs(checkpoint, vocoder, first_seed=seed))
    longest = sorted(sentences, key=lambda one: -one.frames)[:count]
    speech = [
        Excerpt(SPEECH, cut_excerpt(one, 0, min(EXCERPT_FRAMES, one.frames))) for one in longest
    ]
    pauses = []
    for one in sentences:
        samples = torch.from_numpy(render_reference(vocoder, one))
        power = running_power(samples)
        heard = torch.nonzero(power > power.max() * 10 ** (-PAUSE_DB / 10)).flatten()
        # Silence before the first word and behind the last is no pause between words.
        inner = torch.zeros_like(power)
        inner[heard[0] : heard[-1]] = 1.0
        quiet = (power < power.max() * 10 ** (-PAUSE_DB / 10)) * inner
        # [F] how much of each frame is a pause, and of the excerpt that begins there
        by_frame = quiet.view(one.frames, -1).mean(dim=1)
        length = min(EXCERPT_FRAMES, one.frames)
        within = by_frame.unfold(0, length, 1).sum(dim=1)
        begin = int(within.argmax())
        pauses.append((float(within[begin]), cut_excerpt(one, begin, length)))
    pauses.sort(key=lambda pair: -pair[0])
    return speech + [Excerpt(PAUSES, inputs) for share, inputs in pauses[:count] if share > 0]


def draw_slopes(vector: Tensor, draws: torch.Generator) -> Tensor:
    """The sum of a vector by random signs, over the root of its length: the square of its gradient
    is on average that of the vector's mean square (Hutchinson 1990).
    """
    # With random signs, products of different places cancel on average.
    signs = torch.randint(0, 2, vector.shape, generator=draws) * 2.0 - 1.0
    return (vector * signs).sum() / vector.numel() ** 0.5


def read_output_moments(
    vocoder: Vocoder, sentences: Iterable[VocoderInputs], paths: Collection[str], seed: int
) -> dict[str, Tensor]:
    """How much speech changes with errors of each layer's outputs: the moments [O, O] by path of
    the slopes of the speech distance, over all columns of two seconds in the middle of each
    sentence, in units of their mean power. The signs are drawn from `seed`.

    The errors of two outputs with like slopes add up or cancel, so one can offset the other's.
    """
    excerpts = []
    for one in sentences:
        length = min(EXCERPT_FRAMES, one.frames)
        excerpts.append(cut_excerpt(one, (one.frames - length) // 2, length))

    def read(share: Iterator[tuple[int, VocoderInputs]]) -> dict[str, Tensor]:
        # A copy for each thread, because a hook is told the layer and not the thread.
        model = copy.deepcopy(vocoder).requires_grad_(False)
        sums: dict[str, Tensor] = {}
        for path in paths:
            model.get_submodule(path).register_forward_hook(partial(_watch_slopes, sums, path))
        for number, inputs in share:
            # Slopes reach the outputs of layers whose inputs have them; weights need none.
            arguments = [part.clone().requires_grad_() for part in make_reference_arguments(inputs)]
            samples = model(*arguments).flatten()
            vector = compute_speech_vector(samples, samples.detach())
            signs = torch.Generator().manual_seed(seed + number)
            torch.autograd.grad(draw_slopes(vector, signs), arguments)
        return sums

    first, *others = read_shares(read, excerpts, "what errors of outputs cost")
    totals = {path: sum((sums[path] for sums in others), first[path]) for path in paths}
    return {path: total / total.diagonal().mean() for path, total in totals.items()}


def _watch_slopes(
    sums: dict[str, Tensor], path: str, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
) -> None:
    def add(slopes: Tensor) -> None:
        columns = slopes[0, :, 0]  # [O, S]
        product = columns @ columns.T
        sums[path] = sums[path].add_(product) if path in sums else product

    output.register_hook(add)
