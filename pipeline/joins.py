"""Where a chunk sounds, by its durations and its energy: what a join cuts of the model's silence,
when each token is heard, and which samples of one call belong to which of its chunks.

    samples = JoinTrim(edges, phonemes, first=False)(whole)  # in one piece, or piece by piece
    edges = move_to_sound(whole, edges, phonemes)    # edges [tokens + 1]: in samples
    durations = lengthen_pauses(durations, parts)    # parts: phonemes of chunks of one call
    shares = split_shares(samples, durations, parts) # one for each of the parts

Kokoro leaves 0.3 to 0.5 s of silence before a chunk and 0.4 to 0.7 s behind it, most of it inside
the durations of the first and last phones. A sound begins up to 0.1 s before its token does. A step
of 2.5 ms is loud where a sample passes -40 dBFS. Fricatives and plosives fade in and out below
that: next to one, the search goes 50 ms further, down to -50 dBFS. Behind short texts Kokoro ticks
in some voices ("Hi.", "No?"), in PyTorch too: single samples at -17 to -28 dBFS behind the last
phone, which are no speech. Judge and vectors keep them: they hear what the models made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from kokoro_ane.core import FRAME_SAMPLES, SAMPLE_RATE_HZ, InputError
from kokoro_ane.pipeline.audio import FADE_SAMPLES, fade
from kokoro_g2p import PUNCTUATION, without_stress

STEP = 60  # samples, 2.5 ms
# of full scale
QUIET, FAINT = 10 ** (-40 / 20), 10 ** (-50 / 20)
ENDED_STEPS = 4  # 10 ms of quiet end a word
TICK_STEPS = 12  # 30 ms: what sounds longer is speech, and stays
# their release may come 75 ms late, behind a closure as quiet as a pause
PLOSIVES = frozenset("ptkbdɡɾʔʧʤT")
RELEASE_SAMPLES = 3 * FRAME_SAMPLES
NOISY = frozenset("fvθðszʃʒhçxptkbdɡʧʤʦʣɾʔT")
NOISY_STEPS = 20  # 50 ms
PAUSE_STEPS = 16  # 40 ms of quiet beside a mark are its pause
EARLY = SAMPLE_RATE_HZ // 10  # samples by which a sound begins before its token, at most
# The least frames of the last sound, of each mark and of the space between two chunks of one call:
# with the model's own durations 14 of 24 pairs of one-word sentences run together, with these one
LAST_FRAMES, MARK_FRAMES, SPACE_FRAMES = 10, 8, 6


def find_sounds(phonemes: str) -> list[int]:
    """The places of the symbols that are neither mark nor space; a stress mark counts as part of
    the sound behind it.
    """
    marks = PUNCTUATION + " "
    return [place for place, symbol in enumerate(phonemes) if symbol not in marks]


def strip_stress(phonemes: str) -> str:
    """The first symbol that is not a stress mark."""
    return without_stress(phonemes)[:1]


class Loudness:
    """The numbers of the steps of 2.5 ms of samples [n] that are loud, and of those that are faint
    or louder.
    """

    def __init__(self, samples: np.ndarray) -> None:
        # What is shorter than a step at the end is left out.
        count = len(samples) // STEP
        # [steps]
        peaks = np.abs(samples[: count * STEP]).reshape(count, STEP).max(axis=1)
        self.loud, self.faint = np.flatnonzero(peaks > QUIET), np.flatnonzero(peaks > FAINT)

    def begin(self, step: int, symbol: str) -> int:
        """The sample where a sound begins whose first loud step is `step`."""
        # Faint steps close before the loud one belong to a noisy sound.
        near = self.faint[(self.faint >= step - NOISY_STEPS) & (self.faint <= step)]
        return STEP * (int(near[0]) if symbol in NOISY and len(near) else step)

    def end(self, step: int, symbol: str) -> int:
        """The sample where a sound ends whose last loud step is `step`."""
        near = self.faint[(self.faint >= step) & (self.faint <= step + NOISY_STEPS)]
        return STEP * (1 + (int(near[-1]) if symbol in NOISY and len(near) else step))

    def without_ticks(self, over: int) -> None:
        """Remove ticks from the loud steps. `over`: the first step behind the last phone, by
        durations.
        """
        behind = self.loud[self.loud >= over]
        # Runs of loud steps with no pause inside: the last that is speech, or that has no pause
        # before it, ends the word. What is loud behind it is a tick.
        for run in np.split(behind, np.flatnonzero(np.diff(behind) > ENDED_STEPS) + 1):
            if len(run) and (run[-1] + 1 - run[0] > TICK_STEPS or run[0] - over < ENDED_STEPS):
                over = int(run[-1]) + 1
        ticks = self.loud[self.loud >= over]
        if len(ticks):
            self.loud = self.loud[self.loud < over]
            # the fade behind the sound ends before the first
            self.faint = self.faint[self.faint < ticks[0] - FADE_SAMPLES // STEP]

    def pause(self, first: int, last: int) -> tuple[int, int] | None:
        """The steps before and behind the longest quiet between two samples; None where it has
        less than 40 ms.
        """
        # All steps that the stretch touches.
        first = max(0, first) // STEP
        last = -(-last // STEP)
        inside = self.loud[(self.loud >= first) & (self.loud < last)]
        # Both ends count as loud, so that a quiet beside one is found.
        borders = np.concatenate([[first - 1], inside, [last]])
        longest = int(np.argmax(np.diff(borders)))
        before, behind = int(borders[longest]), int(borders[longest + 1])
        return (before, behind) if behind - before > PAUSE_STEPS else None


def find_first_sound(samples: np.ndarray, edges: np.ndarray, phonemes: str) -> int | None:
    """The sample where the first sound begins, which is no later than its token; None where the
    chunk's first samples [n] hold nothing of it yet.
    """
    place = find_sounds(phonemes)[0]
    # Token 0 is the boundary: symbol i is token i + 1.
    latest = int(edges[place + 1])
    loudness = Loudness(samples)
    symbol = strip_stress(phonemes[place:])
    if len(loudness.loud) and STEP * loudness.loud[0] <= latest:
        return loudness.begin(int(loudness.loud[0]), symbol)
    return latest if len(samples) >= latest else None


def last_sound(samples: np.ndarray, offset: int, edges: np.ndarray, phonemes: str) -> int:
    """The sample where the last sound ends, which is no earlier than its token begins. samples
    [n]: the chunk's last ones, from sample `offset` on.

    Sound that goes on past its token (a vowel that rings out, a late release) is followed to its
    end. A sound shorter than 30 ms behind 10 ms of quiet is a tick.
    """
    # steps are counted from the chunk's beginning, wherever a piece begins
    whole = -offset % STEP
    place = find_sounds(phonemes)[-1]
    loudness = Loudness(samples[whole:])
    earliest = int(edges[place + 1])
    symbol = phonemes[place]
    late = RELEASE_SAMPLES if symbol in PLOSIVES else 0
    loudness.without_ticks((int(edges[place + 2]) + late - offset - whole) // STEP)
    if not len(loudness.loud):
        return earliest
    return max(earliest, offset + whole + loudness.end(int(loudness.loud[-1]), symbol))


def move_to_sound(samples: np.ndarray, edges: np.ndarray, phonemes: str) -> np.ndarray:
    """The edges of a chunk's tokens [tokens + 1] in its samples, moved to where the sounds beside a
    silence end and begin: at both ends of the chunk, and at marks with 40 ms of quiet. The tokens
    of a silence share it evenly; every word keeps some time.
    """
    sounds = find_sounds(phonemes)
    loudness = Loudness(samples)
    moved = np.clip(edges, 0, len(samples))
    word = sounds[0] + 1
    # The boundary token takes the silence in front.
    _move_silence(moved, 0, 0, word, find_first_sound(samples, edges, phonemes) or 0)
    for before, behind in zip(sounds, sounds[1:], strict=False):
        # Neighbouring sounds have no silence between them.
        if behind == before + 1:
            continue
        if any(symbol in PUNCTUATION for symbol in phonemes[before + 1 : behind]):
            pause = loudness.pause(edges[before + 1] - EARLY, edges[behind + 2] - STEP)
            end = loudness.end(pause[0], phonemes[before]) if pause else 0
            if pause and end > moved[word]:
                begin = loudness.begin(pause[1], strip_stress(phonemes[behind:]))
                _move_silence(moved, before + 2, end, behind + 1, max(end, begin))
        word = behind + 1
    # the last sound keeps a step of its own
    latest = int(max(moved[word], moved[sounds[-1] + 1])) + STEP
    end = min(len(samples), max(last_sound(samples, 0, edges, phonemes), latest))
    _move_silence(moved, sounds[-1] + 2, end, len(edges) - 1, len(samples))
    return moved


def _move_silence(edges: np.ndarray, last: int, end: int, first: int, begin: int) -> None:
    """Move edge `last` to sample `end` and edge `first` to `begin`, spread the edges between them
    evenly, and let no other edge pass them.
    """
    edges[:last] = np.minimum(edges[:last], end)
    edges[first:] = np.maximum(edges[first:], begin)
    # Edges at equal distances from one sound to the next.
    steps = np.arange(first - last + 1)
    edges[last : first + 1] = end + (begin - end) * steps // max(1, first - last)


class JoinTrim:
    """A finished chunk's samples, in one piece or several, from 5 ms before the first sound to 5 ms
    behind the last, faded over both.

    Samples before the first sound are held back until it is found, and those behind the begin of
    the last sound until the chunk is complete. `start`: samples that were cut in front.
    """

    def __init__(self, edges: np.ndarray, phonemes: str, first: bool) -> None:
        """`edges` [tokens + 1] of the tokens; the last is the chunk's length. `first`: this is the
        text's first chunk, which keeps what is before its first sound.
        """
        self.edges, self.phonemes, self.begun, self.start = edges, phonemes, first, 0
        self.at = 0
        self.held = np.zeros(0, np.float32)
        # The last sound may begin this much before its token.
        self.hold_from = max(0, int(edges[find_sounds(phonemes)[-1] + 1]) - EARLY)

    def __call__(self, piece: np.ndarray) -> np.ndarray:
        """Take the next piece [n] float32; return the samples that need not be held back."""
        held = np.concatenate([self.held, piece])
        self.at += len(piece)
        if not self.begun:
            sound = find_first_sound(held, self.edges, self.phonemes)
            if sound is None:
                self.held = held
                return held[:0]
            self.begun = True
            self.start = max(0, sound - FADE_SAMPLES)
            # A copy, because the fade is multiplied in place.
            held = held[self.start :].copy()
            held[:FADE_SAMPLES] *= fade(len(held[:FADE_SAMPLES]))
        # the chunk's sample at which `held` begins
        offset = self.at - len(held)
        if self.at < self.edges[-1]:
            free = max(0, self.hold_from - offset)
            self.held = held[free:]
            return held[:free]
        end = last_sound(held, offset, self.edges, self.phonemes)
        kept = max(0, min(len(held), end + FADE_SAMPLES - offset))
        if kept < len(held):
            held = held[:kept].copy()
            ending = held[-FADE_SAMPLES:]
            ending *= fade(len(ending))[::-1]
        return held


def find_edges(durations: Sequence[int]) -> np.ndarray:
    """The samples where each token begins and the last one ends: [tokens + 1]."""
    return FRAME_SAMPLES * np.concatenate([[0], np.cumsum(durations, dtype=np.int64)])


class NoPause(InputError):
    """The model runs two chunks of one call together."""


@dataclass(frozen=True, eq=False)
class Share:
    """A chunk's part of a call: frames and edges [tokens + 1] of its tokens, and its samples in
    pieces.
    """

    durations: tuple[int, ...]
    edges: np.ndarray
    pieces: Iterable[np.ndarray]


def lengthen_pauses(durations: np.ndarray, parts: Sequence[str]) -> np.ndarray:
    """The frames of a call's tokens [n + 2], with the ends of all `parts` but the last lengthened
    to a pause. `parts`: phonemes of the call's chunks, which have a space between them.
    """
    drawn = durations.copy()
    place = 0
    for part in parts[:-1]:
        # the token of the part's last sound
        last = place + find_sounds(part)[-1] + 1
        place += len(part) + 1
        # The last sound, the marks behind it, and the space.
        least = [LAST_FRAMES, *[MARK_FRAMES] * (place - last - 1), SPACE_FRAMES]
        drawn[last : place + 1] = np.maximum(drawn[last : place + 1], least)
    return drawn


def split_shares(
    samples: np.ndarray, durations: Sequence[int], parts: Sequence[str]
) -> list[Share]:
    """The share of each of the `parts` in the samples [n] of their call, cut in the middle of the
    pauses. Raises NoPause where one of them has not 40 ms of quiet.
    """
    edges = find_edges(durations)
    loudness = Loudness(samples)
    shares: list[Share] = []
    place = begin = 0  # of the chunk: its first phoneme in the call, its first sample
    # The last part has none behind it.
    for part, following in zip_longest(parts, parts[1:]):
        # the space behind a chunk is its last token
        behind = place + len(part) + 1
        end = len(samples)
        if following is not None:
            last = place + find_sounds(part)[-1]
            first = behind + find_sounds(following)[0]
            pause = loudness.pause(edges[last + 1] - EARLY, edges[first + 2])
            if pause is None:
                raise NoPause(f"no pause behind {part!r}")
            end = STEP * ((pause[0] + 1 + pause[1]) // 2)
        # Only the first chunk has the boundary's frames in front.
        tokens = [0 if shares else durations[0], *durations[place + 1 : behind + 1]]
        # Edges never leave the samples of the share.
        inner = np.clip(edges[place + 1 : behind + 1], begin, end) - begin
        share_edges = np.concatenate([[0], inner, [end - begin]])
        shares.append(Share(tuple(tokens), share_edges, (samples[begin:end],)))
        place, begin = behind, end
    return shares
