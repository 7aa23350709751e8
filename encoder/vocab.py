"""Phonemes to input ids, strictly: upstream drops what it does not know, here it is an error that says what and where.

ids = input_ids("hɛlˈO", config.vocab)   # (0, 50, 86, 54, 156, 31, 0)
"""

import math
from collections.abc import Mapping

from core.contract import BOUNDARY_ID, MAX_PHONEMES, MAX_SPEED, MIN_SPEED
from core.errors import InputError

_SHOWN = 5  # unknown symbols named in one message


def input_ids(phonemes: str, vocab: Mapping[str, int]) -> tuple[int, ...]:
    """Ids with the boundary token at both ends. Raises InputError: nothing to say, too long, or symbols outside the vocabulary."""
    if not phonemes.strip():
        raise InputError("no phonemes: there is nothing to say")
    if len(phonemes) > MAX_PHONEMES:
        raise InputError(f"{len(phonemes)} phonemes: at most {MAX_PHONEMES} fit one utterance; split the text at a sentence end")
    unknown = [(place, symbol) for place, symbol in enumerate(phonemes) if symbol not in vocab]
    if unknown:
        shown = ", ".join(f"{symbol!r} (U+{ord(symbol):04X}) at {place}" for place, symbol in unknown[:_SHOWN])
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise InputError(f"phonemes outside the vocabulary of {len(vocab)} symbols: {shown}{more}")
    return (BOUNDARY_ID, *(vocab[symbol] for symbol in phonemes), BOUNDARY_ID)


def check_speed(speed: float) -> float:
    """Return `speed` or raise InputError: 1 is the voice's own pace, 2 twice as fast."""
    if not math.isfinite(speed) or not MIN_SPEED <= speed <= MAX_SPEED:
        raise InputError(f"speed {speed} is outside {MIN_SPEED:g} to {MAX_SPEED:g}: 1 is the voice's own pace, 2 twice as fast")
    return speed
