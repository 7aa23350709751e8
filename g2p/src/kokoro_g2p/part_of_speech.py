"""The tagger: probabilities of part-of-speech tags for one word of a sentence, from a table of int8
weights.

    Tagger.load().choose_tag("They record a song .".split(), 1)      # "vbp"

A maximum-entropy model that looks at one word at a time, so only the words that need a tag cost
anything.
"""

import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kokoro_g2p.bundled import DATA, read_arrays
from kokoro_g2p.files import open_aside
from kokoro_g2p.word_lists import parse_pairs, parse_set, read_word_sets

WORD = re.compile(r"[A-Za-z0-9]+(?:[-'.][A-Za-z0-9]+)*|[^\sA-Za-z0-9]")


def split_words(text: str) -> tuple[str, ...]:
    """Words (with inner hyphens and apostrophes) and single marks, in order."""
    return tuple(WORD.findall(text))


def find_nth(words: tuple[str, ...], word: str, occurrence: int) -> int:
    """Index of the occurrence-th (from 0) `word`, case ignored. Raises ValueError when there is
    none.
    """
    places = [index for index, other in enumerate(words) if other.lower() == word]
    if occurrence >= len(places):
        raise ValueError(
            f"{word!r} stands {len(places)} times in the sentence, not {occurrence + 1}"
        )
    return places[occurrence]


LETTERS = parse_pairs(
    "nn:n nnp:n nns:N nnps:N vb:v vbp:v vbz:z vbd:d vbn:e vbg:g jj:j jjr:j jjs:j rb:r"
    " rbr:r rbs:r rp:r md:M dt:D pdt:D prp:P in:I of:I to:T cc:C wdt:W wp:W wrb:W cd:0"
    " ex:X pos:'"
)
PRONOUNS = parse_pairs(
    "my:S your:S his:S her:S its:S our:S their:S whose:S i:P he:P she:P we:P they:P you:P it:P me:O"
    " him:O us:O them:O myself:O himself:O herself:O itself:O themselves:O yourself:O ourselves:O"
)
CONTRACTIONS = parse_pairs("n't:M 'll:PM 'd:PM 've:Pv 're:Pv 'm:Pv 's:n' s':N'")
ENDINGS = parse_pairs(
    "ly:r ing:g ed:ed ous:j ful:j able:j ible:j less:j ive:j ness:n ment:n tion:n sion:n ity:n ss:n"
    " us:n is:n s:N"
)
SHARE = 0.1  # a reading under this share is left out of the class


@dataclass
class Classes:
    """Call with a word: its class. `stored` holds what the rules would get wrong; answers are kept
    for the life of the object.
    """

    stored: Mapping[str, str]
    kept: dict[str, str] = field(default_factory=dict)

    def __call__(self, word: str) -> str:
        """Class of `word`; capital letters matter only for unknown words."""
        cached = self.kept.get(word)
        if cached is None:
            lower = word.lower()
            cached = self.stored.get(lower) or infer_class(word)
            # A text without end must not fill the memory.
            if len(self.kept) < 50_000:
                self.kept[word] = cached
        return cached


def infer_class(word: str) -> str:
    """Class from the form of the word alone."""
    lower = word.lower()
    if lower in PRONOUNS:
        return PRONOUNS[lower]
    if not word or not word[0].isalnum():
        return word[:1]
    if word[0].isdigit():
        return "0"
    # Contractions go before capitals: John's is a possessive and no plain name.
    for ending, letter in CONTRACTIONS.items():
        if lower.endswith(ending):
            return letter
    if word[0].isupper():
        return "n"
    for ending, letter in ENDINGS.items():
        if lower.endswith(ending):
            return letter
    return "n"


EDGE = "#"
REACH = 9  # words looked back for the auxiliary of the clause
# classes of words that can only be finite verbs
SURELY_FINITE = parse_set("z d v M dv vd de")
AUXILIARIES, TIMES = read_word_sets("words", "auxiliaries times")
STOPS = frozenset(".?!;:")


def hash_features(
    words: Sequence[str], at: int, classes: Callable[[str], str], is_heteronym: bool = False
) -> list[int]:
    """CRC-32 of every feature of `words[at]`: what the weight table is indexed by."""
    return [
        zlib.crc32(name.encode("utf-8", "surrogatepass"))
        for name in name_features(words, at, classes, is_heteronym)
    ]


def name_features(
    words: Sequence[str], at: int, classes: Callable[[str], str], is_heteronym: bool = False
) -> list[str]:
    """Features of `words[at]`. `classes` gives the ambiguity class of a word; `is_heteronym`: the
    word itself may be used.
    """
    # Three words on either side, with EDGE beyond the sentence's borders
    lower = [
        EDGE if not 0 <= index < len(words) else words[index].lower()
        for index in range(at - 3, at + 4)
    ]
    kinds = [
        EDGE if word == EDGE else classes(words[at - 3 + index]) for index, word in enumerate(lower)
    ]
    _, w2, w1, word, v1, v2, _ = lower
    k3, k2, k1, _, n1, n2, n3 = kinds
    helper, near, times, finite = describe_clause(words, at, classes)
    # The letter in front keeps apart what the same words say at different places.
    features = [
        f"a{w1}",
        f"b{v1}",
        f"c{w2}",
        f"d{v2}",
        f"e{w2} {w1}",
        f"f{w1} {v1}",
        f"g{v1} {v2}",
        f"h{k1}",
        f"i{n1}",
        f"j{k2}",
        f"k{n2}",
        f"l{k2} {k1}",
        f"m{k1} {n1}",
        f"n{n1} {n2}",
        f"o{k3} {k2} {k1}",
        f"p{k2} {k1} {n1}",
        f"q{k1} {n1} {n2}",
        f"r{w1} {n1}",
        f"s{k1} {v1}",
        f"t{w1} {k2}",
        f"u{k1} {n1} {finite}",
        f"v{helper} {near}",
        f"w{helper} {k1} {n1}",
        f"x{times} {helper}",
        f"y{finite} {n1}",
        f"z{n1} {n2} {n3}",
        f"A{k3} {k2} {k1} {finite}",
        f"B{find_ending(word)} {k1}",
        f"C{find_ending(word)} {n1}",
    ]
    if is_heteronym:
        features += [
            f"D{word}",
            f"E{word} {w1}",
            f"F{word} {v1}",
            f"G{word} {k1}",
            f"H{word} {n1}",
            f"I{word} {helper}",
        ]
    return features


def find_ending(word: str) -> str:
    """Ending of a word, as far as it tells parts of speech apart."""
    for ending in ("ing", "ed", "ate", "ates", "s"):
        if word.endswith(ending):
            return ending
    return ""


def describe_clause(
    words: Sequence[str], at: int, classes: Callable[[str], str]
) -> tuple[str, str, str, str]:
    """The last auxiliary before the word and how far it is, a word of time in the sentence, and how
    many other words are surely finite.
    """
    helper, near = EDGE, ""
    # Backwards to the nearest auxiliary, but not over the border of a clause
    for index in range(at - 1, max(-1, at - REACH), -1):
        word = words[index].lower()
        if word in STOPS:
            break
        if word in AUXILIARIES:
            helper = word
            near = str(min(at - index, 4))
            break
    times, finite = "", 0
    for index, word in enumerate(words):
        if index != at:
            finite += classes(word) in SURELY_FINITE
            times = word.lower() if word.lower() in TIMES else times
    return helper, near, times, str(min(finite, 2))


PATH = DATA / "tagger.npz"
FORMAT = 1
_TAGS = "nn nns jj rb vb vbp vbz vbd vbn vbg dt in wdt"
TAGS = tuple(_TAGS.split())
FINITE = parse_set("vb vbp vbz vbd")
FINITE_LETTERS = frozenset("vzdM")
# log-odds for the finite tags where a sentence has no other verb; set on the sentences to tune on
VERBLESS = 2.5
ENDS = frozenset(".?!…")
BASE = ("nn", "jj", "rb", "vb", "vbp")
PAST = (*BASE, "vbd", "vbn")
FORMS = {
    form: tuple(tags.split("/"))
    for form, tags in parse_pairs("ing:vbg/nn/jj ed:vbd/vbn/jj s:nns/vbz that:dt/in/wdt/rb").items()
}
# base and past alike
IRREGULAR = parse_set(
    "read reread wound dove upset overcast offset undercut overrun put cut set hit"
)


@dataclass(frozen=True)
class Tagger:
    """`rows`: CRC-32 of a feature to its row of `weights` [R, T] int8; `scale` makes them log-odds;
    `heteronyms`: words that are features themselves, with the tags they can have.
    """

    rows: Mapping[int, int]
    weights: np.ndarray  # [R, T] int8
    scale: float
    classes: Classes
    heteronyms: Mapping[str, tuple[str, ...]]

    @classmethod
    def load(cls, path: Path = PATH) -> "Tagger":
        """Read a file of `save`. Raises InputError when it is missing, damaged or of another
        format.
        """
        head, stored = read_arrays(path, FORMAT, "python -m kokoro_g2p.training.tagger")
        features, weights = stored["features"], stored["weights"]
        classes = {word: kind for kind, words in head["classes"].items() for word in words.split()}
        heteronyms = {word: tuple(tags.split()) for word, tags in head["heteronyms"].items()}
        rows = dict(zip(features.tolist(), range(len(features)), strict=True))
        return cls(rows, weights, float(head["scale"]), Classes(classes), heteronyms)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to store: `features` [R] uint32, `weights` [R, T] int8, `head` JSON as bytes."""
        grouped: dict[str, list[str]] = {}
        for word, kind in sorted(self.classes.stored.items()):
            grouped.setdefault(kind, []).append(word)
        head = {
            "format": FORMAT,
            "tags": TAGS,
            "scale": self.scale,
            "heteronyms": {word: " ".join(tags) for word, tags in sorted(self.heteronyms.items())},
            "classes": {kind: " ".join(words) for kind, words in sorted(grouped.items())},
        }
        content = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
        return {
            "features": np.fromiter(self.rows, np.uint32),
            "weights": self.weights,
            "head": np.frombuffer(content, np.uint8),
        }

    def save(self, path: Path = PATH) -> None:
        """Write by rename; the same tagger gives the same bytes (zip members carry no time)."""
        with open_aside(path) as aside:
            np.savez_compressed(aside, allow_pickle=False, **self.to_arrays())

    def compute_probabilities(
        self, words: Sequence[str], at: int, tags: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Probability of each tag of `words[at]` among `tags` (default: those the word, or its
        form, can have).
        """
        lower = words[at].lower()
        rows = self.rows
        allowed = tags or self.heteronyms.get(lower) or list_tags(lower)
        is_heteronym = lower in self.heteronyms and lower not in IRREGULAR
        # Features that training never saw, or that weigh nothing, have no row.
        rows_of_word = [
            rows[key] for key in hash_features(words, at, self.classes, is_heteronym) if key in rows
        ]
        scores = self.compute_scores(rows_of_word)
        bonus = VERBLESS if self.is_verbless(words, at) else 0.0
        chosen = [scores[TAGS.index(tag)] + bonus * (tag in FINITE) for tag in allowed]
        top = max(chosen)
        # The best score is taken off, so that exp cannot overflow.
        shares = [math.exp(score - top) for score in chosen]
        total = sum(shares)
        return {tag: share / total for tag, share in zip(allowed, shares, strict=True)}

    def compute_scores(self, rows_of_word: Sequence[int]) -> list[float]:
        """Log-odds of each of TAGS from these rows."""
        # Rows are summed as int32, since sums of int8 would overflow.
        return (self.weights[rows_of_word].sum(0, dtype=np.int32) * self.scale).tolist()  # [T]

    def is_verbless(self, words: Sequence[str], at: int) -> bool:
        """Is this a whole sentence (it ends with a mark) in which no other word can be its verb?"""
        return words[-1] in ENDS and not any(
            FINITE_LETTERS & {*self.classes(word)}
            for index, word in enumerate(words)
            if index != at
        )

    def choose_tag(self, words: Sequence[str], at: int, tags: Sequence[str] | None = None) -> str:
        """The most probable tag of `words[at]`."""
        shares = self.compute_probabilities(words, at, tags)
        return max(shares, key=lambda tag: shares[tag])


def list_tags(word: str) -> tuple[str, ...]:
    """Tags the form of a word allows."""
    lower = word.lower()
    if lower in IRREGULAR:
        return PAST
    if lower in FORMS:
        return FORMS[lower]
    for ending in ("ing", "ed", "s"):
        if (
            lower.endswith(ending)
            and not lower.endswith(("ss", "eed", "us", "is"))
            and len(lower) > len(ending) + 2
        ):
            return FORMS[ending]
    return BASE
