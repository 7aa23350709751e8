"""Decoding of a network's answers: logits of frames to sounds with exactly one primary stress
(connectionist temporal classification, Graves et al. 2006), and the probability of the answer.

    decode_batch(logits, [len(symbols) for symbols in words])  # [Guess(phonemes, confidence), ...]
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from kokoro_g2p.alphabet import AMERICAN, BLANK, FRAMES, PRIMARY, Alphabet
from kokoro_g2p.result import Guess

NOTHING = Guess("", 0.0)  # to be spelled out
LEAST = 1e-4  # a probability nearer to 0 or 1 counts as this near


def calibrate_guesses(guesses: Sequence[Guess], slope: float, shift: float) -> list[Guess]:
    """Return the guesses with calibrated confidence, sigmoid(slope * logit(p) + shift) (Platt
    1999); words to be spelled keep 0.
    """
    if (slope, shift) == (1.0, 0.0):
        return list(guesses)
    chances = logit(np.array([guess.confidence for guess in guesses]))
    shares = 1 / (1 + np.exp(-(slope * chances + shift)))
    return [
        Guess(guess.phonemes, float(share)) if guess.phonemes else guess
        for guess, share in zip(guesses, shares, strict=True)
    ]


def logit(chances: np.ndarray) -> np.ndarray:
    """Return log(p / (1 - p)) of probabilities that are clipped to LEAST from 0 and 1."""
    clipped = np.clip(chances, LEAST, 1 - LEAST)
    return np.log(clipped / (1 - clipped))


@cache
def mark_primary(alphabet: Alphabet) -> np.ndarray:
    """Which sounds carry primary stress: [sounds] bool."""
    return np.array([sound.startswith(PRIMARY) for sound in alphabet.sounds])


@cache
def mark_vowels(alphabet: Alphabet) -> np.ndarray:
    """Which sounds are vowels: [sounds] bool."""
    return np.array([sound.lstrip("ˈˌ") in alphabet.vowels for sound in alphabet.sounds])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithms of the softmax over the last axis, in float32."""
    # The largest logit is taken off first, so that exp cannot overflow.
    shifted = logits.astype(np.float32) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def collapse_path(path: np.ndarray) -> tuple[int, ...]:
    """Sounds of a path [frames]: repeats become one, then blanks go."""
    # The first frame always begins a sound.
    change = np.concatenate(([True], path[1:] != path[:-1]))
    return tuple(int(sound) for sound in path[change & (path != BLANK)])


def is_legal(sounds: tuple[int, ...], alphabet: Alphabet = AMERICAN) -> bool:
    """Whether there is a sound, and exactly one primary stress where there is a vowel."""
    if not sounds:
        return False
    row = np.array(sounds)
    return int(mark_primary(alphabet)[row].sum()) == int(mark_vowels(alphabet)[row].any())


def decode_batch(
    logits: np.ndarray, symbols: Sequence[int], alphabet: Alphabet = AMERICAN
) -> list[Guess]:
    """logits [B, 2S, sounds] and how many symbols each word has -> a guess each; NOTHING where no
    legal path exists.
    """
    chances = log_softmax(logits)
    padding = np.arange(chances.shape[1]) >= FRAMES * np.asarray(symbols)[:, None]  # [B, 2S]
    # certain to be blank
    chances[padding] = np.where(np.arange(chances.shape[2]) == BLANK, 0.0, -np.inf)
    answers = [collapse_path(path) for path in chances.argmax(axis=2)]
    # The best sound of each frame comes first, since the search for a legal path costs more.
    for place, sounds in enumerate(answers):
        if not is_legal(sounds, alphabet):
            answers[place] = collapse_path(find_stressed_path(chances[place], alphabet))
    certain = np.exp(log_likelihoods(chances, answers))
    return [
        (
            Guess("".join(alphabet.sounds[sound] for sound in sounds), min(1.0, float(chance)))
            if is_legal(sounds, alphabet)
            else NOTHING
        )
        for sounds, chance in zip(answers, certain, strict=True)
    ]


def find_stressed_path(log_chances: np.ndarray, alphabet: Alphabet = AMERICAN) -> np.ndarray:
    """The likeliest path [frames] with one primary stress: Viterbi over (sound of the frame,
    primary stresses so far, 0 or 1).

    Staying on a primary stress adds none, coming to one from any other sound adds one. A word that
    has no vowel in its best path gets one.
    """
    frames, count = log_chances.shape
    primary = mark_primary(alphabet)
    # No stress so far: a sound with primary stress is out of reach.
    enters = np.where(primary, -np.inf, 0.0)
    # [2, sounds]
    score = np.stack([log_chances[0] + enters, np.where(primary, log_chances[0], -np.inf)])
    back = np.zeros((frames, 2, count), dtype=np.int64)  # flat index of the state before
    for frame in range(1, frames):
        best = score.argmax(axis=1)  # [2]
        come = score.max(axis=1)  # [2]: from the best sound with 0 or 1 stresses so far
        into = np.stack([come[0] + enters, np.where(primary, come[0], come[1])])
        # The states are two rows of sounds, so that row 1 begins at `count`.
        source = np.stack([np.full(count, best[0]), np.where(primary, best[0], count + best[1])])
        stay = score >= into
        # A primary stress cannot have been there with none so far.
        stay[0] &= ~primary
        back[frame] = np.where(stay, np.arange(2 * count).reshape(2, count), source)
        score = np.where(stay, score, into) + log_chances[frame]
    # Only a path with one stress may end: the second row
    state = count + int(score[1].argmax())
    path = np.empty(frames, dtype=np.int64)
    # Backwards from the last frame along the states before
    for frame in range(frames - 1, -1, -1):
        path[frame] = state % count
        state = int(back[frame].reshape(-1)[state])
    return path


def log_likelihoods(log_chances: np.ndarray, answers: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Logarithm of the summed probability of all paths that give each answer (CTC's forward
    recursion, Graves et al. 2006): [B].

    log_chances [B, 2S, sounds]; the padding is certain to be blank, so it changes nothing.
    """
    longest = max(map(len, answers))
    rows = np.arange(len(answers))
    # two in front that nothing reaches: blank, sound, blank, sound ...
    states = np.full((len(answers), 2 * longest + 3), BLANK)
    for row, sounds in zip(states, answers, strict=True):
        row[3 : 3 + 2 * len(sounds) : 2] = sounds
    may_skip = np.zeros(states.shape, dtype=bool)
    # The blank between two sounds may be left out, but not between two equal ones.
    may_skip[:, 5::2] = states[:, 5::2] != states[:, 3:-2:2]
    # [B, 2S, states]: the chance of each state's sound in each frame
    chances = np.take_along_axis(
        log_chances,
        np.broadcast_to(states[:, None], (*log_chances.shape[:2], states.shape[1])),
        axis=2,
    )
    score = np.full(states.shape, -np.inf)
    # A path begins with the blank or the first sound.
    score[:, 2:4] = chances[:, 0, 2:4]
    # logaddexp of two impossible states is invalid and stays -inf.
    with np.errstate(invalid="ignore"):
        for frame in range(1, log_chances.shape[1]):
            two = np.where(may_skip[:, 2:], score[:, :-2], -np.inf)
            score[:, 2:] = (
                np.logaddexp(np.logaddexp(score[:, 2:], score[:, 1:-1]), two)
                + chances[:, frame, 2:]
            )
    # An answer ends in its last sound or the blank behind it; an empty one only in the blank.
    ends = 2 + 2 * np.array([len(sounds) for sounds in answers])
    return np.logaddexp(score[rows, ends], np.where(ends > 2, score[rows, ends - 1], -np.inf))
