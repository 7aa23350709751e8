"""Training text from a seed: short grammatical templates and lists of common words, of natural length.

    for sentence in training_sentences(count=600, seed=0): ...

data/words.txt holds the list words (from SCOWL, data/words.LICENSE.txt); the templates' own words are below. Frozen sentences
(core/data/heldout.txt, core/data/calibration.txt) each hold words that are in neither, so no seed can make them.
"""

import random
import re
from pathlib import Path

DATA = Path(__file__).parent / "data"

SLOTS: dict[str, tuple[str, ...]] = {
    "person": (
        "the teacher", "my brother", "her cousin", "an old sailor", "the young doctor", "our neighbour", "a tall stranger",
        "Mister Jones", "the captain", "a small boy", "the gardener", "Julia", "George", "Thomas", "the shy musician",
        "each visitor", "Charlotte", "Hugh",
    ),
    "verb": (
        "found", "carried", "sold", "washed", "borrowed", "painted", "noticed", "threw away", "measured", "enjoyed", "brought back",
        "fixed", "chose", "pushed", "described", "hid", "changed", "judged", "pulled", "wrapped up",
    ),
    "adjective": (
        "blue", "heavy", "broken", "smooth", "strange", "cheap", "golden", "round", "noisy", "thin", "huge", "wooden", "fresh",
        "lovely", "usual", "rough", "yellow", "awful", "curved", "shiny",
    ),
    "thing": (
        "chair", "letter", "bottle", "river stone", "garden hose", "watch", "picture", "bag of oranges", "coin", "toy boat",
        "sweater", "bridge", "leather glove", "bicycle", "measuring cup", "television", "poem", "church bell", "fishing rod",
        "thread", "joystick", "book",
    ),
    "place": (
        "near the station", "in the kitchen", "under the stairs", "behind the school", "on the beach", "at the market",
        "beyond the hill", "in a quiet village", "along the north road", "outside the theatre", "by the fountain",
        "across the valley",
    ),
    "time": (
        "yesterday", "last Sunday", "after lunch", "in the early morning", "this week", "at noon", "before sunset",
        "on the ninth of June", "years ago", "every other day", "in the month of March", "just now",
    ),
    "reason": (
        "because it was raining hard", "because the house was full of smoke", "though few people knew why",
        "while the children were asleep", "so we had to pay for it", "but it did not help much", "and then went home without a word",
        "as if nothing had gone wrong", "which made everyone laugh", "unless I am mistaken",
    ),
    "asks": (
        "Who could have known that", "Why do you think", "Are you sure", "Is it true that", "Did you hear how", "Do they believe",
    ),
    "number": (
        "two", "five", "eleven", "fourteen", "thirty six", "eighty", "a hundred", "nine thousand", "seventeen", "half a dozen",
    ),
}  # fmt: skip
TEMPLATES = (
    "{person} {verb} the {adjective} {thing} {place}.",
    "{time}, {person} {verb} {number} {word}s and a {adjective} {thing}.",
    "{person} {verb} the {thing} {time}, {reason}.",
    "{asks} {person} {verb} a {adjective} {thing} {place}?",
    "{time}, {place}, {person} {verb} the {thing}, {reason}.",
    "{person} said {word}, {word}, and {word}.",
    "Write {word} beside {word}, then {word} below {word}.",
    "It was {word}, not {word}, that {person} {verb} {time}.",
    "The {word} of the {word} was {adjective}, {reason}.",
    "The {adjective} {word} and the {word} {word} stood {place}, {reason}.",
    "Was it the {word} or the {word} that {person} {verb}?",
    "{word}, {word}, {word} {word}, and {word}.",
    "Some {word} {word}s, {number} {word}s, and one {adjective} {thing}.",
    "{person} thought about {word} and {word}, {reason}.",
)
_SLOT = re.compile(r"\{(\w+)\}")


def list_words() -> tuple[str, ...]:
    """The bundled common words, in file order."""
    return tuple((DATA / "words.txt").read_text(encoding="utf-8").split())


def vocabulary() -> frozenset[str]:
    """Every lower-case word the generator can write, plurals included."""
    words = list_words()
    fixed = " ".join([*TEMPLATES, *(choice for slot in SLOTS.values() for choice in slot)])
    return frozenset(words) | {word + "s" for word in words} | frozenset(words_of(_SLOT.sub(" ", fixed)))


def words_of(sentence: str) -> list[str]:
    """Lower-case words of a sentence."""
    return re.findall(r"[a-z']+", sentence.lower())


def training_sentences(count: int, seed: int) -> list[str]:
    """`count` sentences; the same seed gives the same list."""
    draw = random.Random(seed)
    choices = {**SLOTS, "word": list_words()}
    return [_fill(draw.choice(TEMPLATES), choices, draw) for _ in range(count)]


def _fill(template: str, choices: dict[str, tuple[str, ...]], draw: random.Random) -> str:
    text = _SLOT.sub(lambda slot: draw.choice(choices[slot.group(1)]), template)
    return text[0].upper() + text[1:]
