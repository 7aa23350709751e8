"""What a checkpoint says by itself: the frozen texts with durations, F0 and energy from its own encoder, in PyTorch fp32.

    tuning = own_speech(checkpoint, "tuning")       # to choose ranges, recipes and limits on
    judged = own_speech(checkpoint, "judged")       # for verdicts; calibration refuses it

Another speaker's prosody under a voice is not what users hear. Features are kept in the user's cache folder, by checkpoint, voices,
texts, threads and the code that makes them, each file with its own digest.
"""

import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from core.checkpoint import Checkpoint
from core.contract import DEFAULT_BUCKETS, JUDGED, SECOND, TUNING
from core.corpus import Line, Utterance, speech_file, speech_lines
from core.errors import InputError, UtteranceTooLong
from core.kokoro_int8.cache import cache_root
from core.sealed import read_sealed_arrays, sealed_arrays
from core.sources import ROOT, changed_since, files_behind, sha256_of_files
from core.staging import staged
from core.voices import style_row
from encoder.alignment import AlignmentLimits
from encoder.functions import torch_functions
from encoder.model import Encoder
from encoder.steps import EncoderBackend, encode
from encoder.vocab import MAX_SPEED, input_ids

if TYPE_CHECKING:
    from torch import Tensor

SPEAKERS = ("af_heart", "am_michael", "bf_emma", "am_adam", "af_bella", "bm_george", "bf_isabella", "bm_fable")
JUDGED_SPEAKERS = 6  # of SPEAKERS; the second set has the last two, and blends
LOADED_NS = time.time_ns()  # what this process runs is at least as old
FASTER = 1.4  # a line that is longer than the longest bucket is said so much faster, until it fits or speed ends
FIELDS = ("input_ids", "durations", "f0_hz", "energy")  # and the speed


def speakers(checkpoint: Checkpoint, name: str) -> tuple[str, ...]:
    """Voices of a set, which its lines take in turn: names or blends (core.voices.parse_blend)."""
    own = tuple(voice for voice in SPEAKERS if voice in checkpoint.voices) or checkpoint.voices
    if not own:
        raise InputError(f"{checkpoint.folder / 'voices'} holds no voice: a checkpoint cannot speak without one")
    first = own[:JUDGED_SPEAKERS]
    if name != SECOND:
        return own if name == TUNING else first
    blends = tuple(f"{voice},{other}" for voice, other in zip(first, (*first[2:], *first[:2]), strict=True) if voice != other)
    return (*own[JUDGED_SPEAKERS:], *blends) or first


def dialect_phonemes(line: Line, voice: str) -> str:
    """The line as a voice of this name reads it: British for b..., as upstream names voices."""
    return line.phonemes_gb if voice.startswith("b") else line.phonemes_us


def own_speech(checkpoint: Checkpoint, name: str = JUDGED) -> list[Utterance]:
    """The set "tuning", "judged" or "second" as this checkpoint says it; ids are NAME-00, NAME-01, ...

    Raises InputError: a checkpoint without voices or encoder, a cached file that was altered.
    """
    voices, lines = speakers(checkpoint, name), speech_lines(name)
    told = [(voices[number % len(voices)], line) for number, line in enumerate(lines)]
    code = files_behind((Path(__file__).relative_to(ROOT).as_posix(),))
    path = cache_root() / "speech" / f"{name}-{_key(checkpoint, name, voices, code)}.npz"
    if changed_since(code, LOADED_NS):
        print(f"the code has changed since this process began: features are neither taken from {path.parent} nor kept", file=sys.stderr)
        stored = _spoken(checkpoint, told)
    elif path.is_file():
        stored = read_sealed_arrays(path, {"set": path.stem}, "; delete it and it is made again")
    else:
        stored = _spoken(checkpoint, told)
        _keep(path, stored)
    return [_utterance(f"{name}-{number:02d}", voice, line, stored, number) for number, (voice, line) in enumerate(told)]


def _utterance(name: str, voice: str, line: Line, stored: Mapping[str, np.ndarray], number: int) -> Utterance:
    fields = {field: stored[f"{number}/{field}"] for field in FIELDS}
    speed, phonemes = float(stored[f"{number}/speed"]), dialect_phonemes(line, voice)
    return Utterance(id=name, voice=voice, text=line.text, phonemes=phonemes, recording=None, speed=speed, **fields)


def _spoken(checkpoint: Checkpoint, told: Sequence[tuple[str, Line]]) -> dict[str, np.ndarray]:
    """All lines through the encoder at exact length."""
    from rich.console import Console
    from rich.progress import track

    backend = EncoderBackend(torch_functions(Encoder.of(checkpoint)), AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1]))
    found: dict[str, np.ndarray] = {}
    shown = track(told, f"{checkpoint.name} speaks", console=Console(stderr=True), transient=True)
    for number, (voice, line) in enumerate(shown):
        fields = _features(backend, checkpoint, dialect_phonemes(line, voice), checkpoint.blend(voice), line.speed)
        found |= {f"{number}/{field}": value for field, value in fields.items()}
    return found


def _features(backend: EncoderBackend, checkpoint: Checkpoint, phonemes: str, pack: "Tensor", speed: float) -> dict[str, np.ndarray]:
    """input_ids [T], durations [T], f0_hz [2F], energy [2F]; speed, a scalar."""
    ids, style = input_ids(phonemes, checkpoint.config.vocab), style_row(pack, len(phonemes))[:, checkpoint.config.style_dim :]
    try:
        encoded = encode(backend, ids, style, speed)
    except UtteranceTooLong as problem:
        if speed >= MAX_SPEED:
            raise
        print(f"{problem}; said {FASTER} times as fast", file=sys.stderr)
        return _features(backend, checkpoint, phonemes, pack, min(speed * FASTER, MAX_SPEED))
    prosody = {"f0_hz": encoded.f0_hz[0].numpy(), "energy": encoded.energy[0].numpy(), "speed": np.asarray(speed)}
    return {"input_ids": np.array(ids, np.int32), "durations": encoded.durations.numpy().astype(np.int32)} | prosody


def _key(checkpoint: Checkpoint, name: str, voices: Sequence[str], code: tuple[Path, ...]) -> str:
    made_by = f"{torch.__version__} {np.__version__} {torch.get_num_threads()} {sha256_of_files(code)}"  # the last bits hang on threads
    digest = hashlib.sha256(f"{checkpoint.sha256} {made_by} {' '.join(voices)}".encode())
    for voice in voices:
        digest.update(checkpoint.blend(voice).numpy().tobytes())
    for path in (checkpoint.folder / "config.json", speech_file(name)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _keep(path: Path, stored: Mapping[str, np.ndarray]) -> None:
    """Written aside. A cache that cannot be written is told, and the features are made again next time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with staged(path) as aside, aside.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **sealed_arrays(stored, {"set": path.stem}))
    except (OSError, InputError) as problem:
        print(f"features are not kept: {problem}", file=sys.stderr)
