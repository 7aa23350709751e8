"""Text to samples in one call, for a notebook or a test of one's own.

    from pipeline import speak
    samples, rate_hz = speak("The ferry crossed the harbour.", voice="af_heart")      # [samples] float32, 24000
"""

from pathlib import Path

import numpy as np

from core.checkpoint import open_checkpoint
from core.contract import LITERAL, SAMPLE_RATE_HZ
from core.voices import VoiceLibrary
from g2p.dialects import voice_language
from pipeline.conductor import Pipeline, SpeechOptions
from pipeline.reading import TextReader
from pipeline.runtimes import Request, open_runtime


def speak(
    text: str,
    voice: str | None = None,
    *,
    checkpoint: str | None = None,
    runtime: str = "torch",
    method: str = "fp16",
    form: str = LITERAL,
    build: Path = Path("build"),
    speed: float = 1.0,
    seed: int = 0,
) -> tuple[np.ndarray, int]:
    """Samples [n] float32 of the whole text, pauses included, and their rate in Hz. Arguments as the flags of `kokoro-ane speak`.

    Raises InputError: nothing to say, an unknown voice, runtime or level, a package that is not built.
    """
    opened_checkpoint = open_checkpoint(checkpoint)
    library = VoiceLibrary(opened_checkpoint.folder / "voices")
    name = voice or library.names[0]
    opened = open_runtime(runtime, Request(opened_checkpoint, build, method, form))
    reader = TextReader.load(voice_language(name), None)
    pipeline = Pipeline(reader, opened.encoder, opened.vocoder, opened_checkpoint.config.vocab)
    spoken = pipeline.speak(text, library.blend(name), SpeechOptions(speed, seed))
    return np.concatenate([speech.audio for speech in spoken]), SAMPLE_RATE_HZ
