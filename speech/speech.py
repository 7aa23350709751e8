"""The frozen texts as a checkpoint speaks them: with durations, F0 and energy from its own encoder,
in PyTorch fp32.

    tuning = load_own_speech(checkpoint, "tuning")       # to choose ranges, recipes and limits on
    judged = load_own_speech(checkpoint, "judged")       # for verdicts

With another speaker's prosody a voice would not sound as users hear it. Features are cached in the
user's cache folder, by checkpoint, voices, texts, threads and the code that makes them.
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core import (
    BOUNDARY_ID,
    JUDGED,
    SECOND,
    TUNING,
    Checkpoint,
    InputError,
    UtteranceTooLong,
    cache_root,
    keep_npz,
    parse_blend,
    read_npz,
    run_steps,
    source_sha256,
    style_row,
)
from kokoro_ane.encoder import (
    MAX_SPEED,
    EncoderBackend,
    TextEncoder,
    encode,
    encode_phonemes,
    load_torch_encoder,
)
from kokoro_ane.encoder import STEPS as ENCODER_STEPS
from kokoro_ane.speech.corpus import (
    DATA,
    Line,
    SpokenLine,
    Utterance,
    load,
    locate_speech,
    read_speech_lines,
)
from kokoro_ane.vocoder import STEPS as VOCODER_STEPS
from kokoro_ane.vocoder import Vocoder, VocoderInputs, cut_excerpt

SPEAKERS = (
    "af_heart",
    "am_michael",
    "bf_emma",
    "am_adam",
    "af_bella",
    "bm_george",
    "bf_isabella",
    "bm_fable",
)
JUDGED_SPEAKERS = 6  # of SPEAKERS; the second set has the last two, and blends
# A line that is longer than the longest bucket is spoken this many times as fast, again and again
# until it fits or reaches MAX_SPEED.
FASTER = 1.4
CHECK_SPEECH = DATA / "check_speech.npz"  # a sentence spoken by flite
FIELDS = ("input_ids", "durations", "f0_hz", "energy")  # and the speed
FIRST_SEED = 1000  # calibration noise is never the evaluation's
STAND_IN = "af_heart"  # the Kokoro voice in place of flite's, in the sentence that checks builds
FEATURE_STEPS = tuple(
    step
    for step in (*ENCODER_STEPS, *VOCODER_STEPS)
    if step.name in ("style", "align", "asr", "noise", "excitation", "spectrum")
)


def list_speakers(checkpoint: Checkpoint, name: str) -> tuple[str, ...]:
    """The voices of a set, which its lines take in turn: names or blends
    (core.voices.parse_blend).
    """
    voices = tuple(voice for voice in SPEAKERS if voice in checkpoint.voices) or checkpoint.voices
    if not voices:
        raise InputError(
            f"{checkpoint.folder / 'voices'} holds no voice: a checkpoint cannot speak without one"
        )
    first = voices[:JUDGED_SPEAKERS]
    if name != SECOND:
        return voices if name == TUNING else first
    # each voice with the one two places on, so that a blend joins different speakers
    blends = tuple(
        f"{voice},{other}"
        for voice, other in zip(first, (*first[2:], *first[:2]), strict=True)
        if voice != other
    )
    # One voice alone has no blends, and says the second set itself.
    return (*voices[JUDGED_SPEAKERS:], *blends) or first


def choose_phonemes(line: Line, voice: str) -> str:
    """The line's phonemes for a voice of this name. Upstream's names of British voices begin with
    b.
    """
    return line.phonemes_gb if voice.startswith("b") else line.phonemes_us


def list_voiced_lines(checkpoint: Checkpoint, name: str) -> list[tuple[str, str, Line]]:
    """The lines of a set: the id NAME-00, NAME-01, ..., the voice, the line. A line that names a
    voice is left out where the checkpoint does not hold it; the others take turns.
    """
    lines = read_speech_lines(name)
    chosen = list[tuple[str, str, Line]]()
    turns = list_speakers(checkpoint, name) if any(not line.voice for line in lines) else ()
    for number, line in enumerate(lines):
        voice = line.voice or turns[number % len(turns)]
        if not line.voice or all(part in checkpoint.voices for part, _ in parse_blend(voice)):
            chosen.append((f"{name}-{number:02d}", voice, line))
    return chosen


def list_spoken_lines(checkpoint: Checkpoint, name: str) -> list[SpokenLine]:
    """The lines of a set in the dialect of their voices. Nothing is encoded."""
    return [
        SpokenLine(clip, voice, line.text, choose_phonemes(line, voice), line.speed)
        for clip, voice, line in list_voiced_lines(checkpoint, name)
    ]


def load_own_speech(checkpoint: Checkpoint, name: str = JUDGED) -> list[Utterance]:
    """The lines of a set as this checkpoint speaks them.

    Raises InputError for a checkpoint without voices or encoder, and for a damaged cached file.
    """
    lines = list_voiced_lines(checkpoint, name)
    # Each once, in order: the key of the cache is made of them.
    voices = tuple(dict.fromkeys(voice for _, voice, _ in lines))
    path = cache_root() / "speech" / f"{name}-{_compute_key(checkpoint, name, voices)}.npz"
    if path.is_file():
        stored = read_npz(path, "; delete it and it is made again")
    else:
        stored = _speak_lines(checkpoint, [(voice, line) for _, voice, line in lines])
        keep_npz(path, stored, "features are")
    return [
        Utterance(
            id=line.id,
            voice=line.voice,
            text=line.text,
            phonemes=line.phonemes,
            speed=float(stored[f"{number}/speed"]),
            **{field: stored[f"{number}/{field}"] for field in FIELDS},
        )
        for number, line in enumerate(list_spoken_lines(checkpoint, name))
    ]


def _speak_lines(
    checkpoint: Checkpoint, voiced_lines: Sequence[tuple[str, Line]]
) -> dict[str, np.ndarray]:
    """Run all lines through the encoder at their exact length."""
    from rich.console import Console
    from rich.progress import track

    backend = load_torch_encoder(checkpoint)
    arrays: dict[str, np.ndarray] = {}
    shown = track(
        voiced_lines, f"{checkpoint.name} speaks", console=Console(stderr=True), transient=True
    )
    for number, (voice, line) in enumerate(shown):
        fields = encode_features(
            backend, checkpoint, choose_phonemes(line, voice), checkpoint.blend(voice), line.speed
        )
        arrays |= {f"{number}/{field}": value for field, value in fields.items()}
    return arrays


def speak_line(
    backend: EncoderBackend,
    checkpoint: Checkpoint,
    line: Line,
    voice: str,
    clip: str,
    pack: Tensor | None = None,
) -> Utterance:
    """A line as a voice says it, with the id `clip`. `pack` [510, 1, 256]: the voice's, where the
    checkpoint does not hold it. Raises UtteranceTooLong as the encoder does.
    """
    spoken = SpokenLine(clip, voice, line.text, choose_phonemes(line, voice), line.speed)
    return say(backend, checkpoint, spoken, pack)


def say(
    backend: EncoderBackend, checkpoint: Checkpoint, line: SpokenLine, pack: Tensor | None = None
) -> Utterance:
    """As speak_line, of a line in the dialect of its voice."""
    pack = checkpoint.blend(line.voice) if pack is None else pack
    features = encode_features(backend, checkpoint, line.phonemes, pack, line.speed)
    fields = {name: features[name] for name in FIELDS}
    speed = float(features["speed"])
    return Utterance(line.id, line.voice, line.text, line.phonemes, **fields, speed=speed)


def encode_features(
    backend: EncoderBackend, checkpoint: Checkpoint, phonemes: str, pack: Tensor, speed: float
) -> dict[str, np.ndarray]:
    """input_ids [T], durations [T], f0_hz [2F], energy [2F] and the speed, a scalar."""
    ids = encode_phonemes(phonemes, checkpoint.config.vocab)
    # the second half of a style row is the encoder's, the first the vocoder's
    style = style_row(pack, len(phonemes))[:, checkpoint.config.style_dim :]
    try:
        encoded = encode(backend, ids, style, speed)
    except UtteranceTooLong as problem:
        if speed >= MAX_SPEED:
            raise
        print(f"{problem}; said {FASTER} times as fast", file=sys.stderr)
        return encode_features(backend, checkpoint, phonemes, pack, min(speed * FASTER, MAX_SPEED))
    return {
        "input_ids": np.array(ids, np.int32),
        "durations": encoded.durations.numpy().astype(np.int32),
        "f0_hz": encoded.f0_hz[0].numpy(),
        "energy": encoded.energy[0].numpy(),
        "speed": np.asarray(speed),
    }


def _compute_key(checkpoint: Checkpoint, name: str, voices: Sequence[str]) -> str:
    code = source_sha256("core", "encoder", "vocoder", "speech")
    # the number of threads changes the last bits of a sum
    made_by = f"{torch.__version__} {np.__version__} {torch.get_num_threads()} {code}"
    digest = hashlib.sha256(f"{checkpoint.sha256} {made_by} {' '.join(voices)}".encode())
    # By values, so that a voice whose file was replaced speaks anew.
    for voice in voices:
        digest.update(checkpoint.blend(voice).numpy().tobytes())
    for path in (checkpoint.folder / "config.json", locate_speech(name)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def load_text_encoder(checkpoint: Checkpoint) -> TextEncoder:
    """The checkpoint's text encoder in PyTorch."""
    return checkpoint.load_part(TextEncoder(checkpoint.config), "text_encoder")


@torch.no_grad()
def make_vocoder_inputs(
    checkpoint: Checkpoint,
    vocoder: Vocoder,
    text: TextEncoder | Tensor,
    utterance: Utterance,
    seed: int,
    pack: np.ndarray | None = None,
    statistics: np.ndarray | None = None,
) -> VocoderInputs:
    """All inputs of the vocoder for one utterance, with the noise drawn from `seed`, by the chain's
    steps for style row, alignment and harmonic source. Durations, F0 and energy are the
    utterance's. `text`: the encoder of text features, or asr [1, hidden, F] where these exist.
    `pack`: the voice's, where the checkpoint does not hold it; statistics [2R]: what it adds to
    predicted ones.
    """
    if isinstance(text, Tensor):
        features = {"asr": text.numpy()}
    else:
        # [1, hidden, 1, T]
        ids = torch.from_numpy(utterance.input_ids).long()[None]
        features = {"text": text(ids).numpy()}
    # these steps let neither encoder nor vocoder compute: whole utterances, the harmonic source
    speaker = SimpleNamespace(
        voice=checkpoint.blend(utterance.voice).numpy() if pack is None else pack,
        encoder=SimpleNamespace(first_frames=None),
        vocoder=SimpleNamespace(source=vocoder.generator.m_source.host),
    )
    inputs = features | {
        "phonemes": np.array([ord(symbol) for symbol in utterance.phonemes], np.int32),
        "durations": utterance.durations.astype(np.int64),
        "f0_hz": utterance.f0_hz[None],
        "energy": utterance.energy[None],
        "seed": np.array([seed], np.int64),
    }
    made = run_steps(FEATURE_STEPS, speaker, inputs)
    asr, f0_hz, energy, style = (
        _make_tensor(made[name][0]) for name in ("asr", "f0_hz", "energy", "style_decoder")
    )
    # A column's 22 values lie side by side in memory, as the STFT makes them: PyTorch chooses its
    # kernel by the order in memory, and the kernel decides the last bits.
    spectrum = _make_tensor(made["spectrum"][0].T).transpose(1, 2)
    added = None if statistics is None else torch.from_numpy(statistics)[None]  # [1, 2R]
    return VocoderInputs(asr, f0_hz, energy, style, spectrum, added)


def _make_tensor(array: np.ndarray) -> Tensor:
    """A contiguous tensor of the array with one more axis in front."""
    return torch.from_numpy(np.ascontiguousarray(array))[None]


def make_calibration_inputs(
    checkpoint: Checkpoint,
    vocoder: Vocoder,
    clips: int | None = None,
    first_seed: int = FIRST_SEED,
    shift: int = 0,
) -> Iterator[VocoderInputs]:
    """Yield the features of the first `clips` sentences of the tuning set, of all by default. The
    voices take turns, and each sentence has its own noise.

    Sentences are whole: AdaIN normalizes over all of one, so peaks grow with its length (1.5 times
    from 4 to 15 seconds on real Kokoro). With `shift` each sentence gets the style of the voice
    that many places further on.
    """
    sentences = load_own_speech(checkpoint, TUNING)
    voices = list_speakers(checkpoint, TUNING)
    if clips is not None and clips > len(sentences):
        raise InputError(f"{clips} tuning sentences asked for, there are {len(sentences)}")
    encoder = load_text_encoder(checkpoint)
    for number, sentence in enumerate(sentences[:clips]):
        utterance = replace(sentence, voice=voices[(number + shift) % len(voices)])
        yield make_vocoder_inputs(
            checkpoint,
            vocoder,
            encoder,
            utterance,
            # Another shift gives the same sentence other noise.
            seed=first_seed + shift * len(sentences) + number,
        )


def check_speech(checkpoint: Checkpoint, frames: int) -> VocoderInputs:
    """What builds are checked with: `frames` frames after the first half second of CHECK_SPEECH, by
    the ids and voices of this checkpoint.
    """
    # Another symbol stands for one that the vocabulary lacks: numbers are compared, nobody listens.
    sentence = load(CHECK_SPEECH)
    vocab = checkpoint.config.vocab
    vocab_ids = sorted(vocab.values())
    ids = (
        vocab.get(symbol, vocab_ids[place % len(vocab_ids)])
        for place, symbol in enumerate(sentence.phonemes)
    )
    voice = next(
        (name for name in (sentence.voice, STAND_IN) if name in checkpoint.voices),
        list_speakers(checkpoint, TUNING)[0],
    )
    utterance = replace(
        sentence, voice=voice, input_ids=np.array([BOUNDARY_ID, *ids, BOUNDARY_ID], np.int32)
    )
    inputs = make_vocoder_inputs(
        checkpoint,
        Vocoder.from_checkpoint(checkpoint),
        load_text_encoder(checkpoint),
        utterance,
        seed=0,
    )
    # 20 frames are half a second.
    return cut_excerpt(inputs, start=20, frames=frames)
