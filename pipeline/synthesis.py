"""Synthesis: phonemes through the steps of the chain to samples, and text through the chain: g2p,
chunks, calls, encoder, vocoder, join. Each call is independent of all others.

    chain = Chain(vocab, voice, encoder, vocoder)
    run_steps(STEPS, chain, begin("həlˈO.", speed=1.0, seed=0))["samples"]              # [600F]
    pipeline = Pipeline(g2p, encoder, vocoder, vocab)
    for speech in pipeline.speak(text, voice, SpeechOptions(speed=1.0, seed=0)): play(speech.audio)

speak, validate, vectors, bundle and eval all run these steps; which backend computes is the only
difference. docs/synthesis.md describes them for a port, with test vectors of each step.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_ane.core import (
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    InputError,
    Step,
    Tensors,
    UtteranceTooLong,
    Voice,
    run_steps,
)
from kokoro_ane.encoder import MAX_SPEED, MIN_SPEED, EncoderBackend, check_speed
from kokoro_ane.encoder import STEPS as ENCODER_STEPS
from kokoro_ane.pipeline.audio import StreamFinish, finished
from kokoro_ane.pipeline.joins import (
    JoinTrim,
    NoPause,
    Share,
    find_edges,
    lengthen_pauses,
    move_to_sound,
    split_shares,
)
from kokoro_ane.vocoder import STEPS as VOCODER_STEPS
from kokoro_ane.vocoder import VOCODER, VOCODER_INPUTS, VocoderBackend, require_sound
from kokoro_g2p import (
    LONGEST_PHONEMES,
    LOOKED_BACK,
    PAUSES_S,
    VOICE_MARK,
    Chunk,
    Phonemizer,
    calls,
    chunks,
    nothing_to_say,
)

NO_TURNS = nullcontext()
STAGES = ("g2p", "encoder", "source", "vocoder", "join")


@dataclass(frozen=True, eq=False)
class Chain:
    """What the steps work with: vocabulary, one voice, and who computes encoder and vocoder."""

    vocab: Mapping[str, int]
    speaker: Voice
    encoder: EncoderBackend
    vocoder: VocoderBackend

    @property
    def voice(self) -> np.ndarray:
        """The style pack [510, 1, 256]."""
        return self.speaker.pack

    def statistics_for(self, phonemes: int) -> np.ndarray:
        """What the voice adds to predicted statistics in an utterance of so many phonemes [2R]."""
        return self.speaker.statistics_for(phonemes)


def begin(phonemes: str, speed: float, seed: int) -> Tensors:
    """What an utterance starts from, as arrays: phonemes [n] code points, speed [1], seed [1]."""
    return {
        "phonemes": np.array([ord(symbol) for symbol in phonemes], np.int32),
        "speed": np.array([speed], np.float32),
        "seed": np.array([seed], np.int64),
    }


def _finish(_: Chain, inputs: Tensors) -> Tensors:
    samples, gain = finished(inputs["waveform"])
    return {"samples": samples, "gain": np.array([gain], np.float32)}


STEPS = (
    *ENCODER_STEPS,
    *VOCODER_STEPS,
    Step(
        "finish",
        "join",
        "fades of 120 samples, turned down where louder than full scale",
        ("waveform",),
        {"samples": 100.0, "gain": 100.0},
        _finish,
    ),
)
# durations are settled here; and what comes before a vocoder that gives its samples in windows
ROUNDED, BEFORE_VOCODER = (
    STEPS[: [step.name for step in STEPS].index(name)] for name in ("align", VOCODER)
)


@dataclass(frozen=True)
class SpeechOptions:
    """How a text is spoken. A call whose first chunk is k draws its noise from seed + k.

    raw: each chunk is a call of its own and stays as the models made it: with their silence at both
    ends, which stands beside the pauses, and their ticks.
    windowed: a chunk is given out window by window, where the vocoder has windows.
    pauses: seconds by NAMED_PAUSES in the place of PAUSES_S, at any speed.
    """

    speed: float = 1.0
    seed: int = 0
    raw: bool = False
    windowed: bool = False
    pauses: Mapping[str, float] | None = None

    def silence(self, before: "Speech | None", chunk: Chunk) -> int:
        """Samples of silence between the last sound before `chunk` and its first."""
        # a silence that was asked for is the same at every pace
        if chunk.before_s is not None:
            return int(chunk.before_s * SAMPLE_RATE_HZ + 0.5)
        if before is None:
            return 0
        name: str = before.chunk.ending
        if is_chapter_start(before, chunk) or chunk.opening == "scene":
            name = chunk.opening
        seconds = (self.pauses or {}).get(name, PAUSES_S[name] / self.speed)
        return int(seconds * SAMPLE_RATE_HZ + 0.5)


@dataclass(frozen=True)
class Speech:
    """One spoken chunk. durations [n + 2] frames as the model gave them, boundary tokens included;
    edges [n + 3]: where each token is heard to begin in `samples`, and where the last one ends;
    samples float32, faded and within full scale.

    pause: samples of silence before it. gain, peak: what its call was turned down by, and the peak
    of the waveform before that. seconds: spent by stage; empty for a chunk of an earlier run.
    """

    index: int
    chunk: Chunk
    durations: tuple[int, ...]
    edges: tuple[int, ...]
    samples: np.ndarray
    pause: int
    gain: float
    peak: float
    seconds: Mapping[str, float]

    @property
    def audio(self) -> np.ndarray:
        """Silence, then the chunk: [pause + samples] float32."""
        return np.concatenate([np.zeros(self.pause, np.float32), self.samples])


def is_chapter_start(before: Speech | None, chunk: Chunk) -> bool:
    """Whether a chapter begins with `chunk`: of headings behind one another the first opens it."""
    return chunk.opening == "chapter" and (before is None or before.chunk.opening != "chapter")


@dataclass
class PeakLevel:
    """The peak of a call's waveform before fades and gain, and its gain, of what is computed so
    far.
    """

    peak: float = 0.0
    gain: float = 1.0

    def add(self, waveform: np.ndarray, gain: float) -> None:
        """The next piece [n]."""
        self.peak = max(self.peak, float(np.abs(waveform).max()))
        self.gain = gain


def take_turns(
    blocks: Iterable[np.ndarray | Speech], turn: AbstractContextManager[object]
) -> Iterator[np.ndarray | Speech]:
    """The blocks, each computed while `turn` is held, which is free while they are used."""
    iterator = iter(blocks)
    while True:
        with turn:
            block = next(iterator, None)
        if block is None:
            return
        yield block


class Pipeline:
    """Responsibilities: 1. the order of the stages and what stands between them; 2. cutting what is
    too long; 3. the time spent by stage.
    """

    def __init__(
        self,
        g2p: Phonemizer,
        encoder: EncoderBackend,
        vocoder: VocoderBackend,
        vocab: Mapping[str, int],
        clock: Callable[[], float] = time.perf_counter,
        longest: int = LONGEST_PHONEMES,
        voices: Callable[[str], Voice] | None = None,
        turn: AbstractContextManager[object] = NO_TURNS,
    ) -> None:
        """`voices` gives a voice that the text names; without it the text may name none. `turn` is
        held while models compute.
        """
        self.g2p, self.encoder, self.vocoder, self.vocab = g2p, encoder, vocoder, vocab
        self.clock, self.longest, self.voices, self.turn = clock, longest, voices, turn
        self.dropped = Counter[str]()

    def speak(
        self,
        text: str | Iterable[str],
        voice: Voice,
        options: SpeechOptions,
        earlier: Callable[[int, Chunk], Speech | None] | None = None,
    ) -> Iterator[Speech]:
        """The chunks of `text`, each when it is complete. Arguments and errors as of `blocks`."""
        for block in self.blocks(text, voice, options, earlier):
            if isinstance(block, Speech):
                yield block

    def blocks(
        self,
        text: str | Iterable[str],
        voice: Voice,
        options: SpeechOptions,
        earlier: Callable[[int, Chunk], Speech | None] | None = None,
    ) -> Iterator[np.ndarray | Speech]:
        """Audio of `text`, a whole or parts in order: samples [n] as they are computed, and behind
        the last ones of a chunk its Speech. `earlier` gives what an earlier
        run left of a chunk.

        Raises InputError: nothing to say, speed out of range, phonemes outside the vocabulary.
        """
        check_speed(options.speed)
        self.dropped = Counter[str]()
        index = 0
        started = self.clock()
        before: Speech | None = None
        for call in self._calls(text, options.raw):
            phonemized = self.clock() - started
            waiting = [call]
            # a chunk that the encoder refuses is cut in two, and each half is tried like a chunk of
            # the text
            while waiting:
                call = waiting.pop()
                stored = [
                    earlier(index + place, chunk) if earlier else None
                    for place, chunk in enumerate(call)
                ]
                spoken: Iterable[np.ndarray | Speech]
                if all(stored):
                    spoken = itertools.chain.from_iterable(
                        (one.audio, one) for one in stored if one
                    )
                else:
                    spoken = self._spoken(call, index, voice, options, before, phonemized)
                try:
                    for block in take_turns(spoken, self.turn):
                        if isinstance(block, Speech):
                            before = block
                        yield block
                except (UtteranceTooLong, NoPause):
                    parts = call if len(call) > 1 else call[0].halves()
                    waiting.extend((part,) for part in reversed(parts))
                    continue
                index += len(call)
                phonemized = 0.0
            started = self.clock()
        if not index:
            raise nothing_to_say(self.dropped)

    def _calls(self, text: str | Iterable[str], raw: bool) -> Iterator[tuple[Chunk, ...]]:
        """Chunks of each call, their words' places counted in the whole text."""
        offset = 0
        mark = ""
        before = ""
        for part in (text,) if isinstance(text, str) else text:
            # a voice's mark holds for the parts behind it too
            offset -= len(mark)
            part = mark + part
            planned = chunks(self.g2p(part), part, self.longest, self.dropped, before)
            for call in ((chunk,) for chunk in planned) if raw else calls(planned):
                yield tuple(chunk.moved(offset) for chunk in call) if offset else call
            offset += len(part)
            before = (before + part)[-LOOKED_BACK:]
            mark = "".join(match[0] for match in [*VOICE_MARK.finditer(part)][-1:])

    def _spoken(
        self,
        call: tuple[Chunk, ...],
        index: int,
        voice: Voice,
        options: SpeechOptions,
        before: Speech | None,
        phonemized: float,
    ) -> Iterator[np.ndarray | Speech]:
        """The chunks of one call through encoder, vocoder and join. Raises UtteranceTooLong, and
        NoPause where the model runs two of them together, before it gives the first samples.
        """
        seconds = {"g2p": phonemized} | dict.fromkeys(STAGES[1:], 0.0)
        if not call[0].phonemes:  # silence that the text asks for behind its last word
            pause = options.silence(before, call[0])
            nothing = np.zeros(0, np.float32)
            speech = Speech(index, call[0], (), (0,), nothing, pause, 1.0, 0.0, seconds)
            yield speech.audio
            yield speech
            return
        if call[0].voice:
            if self.voices is None:
                raise InputError(f"the text names voice {call[0].voice!r}, and only one is open")
            voice = self.voices(call[0].voice)

        # encoder: durations, with pauses between the chunks of the call; then F0 and energy
        phonemes = [chunk.phonemes for chunk in call]
        chain = Chain(self.vocab, voice, self.encoder, self.vocoder)
        # a mark in the text changes the pace of its own words, within what the model can say
        speed = min(max(options.speed * call[0].rate, MIN_SPEED), MAX_SPEED)
        inputs = begin(" ".join(phonemes), speed, options.seed + index)
        tensors = run_steps(ROUNDED, chain, inputs, self.clock, seconds)
        tensors["durations"] = lengthen_pauses(tensors["durations"], phonemes)
        tensors = run_steps(BEFORE_VOCODER, chain, tensors, self.clock, seconds)

        # vocoder: the samples of the call, and which of them belong to which chunk
        durations = tensors["durations"].tolist()
        level = PeakLevel()
        windowed = options.windowed and len(call) == 1
        pieces = self._pieces(chain, tensors, windowed, level, seconds)
        shares = [Share(tuple(durations), find_edges(durations), pieces)]
        if len(call) > 1:
            shares = split_shares(np.concatenate([*pieces]), durations, phonemes)

        # join: the model's silence at both ends is cut, and the text's stands before the chunk
        for place, (chunk, share) in enumerate(zip(call, shares, strict=True)):
            pause = options.silence(before, chunk)
            if pause:
                yield np.zeros(pause, np.float32)
            first = before is None and chunk.before_s is None
            trim = None if options.raw else JoinTrim(share.edges, chunk.phonemes, first)
            parts = []
            for piece in share.pieces:
                parts.append(trim(piece) if trim else piece)
                if len(parts[-1]):
                    yield parts[-1]
            samples = np.concatenate(parts)
            edges = share.edges
            if trim:
                edges = move_to_sound(samples, edges - trim.start, chunk.phonemes)
            before = Speech(
                index + place,
                chunk,
                share.durations,
                tuple(edges.tolist()),
                samples,
                pause,
                level.gain,
                level.peak,
                # what a call takes is counted with its first chunk
                dict.fromkeys(STAGES, 0.0) if place else seconds,
            )
            yield before

    def _pieces(
        self,
        chain: Chain,
        tensors: Tensors,
        windowed: bool,
        level: PeakLevel,
        seconds: dict[str, float],
    ) -> Iterator[np.ndarray]:
        """The finished samples of a call: in windows where the vocoder has them and they are
        asked for, else in one piece. `tensors`: of the steps before the vocoder.
        """
        if not (windowed and hasattr(self.vocoder, "render_pieces")):
            tensors = run_steps(STEPS, chain, tensors, self.clock, seconds)
            level.add(tensors["waveform"], float(tensors["gain"][0]))
            yield tensors["samples"]
            return
        frames = tensors["asr"].shape[-1]
        started = self.clock()
        finish = StreamFinish(FRAME_SAMPLES * frames)
        inputs = (tensors[name] for name in VOCODER_INPUTS)
        for piece in self.vocoder.render_pieces(*inputs, frames):
            waveform = np.asarray(piece)
            require_sound(waveform)
            samples = finish(waveform)
            level.add(waveform, finish.gain)
            # the time that playing takes is not the vocoder's
            seconds[VOCODER] += self.clock() - started
            yield samples
            started = self.clock()
        if finish.at != finish.length:
            raise InputError(
                f"waveform has shape [{finish.at}], but {frames} frames need [{finish.length}]"
            )


class SynthesisStats:
    """Responsibilities: 1. sum times and lengths; 2. report."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, started: float | None = None
    ) -> None:
        """`started`: when the first audio began to be waited for, by `clock`; None: now."""
        self.clock = clock
        self.started = clock() if started is None else started
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.chunks = self.earlier = self.turned_down = self.samples = 0
        self.spoken = self.phonemes = self.played = 0
        self.peak, self.lowest_gain = 0.0, 1.0
        self.first_audio_s: float | None = None
        self.least_margin_s: float | None = None  # of audio that was there before it was needed

    def heard(self, samples: int) -> None:
        """Note that the next `samples` were written. A listener who began at the first of them
        waits where the margin is negative.
        """
        # the first samples start the listener's clock
        now = self.clock() - self.started
        if self.first_audio_s is None:
            self.first_audio_s = now
        else:
            margin = self.played / SAMPLE_RATE_HZ - (now - self.first_audio_s)
            self.least_margin_s = min(margin, self.least_margin_s or margin)
        self.played += samples

    def add(self, speech: Speech) -> None:
        """Add the next chunk."""
        # a chunk of an earlier run has spent nothing in this one
        for stage, spent in speech.seconds.items():
            self.seconds[stage] += spent
        self.chunks += 1
        self.earlier += not speech.seconds
        self.turned_down += speech.gain < 1
        self.lowest_gain = min(self.lowest_gain, speech.gain)
        self.peak = max(self.peak, speech.peak)
        self.samples += speech.pause + len(speech.samples)
        self.spoken += len(speech.samples) if speech.seconds else 0
        self.phonemes += len(speech.chunk.phonemes)

    def report(self) -> dict[str, Any]:
        """JSON-ready. real_time_factor: seconds spent in all stages for each second of audio spoken
        in this run, below 1 = faster.
        """
        spoken_s = self.spoken / SAMPLE_RATE_HZ
        spent = sum(self.seconds.values())

        def rounded(seconds: float | None) -> float | None:
            return None if seconds is None else round(seconds, 4)

        return {
            "seconds_of_audio": round(self.samples / SAMPLE_RATE_HZ, 6),
            "chunks": self.chunks,
            "chunks_of_an_earlier_run": self.earlier,
            "phonemes": self.phonemes,
            "seconds_by_stage": {stage: round(spent, 4) for stage, spent in self.seconds.items()},
            "real_time_factor": round(spent / spoken_s, 4) if spoken_s else None,
            "first_audio_s": rounded(self.first_audio_s),
            "least_margin_s": rounded(self.least_margin_s),
            "peak_of_the_model": round(self.peak, 4),
            "chunks_turned_down": self.turned_down,
            "turned_down_db": round(20 * float(np.log10(self.lowest_gain)), 2),
        }
