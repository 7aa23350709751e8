"""What is written against what was spoken: Kokoro's symbols, with stress marks, spaces and marks, get their times from flite's phones.

    aligned = align("hɛlˈO, ðɛɹ.", parse_psdur(psdur), frames)      # aligned.durations, aligned.cost

A monotone path of least cost between two symbol strings. A symbol that flite did not speak (stress, space, a comma without a pause) takes
no time on the path; `fitted_edges` then gives everyone a frame. A phone that nobody wrote goes to the symbol before it.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from core.contract import FRAMES_PER_SECOND
from core.errors import InputError
from demo.phones import FLITE_TO_KOKORO, PAD_SYMBOL, PAUSES, FlitePhone
from demo.spelling import MARKS, STRESSES
from g2p.symbols import PAUSES as PAUSING
from g2p.symbols import VOWELS

PAUSE = "|"
SAME_SOUND = (  # symbols that speakers, and two lexicons, exchange
    "əᵊʌɪᵻɐɛʊɜæ", "ɑɔʌ", "ɪiᵻ", "ʊuə", "Oɔ", "ɛæA", "tdTʧ", "sz", "ʃʒʧʤ", "nŋm", "θðt", "kɡ", "iju", "wu", "hɹ",
)  # fmt: skip
NEAR, SAME_KIND, OTHER_KIND = 0.25, 0.7, 1.8  # costs of a match: one sound, two vowels or two consonants, a vowel for a consonant
SKIPPED_PHONE, SKIPPED_PAUSE, SKIPPED_MARK, SPACE_AS_PAUSE, QUOTE_AS_PAUSE = 1.0, 1.5, 0.3, 0.6, 0.5


@dataclass(frozen=True)
class Alignment:
    """Frames of every token, the pad tokens at both ends included, and the path's cost per symbol that sounds."""

    durations: list[int]
    cost: float


@dataclass(frozen=True)
class Sound:
    """A symbol of what was spoken (PAUSE, PAD_SYMBOL, or Kokoro's), from start to end."""

    symbol: str
    start_seconds: float
    end_seconds: float


def align(phonemes: str, phones: list[FlitePhone], frames: int) -> Alignment:
    """Frames for `PAD phonemes PAD`. Raises InputError when there are more tokens than frames or no speech."""
    written, spoken = [PAD_SYMBOL, *phonemes, PAD_SYMBOL], sounds(phones)
    if len(written) > frames:
        raise InputError(f"{len(written)} tokens do not fit into {frames} frames")
    partner, cost = least_cost_path(written, spoken)
    ends_seconds = _ends(partner, spoken)
    sounding = sum(symbol not in MARKS | STRESSES | {" "} for symbol in phonemes)
    edges = fitted_edges(np.array(ends_seconds) * FRAMES_PER_SECOND, frames)
    return Alignment(np.diff(edges, prepend=0).tolist(), cost / sounding)


def sounds(phones: list[FlitePhone]) -> list[Sound]:
    """flite's phones as sounds: the outer pauses become pads, half of the last one a pause before its pad."""
    if len(phones) < 3 or phones[0].name not in PAUSES or phones[-1].name not in PAUSES:
        raise InputError(f"flite spoke {len(phones)} phones: a pause, speech and a pause are needed")
    spoken = [Sound(PAD_SYMBOL, 0.0, phones[0].end_seconds)]
    for before, phone in zip(phones, phones[1:-1], strict=False):
        spoken += _spread(PAUSE if phone.name in PAUSES else FLITE_TO_KOKORO[phone.name], before.end_seconds, phone.end_seconds)
    start, end = phones[-2].end_seconds, phones[-1].end_seconds
    return [*spoken, Sound(PAUSE, start, (start + end) / 2), Sound(PAD_SYMBOL, (start + end) / 2, end)]


def least_cost_path(written: list[str], spoken: list[Sound]) -> tuple[list[int | None], float]:
    """For each written symbol the index of the sound it is, or None; and what the whole path costs."""
    rows, columns = len(written), len(spoken)
    skip_written = [_skip_cost(symbol) for symbol in written]
    skip_spoken = [SKIPPED_PAUSE if sound.symbol == PAUSE else SKIPPED_PHONE for sound in spoken]
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    step = [[0] * (columns + 1) for _ in range(rows + 1)]  # 0 match, 1 skip a written one, 2 skip a spoken one
    for i in range(rows + 1):
        for j in range(columns + 1):
            if i == j == 0:
                continue
            match = best[i - 1][j - 1] + match_cost(written[i - 1], spoken[j - 1].symbol) if i and j else float("inf")
            unspoken = best[i - 1][j] + skip_written[i - 1] if i else float("inf")
            unwritten = best[i][j - 1] + skip_spoken[j - 1] if j else float("inf")
            best[i][j] = min(match, unspoken, unwritten)
            step[i][j] = (match, unspoken, unwritten).index(best[i][j])
    partner: list[int | None] = [None] * rows
    i, j = rows, columns
    while i or j:
        kind = step[i][j]
        i, j = i - (kind != 2), j - (kind != 1)
        if kind == 0:
            partner[i] = j
    return partner, best[rows][columns]


@cache
def match_cost(written: str, spoken: str) -> float:
    """What it costs to call the sound `spoken` the symbol `written`."""
    if PAD_SYMBOL in (written, spoken):
        return 0.0 if written == spoken else float("inf")
    if spoken == PAUSE:
        return 0.0 if written in PAUSING else SPACE_AS_PAUSE if written == " " else QUOTE_AS_PAUSE if written in MARKS else float("inf")
    if written == " " or written in MARKS | STRESSES:
        return float("inf")
    if written == spoken:
        return 0.0
    if any(written in group and spoken in group for group in SAME_SOUND):
        return NEAR
    return SAME_KIND if (written in VOWELS) == (spoken in VOWELS) else OTHER_KIND


def fitted_edges(wanted: np.ndarray, frames: int) -> np.ndarray:
    """Whole, strictly rising edges nearest (least squares) to the `wanted` ends in frames; the last is `frames`.

    With one frame taken off for every token before it, an edge may stand still but not fall: isotonic regression, by pooling neighbours.
    """
    room = frames - len(wanted)
    slack = np.clip(wanted - np.arange(1, len(wanted) + 1), 0, room)
    slack[-1] = room
    pools: list[list[float]] = []  # [sum, count]
    for value in slack:
        pools.append([float(value), 1])
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] > pools[-1][0] * pools[-2][1]:
            total, count = pools.pop()
            pools[-1] = [pools[-1][0] + total, pools[-1][1] + count]
    level = np.concatenate([np.full(int(count), total / count) for total, count in pools])
    edges = np.floor(level + 0.5).astype(int) + np.arange(1, len(wanted) + 1)
    edges[-1] = frames
    return edges


def _skip_cost(symbol: str) -> float:
    if symbol == PAD_SYMBOL:
        return float("inf")
    if symbol in STRESSES or symbol == " ":
        return 0.0
    return SKIPPED_MARK if symbol in PAUSING else 0.0 if symbol in MARKS else SKIPPED_PHONE


def _ends(partner: list[int | None], spoken: list[Sound]) -> list[float]:
    """When each written symbol ends: a matched one where the next matched one starts, the others where the one before ends."""
    ends: list[float] = []
    matched = [index for index in partner if index is not None]
    following = iter([*matched[1:], None])
    for index in partner:
        if index is None:
            ends.append(ends[-1])
        else:
            after = next(following)
            ends.append(spoken[-1].end_seconds if after is None else spoken[after].start_seconds)
    return ends


def _spread(symbols: str, start_seconds: float, end_seconds: float) -> list[Sound]:
    step = (end_seconds - start_seconds) / len(symbols)
    return [Sound(symbol, start_seconds + step * i, start_seconds + step * (i + 1)) for i, symbol in enumerate(symbols)]
