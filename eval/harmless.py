"""Changes that nobody hears, which the gates must let pass: a judge that rejects these is wrong in the other direction.

    for change in HARMLESS: change.render(faults, inputs)   # [600 F] float32

Judged as the known-bad controls are. `named_by`: the gate that may say so, since the graph is wrong though the sound is not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from eval.faults import Faults
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise

UNSEEN_SEED = 7  # more than the seeds of the floor
QUIETER_DB, LATE_SAMPLES, HISS_DB = 0.3, 6, 70.0


@dataclass(frozen=True)
class Harmless:
    """One change: how it renders, why it does no harm, and the metric that may name it."""

    name: str
    render: Callable[[Faults, VocoderInputs], np.ndarray]
    why: str
    named_by: str | None = None


def another_seed(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Noise of a seed that is not in the floor; a caller's seed 0 in every sentence is this."""
    spectrum = faults.source(inputs.f0_hz, gaussian_noise(inputs.frames, faults.seed + UNSEEN_SEED))
    return render_reference(faults.vocoder, replace(inputs, spectrum=spectrum))


def turned_over(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Every sample's sign changed."""
    return -render_reference(faults.vocoder, inputs)


def quieter(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """0.3 dB quieter."""
    return render_reference(faults.vocoder, inputs) * np.float32(10 ** (-QUIETER_DB / 20))


def later(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Everything a quarter of a millisecond late."""
    signal = render_reference(faults.vocoder, inputs)
    return np.concatenate([np.zeros(LATE_SAMPLES, signal.dtype), signal[:-LATE_SAMPLES]])


def hiss(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """White noise 70 dB below the speech."""
    signal = render_reference(faults.vocoder, inputs)
    noise = np.random.default_rng(0).standard_normal(len(signal)) * np.sqrt(np.square(signal).mean()) * 10 ** (-HISS_DB / 20)
    return (signal + noise).astype(np.float32)


HARMLESS = (
    Harmless("another noise seed", another_seed, "nobody can say which of two renders is right"),
    Harmless("polarity", turned_over, "a sign cannot be heard: every metric but `polarity` turns the clip over first"),
    Harmless("0.3 dB quieter", quieter, "below what a listener notices; THD+N takes the gain out, `level_db` holds it"),
    Harmless("0.25 ms late", later, "not heard; PESQ and THD+N undo it, frames of 25 ms hardly see it", named_by="lag_samples"),
    Harmless("hiss at -70 dB", hiss, "below the model's own noise"),
)
