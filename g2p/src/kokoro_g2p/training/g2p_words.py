"""Which words train the network and which are held out: single words, and whole families with every
relative taken out of training.

    split = Split.draw(seed=0)
    # gold words that the network never saw; no relative of `family` is left in training either
    split.word, split.family
    split.training                # tag -> {word: phonemes}

A word's parts are its stem (suffixes off, then prefixes off) and, when it is two words of the lists
written together, their stems. Two words are relatives when they share a part, or when two parts
begin alike over 70 % of the longer one (decid|e, decis|ion). A family is all words of one stem. It
is held out only when it has at most MAX_RELATIVES relatives, and all of them leave training.
Affixes are a list, and lists have gaps (`achievability`). So a family is tested only if, besides,
its stem stands in no word left in training: four letters of it at a beginning or an end, five
anywhere. Families that fail this are neither trained on nor tested.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from kokoro_g2p.alphabet import AMERICAN, Alphabet, fold_word, is_readable, to_kokoro
from kokoro_g2p.word_lists import Entry, parse_set, read

WORDS_HELD_OUT, MAX_RELATIVES = 2500, 60
ALIKE_LETTERS, ALIKE_SHARE = 4, 0.7
TRACE_AT_END, TRACE_INSIDE = 4, 5  # letters of a stem that betray a relative
# may leave three letters
INFLECTIONS = parse_set("s es ed ing er est ers d e y i")
_DERIVATIONS = (
    "ly ness less ful able ible ably ibly ation ations ion ions ity ities al ally ic ics ical ism"
    " ist ists istic ize ise izer iser ized ized izing ising izes ises ization isation ment ments"
    " ous ously ive ively ant ent ance ence ancy ency ate ated ates ating ator ators atory ative"
    " ary ory or ors ish ship ships hood dom like man men some ward wards wise ian ians an ans ia"
    " ium us um a o os as en ens ene ine in ide ite ites oid age ages ette et ess let lets ling"
    " lings ee ees ure ures th ies ied ier iest ology ologist ify ifies ified ifying ifier"
    " ification ifications ological graph graphy graphic meter metry phobia phobic phile philia"
    " itis osis otic"
)
_PREFIXES = (
    "un non in im il ir re pre dis mis over out under up down off anti ante semi hemi sub super"
    " inter intra counter contra trans auto bio photo electro micro macro mega mini multi poly mono"
    " di bi tri tele thermo hydro hyper hypo neo neuro para peri pro proto pseudo psycho post ex"
    " extra fore be de en em co con com mid self geo radio cyber eco euro afro anglo crypto iso"
    " meta ortho pan quasi socio techno ultra uni vice a"
)
DERIVATIONS = parse_set(_DERIVATIONS)  # leave at least four letters
PREFIXES = parse_set(_PREFIXES)
_LONGEST_AFFIX = max(map(len, DERIVATIONS | PREFIXES))


def strip_suffixes(letters: str) -> str:
    """The letters without suffixes, which are taken off one after the other, the longest first. A
    doubled last consonant becomes single. Example: runners -> run.
    """
    while True:
        # Derivations first, as they are longer and leave four letters, inflections only three.
        cut = _find_suffix(letters, DERIVATIONS, 4) or _find_suffix(letters, INFLECTIONS, 3)
        if not cut:
            break
        letters = letters[:-cut]
    return letters[:-1] if len(letters) > 3 and letters[-1] == letters[-2] else letters


def _find_suffix(letters: str, suffixes: frozenset[str], keep: int) -> int:
    longest = min(len(letters) - keep, _LONGEST_AFFIX)
    return next((n for n in range(longest, 0, -1) if letters[-n:] in suffixes), 0)


def list_parts(word: str, vocabulary: frozenset[str] | set[str]) -> frozenset[str]:
    """Every stem that `word` may share with a relative. `vocabulary` are the words that compounds
    can be made of.
    """
    stems = set()
    for piece in fold_word(word).replace("'", "").split("-"):
        stems |= _list_stems(piece)
        # a compound is two words of at least three letters; halves of three relate it to nothing
        for cut in range(3, len(piece) - 2):
            if piece[:cut] in vocabulary and piece[cut:] in vocabulary:
                stems |= {
                    root
                    for half in (piece[:cut], piece[cut:])
                    if len(half) >= 4
                    for root in _list_stems(half)
                }
    return frozenset(stems)


def _list_stems(letters: str) -> set[str]:
    longest = min(len(letters) - 4, _LONGEST_AFFIX)
    # A prefix leaves at least four letters, so that short words keep theirs.
    bare = {letters[n:] for n in range(1, longest + 1) if letters[:n] in PREFIXES}
    return {strip_suffixes(piece) for piece in bare | {letters} if piece}


def is_alike(one: str, other: str) -> bool:
    """Whether two stems begin alike over most of the longer one."""
    longer = max(len(one), len(other))
    shared = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    return one == other or (shared >= ALIKE_LETTERS and shared >= ALIKE_SHARE * longer)


class Relatives:
    """Which of the folded `words` are related."""

    def __init__(self, words: Iterable[str]) -> None:
        vocabulary = set(words)
        self.parts = {word: list_parts(word, vocabulary) for word in sorted(vocabulary)}
        self.families: dict[str, list[str]] = defaultdict(list)
        self.with_part: dict[str, set[str]] = defaultdict(set)
        self.beginnings: dict[str, set[str]] = defaultdict(set)
        for word, stems in self.parts.items():
            self.families[strip_suffixes(word)].append(word)
            for part in stems:
                self.with_part[part].add(word)
                # Stems that are alike share these letters, so that only such are compared.
                self.beginnings[part[:ALIKE_LETTERS]].add(part)

    def find(self, word: str) -> set[str]:
        """All relatives of one of the words, itself among them."""
        members: set[str] = set()
        for part in self.parts[word]:
            near = self.beginnings[part[:ALIKE_LETTERS]]
            members |= self.with_part[part].union(
                *(self.with_part[other] for other in near if is_alike(part, other))
            )
        return members


def read_pronunciations(entries: dict[str, Entry], alphabet: Alphabet = AMERICAN) -> dict[str, str]:
    """Kokoro phonemes by folded word; a heteronym has its default ones. Acronyms, and words with
    letters or sounds that the alphabets lack, are left out.
    """
    readings: dict[str, str] = {}
    # lower case first: of `Polish` and `polish` the second is kept
    for word, entry in sorted(entries.items(), key=lambda item: (not item[0].islower(), item[0])):
        phonemes = to_kokoro((entry if isinstance(entry, str) else entry["DEFAULT"]) or "")
        # Acronyms are letters by name, from which a network learns nothing of spelling.
        acronym = len(word) > 1 and word.replace("-", "").isupper() or "." in word
        if not acronym and is_readable(word) and alphabet.cut(phonemes):
            readings.setdefault(fold_word(word), phonemes)
    return readings


def order_by_hash(words: Iterable[str], seed: int, purpose: str) -> list[str]:
    """The words in the order of a hash, which is the same on every machine and does not change when
    other words come or go.
    """
    return sorted(
        words, key=lambda word: hashlib.sha256(f"{purpose} {seed} {word}".encode()).digest()
    )


@dataclass(frozen=True)
class Split:
    """The held-out gold words of one dialect with their phonemes, and the words left to train
    on.
    """

    word: dict[str, str]
    family: dict[str, str]
    training: dict[str, dict[str, str]]  # by tag
    neither: int  # words of any list that are neither trained on nor tested

    @classmethod
    def draw(cls, seed: int) -> "Split":
        """Split misaki's American lists."""
        lists = {tag: read(tag) for tag in AMERICAN.tags}
        return cls.from_lists(lists, seed, WORDS_HELD_OUT)

    @classmethod
    def from_lists(cls, lists: dict[str, dict[str, Entry]], seed: int, count: int) -> "Split":
        """Split any American lists, with about `count` words by family and `count` single words of
        the gold list held out.
        """
        data = {name: read_pronunciations(entries) for name, entries in lists.items()}
        relatives = Relatives({word for entries in data.values() for word in entries})
        gold = select_testable(lists[AMERICAN.tags[0]], data[AMERICAN.tags[0]])
        family, removed = _draw_families(gold, relatives, seed, count)
        # Single words are drawn from what the families have left.
        word = set(order_by_hash((w for w in gold if w not in removed), seed, "word")[:count])
        out = removed | word
        training = {
            tag: {w: p for w, p in entries.items() if w not in out} for tag, entries in data.items()
        }
        # families that fail the last test are neither trained on nor tested
        family -= _with_traces(family, {w for entries in training.values() for w in entries})
        held = {
            name: {w: gold[w] for w in sorted(words)}
            for name, words in (("word", word), ("family", family))
        }
        return cls(**held, training=training, neither=len(removed - family))

    @cached_property
    def trained(self) -> frozenset[str]:
        """Every word of any list that the network learns from."""
        return frozenset(word for entries in self.training.values() for word in entries)


def select_testable(entries: dict[str, Entry], gold: dict[str, str]) -> dict[str, str]:
    """The words that have one pronunciation, one spelling but for case, and at least three
    letters.
    """
    spellings: dict[str, int] = defaultdict(int)
    for word in entries:
        spellings[fold_word(word)] += 1
    heteronyms = {fold_word(word) for word, entry in entries.items() if not isinstance(entry, str)}
    return {
        w: p for w, p in gold.items() if len(w) >= 3 and spellings[w] == 1 and w not in heteronyms
    }


def _draw_families(
    gold: dict[str, str], relatives: Relatives, seed: int, count: int
) -> tuple[set[str], set[str]]:
    """The gold words of whole families, at least `count` of them, and all their relatives in any
    list, those words included.
    """
    held: set[str] = set()
    removed: set[str] = set()
    for word in order_by_hash(gold, seed, "family"):
        if len(held) >= count:
            break
        members = relatives.families[strip_suffixes(word)]
        near = set().union(*(relatives.find(member) for member in members))
        if word not in held and len(near) <= MAX_RELATIVES:
            held |= {member for member in members if member in gold}
            removed |= near
    return held, removed


def _with_traces(family: set[str], trained: set[str]) -> set[str]:
    """The words of families whose stem stands in a trained word, or is too short to look for."""
    stems = {strip_suffixes(word) for word in family}
    traces = {short for short in stems if len(short) < TRACE_AT_END}
    for word in trained:
        traces |= _find_stems(word, stems)
    return {word for word in family if strip_suffixes(word) in traces}


def _find_stems(word: str, stems: set[str]) -> set[str]:
    size = len(word)
    return {
        word[start:end]
        for start in range(size - TRACE_AT_END + 1)
        for end in range(start + TRACE_AT_END, size + 1)
        # Inside a word four letters are there by chance, five betray a relative.
        if word[start:end] in stems and (start == 0 or end == size or end - start >= TRACE_INSIDE)
    }
