"""Readings of a word that has one form at the end of a phrase and another inside: END/INSIDE.

probed("casa {} cane", "della", open_espeak("it"), True)  # "dˈella/dˌella"
choose_form("dˈella/dˌella", "kˈaza")  # "dˌella"
"""

from collections.abc import Callable


def choose_form(reading: str, after: str) -> str:
    """The form of a reading in front of `after`, "" at a pause."""
    end, _, inside = reading.partition("/")
    return (inside or end) if after else end


def probed(frame: str, word: str, ask: Callable[[str], str], common: bool) -> str:
    """A word's reading from espeak-ng's answers (`ask`): for the word alone, and for common words
    between those of `frame`.
    """
    end = ask(word).removeprefix("@")
    # A frame is words around {}, which the answer has in the same order.
    place = frame.split().index("{}")
    said = ask(frame.format(word)).replace("@", "").split(" ")
    # espeak-ng may join words; then no part of the answer is this word for certain.
    is_apart = common and len(said) == len(frame.split())
    return end if not is_apart or said[place] == end else f"{end}/{said[place]}"
