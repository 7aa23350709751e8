"""Synthesis: phonemes through the chain of steps to samples; text through it call by call, each
call independent of all others, and joined with the silence that the text asks for.

    chain = Chain(vocab, voice, encoder, vocoder)
    run_steps(STEPS, chain, begin("həlˈO.", speed=1.0, seed=0))["samples"]              # [600F]
    pipeline = Pipeline(g2p, encoder, vocoder, vocab)
    for speech in pipeline.speak(text, voice, SpeechOptions(speed=1.0, seed=0)): play(speech.audio)

speak, validate, vectors, bundle and eval all run these steps; which backend computes is the only
difference. docs/synthesis.md says them for other languages, with test vectors of each step.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kokoro_ane.core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from kokoro_ane.core.errors import InputError, UtteranceTooLong
from kokoro_ane.core.steps import Step, Tensors, require_shape, run_steps
from kokoro_ane.encoder.encoder_steps import MAX_SPEED, MIN_SPEED, EncoderBackend, check_speed
from kokoro_ane.encoder.encoder_steps import STEPS as ENCODER_STEPS
from kokoro_ane.g2p.result import Result
from kokoro_ane.g2p.ssml import VOICE_MARK
from kokoro_ane.pipeline.audio import StreamFinish, finished, join_db
from kokoro_ane.pipeline.joins import (
    JoinTrim,
    NoPause,
    Share,
    edges_of,
    heard,
    shares_of,
    with_pauses,
)
from kokoro_ane.pipeline.text import (
    LONGEST_PHONEMES,
    Chunk,
    Pauses,
    Phonemizer,
    calls,
    chunks,
    halves,
    joined_call,
)
from kokoro_ane.vocoder.packing import Array, as_array
from kokoro_ane.vocoder.vocoder_steps import STEPS as VOCODER_STEPS
from kokoro_ane.vocoder.vocoder_steps import VOCODER, VocoderBackend, require_sound

STAGES = ("g2p", "encoder", "source", "vocoder", "join")


@dataclass(frozen=True, eq=False)
class Chain:
    """What the steps work with: vocabulary, one voice [510, 1, 256], and who computes encoder and
    vocoder.
    """

    vocab: Mapping[str, int]
    voice: np.ndarray
    encoder: EncoderBackend
    vocoder: VocoderBackend


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

    raw: each chunk in a call of its own and as the models made it: with their silence at both ends,
    which stands beside the pauses, and their ticks.
    """

    speed: float = 1.0
    seed: int = 0
    pauses: Pauses = field(default_factory=Pauses)
    raw: bool = False

    def silence(self, before: "Speech | None", chunk: Chunk) -> int:
        """Samples of silence between the last sound before `chunk` and its first."""
        # a silence that the text asks for is the same at every pace
        if chunk.before_s is not None:
            return int(chunk.before_s * SAMPLE_RATE_HZ + 0.5)
        return self.pauses.samples(before.chunk.ending, self.speed) if before else 0


@dataclass
class Level:
    """The peak of a call's waveforms, before fades and gain, and what it was turned down by."""

    peak: float = 0.0
    gain: float = 1.0

    def add(self, waveform: np.ndarray, gain: float) -> None:
        """The next piece [n]."""
        self.peak, self.gain = max(self.peak, float(np.abs(waveform).max())), gain


@dataclass(frozen=True)
class Speech:
    """One spoken chunk. durations [n + 2] frames as the model gave them, boundary tokens included;
    samples float32, faded and within full scale.

    pause: samples of silence before it. peak: of the model's own waveform. seconds: spent by stage;
    empty for a chunk of an earlier run. edges [n + 3]: where each token is heard to begin in
    `samples`, and where the last ends; by default what the durations say.
    """

    index: int
    chunk: Chunk
    durations: tuple[int, ...]
    samples: np.ndarray
    pause: int
    gain: float
    peak: float
    seconds: Mapping[str, float] = field(default_factory=dict)
    edges: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.edges:
            object.__setattr__(self, "edges", tuple(edges_of(self.durations).tolist()))

    @property
    def audio(self) -> np.ndarray:
        """Silence, then the chunk: [pause + samples] float32."""
        return np.concatenate([np.zeros(self.pause, np.float32), self.samples])


@dataclass(frozen=True)
class Player:
    """Where audio goes as it is computed: `write` takes samples [n] float32; `heard` takes how many
    were written.
    """

    write: Callable[[np.ndarray], None]
    heard: Callable[[int], None]

    def __call__(self, samples: np.ndarray) -> None:
        if len(samples):
            self.write(samples)
            self.heard(len(samples))


class Pipeline:
    """Responsibilities: 1. order of the stages and what stands between them; 2. cutting what is too
    long; 3. time spent by stage.
    """

    def __init__(
        self,
        g2p: Phonemizer,
        encoder: EncoderBackend,
        vocoder: VocoderBackend,
        vocab: Mapping[str, int],
        clock: Callable[[], float] = time.perf_counter,
        longest: int = LONGEST_PHONEMES,
        voices: Callable[[str], Array] | None = None,
    ) -> None:
        """`voices`: the style pack of a voice that the text names; None: it names none."""
        self.g2p, self.encoder, self.vocoder, self.vocab = g2p, encoder, vocoder, vocab
        self.clock, self.longest, self.voices = clock, longest, voices
        self.dropped: dict[str, int] = {}

    def speak(
        self,
        text: str | Iterable[str],
        voice: Array,
        options: SpeechOptions,
        earlier: Callable[[int, Chunk], Speech | None] = lambda _index, _chunk: None,
        play: Player | None = None,
    ) -> Iterator[Speech]:
        """Audio of `text`, a whole or parts in order, as it is finished. voice [510, 1, 256].

        `earlier` gives what an earlier run left of a chunk. `play` takes each window of a chunk
        before the chunk is yielded, where the vocoder has windows (vocoder/streaming), else each
        chunk.

        Raises InputError: nothing to say, speed out of range, phonemes outside the vocabulary.
        """
        check_speed(options.speed)
        self.dropped, index, started = {}, 0, self.clock()
        before: Speech | None = None
        for call in self._calls(text, options.raw):
            phonemized, waiting = self.clock() - started, [call]
            # a chunk that the encoder refuses is cut in two, and each half is tried like a chunk of
            # the text
            while waiting:
                call = waiting.pop()
                stored = [earlier(index + place, chunk) for place, chunk in enumerate(call)]
                try:
                    made = (
                        stored
                        if all(stored)
                        else self._spoken(call, index, voice, options, before, phonemized, play)
                    )
                except (UtteranceTooLong, NoPause):
                    parts = call if len(call) > 1 else halves(call[0])
                    waiting.extend((part,) for part in reversed(parts))
                    continue
                for kept, speech in zip(stored, made, strict=True):
                    before = kept or speech
                    assert before is not None  # one of the two is
                    yield before
                index, phonemized = index + len(call), 0.0
            started = self.clock()
        if not index:
            counts = ", ".join(f"{count} {what}" for what, count in self.dropped.items())
            left_out = f" (left out: {counts})" if counts else ""
            raise InputError(f"nothing to say: the text holds no word{left_out}")

    def _calls(self, text: str | Iterable[str], raw: bool) -> Iterator[tuple[Chunk, ...]]:
        """Chunks of each call, their words' places counted in the whole text."""
        offset, mark = 0, ""
        for part in (text,) if isinstance(text, str) else text:
            # a voice's mark holds for the parts behind it too
            offset -= len(mark)
            part = mark + part
            planned = chunks(self._counted(self.g2p(part)), part, self.longest)
            for call in ((chunk,) for chunk in planned) if raw else calls(planned):
                yield tuple(chunk.moved(offset) for chunk in call) if offset else call
            offset += len(part)
            mark = "".join(match[0] for match in [*VOICE_MARK.finditer(part)][-1:])

    def _counted(self, results: Iterator[Result]) -> Iterator[Result]:
        for result in results:
            for what, count in result.dropped.items():
                self.dropped[what] = self.dropped.get(what, 0) + count
            yield result

    def _spoken(
        self,
        call: tuple[Chunk, ...],
        index: int,
        voice: Array,
        options: SpeechOptions,
        before: Speech | None,
        phonemized: float,
        play: Player | None,
    ) -> list[Speech]:
        """The chunks of one call, each joined to what was spoken before it. Raises NoPause where
        the model runs two of them together.
        """
        seconds = {"g2p": phonemized} | dict.fromkeys(STAGES[1:], 0.0)
        if not call[0].phonemes:  # silence that the text asks for behind its last word
            pause, nothing = options.silence(before, call[0]), np.zeros(0, np.float32)
            if play:
                play(np.zeros(pause, np.float32))
            return [Speech(index, call[0], (), nothing, pause, 1.0, 0.0, seconds)]
        if call[0].voice:
            if self.voices is None:
                raise InputError(f"the text names voice {call[0].voice!r}, and only one is open")
            voice = self.voices(call[0].voice)
        # a mark in the text changes the pace of its own words, within what the model can say
        chain = Chain(self.vocab, as_array(voice), self.encoder, self.vocoder)
        speed = min(max(options.speed * call[0].rate, MIN_SPEED), MAX_SPEED)
        inputs = begin(joined_call(call), speed, options.seed + index)
        tensors = run_steps(ROUNDED, chain, inputs, self.clock, seconds)
        durations = with_pauses(tensors["durations"], [chunk.phonemes for chunk in call])
        tensors |= {"durations": durations}
        tensors = run_steps(BEFORE_VOCODER, chain, tensors, self.clock, seconds)
        frames, level = durations.tolist(), Level()
        pieces = self._pieces(chain, tensors, play is not None and len(call) == 1, level, seconds)
        if len(call) > 1:
            shares = shares_of(np.concatenate([*pieces]), frames, [one.phonemes for one in call])
        else:
            shares = [Share(tuple(frames), edges_of(frames), pieces)]
        speeches = []
        for place, (chunk, share) in enumerate(zip(call, shares, strict=True)):
            pause = options.silence(before, chunk)
            first = before is None and chunk.before_s is None
            trim = None if options.raw else JoinTrim(share.edges, chunk.phonemes, first)
            samples, edges = _joined(share, chunk.phonemes, pause, trim, play)
            # what a call takes is counted with its first chunk
            spent = dict.fromkeys(STAGES, 0.0) if place else seconds
            before = Speech(
                index + place,
                chunk,
                share.durations,
                samples,
                pause,
                level.gain,
                level.peak,
                spent,
                edges,
            )
            speeches.append(before)
        return speeches

    def _pieces(
        self,
        chain: Chain,
        tensors: Tensors,
        windowed: bool,
        level: Level,
        seconds: dict[str, float],
    ) -> Iterator[np.ndarray]:
        """Finished samples of what the steps before the vocoder made: window by window where it has
        windows and `windowed`, else in one piece.
        """
        if not (windowed and hasattr(self.vocoder, "pieces")):
            tensors = run_steps(STEPS, chain, tensors, self.clock, seconds)
            level.add(tensors["waveform"], float(tensors["gain"][0]))
            yield tensors["samples"]
            return
        frames, started = tensors["asr"].shape[-1], self.clock()
        finish = StreamFinish(FRAME_SAMPLES * frames)
        waveforms = []
        for piece in self.vocoder.pieces(tensors["features"], tensors["style"], frames):
            waveform = as_array(piece)
            require_sound(waveform)
            waveforms.append(waveform)
            samples = finish(waveform)
            level.add(waveform, finish.gain)
            # the time that playing takes is not the vocoder's
            seconds[VOCODER] += self.clock() - started
            yield samples
            started = self.clock()
        require_shape(
            "waveform", np.concatenate(waveforms), (FRAME_SAMPLES * frames,), f"{frames} frames"
        )


def _joined(
    share: Share, phonemes: str, pause: int, trim: JoinTrim | None, play: Player | None
) -> tuple[np.ndarray, tuple[int, ...]]:
    """A chunk's samples, cut by `trim`, each piece given to `play` as it is there, behind `pause`
    samples of silence; and where its tokens are heard in them.
    """
    kept = [np.zeros(0, np.float32)]
    if play:
        play(np.zeros(pause, np.float32))
    for piece in share.pieces:
        kept.append(trim(piece) if trim else piece)
        if play:
            play(kept[-1])
    samples, edges = np.concatenate(kept), share.edges
    if trim:
        edges = heard(samples, edges - trim.start, phonemes)
    return samples, tuple(edges.tolist())


class SynthesisStats:
    """Responsibilities: 1. sum times and lengths; 2. measure each join; 3. report."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock, self.started = clock, clock()
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.chunks = self.earlier = self.turned_down = self.samples = 0
        self.spoken = self.phonemes = self.played = 0
        self.peak, self.lowest_gain, self.worst_join_db = 0.0, 1.0, float("-inf")
        self.first_audio_s: float | None = None
        self.least_margin_s: float | None = None  # of audio that was there before it was needed
        self.loudness_lufs: float | None = None  # of the levelled output
        self.seconds_trimmed = 0.0
        self._before: np.ndarray | None = None

    def heard(self, samples: int) -> None:
        """So many samples were written. A listener who began at the first of them waits where the
        margin is negative.
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
        """The next chunk, after it was written."""
        if self.first_audio_s is None:
            self.first_audio_s = self.clock() - self.started
        # a chunk of an earlier run has spent nothing in this one
        for stage, spent in speech.seconds.items():
            self.seconds[stage] += spent
        if self._before is not None and len(speech.samples):  # the silence at the end has no join
            self.worst_join_db = max(
                self.worst_join_db, join_db(self._before, speech.samples, speech.pause)
            )
        self._before = speech.samples
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
        spoken_s, spent = self.spoken / SAMPLE_RATE_HZ, sum(self.seconds.values())
        joined = np.isfinite(self.worst_join_db)

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
            "worst_join_db": round(self.worst_join_db, 1) if joined else None,
        }
