"""The waveforms that the report plays and the listening pack holds: a few held-out clips by the reference and by every judged level.

heard = audition(truth, packages, clips)
heard[0].signals["w8"]   # [600 F] float32 at 24 kHz
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from core.corpus import Utterance
from eval.corpus import Truth
from vocoder.package import VocoderPackage

REFERENCE = "fp32 reference"
HEARD_FRAMES = 200


@dataclass(frozen=True, eq=False)
class Heard:
    """One sentence by the reference and by each level: name to [600 F] float32."""

    utterance: Utterance
    signals: Mapping[str, np.ndarray]


def audition(truth: Truth, packages: Mapping[str, VocoderPackage], clips: Sequence[Utterance]) -> list[Heard]:
    """Render each clip by the reference and by every package."""
    found = []
    for clip in clips:
        inputs = truth.inputs(clip)
        levels = {name: package.render(inputs) for name, package in packages.items()}
        found.append(Heard(clip, {REFERENCE: truth.of(clip).reference.astype(np.float32)} | levels))
    return found


def one_per_voice(clips: Sequence[Utterance], rounds: int = 1) -> list[Utterance]:
    """Of each voice the `rounds` clips nearest to five seconds, voices taking turns."""
    near = sorted(clips, key=lambda clip: abs(clip.frames - HEARD_FRAMES))
    by_voice = [[clip for clip in near if clip.voice == voice][:rounds] for voice in dict.fromkeys(clip.voice for clip in clips)]
    return [clip for turn in range(rounds) for voice in by_voice for clip in voice[turn : turn + 1]]


def flac_base64(signal: np.ndarray) -> str:
    """16-bit FLAC for a data: address; browsers play it without loss."""
    import soundfile

    stream = io.BytesIO()
    soundfile.write(stream, np.clip(signal, -1.0, 1.0), SAMPLE_RATE_HZ, format="FLAC", subtype="PCM_16")
    return base64.b64encode(stream.getvalue()).decode()
