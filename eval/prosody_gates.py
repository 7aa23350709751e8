"""The limits of the encoder, each with its reason: in units of the neighbouring style row, set
before any level was judged.

    for gate in PROSODY_GATES: print(gate.name, gate.rule(gate.limit), gate.reason)

A voice has a style for every count of phonemes. The fp32 model with the row of one phoneme more or
less says the sentence in a prosody that nobody could call wrong, so how far that is from its own
row is the natural scale, measured in the same run on the same sentences. What the rows do not move
(the text features) has a limit in what the vocoder makes of it, measured on the tuning set. A limit
of twice the mean of both neighbours lets each of them pass whatever the sentences. Change a limit
only with a new reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kokoro_ane.eval.gates import MEAN, WORST, Gate

ROWS = 2.0  # row variations


@dataclass(frozen=True)
class ProsodyGate(Gate):
    """A gate on a figure that is best when small."""

    def __post_init__(self) -> None:
        if self.metric not in PROSODY_METRICS or self.statistic not in (MEAN, WORST):
            raise ValueError(f"gate {self.name}: no metric of prosody is called so")

    def margin(self, value: float, limit: float) -> float:
        """How far `value` is below `limit`; negative above."""
        return limit - value

    def rule(self, limit: float) -> str:
        """In words: "<= 1.4"."""
        return f"<= {limit:.4g}"


TOKENS, MOVED, LENGTH, PAUSE = (
    "tokens_changed_percent",
    "tokens_moved_percent",
    "length_percent",
    "pause_ms",
)
PITCH, VOICING, ENERGY = "f0_cents", "voicing_flips_percent", "energy_percent"
TEXT, TEXT_TOKEN = "text_percent", "text_token_percent"
# what a product's sound keeps of them; the others are of what its stages exchange
DURATIONS = (TOKENS, MOVED, LENGTH, PAUSE)
# Name -> what it is, in words. F0, energy and text features are compared on equal alignment: the
# reference's durations are given to both.
PROSODY_METRICS: Mapping[str, str] = MappingProxyType(
    {
        TOKENS: "tokens whose duration differs, of all",
        MOVED: "tokens whose duration differs by more than one frame (25 ms), of all",
        LENGTH: "difference of the sentence's length, of its length",
        PAUSE: "largest difference of a pause at a mark, the space behind it included",
        PITCH: "F0, root mean square difference where both are voiced",
        VOICING: "voiced values that are not, and the reverse, of all",
        ENERGY: "energy, root mean square difference, of its standard deviation",
        TEXT: "text features, root mean square difference, of their root mean square",
        TEXT_TOKEN: "the same of the worst token, of the mean token's",
    }
)
PROSODY_GATES = (
    ProsodyGate(
        TOKENS,
        MEAN,
        2.5,
        "a frame more or less of one phoneme is not heard, many are another reading",
        seed_multiple=ROWS,
    ),
    ProsodyGate(
        MOVED,
        MEAN,
        0.3,
        "a listener notices 10 to 40 ms of a segment (Klatt 1976); two frames are 50, allowed in"
        " one of 300",
    ),
    ProsodyGate(
        LENGTH,
        MEAN,
        1.0,
        "captions and lips hang on it; a fifth of the tempo that is heard",
        seed_multiple=ROWS,
    ),
    ProsodyGate(LENGTH, WORST, 5.0, "another tempo is heard from 5 % on (Quene 2007)"),
    ProsodyGate(
        PAUSE,
        WORST,
        100.0,
        "a pause is told from none at 100 to 200 ms; four frames change its rank among others",
    ),
    ProsodyGate(
        PITCH,
        MEAN,
        40.0,
        "movements of pitch are told apart from 1.5 semitones on ('t Hart 1981): a quarter",
        seed_multiple=ROWS,
    ),
    ProsodyGate(
        PITCH,
        WORST,
        300.0,
        "most listeners hear another movement of pitch at three semitones ('t Hart 1981)",
    ),
    ProsodyGate(
        VOICING,
        MEAN,
        1.0,
        "1 % of values is a vowel turned to a whisper in every third sentence",
        seed_multiple=ROWS,
    ),
    ProsodyGate(
        ENERGY, MEAN, 10.0, "a tenth of what a sentence itself varies by", seed_multiple=ROWS
    ),
    ProsodyGate(
        TEXT,
        MEAN,
        0.7,
        "no style moves them; 0.5 % makes MCD 0.5 to 0.9 dB in the vocoder, a neighbouring row 1.0"
        " to 1.3, and 2 % costs words",
    ),
    ProsodyGate(
        TEXT_TOKEN,
        WORST,
        4.0,
        "one phoneme must not become another; 2 % in all of them cost PESQ 2.1 to 3.4 on the"
        " tuning set",
    ),
)
