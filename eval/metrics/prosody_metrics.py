"""Metrics of prosody: durations, F0, energy and text features of one sentence.

    trial = ProsodyTrial(clip, durations, (reference, test))
    f0_cents(trial), pause_ms(trial)

F0, energy and text features are compared on equal alignment: both sides are given the reference's
durations. A frame more in one phoneme would otherwise shift all that follow and be counted again
in each.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kokoro_ane.core import FRAMES_PER_SECOND
from kokoro_ane.encoder import Encoded
from kokoro_ane.speech import Utterance
from kokoro_ane.vocoder import VOICED_ABOVE_HZ
from kokoro_g2p import PAUSES

MS_PER_FRAME = 1000 / FRAMES_PER_SECOND
# below no voice speaks: the curve passes there on its way to voiceless, which VOICING counts
CENTS, PITCH_FLOOR_HZ = 1200.0, 50.0


@dataclass(frozen=True, eq=False)
class ProsodyTrial:
    """A clip whose own durations are the reference's; `durations` [n] frames that the test would
    align by; `curves`: the prosody of reference and test, both on the clip's alignment, or None
    where only durations are compared.
    """

    clip: Utterance
    durations: np.ndarray
    curves: tuple[Encoded, Encoded] | None = None

    @cached_property
    def moved(self) -> np.ndarray:
        """Frames that each token gains [n]."""
        return self.durations - self.clip.durations.astype(np.int64)

    @cached_property
    def pitch(self) -> tuple[np.ndarray, np.ndarray]:
        """F0 of reference and test in Hz, [2F] each."""
        assert self.curves is not None
        reference, test = (curve.f0_hz[0].numpy() for curve in self.curves)
        return reference, test

    @cached_property
    def text_error(self) -> tuple[np.ndarray, float]:
        """Mean square error of each token's text features [n], and the reference's mean square."""
        assert self.curves is not None
        reference, test = (curve.text[0].numpy() for curve in self.curves)  # [C, n]
        return np.square(test - reference).mean(axis=0), float(np.square(reference).mean())


def tokens_changed_percent(trial: ProsodyTrial) -> float:
    """Share of the tokens whose duration differs."""
    return 100 * float((trial.moved != 0).mean())


def tokens_moved_percent(trial: ProsodyTrial) -> float:
    """Share of the tokens whose duration differs by more than one frame (25 ms)."""
    return 100 * float((np.abs(trial.moved) > 1).mean())


def length_percent(trial: ProsodyTrial) -> float:
    """Difference of the sentence's length, in percent of its length."""
    return 100 * abs(int(trial.moved.sum())) / trial.clip.frames


def pause_ms(trial: ProsodyTrial) -> float:
    """Largest difference of a pause at a mark, the space behind it included."""
    spans = pauses(trial.clip.phonemes)
    # A sentence without a mark has no pause that could differ.
    return MS_PER_FRAME * max((abs(int(trial.moved[span].sum())) for span in spans), default=0)


def pauses(phonemes: str) -> list[slice]:
    """Tokens of each pause: marks and spaces side by side, at least one mark; token 0 is the
    boundary. Example: "ab, cd" -> [slice(3, 5)].
    """
    spans, start = [], None
    # An empty symbol at the end closes a pause that the sentence ends with.
    for place, symbol in enumerate((*phonemes, "")):
        if symbol and (symbol in PAUSES or symbol == " "):
            start = place if start is None else start
        elif start is not None:
            # Spaces alone lie between words and are no pause.
            if set(phonemes[start:place]) & PAUSES:
                # Token 0 is the boundary, so symbol i is token i + 1.
                spans.append(slice(start + 1, place + 1))
            start = None
    return spans


def f0_cents(trial: ProsodyTrial) -> float:
    """Root mean square difference of F0 where both are voiced."""
    reference, test = trial.pitch
    # Without a pitch on both sides there is no distance in cents.
    both = (reference > PITCH_FLOOR_HZ) & (test > PITCH_FLOOR_HZ)
    cents = CENTS * np.log2(test[both] / reference[both]) if both.any() else np.zeros(1)
    return float(np.sqrt(np.square(cents).mean()))


def voicing_flips_percent(trial: ProsodyTrial) -> float:
    """Share of the values that are voiced in one of both only."""
    reference, test = trial.pitch
    return 100 * float(((reference > VOICED_ABOVE_HZ) != (test > VOICED_ABOVE_HZ)).mean())


def energy_percent(trial: ProsodyTrial) -> float:
    """Root mean square difference of energy, in percent of its standard deviation."""
    assert trial.curves is not None
    reference, test = (curve.energy[0].numpy() for curve in trial.curves)  # [2F]
    return 100 * float(np.sqrt(np.square(test - reference).mean()) / reference.std())


def text_percent(trial: ProsodyTrial) -> float:
    """Root mean square difference of text features, in percent of their root mean square."""
    error, power = trial.text_error
    return 100 * float(np.sqrt(error.mean() / power))


def text_token_percent(trial: ProsodyTrial) -> float:
    """The same of the worst token, in percent of the mean token's root mean square."""
    error, power = trial.text_error
    return 100 * float(np.sqrt(error.max() / power))
