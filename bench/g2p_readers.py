"""What others read words with, answered in Kokoro's symbols: espeak-ng and g2p_en's network, for bench.g2p_words.

    espeak_ng(["kitten"])        # ["kˈɪʔn"] in misaki's symbols, Kokoro's T and t
    G2pEn.load().read("kitten")

espeak-ng runs through phonemizer as misaki 0.9.4 does it (misaki/espeak.py, EspeakFallback: the map of its American symbols). g2p_en 2.1.0
needs nltk and a download to be imported, so its checkpoint is read here and its network computed by its published equations (a GRU encoder
and a GRU decoder, greedy, at most 20 sounds): the path it takes for every word outside CMUdict.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError
from g2p.alphabet import PRIMARY, SECONDARY, VOWELS, folded, to_kokoro
from g2p.training.cmudict import ARPABET

if TYPE_CHECKING:
    import numpy as np

ESPEAK_SYMBOLS = {
    "ʔˌn\u0329": "ʔn", "ʔn\u0329": "ʔn", "a^ɪ": "I", "a^ʊ": "W", "d^ʒ": "ʤ", "e^ɪ": "A", "t^ʃ": "ʧ", "ɔ^ɪ": "Y", "ə^l": "ᵊl", "o^ʊ": "O",
    "ʲo": "jo", "ʲə": "jə", "e": "A", "ʲ": "", "ɚ": "əɹ", "r": "ɹ", "x": "k", "ç": "k", "ɐ": "ə", "ɬ": "l", "\u0303": "",
}  # fmt: skip
AFTERWARDS = (("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɪə", "iə"), ("ː", ""), ("o", "ɔ"), ("^", ""), ("-", ""), (" ", ""))  # in this order
SYLLABIC = re.compile("(\\S)\u0329")

UNSTRESSED = {"AH": "ə", "ER": "əɹ"}
FLAP = re.compile(f"(?<=[{VOWELS}ɹ])t(?=[{VOWELS}])")  # between vowels, before an unstressed one
GRAPHEMES = ("<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz")
# g2p_en's output symbols in order of its checkpoint: four of its own, then ARPAbet with stress ("UW" stands also alone).
_SOUNDS = (
    "<pad> <unk> <s> </s> AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 B CH D DH EH0 EH1 EH2 ER0 ER1 ER2 EY0 "
    "EY1 EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH"
)
SOUNDS = tuple(_SOUNDS.split())
START, END, MOST_SOUNDS = 2, 3, 20


def espeak_ng(words: Sequence[str]) -> list[str]:
    """Kokoro phonemes of each word by espeak-ng's American voice. Raises InputError when it is not installed."""
    try:
        import espeakng_loader
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper
    except ModuleNotFoundError as problem:
        raise InputError(f"{problem}: espeakng_loader and phonemizer run espeak-ng; run `make venv`") from None
    EspeakWrapper.set_library(espeakng_loader.get_library_path())
    EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    backend = EspeakBackend(language="en-us", preserve_punctuation=True, with_stress=True, tie="^")
    return [from_espeak(answer) for answer in backend.phonemize(list(words))]


def from_espeak(answer: str) -> str:
    """espeak-ng's American IPA with ties -> Kokoro's symbols."""
    found = answer.strip()
    for theirs, ours in sorted(ESPEAK_SYMBOLS.items(), key=lambda pair: -len(pair[0])):
        found = found.replace(theirs, ours)
    found = SYLLABIC.sub(r"ᵊ\1", found).replace("\u0329", "")
    for theirs, ours in AFTERWARDS:
        found = found.replace(theirs, ours)
    return to_kokoro(found)


def from_arpabet(symbols: Sequence[str]) -> str:
    """ARPAbet with stress digits -> Kokoro's symbols; a t between vowels becomes Kokoro's flap T, which ARPAbet does not write."""
    found = ""
    for symbol in symbols:
        name, digit = symbol.rstrip("012"), symbol[-1]
        mark = {"1": PRIMARY, "2": SECONDARY}.get(digit, "")
        found += mark + (UNSTRESSED.get(name, ARPABET[name]) if digit == "0" else ARPABET[name])
    return FLAP.sub("T", found)


class G2pEn:
    """g2p_en's network from its own checkpoint, one word at a time as it runs there."""

    def __init__(self, arrays: "Mapping[str, np.ndarray]") -> None:
        self.arrays = arrays

    @classmethod
    def load(cls) -> "G2pEn":
        """The checkpoint of the installed package. Raises InputError when it is not installed."""
        import numpy as np

        spec = find_spec("g2p_en")
        if spec is None or not spec.submodule_search_locations:
            raise InputError("g2p_en is not installed: run `make venv`")
        with np.load(Path(spec.submodule_search_locations[0]) / "checkpoint20.npz") as arrays:
            return cls({name: arrays[name] for name in arrays.files})

    def read(self, word: str) -> str:
        """Kokoro phonemes of one word."""
        import numpy as np

        letters = [GRAPHEMES.index(letter) if letter in GRAPHEMES else 1 for letter in folded(word)]
        state = np.zeros(self.arrays["enc_w_hh"].shape[-1], np.float32)
        for letter in (*letters, GRAPHEMES.index("</s>")):
            state = self._step("enc", letter, state)
        found, sound = [], START
        for _ in range(MOST_SOUNDS):
            state = self._step("dec", sound, state)
            sound = int((self.arrays["fc_w"] @ state + self.arrays["fc_b"]).argmax())
            if sound == END:
                break
            found.append(SOUNDS[sound])
        return from_arpabet([symbol for symbol in found if not symbol.startswith("<")])

    def _step(self, side: str, symbol: int, state: "np.ndarray") -> "np.ndarray":
        """One step of a GRU (Cho et al. 2014; gates in the order reset, update, new)."""
        import numpy as np

        theirs = {name: self.arrays[f"{side}_{name}"] for name in ("emb", "w_ih", "w_hh", "b_ih", "b_hh")}
        seen = np.split(theirs["w_ih"] @ theirs["emb"][symbol] + theirs["b_ih"], 3)
        kept = np.split(theirs["w_hh"] @ state + theirs["b_hh"], 3)
        reset, update = (1 / (1 + np.exp(-(seen[gate] + kept[gate]))) for gate in (0, 1))
        new = np.tanh(seen[2] + reset * kept[2])
        return (1 - update) * new + update * state
