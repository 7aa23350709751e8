"""Which pronunciation of a heteronym a sentence wants: the key of its lexicon entry.

    Heteronyms.load().choose(["They", "record", "songs"], 1, ("DEFAULT", "VERB"))     # "VERB"
    # "DEFAULT", in misaki's list the fish
    sense("bass", ("We", "caught", "a", "bass", "in", "the", "lake"), 3)

A tagger gives the part of speech (g2p/part_of_speech.py), the clause tells `read`, `used`, `that`
(g2p/clauses.py), cue words tell senses of one part of speech apart (a lead pipe, a tear in a
sleeve). A cue is a word within REACH words, or with a place (`-1:deep`: the word before;
`+1:player`: the word after), which counts double. The key with the most points wins, the first one
where none has more. Figures and what stays undecided: docs/g2p.md.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.g2p.alphabet import PAUSES
from kokoro_ane.g2p.bundled import table
from kokoro_ane.g2p.clauses import (
    COLLECTIVE,
    CUED,
    PAST,
    PERFECT,
    is_adjective,
    is_demonstrative,
    is_habit,
    is_noun,
    is_past,
    is_verb,
)
from kokoro_ane.g2p.lexicon import BEFORE_PAUSE, DEFAULT
from kokoro_ane.g2p.part_of_speech import PATH, Classes, Tagger
from kokoro_ane.g2p.word_lists import word_set

REACH = 12
PLACES = (-3, -2, -1, 1, 2)
Cues = Mapping[str, str]  # words between spaces, by their place: `+1`, or nothing for anywhere


def _cues(text: str) -> Cues:
    senses: dict[str, str] = {}
    for cue in text.split():
        place, _, word = cue.partition(":")
        senses[place if word else ""] = senses.get(place if word else "", " ") + f"{word or place} "
    return senses


def _count(cues: Cues, words: Sequence[str], at: int) -> int:
    """How many of the cues stand around words[at], those in their place twice; `^` stands before
    all.
    """
    around = {
        word.lower() for word in (*words[max(0, at - REACH) : at], *words[at + 1 : at + 1 + REACH])
    } | ({"^"} if at == 0 else set())
    placed = [
        (cues.get(f"{place:+d}", ""), words[at + place].lower())
        for place in PLACES
        if 0 <= at + place < len(words)
    ]
    return sum(f" {word} " in cues.get("", "") for word in around) + 2 * sum(
        f" {word} " in cue for cue, word in placed
    )


@dataclass(frozen=True)
class Senses:
    """Keys in order with their cues, and the tags for which they are asked (`*`: all)."""

    tags: frozenset[str]
    cues: Mapping[str, Cues]


_SENSES, _FRAGMENTS = (table(name).items() for name in ("cues.json", "fragments.json"))
SENSES: Mapping[str, Senses] = {
    word: Senses(word_set(one["tags"]), {key: _cues(cues) for key, cues in one["cues"].items()})
    for word, one in _SENSES
}
FRAGMENTS: Mapping[str, Mapping[str, Cues]] = {
    word: {key: _cues(cues) for key, cues in keys.items()} for word, keys in _FRAGMENTS
}
# senses that a part of speech does not tell: cues hold in sentences too
ANYWHERE = word_set("DEER NUMB JOB PLACE")
LONGEST_FRAGMENT, LONGEST_CLOSED = 9, 4  # words, and of one that ends in a full stop


def sense(word: str, words: Sequence[str], at: int) -> str:
    """Key of SENSES[word] with the most points. Raises KeyError for a word not in SENSES."""
    points = {key: _count(cues, words, at) for key, cues in SENSES[word].cues.items()}
    return max(points, key=lambda key: points[key])


def is_fragment(words: Sequence[str], at: int, classes: Classes) -> bool:
    """A label, headline, menu or line of a list: few words, no pronoun for a subject, no sentence
    with its verb and its full stop.
    """
    spoken_words = [word for word in words if word[:1].isalnum()]
    if len(spoken_words) > LONGEST_FRAGMENT or any(
        classes(word)[:1] == "P" for word in spoken_words
    ):
        return False
    others = [*words[:at], *words[at + 1 :]]
    return words[-1] not in ".?!" or (
        len(spoken_words) <= LONGEST_CLOSED
        and not any(classes(word)[:1] in ("z", "d", "M") for word in others)
    )


def roles(word: str, keys: Collection[str]) -> dict[str, str]:
    """The keys of `word` as a verb and as a noun, where they tell nothing else: the cues of every
    such word hold for them.
    """
    if word in CUED or word.endswith(("ed", "ing")):
        return {}
    other = next(
        (key for key in ("NOUN", "ADJ") if key in keys and (key == "NOUN" or word.endswith("ate"))),
        DEFAULT,
    )
    return (
        {"VERB": "VERB" if "VERB" in keys else DEFAULT, "NOUN": other}
        if "VERB" in keys or other != DEFAULT
        else {}
    )


def fragment_sense(
    words: Sequence[str], at: int, classes: Classes, keys: Collection[str]
) -> str | None:
    """The key that the cues of data/fragments.json name for words[at], its own before those of
    every word (`*`), or None; `^`: at first.
    """
    weights, named = FRAGMENTS.get(words[at].lower(), {}), roles(words[at].lower(), keys)
    first = {key: _count(weights.get(key, {}), words, at) for key in (*weights, *named.values())}
    before = (
        words[0].lower()
        if at == 1 and words[1][-1:] != "s" and words[1].lower() not in PAST
        else ""
    )
    # a city permit: no base form behind one who acts
    alone = 1 if classes(before) in ("n", "n'") and before not in COLLECTIVE else 0
    every = {
        named[role]: _count(cues, words, at) + alone * (role == "NOUN")
        for role, cues in FRAGMENTS["*"].items()
        if role in named
    }
    points = {key: (count + every.get(key, 0), count) for key, count in first.items()}
    best = max(points, key=lambda key: points[key], default="")
    unsure = points.get(best, (0,))[0] == 0 or sorted(points.values())[-2:].count(points[best]) > 1
    return best if not unsure and (best in ANYWHERE or is_fragment(words, at, classes)) else None


PARENTS = {"n": "NOUN", "v": "VERB", "j": "ADJ", "r": "ADV"}
# of misaki's acronyms, those whose capitals more often stress a word than abbreviate
EMPHASIS = word_set(
    "add ah am as be er etc he hi hm hmm in is it ma me mm mo oft oh or ou pa re rip sat ta who"
)
INTENSIFIERS = word_set("very extremely most quite rather")  # an adjective follows


@dataclass(frozen=True)
class Heteronyms:
    """A loaded tagger, and the choice among the keys of an entry."""

    tagger: Tagger

    @classmethod
    def load(cls, path: Path = PATH) -> "Heteronyms":
        """Raises InputError when the tagger's file is missing or damaged."""
        return cls(Tagger.load(path))

    def choose(self, words: Sequence[str], index: int, keys: Collection[str]) -> str:
        """One of `keys` for `words[index]`: words and marks of one sentence, the keys of the word's
        entry or of its stem's.

        Raises IndexError for an index outside the sentence and ValueError for an empty `keys`.
        """
        if not 0 <= index < len(words):
            raise IndexError(f"word {index} of {len(words)}")
        if not keys:
            raise ValueError(f"no keys to choose from for {words[index]!r}")
        if BEFORE_PAUSE in keys and (index + 1 == len(words) or words[index + 1] in PAUSES):
            return BEFORE_PAUSE
        senses = self.senses_of(words, index, keys)
        return next((key for key in (*senses, DEFAULT) if key in keys), next(iter(keys)))

    def senses_of(self, words: Sequence[str], index: int, keys: Collection[str]) -> tuple[str, ...]:
        """Keys that fit, best first; they need not be in the entry."""
        word, classes = words[index].lower(), self.tagger.classes
        if (
            len(word) > 1
            and words[index].isupper()
            and "NOUN" in keys
            and word not in self.tagger.heteronyms
        ):
            return ("NOUN",) if is_acronym(words, index, classes) else ()
        before = words[index - 1] if index else ""
        relative = before.lower() in ("that", "which", "who") and is_verb(words, index, classes)
        cued = None if relative else fragment_sense(words, index, classes, keys)
        if cued is not None:
            return (cued,)
        if word in ("read", "reread"):
            noun = (
                "NOUN" in keys
                and self.tagger.tag(words, index, ("nn", "vb", "vbp", "vbd", "vbn")) == "nn"
            )
            return ("NOUN",) if noun else ("VBD",) if is_past(words, index, classes) else ()
        if word == "used":
            return ("VBD",) if is_habit(words, index, classes) else ()
        if words[index] == "Polish":
            return ("VERB",) if opens_command(words, index, classes) else ()
        if word in ("that", "that's") and "DT" in keys:
            return ("DT",) if is_demonstrative(words, index, classes) else ()
        if (word == "minute" and classes(before.rpartition("-")[2])[:1] == "0") or (
            word == "learned" and before.lower() in PERFECT
        ):
            return ()  # a 5 minute call; has learned
        if is_verb(words, index, classes):
            return ("VERB",) if "VERB" in keys else ("VBD",) if word == "wound" else ()
        if before.lower() in INTENSIFIERS or is_adjective(words, index, classes):
            return ("ADJ",)
        if is_noun(words, index, classes):
            return ("NOUN",)
        senses = SENSES.get(word)
        if senses is not None and "*" in senses.tags:
            return (sense(word, words, index),)
        if word not in self.tagger.heteronyms and word.endswith(("ed", "ing")):
            # recorded, recording: spoken as the verb, whatever their part of speech
            return ("VERB",)
        if (
            word not in PAST
            and not word.startswith("consist")
            and senses is None
            and words[index + 1 : index + 2] == ["of"]
        ):
            return ("NOUN",)  # transforms of one another
        shares = self.tagger.probabilities(words, index)
        if senses is not None and max(shares, key=lambda tag: shares[tag]) in senses.tags:
            return (sense(word, words, index),)
        points = dict.fromkeys((*keys, DEFAULT), 0.0)
        for tag, share in shares.items():
            points[key_of(tag, keys)] += share
        return (max(points, key=lambda key: points[key]),)


def key_of(tag: str, keys: Collection[str]) -> str:
    """The key of a Penn tag. VBP is never taken: misaki's lists give the past form there."""
    exact, parent = tag.upper(), PARENTS.get(tag[0], DEFAULT)
    return exact if exact in keys and tag != "vbp" else parent if parent in keys else DEFAULT


def is_acronym(words: Sequence[str], index: int, classes: Classes) -> bool:
    """Are the capitals of `words[index]` those of an acronym (the US) or of emphasis (it IS true,
    GIVE IT TO US)?
    """
    others = [
        word
        for place, word in enumerate(words)
        if place != index and len(word) > 1 and word.isalpha()
    ]
    if others and 2 * sum(word.isupper() for word in others) > len(others):
        return False
    if words[index].lower() not in EMPHASIS:
        return True
    before = words[index - 1] if index else ""
    return classes(before)[:1] in ("D", "S") or before.lower() == "an"


def opens_command(words: Sequence[str], index: int, classes: Classes) -> bool:
    """Does the capitalised word open a sentence, with an object after it (Polish the table)?"""
    first = index == 0 or words[index - 1] in PAUSES or words[index - 1] in '“"('
    return first and index + 1 < len(words) and classes(words[index + 1])[:1] in ("D", "S", "O")
