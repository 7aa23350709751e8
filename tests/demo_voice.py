"""The demo voice: a small Kokoro, complete from symbols to waveform, and what flite says of 24
sentences. tests/data/demo-voice/README.md says how it was made.

    checkpoint = open_checkpoint(str(DEMO_VOICE))
    for utterance in heldout(): print(utterance.id, utterance.frames, utterance.text)
    samples = recording(0)  # flite's own sound of the first, [n] float64 at 24 kHz
"""

from pathlib import Path

import soundfile

from kokoro_ane.speech.corpus import load
from tests.signals import resampled

DEMO_VOICE = Path(__file__).parent / "data" / "demo-voice"
HELDOUT = DEMO_VOICE / "heldout"


def heldout():
    """24 sentences that are never in training, eight to a voice."""
    return [load(path) for path in sorted(HELDOUT.glob("*.npz"))]


def recording(index):
    """What flite made of a held-out sentence."""
    samples, rate_hz = soundfile.read(sorted(HELDOUT.glob("*.flac"))[index], dtype="float32")
    return resampled(samples, rate_hz)
