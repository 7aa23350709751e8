"""Words: what a recognizer hears, and how far that is from the text and from what it hears in the fp32 model's speech.

    words_heard(signal)                  # pocketsphinx, en-us: ("would", "anyone", ...)
    words_of("Would anyone object?")     # what should be heard

The recognizer is weak: every figure is a difference to the reference, and the spread of other seeds is its scale.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from core.errors import InputError
from eval.metrics.framing import MODEL_RATE_HZ, at_16_khz
from g2p.normalize import normalize

if TYPE_CHECKING:
    import pocketsphinx

SPEECH_RMS = 0.08  # every reading is brought to this level: the recognizer is not judged on loudness
INSTALL = 'python -m pip install pocketsphinx, or: pip install -e ".[judge]"'


def words_heard(signal: np.ndarray) -> tuple[str, ...]:
    """What the recognizer hears in signal [samples] at 24 kHz."""
    return recognized(at_16_khz(signal))


def recognized(samples: np.ndarray) -> tuple[str, ...]:
    """What the recognizer hears in samples [n] at 16 kHz. What it heard before has no part in it."""
    level = SPEECH_RMS / max(float(np.sqrt(np.mean(np.square(samples)))), 1e-6)
    audio = (np.clip(samples * level, -1, 1) * 32767).astype("<i2")
    decoder, fresh_mean = _decoder()
    decoder.set_cmn(fresh_mean)  # its cepstral mean would carry over
    decoder.start_utt()
    decoder.process_raw(audio.tobytes(), full_utt=True)
    decoder.end_utt()
    hypothesis = decoder.hyp()
    return tuple(re.sub(r"\(\d+\)", "", hypothesis.hypstr).split()) if hypothesis else ()


@cache
def _decoder() -> "tuple[pocketsphinx.Decoder, str]":
    try:
        import pocketsphinx
    except ImportError:
        raise InputError(f"words are heard by pocketsphinx, which is not installed: {INSTALL}") from None
    decoder = pocketsphinx.Decoder(samprate=MODEL_RATE_HZ, loglevel="FATAL")
    return decoder, decoder.get_cmn()


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text as they are said, lower case: numbers and abbreviations spelled out, a hyphen parts words."""
    spoken = " ".join(token.text for token in normalize(text).tokens if token.kind != "punctuation")
    return tuple(re.findall(r"[a-z']+", spoken.lower()))
