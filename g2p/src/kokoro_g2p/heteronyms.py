"""Which pronunciation of a heteronym a sentence wants: the key of its lexicon entry.

    Heteronyms.load().choose(["They", "record", "songs"], 1, ("DEFAULT", "VERB"))     # "VERB"
    # "DEFAULT", in misaki's list the fish
    Heteronyms.load().choose("We caught a bass in the lake".split(), 3, ("ADJ", "DEFAULT"))

A log-linear model, learned from labelled sentences (training/heteronym_table.py). Each
feature of the word's surroundings has a weight for this word's key and one for the role of the key,
a verb or none, which every word shares; the key with the most points wins. A feature's weight
stands in a table at its hash. Features are those of the tagger, its answer, the words within REACH,
and how long the text is. Figures and what stays undecided: docs/g2p.md.
"""

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kokoro_g2p.alphabet import PAUSES
from kokoro_g2p.bundled import DATA, read_arrays
from kokoro_g2p.lexicon import BEFORE_PAUSE, DEFAULT
from kokoro_g2p.part_of_speech import SURELY_FINITE, Classes, Tagger, name_features
from kokoro_g2p.word_lists import parse_pairs, parse_set

PATH = DATA / "heteronyms.npz"
FORMAT = 1
BITS = 17  # of a place in the table
# an odd number below 2^31, so that its product with a CRC fits a signed word of 64 bits
MIXER = 0x5F356495
WORD = 2**32
STEP = 2 ** (32 - BITS)
PAST, PRESENT = frozenset(("d", "de")), frozenset(("z", "v"))
MARKS = frozenset('.?!;:,—…“”()"')
REACH = 12  # words before and after that count wherever they stand
# of misaki's acronyms, those whose capitals more often stress a word than abbreviate
EMPHASIS = parse_set(
    "add ah am as be er etc he hi hm hmm in is it ma me mm mo oft oh or ou pa re rip sat ta who"
)
# what the first letter of a feature's name says, of part_of_speech.name_features and below
MEANINGS = parse_pairs(
    "a:before b:after c:two_before d:two_after e:both_before f:around g:both_after h:kind_before"
    " i:kind_after j:kind_two_before k:kind_two_after l:kinds_before m:kinds_around n:kinds_after"
    " o:three_kinds_before p:kinds_around q:kinds_around r:before,_kind_after s:kind_before,_after"
    " t:before,_kind_two_before u:kinds_around,_verbs v:auxiliary w:auxiliary,_kinds_around"
    " x:time,_auxiliary y:verbs,_kind_after z:three_kinds_after A:kinds_before,_verbs"
    " B:ending,_kind_before C:ending,_kind_after T:tagger 1:always P:place L:length Z:end"
    " V:auxiliary F:verbs_before_and_after D:tenses N:near"
)
Roles = Mapping[str, str]  # a key, and its role: VERB, NOUN, or nothing where it is the word's own


def list_features(words: Sequence[str], at: int, tagger: Tagger) -> list[str]:
    """Features of the words around words[at]; the word itself and its key join in the hash."""
    classes = tagger.classes
    count = len(words)
    end = words[-1] if words[-1] in ".?!" else ""
    shares = tagger.compute_probabilities(words, at)
    tag = max(shares, key=lambda tag: shares[tag])
    near = [*words[max(0, at - REACH) : at], *words[at + 1 : at + 1 + REACH]]
    behind = classes(words[at + 1])[:1] if at + 1 < count else ""
    # Counted outwards from the word: before it backwards, behind it forwards.
    verbs = (
        f"{count_verbs([*reversed(words[:at])], classes)}{count_verbs(words[at + 1 :], classes)}"
    )
    neighbours = name_features(words, at, classes)
    return [
        *neighbours,
        f"T{tag}",
        # How sure the tagger is, in quarters
        f"T{tag}{int(shares[tag] * 4)}",
        "1",
        f"P{min(at, 2)}{min(count - 1 - at, 2)}",
        f"L{min(count // 4, 4)}{end}",
        f"Z{end}",
        *[f"V{name[1:].split()[0]}" for name in neighbours if name[0] == "v"],
        f"F{verbs}",
        f"F{verbs} {behind}",
        f"D{count_tenses(words, at, classes)}",
        # Each word once, however often it stands near
        *{f"N{word.lower()}" for word in near if len(word) > 2},
    ]


def count_tenses(words: Sequence[str], at: int, classes: Classes) -> str:
    """How many other words can only be past, and present: two at most of each."""
    kinds = [classes(word) for place, word in enumerate(words) if place != at]
    past, present = (sum(kind in sure for kind in kinds) for sure in (PAST, PRESENT))
    return f"{min(past, 2)}{min(present, 2)}"


def count_verbs(words: Sequence[str], classes: Classes) -> int:
    """How many words to the next mark can only be finite verbs, two at most."""
    count = 0
    for word in words:
        if word in MARKS or count == 2:
            break
        count += classes(word) in SURELY_FINITE
    return count


def hash_feature(text: str) -> int:
    """CRC-32 of a text, mixed so that its upper bits spread."""
    # Python's integers do not overflow; the remainder is what a word of 32 bits would keep.
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) * MIXER % WORD


def place(feature: int, target: int) -> int:
    """The index of the weight of a hashed feature for a hashed target."""
    # The upper bits of the sum choose the place, since mixing spreads those best.
    return (feature + target) % WORD // STEP


def list_targets(word: str, key: str, role: str) -> list[int]:
    """The targets of a feature's weights: the word's own key, and the role that words share."""
    return [hash_feature(f"{word} {key}"), *([hash_feature(role)] if role else [])]


def infer_roles(word: str, keys: Collection[str]) -> dict[str, str]:
    """The keys of a word without training sentences, as a verb and as a noun or adjective."""
    other = next(
        # Of words in -ate the adjective sounds unlike the verb: separate, deliberate.
        (key for key in ("NOUN", "ADJ") if key in keys and (key == "NOUN" or word.endswith("ate"))),
        DEFAULT,
    )
    verb = "VERB" if "VERB" in keys else DEFAULT
    return {verb: "VERB", other: "NOUN"} if verb != other and verb in keys and other in keys else {}


@dataclass(frozen=True)
class Heteronyms:
    """`weights` [2 ** BITS] int8, `taught`: the keys of a word that sound differently, each with
    its role; and a loaded tagger.
    """

    weights: memoryview
    taught: Mapping[str, Roles]
    tagger: Tagger

    @classmethod
    def load(cls, path: Path = PATH) -> "Heteronyms":
        """Raises InputError when a file is missing, damaged or of another format."""
        head, stored = read_arrays(path, FORMAT, "python -m kokoro_g2p.training.heteronym_table")
        return cls.from_weights(stored["weights"], head["taught"])

    @classmethod
    def from_weights(cls, weights: np.ndarray, taught: Mapping[str, str]) -> "Heteronyms":
        """From weights int8 and `{"DEFAULT:NOUN VERB:VERB": "abstract record ..."}`."""
        keys = {
            word: dict(pair.split(":") for pair in pairs.split())
            for pairs, words in taught.items()
            for word in words.split()
        }
        # A memoryview answers plain integers, faster than an array does one by one.
        return cls(memoryview(weights.astype(np.int8).tobytes()).cast("b"), keys, Tagger.load())

    def choose(self, words: Sequence[str], index: int, keys: Collection[str]) -> str:
        """One of `keys` for `words[index]`: words and marks of one sentence, the keys of the word's
        entry or of its stem's.

        Raises IndexError for an index outside the sentence and ValueError for an empty `keys`.
        """
        if not 0 <= index < len(words):
            raise IndexError(f"word {index} of {len(words)}")
        if not keys:
            raise ValueError(f"no keys to choose from for {words[index]!r}")
        # Some function words have a form of their own before a pause, whatever the context.
        if BEFORE_PAUSE in keys and (index + 1 == len(words) or words[index + 1] in PAUSES):
            return BEFORE_PAUSE
        wanted = self.find_key(words, index, keys)
        # The table may want a key that the entry lacks.
        return wanted if wanted in keys else DEFAULT if DEFAULT in keys else next(iter(keys))

    def find_key(self, words: Sequence[str], index: int, keys: Collection[str]) -> str:
        """The key that fits best; it need not be in the entry."""
        word = words[index].lower()
        # misaki gives acronyms a noun without a sound: the US, not us
        if (
            len(word) > 1
            and words[index].isupper()
            and "NOUN" in keys
            and word not in self.tagger.heteronyms
        ):
            return "NOUN" if is_acronym(words, index, self.tagger.classes) else DEFAULT
        candidates = self.list_candidates(word, keys)
        if not candidates:
            return DEFAULT
        # recorded, recording: spoken as the verb, whatever their part of speech
        if word not in self.taught and word.endswith(("ed", "ing")):
            return "VERB"
        points = self.weigh_keys(word, list_features(words, index, self.tagger), candidates)
        return max(points, key=lambda key: sum(points[key]))

    def list_candidates(self, word: str, keys: Collection[str]) -> Roles:
        """The keys between which the table decides, with their roles; none where it cannot."""
        taught = self.taught.get(word, {})
        return taught if taught and all(key in keys for key in taught) else infer_roles(word, keys)

    def weigh_keys(
        self, word: str, surroundings: Sequence[str], candidates: Roles
    ) -> dict[str, list[int]]:
        """The weights of each key: those of every feature for the word's own key, then for its
        role.
        """
        hashes = [hash_feature(feature) for feature in surroundings]
        weights = self.weights
        return {
            key: [
                weights[place(feature, target)]
                for target in list_targets(word, key, role)
                for feature in hashes
            ]
            for key, role in candidates.items()
        }

    def explain(self, words: Sequence[str], index: int, keys: Collection[str]) -> list[str]:
        """The features that decided for the chosen key against the next, each with its weight,
        strongest first. Empty where the table does not decide.
        """
        word = words[index].lower()
        candidates = self.list_candidates(word, keys)
        if not candidates:
            return []
        surroundings = list_features(words, index, self.tagger)
        points = self.weigh_keys(word, surroundings, candidates)
        best, other = sorted(points.values(), key=lambda one: -sum(one))[:2]
        count = len(surroundings)
        # Each target has all features in one order, so that a feature's weights are `count` apart.
        gains = [sum(best[at::count]) - sum(other[at::count]) for at in range(count)]
        ranked = sorted(zip(gains, surroundings, strict=True), key=lambda one: -one[0])
        return [f"{gain:+d} {MEANINGS[name[0]]} {name[1:]}".rstrip() for gain, name in ranked]


def is_acronym(words: Sequence[str], index: int, classes: Classes) -> bool:
    """Whether the capitals of `words[index]` are those of an acronym (the US) or of emphasis (it IS
    true, GIVE IT TO US).
    """
    others = [
        word
        for place, word in enumerate(words)
        if place != index and len(word) > 1 and word.isalpha()
    ]
    # In a line of capitals they tell nothing.
    if others and 2 * sum(word.isupper() for word in others) > len(others):
        return False
    if words[index].lower() not in EMPHASIS:
        return True
    before = words[index - 1] if index else ""
    # A noun follows a determiner or a possessive: the US, our IT, an IT firm.
    return classes(before)[:1] in ("D", "S") or before.lower() == "an"
