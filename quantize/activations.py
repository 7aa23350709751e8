"""The sentences of the tuning set as the vocoder reads them.

    clips = calibration_inputs(checkpoint, vocoder, 12)

coremltools' calibration needs macOS and keeps only the last sample's range.
"""

from collections.abc import Iterator
from dataclasses import replace

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import JUDGED, TUNING
from kokoro_ane.core.errors import InputError
from kokoro_ane.quantize.corpus import Said, require_disjoint
from kokoro_ane.quantize.speech import (
    dialect_phonemes,
    lines_by_voice,
    own_speech,
    speakers,
    text_encoder,
    vocoder_inputs,
)
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs

FIRST_SEED = 1000  # calibration noise is never the evaluation's


def calibration_inputs(
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
    sentences, voices = own_speech(checkpoint, TUNING), speakers(checkpoint, TUNING)
    # the judged set is not spoken: its texts are enough
    judged = [
        Said(f"{JUDGED}-{number:02d}", line.text, dialect_phonemes(line, voice))
        for number, (voice, line) in enumerate(lines_by_voice(checkpoint, JUDGED))
    ]
    require_disjoint(sentences, judged)
    if clips is not None and clips > len(sentences):
        raise InputError(f"{clips} tuning sentences asked for, there are {len(sentences)}")
    encoder = text_encoder(checkpoint)
    for number, sentence in enumerate(sentences[:clips]):
        utterance = replace(sentence, voice=voices[(number + shift) % len(voices)])
        yield vocoder_inputs(
            checkpoint,
            vocoder,
            encoder,
            utterance,
            seed=first_seed + shift * len(sentences) + number,
        )
