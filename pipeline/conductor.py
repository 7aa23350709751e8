"""The conductor: text through three stages to audio, chunk by chunk, each chunk independent of all others.

    pipeline = Pipeline(g2p, encoder, vocoder, vocab)
    for speech in pipeline.speak(text, voice, SpeechOptions(speed=1.0, seed=0)): play(speech.audio)

Written down for other languages in docs/conductor.md, step by step with test vectors (python -m pipeline.vectors).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from core.errors import InputError, UtteranceTooLong
from core.steps import run
from encoder.steps import EncoderBackend
from encoder.vocab import check_speed
from g2p.result import Result
from pipeline.chunks import LONGEST_PHONEMES, Chunk, Pauses, asked_samples, chunks, halves
from pipeline.reading import Phonemizer
from pipeline.steps import STEPS, Chain, begin
from vocoder.inputs import Array, as_array
from vocoder.steps import VocoderBackend

STAGES = ("g2p", "encoder", "source", "vocoder", "join")


@dataclass(frozen=True)
class SpeechOptions:
    """How a text is spoken. Chunk k draws its noise from seed + k."""

    speed: float = 1.0
    seed: int = 0
    pauses: Pauses = field(default_factory=Pauses)


@dataclass(frozen=True)
class Speech:
    """One spoken chunk. durations [n + 2] frames, boundary tokens included; samples [600 F] float32, faded and within full scale.

    pause: samples of silence before it. peak: of the model's own waveform. seconds: spent by stage; empty for a chunk of an earlier run.
    """

    index: int
    chunk: Chunk
    durations: tuple[int, ...]
    samples: np.ndarray
    pause: int
    gain: float
    peak: float
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def audio(self) -> np.ndarray:
        """Silence, then the chunk: [pause + 600 F] float32."""
        return np.concatenate([np.zeros(self.pause, np.float32), self.samples])


Kept = Callable[[int, Chunk], Speech | None]  # what an earlier run left of chunk k, if it is this one


class Pipeline:
    """Responsibilities: 1. order of the stages and what stands between them; 2. cutting what is too long; 3. time spent by stage."""

    def __init__(
        self,
        g2p: Phonemizer,
        encoder: EncoderBackend,
        vocoder: VocoderBackend,
        vocab: Mapping[str, int],
        clock: Callable[[], float] = time.perf_counter,
        longest: int = LONGEST_PHONEMES,
    ) -> None:
        self.longest = longest
        self.g2p, self.encoder, self.vocoder, self.vocab, self.clock = g2p, encoder, vocoder, vocab, clock
        self.dropped: dict[str, int] = {}

    def speak(self, text: str, voice: Array, options: SpeechOptions, kept: Kept = lambda _index, _chunk: None) -> Iterator[Speech]:
        """Audio of `text` as it is finished. voice [510, 1, 256].

        Raises InputError: nothing to say, speed out of range, phonemes outside the vocabulary.
        """
        check_speed(options.speed)
        self.dropped, index, pause, started = {}, 0, 0, self.clock()
        for sentence in chunks(self._counted(self.g2p.sentences(text)), text, self.longest):
            phonemized, waiting = self.clock() - started, [sentence]
            while waiting:
                chunk = waiting.pop()
                pause = pause if chunk.before_s is None else asked_samples(chunk.before_s)
                try:
                    speech = kept(index, chunk) or self._spoken(chunk, index, voice, options, pause, phonemized)
                except UtteranceTooLong:
                    waiting.extend(reversed(halves(chunk)))
                    continue
                yield speech
                index, pause, phonemized = index + 1, options.pauses.samples(chunk.ending, options.speed), 0.0
            started = self.clock()
        if not index:
            left_out = ", ".join(f"{count} {what}" for what, count in self.dropped.items())
            raise InputError(f"nothing to say: the text holds no word{f' (left out: {left_out})' if left_out else ''}")

    def _counted(self, results: Iterator[Result]) -> Iterator[Result]:
        for result in results:
            for what, count in result.dropped.items():
                self.dropped[what] = self.dropped.get(what, 0) + count
            yield result

    def _spoken(self, chunk: Chunk, index: int, voice: Array, options: SpeechOptions, pause: int, phonemized: float) -> Speech:
        if not chunk.phonemes:  # silence that the text asks for behind its last word
            return Speech(index, chunk, (), np.zeros(0, np.float32), pause, 1.0, 0.0, {"g2p": phonemized} | dict.fromkeys(STAGES[1:], 0.0))
        chain = Chain(self.vocab, as_array(voice), self.encoder, self.vocoder)
        seconds = {"g2p": phonemized} | dict.fromkeys(STAGES[1:], 0.0)
        tensors = run(STEPS, chain, begin(chunk.phonemes, options.speed, options.seed + index), self.clock, seconds)
        durations, peak = tuple(tensors["durations"].tolist()), float(np.abs(tensors["waveform"]).max())
        return Speech(index, chunk, durations, tensors["samples"], pause, float(tensors["gain"][0]), peak, seconds)
