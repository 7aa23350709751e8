"""What speaking does to a chunk's audio beyond the models: ticks behind the last word faded;
silence at both ends cut; one loudness.

    # the same, but for what sounds after the word has ended
    without_tick(samples, durations, phonemes)
    TrimmedSink(sink).write(samples)
    # the whole audio at -19 LUFS, and the loudness reached
    levelled(samples, -19)

Kokoro ticks after short texts in some voices ("Hi.", "No?"), in PyTorch as in every package: single
samples at -17 to -28 dBFS behind the last phone. Judge and vectors never come here: they hear what
the models made.
"""

from collections.abc import Sequence

import numpy as np

from kokoro_ane.core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p.alphabet import PRIMARY, SECONDARY
from kokoro_ane.pipeline.audio import FADE_SAMPLES, Sink, fade

# of full scale: a word is over, and a tick begins, where samples stay below, or pass it
QUIET = 10 ** (-40 / 20)
STEP = 60  # samples, 2.5 ms
ENDED_STEPS = 4  # 10 ms of quiet end a word
TICK_STEPS = 12  # 30 ms: what sounds longer is speech, and stays
# their release may come 75 ms late, behind a closure as quiet as a pause
PLOSIVES, RELEASE_FRAMES = frozenset("ptkbdɡɾʔʧʤT"), 3
# samples of silence that stay: 0.1 s, 0.25 s
LEAD, TAIL = SAMPLE_RATE_HZ // 10, SAMPLE_RATE_HZ // 4
SILENT = 10 ** (-50 / 20)  # of full scale
# of a sample, when a level is asked for: room for what coding and resampling add
LOUDEST_DBFS = -1.0
LEVELS_LUFS = (-50.0, -5.0)


def word_end(durations: Sequence[int], phonemes: str) -> int:
    """Sample at which the last phone ends, by the durations [n + 2]; a plosive's with room for its
    release. 0 without a phone.
    """
    phones = [
        place
        for place, symbol in enumerate(phonemes)
        if symbol.isalpha() and symbol not in PRIMARY + SECONDARY
    ]
    if not phones:
        return 0
    late = RELEASE_FRAMES if phonemes[phones[-1]] in PLOSIVES else 0
    # the first duration is the boundary's
    return FRAME_SAMPLES * (int(sum(durations[: phones[-1] + 2])) + late)


def without_tick(samples: np.ndarray, durations: Sequence[int], phonemes: str) -> np.ndarray:
    """samples [600 F] float32 with what is shorter than 30 ms, behind 10 ms of quiet behind the
    last phone, faded to silence.

    Sound that goes on past the last phone (a vowel that rings out, a late release) is followed to
    its end and stays as it is.
    """
    return TickFade(durations, phonemes, len(samples))(samples)


class TickFade:
    """`without_tick` for a chunk that comes in pieces. What lies behind the last phone is held back
    until the chunk's last sample is there; where all of it is in the last piece, as it mostly is,
    nothing comes later than it would.
    """

    def __init__(self, durations: Sequence[int], phonemes: str, length: int) -> None:
        """`length`: samples of the chunk."""
        self.length, self.at, self.held = length, 0, np.zeros(0, np.float32)
        self.end = word_end(durations, phonemes) or length

    def __call__(self, piece: np.ndarray) -> np.ndarray:
        """The next piece [n] float32 -> what can be heard of it and before it."""
        word = piece[: max(0, self.end - self.at)]
        self.at, self.held = self.at + len(piece), np.concatenate([self.held, piece[len(word) :]])
        return word if self.at < self.length else np.concatenate([word, _faded(self.held)])


def _faded(tail: np.ndarray) -> np.ndarray:
    """What lies behind the last phone, [n] float32."""
    count = len(tail) // STEP
    # [steps of 2.5 ms]
    loud = np.abs(tail[: count * STEP]).reshape(count, STEP).max(axis=1) > QUIET
    over = _over(loud) if count > ENDED_STEPS else None
    if over is None or not loud[over:].any():
        return tail
    found, start = tail.copy(), over * STEP
    found[start : start + FADE_SAMPLES] *= fade(len(found[start : start + FADE_SAMPLES]))[::-1]
    found[start + FADE_SAMPLES :] = 0.0
    return found


def _over(loud: np.ndarray) -> int | None:
    """The step from which only ticks come; None where speech goes on to the end. loud [steps]
    bool.
    """
    steps, over = np.flatnonzero(loud), 0
    # with no pause inside
    for run in (
        np.split(steps, np.flatnonzero(np.diff(steps) > ENDED_STEPS) + 1) if len(steps) else ()
    ):
        # speech, or no pause before it
        if run[-1] + 1 - run[0] > TICK_STEPS or run[0] - over < ENDED_STEPS:
            over = int(run[-1]) + 1
    return over if len(loud) - over >= ENDED_STEPS else None


class TrimmedSink(Sink):
    """A sink's samples without silence before the first sound beyond 0.1 s, and behind the last
    beyond 0.25 s; what is between stays.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self.sink, self.held, self.begun, self.cut = sink, np.zeros(0, np.float32), False, 0

    def write(self, samples: np.ndarray) -> None:
        """samples [n] float32 in -1..1; silence is held back until a sound follows."""
        held = np.concatenate([self.held, samples])
        heard = np.flatnonzero(np.abs(held) > SILENT)
        if len(heard):
            first = 0 if self.begun else max(0, int(heard[0]) - LEAD)
            last = int(heard[-1]) + 1
            self.cut, self.begun = self.cut + first, True
            self.sink.write(held[first:last])
            held = held[last:]
        self.held = held

    def finish(self) -> None:
        """The last sound's silence, 0.25 s at most."""
        kept = self.held[:TAIL] if self.begun else self.held
        self.cut += len(self.held) - len(kept)
        self.sink.write(kept)
        self.full_scale = self.sink.full_scale

    def _put(self, pcm: np.ndarray) -> None:
        raise NotImplementedError("TrimmedSink writes through another sink")


def check_loudness(lufs: float) -> float:
    """Raises InputError for what is no loudness of speech."""
    if not LEVELS_LUFS[0] <= lufs <= LEVELS_LUFS[1]:
        raise InputError(
            f"a loudness of {lufs:g} LUFS: give {LEVELS_LUFS[0]:g} to {LEVELS_LUFS[1]:g}; -19 is"
            " usual for mono speech"
        )
    return lufs


def levelled(samples: np.ndarray, lufs: float) -> tuple[np.ndarray, float | None]:
    """samples [n] float32 at `lufs` by ITU-R BS.1770-4 (pyloudnorm), or as near as a peak of
    LOUDEST_DBFS lets, and the LUFS reached.

    None, and the samples as they are: silence, or shorter than the 0.4 s of which a loudness can be
    told.
    """
    from pyloudnorm import Meter

    meter = Meter(SAMPLE_RATE_HZ)
    if len(samples) < meter.block_size * SAMPLE_RATE_HZ or np.isneginf(
        found := meter.integrated_loudness(samples.astype(np.float64))
    ):
        return samples, None
    gain_db = min(lufs - found, LOUDEST_DBFS - 20 * np.log10(np.abs(samples).max()))
    return samples * np.float32(10 ** (gain_db / 20)), round(float(found + gain_db), 2)


class LevelledSink(Sink):
    """A sink's samples at one loudness: all are held until the last is there."""

    def __init__(self, sink: Sink, lufs: float) -> None:
        super().__init__()
        self.sink, self.lufs, self.held, self.reached = (
            sink,
            lufs,
            [],
            None,
        )  # type: Sink, float, list[np.ndarray], float | None

    def write(self, samples: np.ndarray) -> None:
        """samples [n] float32 in -1..1."""
        self.held.append(samples)

    def finish(self) -> None:
        """Level, and write it all."""
        samples, self.reached = levelled(
            np.concatenate([np.zeros(0, np.float32), *self.held]), self.lufs
        )
        self.sink.write(samples)
        self.full_scale = self.sink.full_scale

    def _put(self, pcm: np.ndarray) -> None:
        raise NotImplementedError("LevelledSink writes through another sink")
