"""The two annotated sources that the tagger learns from, both of Debian packages with permissive
licences (docs/g2p.md).

    apt-get install festlex-poslex wordnet-base
    .venv/bin/python -c 'from kokoro_g2p.training.tagger_sources import examples, WORDNET; \
        print(next(read_examples(WORDNET)))'

festlex-poslex 2.4 (University of Edinburgh) has log P(word | tag) and tag trigrams of the Wall
Street Journal, with Penn tags in lower case. wordnet-base 3.0 (Princeton) has definitions and
example sentences, with the part of speech of the word that an example illustrates.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from kokoro_g2p.errors import InputError
from kokoro_g2p.part_of_speech import split_words
from kokoro_g2p.word_lists import parse_pairs, parse_set

POSLEX = Path("/usr/share/festival/dicts")
CLOSED = parse_set("dt in prp md cc to of wdt wp punc")
WORDNET = Path("/usr/share/wordnet")
SHA256 = {
    "wsj.wp39.poslexR": "670916022d176c5f4c3e96cd182dbd938524a6e0283622a53f59e9bc5fa584c0",
    "wsj.wp39.tri.ngrambin": "ac8ba772b5f3e0a6f48fce9b485914df1a281315e5a4f5ca38db959d74797b1e",
    "data.adj": "c89120dfc1f046ddff4a631bf9b7e9fa1a36b5e86565a23bf82dbe14f30b88a7",
    "data.noun": "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2",
    "data.verb": "adcf43e35b581e8036d8b5a52d63d9cd3d3b4870b2720d3c03c799df44777bc2",
    "data.adv": "444a63bf3955080ab7524f5079cfc07ff9bc682cb98bdb1db73b0fb9829f1139",
}


@dataclass(frozen=True)
class WordNetExample:
    """The words of one example or definition. `target` is the index of the illustrated word, None
    in a definition; `pos` is its part of speech: n, v, a or r.
    """

    words: tuple[str, ...]
    target: int | None
    pos: str


@dataclass(frozen=True)
class TagModel:
    """A hidden Markov model of tags: `emit[word][tag]` is log P(word | tag), `trigrams[a, b, c]` is
    log P(tag c | tags a, b), `prior[tag]` is log P(tag).
    """

    tags: tuple[str, ...]
    emit: dict[str, dict[str, float]]
    trigrams: np.ndarray  # [T, T, T] float64
    prior: np.ndarray  # [T] float64


def read_bytes(folder: Path, name: str) -> bytes:
    """The file's content. Raises InputError when the file is missing or has another SHA-256."""
    path = folder / name
    if not path.is_file():
        raise InputError(
            f"{path} does not exist: training needs the Debian packages festlex-poslex 2.4-1 and"
            " wordnet-base 1:3.0-37"
        )
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        raise InputError(
            f"{path} has SHA-256 {digest[:12]}, the tagger was trained on {SHA256[name][:12]}"
        )
    return content


def read_tag_model(folder: Path, smoothing: float = 0.1) -> TagModel:
    """The model from Festival's lexicon and trigram table. Trigrams are interpolated with bigrams,
    and these with the prior.
    """
    raw = read_bytes(folder, "wsj.wp39.tri.ngrambin")
    # Three lines of text, the second the tags, then doubles of 8 bytes, big-endian
    _, line, _, body = raw.split(b"\n", 3)
    tags = tuple(line.decode("ascii").split())
    counts = expand(np.frombuffer(body[: len(body) // 8 * 8], ">f8"), len(tags))  # [T, T, T]
    bigrams, singles = counts.sum(0), counts.sum((0, 1))  # [T, T], [T]
    prior = singles / singles.sum()
    # Each context has a few imagined counts, spread as the shorter context says.
    second = (bigrams + smoothing * 50 * prior) / (bigrams.sum(1, keepdims=True) + smoothing * 50)
    third = (counts + smoothing * 50 * second[None]) / (
        counts.sum(2, keepdims=True) + smoothing * 50
    )
    return TagModel(
        tags,
        parse_emissions(read_bytes(folder, "wsj.wp39.poslexR").decode("latin-1")),
        np.log(third),
        np.log(prior + 1e-12),
    )


def expand(stream: np.ndarray, size: int) -> np.ndarray:
    """The counts [T, T, T] from Festival's stream of doubles, where -n means that the value before
    it stands n times. Example: 5, -3, 1 -> 5, 5, 5, 1.
    """
    counts: list[float] = []
    for value in stream.tolist():
        if value < 0:
            counts.extend([counts[-1]] * int(-value - 1))
        else:
            counts.append(value)
    return np.array(counts).reshape(size, size, size)  # [T, T, T]


def parse_emissions(text: str) -> dict[str, dict[str, float]]:
    """log P(word | tag) by word, from lines such as `("bow" ((nn -9.1) (vb -10.2) ) () )`."""
    readings = {}
    for word, tags in re.findall(r'^\("([^"]+)" \((.*?)\) \(\) \)$', text, re.MULTILINE):
        readings[word] = {
            tag: float(value) for tag, value in re.findall(r"\((\S+) (-?[\d.]+)\)", tags)
        }
    return readings


def read_examples(folder: Path) -> Iterator[WordNetExample]:
    """Yield every example sentence of WordNet that has a word of its synset, and every
    definition.
    """
    for pos in ("noun", "verb", "adj", "adv"):
        for line in read_bytes(folder, f"data.{pos}").decode("latin-1").splitlines():
            # The licence stands before the data, in lines that begin with two spaces.
            if not line.startswith("  "):
                yield from read_synset(line, {"adv": "r"}.get(pos, pos[0]))


def read_synset(line: str, pos: str) -> Iterator[WordNetExample]:
    """Yield the definition and the examples of one synset's line."""
    # two fields a word from the fifth on, their number in hexadecimal in the fourth
    head, _, gloss = line.partition(" | ")
    fields = head.split()
    names = {name.split("(")[0].lower() for name in fields[4 : 4 + 2 * int(fields[3], 16) : 2]}
    definition = gloss.split('; "')[0].strip(' ;"')
    yield WordNetExample(split_words(definition), None, pos)
    for sentence in re.findall(r'"([^"]+)"', gloss):
        words = split_words(sentence)
        target = next(
            (index for index, word in enumerate(words) if is_form(word.lower(), names, pos)), None
        )
        if target is not None:
            yield WordNetExample(words, target, pos)


def is_form(word: str, names: set[str], pos: str) -> bool:
    """Whether `word` is a regular form of a name of the synset."""
    if word in names:
        return True
    endings = {"n": ("s", "es"), "v": ("s", "es", "d", "ed", "ing"), "a": (), "r": ()}[pos]
    stems = {
        word[: -len(ending)]
        for ending in endings
        if word.endswith(ending) and len(word) > len(ending) + 2
    }
    if pos == "v":
        stems |= {stem + "e" for stem in stems} | {
            stem[:-1] for stem in stems if len(stem) > 2 and stem[-1] == stem[-2]
        }
    return bool(stems & names)


_PARTS = parse_pairs("n:nn_nns_nnp_nnps v:vb_vbp_vbz_vbd_vbn_vbg a:jj_jjr_jjs r:rb_rbr_rbs")
PARTS = {part: tuple(tags.split()) for part, tags in _PARTS.items()}
VERBAL = ("vb", "vbp", "vbz", "vbd", "md")
POSSESSIVES, SUBJECTS = parse_set("my your our their its whose"), parse_set("i he she we they")
# log P(word | tag) of a reading that only WordNet has; Festival's rarest word has -11.7
UNSEEN = -12.5
SEQUENCE_START = ("punc", "punc")


@dataclass(frozen=True)
class Silver:
    """A tagger of silver tags: the tag model, and which words WordNet lists as n, v, a, r."""

    model: TagModel
    lemmas: Mapping[str, str]

    @classmethod
    def load(cls, poslex: Path = POSLEX, wordnet: Path = WORDNET) -> "Silver":
        """Read both sources. Raises InputError when one is missing or of another version."""
        return cls(read_tag_model(poslex), read_lemmas(wordnet))

    @cached_property
    def table(self) -> list[list[list[float]]]:
        """log P(tag | two tags), [T][T][T]: lists give single numbers faster than an array."""
        return self.model.trigrams.tolist()

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each tag."""
        return {tag: number for number, tag in enumerate(self.model.tags)}

    def find_readings(self, word: str) -> dict[str, float]:
        """log P(word | tag) for each tag that the word can have. A word that both sources lack gets
        a guess from its form.
        """
        lower = word.lower()
        # Tags of signs, list items and foreign words would only mislead.
        scores = {
            tag: value
            for tag, value in self.model.emit.get(lower, {}).items()
            if tag not in ("1", "2", "sym", "ls", "fw")
        }
        closed = any(tag in scores for tag in CLOSED)
        # A word in small letters that may be something else is no name.
        if word == lower and len(scores) > 1:
            scores.pop("nnp", None)
        # Function words have no other readings than Festival's, whatever WordNet says.
        for tag in () if closed else self.find_known_tags(lower):
            scores.setdefault(tag, UNSEEN)
        return scores or infer_readings(word)

    def find_known_tags(self, word: str) -> set[str]:
        """The tags that WordNet's parts of speech allow for this form."""
        tags: set[str] = set()
        for form, per_part in list_lemmas(word):
            for part in self.lemmas.get(form, ""):
                tags.update(per_part.get(part, ()))
        return tags

    def find_tags(self, words: Sequence[str], allowed: Mapping[int, tuple[str, ...]]) -> list[str]:
        """The best sequence of tags, by Viterbi's algorithm. `allowed` restricts the tags at some
        indices.
        """
        index, table = self.index, self.table
        first, second = (index[tag] for tag in SEQUENCE_START)
        states: dict[tuple[int, int], float] = {(first, second): 0.0}
        back: list[dict[tuple[int, int], int]] = []
        for position, word in enumerate(words):
            choices = filter_readings(
                words[position - 1].lower() if position else "", self.find_readings(word)
            )
            if position in allowed:
                # A tag that the word is not known for is taken all the same where only it is
                # allowed.
                choices = {
                    tag: value for tag, value in choices.items() if tag in allowed[position]
                } or dict.fromkeys(allowed[position], UNSEEN)
            # a state is the last two tags; `came` has the tag before them on the best way there
            step: dict[tuple[int, int], float] = {}
            came: dict[tuple[int, int], int] = {}
            for tag, emission in choices.items():
                number = index[tag]
                for (before, last), score in states.items():
                    total = score + table[before][last][number] + emission
                    if total > step.get((last, number), -math.inf):
                        step[last, number] = total
                        came[last, number] = before
            states = step
            back.append(came)
        return self.follow_back(states, back)

    def follow_back(
        self, states: Mapping[tuple[int, int], float], back: list[dict[tuple[int, int], int]]
    ) -> list[str]:
        """Follow the best last state back to the start."""
        last = max(states, key=lambda state: states[state])
        path = []
        for came in reversed(back):
            path.append(self.model.tags[last[1]])
            last = (came[last], last[0])
        return path[::-1]


def filter_readings(pronoun: str, readings: dict[str, float]) -> dict[str, float]:
    """The readings without verbs after "my" and without nouns after "they". Festival's corpus has
    one tag for both kinds of pronoun, so that its trigrams cannot tell.
    """
    if pronoun in POSSESSIVES:
        left = {tag: value for tag, value in readings.items() if tag not in VERBAL}
    elif pronoun in SUBJECTS:
        left = {
            tag: value for tag, value in readings.items() if tag not in ("nn", "nns", "nnp", "jj")
        }
    else:
        return readings
    return left or readings


def read_lemmas(wordnet: Path) -> dict[str, str]:
    """The letters of each word's parts of speech, from the synsets, for single words in lower
    case.
    """
    by_word: dict[str, set[str]] = {}
    for pos in ("noun", "verb", "adj", "adv"):
        for line in read_bytes(wordnet, f"data.{pos}").decode("latin-1").splitlines():
            if line.startswith("  "):
                continue
            fields = line.split(" | ")[0].split()
            for name in fields[4 : 4 + 2 * int(fields[3], 16) : 2]:
                word = name.split("(")[0]
                if word.isalpha() and word == word.lower():
                    by_word.setdefault(word, set()).add({"adv": "r"}.get(pos, pos[0]))
    return {word: "".join(sorted(parts)) for word, parts in by_word.items()}


ENDINGS: tuple[tuple[str, dict[str, tuple[str, ...]]], ...] = (
    ("s", {"n": ("nns",), "v": ("vbz",)}),
    ("ed", {"v": ("vbd", "vbn")}),
    ("ing", {"v": ("vbg",)}),
)


def list_lemmas(word: str) -> list[tuple[str, dict[str, tuple[str, ...]]]]:
    """The possible lemmas of a form, each with the tags that the form would have by part of
    speech.
    """
    candidates: list[tuple[str, dict[str, tuple[str, ...]]]] = [
        (word, {"n": ("nn",), "v": ("vb", "vbp"), "a": ("jj",), "r": ("rb",)})
    ]
    for ending, tags in ENDINGS:
        # stop|p|ed, bab|i|es, box|es
        if word.endswith(ending) and len(word) > len(ending) + 2:
            stem = word[: -len(ending)]
            doubled = [stem[:-1]] if ending != "s" and stem[-1] == stem[-2] else []
            ies = (
                [stem[:-2] + "y"]
                if word.endswith("ies")
                else [stem[:-1]]
                if word.endswith("es")
                else []
            )
            candidates += [(form, tags) for form in (stem, stem + "e", *doubled, *ies)]
    return candidates


def infer_readings(word: str) -> dict[str, float]:
    """The readings of a word that neither source has."""
    if not any(letter.isalnum() for letter in word):
        return {"punc": UNSEEN}
    if word[0].isdigit():
        return {"cd": UNSEEN}
    if word[0].isupper():
        return {"nnp": UNSEEN, "jj": UNSEEN - 2}
    for ending, tags in (
        ("ly", ("rb",)),
        ("ing", ("vbg", "nn")),
        ("ed", ("vbn", "vbd", "jj")),
        ("s", ("nns", "vbz")),
    ):
        if word.endswith(ending):
            return dict.fromkeys(tags, UNSEEN)
    return {"nn": UNSEEN, "jj": UNSEEN - 0.5, "vb": UNSEEN - 1.5}
