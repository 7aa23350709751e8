"""flite's phones to Kokoro's symbols, and their end times to whole frames.

    tokens = kokoro_tokens(flite_phones, question=False)
    durations = frame_durations([token.end_seconds for token in tokens], frames)

Symbols are Kokoro v1.0's American ones: A I O W Y are diphthongs, T is the flap, `ɜɹ` the vowel of `bird`.
"""

from dataclasses import dataclass

from core.checkpoint import DEMO_FOLDER
from core.config import KokoroConfig
from core.contract import FRAMES_PER_SECOND
from core.errors import InputError

PAUSES = frozenset({"pau", "h#", "brth", "ssil"})
PAD_SYMBOL = ""  # token 0, at both ends
FLITE_TO_KOKORO: dict[str, str] = {
    "aa": "ɑ", "ae": "æ", "ah": "ʌ", "ao": "ɔ", "aw": "W", "ax": "ə", "axr": "əɹ", "ay": "I", "b": "b", "ch": "ʧ", "d": "d",
    "dh": "ð", "dx": "T", "eh": "ɛ", "el": "əl", "em": "əm", "en": "ən", "er": "ɜɹ", "ey": "A", "f": "f", "g": "ɡ", "hh": "h",
    "hv": "h", "ih": "ɪ", "iy": "i", "jh": "ʤ", "k": "k", "l": "l", "m": "m", "n": "n", "nx": "n", "ng": "ŋ", "ow": "O", "oy": "Y",
    "p": "p", "r": "ɹ", "s": "s", "sh": "ʃ", "t": "t", "th": "θ", "uh": "ʊ", "uw": "u", "v": "v", "w": "w", "y": "j", "z": "z",
    "zh": "ʒ",
}  # fmt: skip


@dataclass(frozen=True)
class FlitePhone:
    """One entry of `flite -psdur`: name and end time."""

    name: str
    end_seconds: float


@dataclass(frozen=True)
class Token:
    """One Kokoro symbol ("" for the pad token) and when it ends."""

    symbol: str
    end_seconds: float


def parse_psdur(line: str) -> list[FlitePhone]:
    """`pau:0.164 hh:0.255 ...` -> phones."""
    try:
        return [FlitePhone(name, float(end)) for name, end in (entry.split(":") for entry in line.split())]
    except ValueError:
        raise InputError(f"flite -psdur printed {line[:80]!r}, not phone:seconds pairs: version 2.2 or later is needed") from None


def kokoro_tokens(phones: list[FlitePhone], *, question: bool) -> list[Token]:
    """Leading pause -> pad; inner pauses -> `,`; final pause -> `.` or `?`, then pad. Two-symbol phones share their time evenly."""
    if len(phones) < 3 or phones[0].name not in PAUSES or phones[-1].name not in PAUSES:
        raise InputError(f"flite spoke {len(phones)} phones: a pause, speech and a pause are needed")
    tokens = [Token(PAD_SYMBOL, phones[0].end_seconds)]
    for before, phone in zip(phones, phones[1:-1], strict=False):
        tokens += _spread("," if phone.name in PAUSES else _symbols(phone.name), before.end_seconds, phone.end_seconds)
    ending = "?" if question else "."
    middle = (phones[-2].end_seconds + phones[-1].end_seconds) / 2
    return [*tokens, Token(ending, middle), Token(PAD_SYMBOL, phones[-1].end_seconds)]


def frame_durations(end_seconds: list[float], frames: int) -> list[int]:
    """Cumulated ends rounded to frames; every token gets at least one, borrowed from its neighbours; the sum is `frames`."""
    count = len(end_seconds)
    if count > frames:
        raise InputError(f"{count} tokens do not fit into {frames} frames")
    edges = [round(end * FRAMES_PER_SECOND) for end in end_seconds[:-1]] + [frames]
    for i in range(count):
        edges[i] = max(edges[i], edges[i - 1] + 1 if i else 1)
    edges[-1] = frames
    for i in reversed(range(count - 1)):
        edges[i] = min(edges[i], edges[i + 1] - 1)
    return [after - before for before, after in zip([0, *edges], edges, strict=False)]


def token_ids(tokens: list[Token], vocab: dict[str, int]) -> list[int]:
    """Upstream's input_ids: 0, symbols, 0."""
    return [vocab[token.symbol] if token.symbol else 0 for token in tokens]


def vocabulary() -> dict[str, int]:
    """Symbols to ids, from the bundled checkpoint's config.json."""
    return KokoroConfig.load(DEMO_FOLDER / "config.json").vocab


def _symbols(name: str) -> str:
    if name not in FLITE_TO_KOKORO:
        raise InputError(f"flite phone {name!r} has no Kokoro symbol; known: {' '.join(sorted(FLITE_TO_KOKORO))}")
    return FLITE_TO_KOKORO[name]


def _spread(symbols: str, start_seconds: float, end_seconds: float) -> list[Token]:
    step = (end_seconds - start_seconds) / len(symbols)
    return [Token(symbol, start_seconds + step * (i + 1)) for i, symbol in enumerate(symbols)]
