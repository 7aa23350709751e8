"""The waveforms that the report plays and the listening pack holds: a few held-out clips by the reference and by every judged level.

heard = audition(truth, packages, clips)
heard[0].signals["w8"]   # [600 F] float32 at 24 kHz
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.contract import FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from core.corpus import Utterance
from eval.corpus import Truth
from mlprogram.scratch import scratch
from vocoder.package import VocoderPackage

REFERENCE = "fp32 reference"
SHORTEST_S, LONGEST_S = 2.0, 7.0  # of a clip that is compared by ear: long enough for a sentence, short enough to remember
FULL_SCALE = 32767


@dataclass(frozen=True, eq=False)
class Heard:
    """One sentence by the reference and by each level: name to [600 F] float32."""

    utterance: Utterance
    signals: Mapping[str, np.ndarray]


def audition(truth: Truth, packages: Mapping[str, Callable[[], VocoderPackage]], clips: Sequence[Utterance]) -> list[Heard]:
    """Render each clip by the reference and by every package. One package is open at a time: fourteen took 6 GB."""
    inputs = {clip.id: truth.inputs(clip) for clip in clips}
    signals = {clip.id: {REFERENCE: truth.of(clip).reference.astype(np.float32)} for clip in clips}
    for name, opened in packages.items():
        package = opened()
        for clip in clips:
            signals[clip.id][name] = package.render(inputs[clip.id])
    return [Heard(clip, signals[clip.id]) for clip in clips]


def chosen_clips(record: Mapping[str, Any], clips: Sequence[Utterance], count: int = 3) -> list[Utterance]:
    """Clips to listen to: the one where the named level (else the first judged) scores worst, then others of other voices, short ones.

    Only judged clips of SHORTEST_S to LONGEST_S; the shortest where none is that short.
    """
    judged = next(level for level in record["levels"] if level.get("clips") and record["level"] in (None, level["method"]))
    pesq = {clip["id"]: clip["figures"].get("pesq", 0.0) for clip in judged["clips"]}
    known = sorted((clip for clip in clips if clip.id in pesq), key=lambda clip: clip.frames)
    fitting = [clip for clip in known if SHORTEST_S <= clip.frames / FRAMES_PER_SECOND <= LONGEST_S] or known[:count]
    found = [min(fitting, key=lambda clip: pesq[clip.id])]
    while len(found) < min(count, len(fitting)):
        left = [clip for clip in fitting if clip not in found]
        found.append(min(left, key=lambda clip: (sum(clip.voice == other.voice for other in found), clip.frames)))
    return found


def kept(signal: np.ndarray, reference: np.ndarray | None = None) -> dict[str, Any]:
    """A signal [600 F] in as few letters as lossless 16 bits take: FLAC as base64, of itself or of its difference to `reference`.

    "difference": the player adds the reference's samples, and has the signal's own again.
    """
    alone = {"flac": _flac(_samples(signal)), "difference": False}
    if reference is None or len(reference) != len(signal):
        return alone
    difference = _samples(signal).astype(np.int32) - _samples(reference)
    if np.abs(difference).max(initial=0) > FULL_SCALE:
        return alone
    return min(alone, {"flac": _flac(difference.astype(np.int16)), "difference": True}, key=lambda way: len(way["flac"]))


def _samples(signal: np.ndarray) -> np.ndarray:
    """[n] int16."""
    return np.round(np.clip(signal, -1.0, 1.0) * FULL_SCALE).astype(np.int16)


def _flac(samples: np.ndarray) -> str:
    import soundfile

    with scratch() as folder:  # a stream of Python's would swallow Ctrl-C in its callbacks
        soundfile.write(folder / "x.flac", samples, SAMPLE_RATE_HZ, format="FLAC", subtype="PCM_16", compression_level=1.0)
        return base64.b64encode((folder / "x.flac").read_bytes()).decode()
