"""What the rules of several languages share: letters to sounds by an ordered table, and the marks of stress.

rules = Rules((("ch", "ʧ"), ("c(?=[ei])", "θ")))
rules("noche")                        # ["n", "o", "ʧ", "e"], each with the letter it came from
with_stress(sounds, {3: PRIMARY})     # a mark before the sound in that place
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sound:
    """One sound. `nucleus`: it makes a syllable; `letters`: what it was written as."""

    symbol: str
    nucleus: bool = False
    letters: str = ""


class Rules:
    """An ordered table of patterns and what they are said as; a letter that no pattern begins at stands for itself."""

    def __init__(self, table: Sequence[tuple[str, str]]) -> None:
        self._said = [said for _, said in table]
        self._pattern = re.compile("|".join(f"({pattern})" for pattern, _ in table))

    def __call__(self, word: str) -> list[tuple[str, str]]:
        """(sound, its letters) from left to right."""
        found, place = [], 0
        while place < len(word):
            match = self._pattern.match(word, place)
            if match is None or not match[0]:
                found.append((word[place], word[place]))
                place += 1
                continue
            said = self._said[(match.lastindex or 1) - 1]
            found += [(symbol, match[0]) for symbol in said]
            place = match.end()
        return found


def nuclei(sounds: Sequence[Sound]) -> list[int]:
    """Places of the syllables."""
    return [place for place, sound in enumerate(sounds) if sound.nucleus]


def with_stress(sounds: Sequence[Sound], marks: Mapping[int, str]) -> str:
    """The sounds in a row, a mark of stress before those in `marks`."""
    return "".join(marks.get(place, "") + sound.symbol for place, sound in enumerate(sounds))
