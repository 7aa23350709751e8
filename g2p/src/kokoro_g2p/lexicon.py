"""The word lists by word: case, accents, possessives, contractions and inflections, with where each
answer came from.

    lexicon = Lexicon.load("us")
    lexicon.find("Walked")    # Found(phonemes="wˈɔkt", source="gold")
    # Found(phonemes="ɹˈid", senses={"ADJ": "ɹˈɛd", "DEFAULT": "ɹˈid", ...})
    lexicon.find("read")
    lexicon.find("Nguyen")    # Found(phonemes="nəwˈɪn", source="ours")
    lexicon.find("blorfing")  # None: ask the neural model

Gold and silver are misaki's (g2p/word_lists.py), ours and CMUdict come with this package
(g2p/word_lists.py). A form built from a gold stem goes before a silver entry: that is espeak-ng's
guess. A capitalised word is a name first: CMUdict's goes before a stem's (Torres, Reyes).
Heteronyms are not decided here: `senses` goes to whoever knows the sentence (g2p/weak_forms.py,
g2p/heteronyms.py).
A user's own words (g2p/user_lexicon.py) go before all.
"""

import re
from collections.abc import Callable, Mapping, Set
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kokoro_g2p.alphabet import PRIMARY, SECONDARY, to_kokoro
from kokoro_g2p.morphology import (
    DIGIT_NAMES,
    SUFFIXES,
    fold,
    has_wrong_ending,
    is_clitic,
    list_stems,
    rank_stem,
    with_clitic,
)
from kokoro_g2p.result import GB, US, Dialect, Source
from kokoro_g2p.word_lists import (
    CMUDICT,
    OURS,
    BritishList,
    Entry,
    ListFile,
    read,
    read_extra_senses,
)

# misaki's keys: any other part of speech; a pause follows
DEFAULT, BEFORE_PAUSE = "DEFAULT", "None"
# silver is espeak-ng's output, and espeak-ng gets 44.5 % of gold right (field notes, 55.5 % WER)
SILVER_CONFIDENCE = 0.445
# share of gold words that CMUdict, mapped, says exactly (g2p.training.cmudict)
CMUDICT_CONFIDENCE = 0.694


@dataclass(frozen=True)
class Found:
    """The entry of one spelling in the lists. `senses` holds a heteronym's phonemes by part of
    speech; None there means: letter by letter.
    """

    phonemes: str
    source: Source
    confidence: float = 1.0
    senses: Mapping[str, str | None] | None = None

    def with_change(self, change: Callable[[str], str], source: Source | None = None) -> "Found":
        """Return the entry with `change` applied to every pronunciation."""
        senses = self.senses and {
            key: phonemes and change(phonemes) for key, phonemes in self.senses.items()
        }
        return replace(
            self, phonemes=change(self.phonemes), senses=senses, source=source or self.source
        )


class Lexicon:
    """Two responsibilities: find a spelling in the lists, and build inflected forms of what is in
    there.
    """

    def __init__(
        self,
        gold: Mapping[str, Entry],
        silver: Mapping[str, Entry],
        dialect: Dialect,
        user: Mapping[str, str] | None = None,
        ours: Mapping[str, str] | None = None,
        cmudict: Mapping[str, str] | None = None,
    ) -> None:
        self.dialect, self._silver = dialect, silver
        ours, cmudict = {} if ours is None else ours, {} if cmudict is None else cmudict
        self._names: Lists = ((cmudict, "cmudict", CMUDICT_CONFIDENCE),)
        self._edited: Lists = ((user or {}, "user", 1.0), (ours, "ours", 1.0), (gold, "gold", 1.0))
        self._all: Lists = (*self._edited, *self._names, (silver, "silver", SILVER_CONFIDENCE))
        names = {letter: gold[letter] for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
        names |= {str(digit): gold[name] for digit, name in enumerate(DIGIT_NAMES)}
        if dialect == GB:
            names["Z"] = "zˈɛd"
        self.letter_names: Mapping[str, str] = {
            name: to_kokoro(phonemes)
            for name, phonemes in names.items()
            if isinstance(phonemes, str)
        }

    @classmethod
    def load(cls, dialect: Dialect, user: Mapping[str, str] | None = None) -> "Lexicon":
        """The installed lists and the senses they lack. Raises InputError: missing, or not those
        this repository was built with.
        """
        gold = read(f"{dialect}_gold")
        for word, senses in read_extra_senses(dialect).items():
            entry = gold.get(word)
            readings = entry if isinstance(entry, dict) else {DEFAULT: entry} if entry else {}
            if readings or DEFAULT in senses:  # `protests` comes from `protest`
                gold[word] = {**readings, **senses}
        cmudict = ListFile(CMUDICT) if dialect == US else BritishList()
        return cls(gold, read(f"{dialect}_silver"), dialect, user, ListFile(OURS[dialect]), cmudict)

    def without(self, words: Set[str]) -> "Lexicon":
        """Return the lexicon without these words of the silver list."""
        rest = copy(self)
        rest._silver = {word: one for word, one in self._silver.items() if word not in words}
        rest._all = (*self._all[:-1], (rest._silver, *self._all[-1][1:]))
        return rest

    def find_derived(self) -> set[str]:
        """Words of the silver list alone that are built just so from the others: regular plurals
        and pasts. Nothing is built from these in turn but by a clitic.
        """
        words = {
            word
            for word in self._silver
            if word.endswith(("s", "ed"))
            and not word.endswith(("is", "ss", "us"))
            and not any(word in entries for entries, _, _ in self._all[:-1])
        }

        def read_forms(lists: "Lexicon", word: str) -> list[Any]:
            forms = map(lists.find, (word, word.capitalize(), word.upper()))
            return [(form and form.phonemes, form and form.senses) for form in forms]

        listed = {word: read_forms(self, word) for word in words}
        while True:
            rest = self.without(words)
            needed = {word for word in words if read_forms(rest, word) != listed[word]}
            if not needed:
                return words
            words -= needed

    @property
    def words(self) -> frozenset[str]:
        """Every spelling of every list."""
        return frozenset().union(*(entries for entries, _, _ in self._all))

    def has_word(self, word: str) -> bool:
        """Whether a list has `word` as one, in this case or in lower case: what a normalizer must
        not split.
        """
        # NGOs is no form of the name Ngo
        forms = (word,) if is_plural_acronym(word) else (word, word.lower())
        return any(
            form in entries
            for entries, source, _ in self._all
            if source != "silver"
            for form in forms
        )

    def is_edited(self, word: str) -> bool:
        """Whether a list made by hand has `word` in small letters, or a form built from one: half
        of a compound.
        """
        listed = any(word in entries for entries, _, _ in self._edited)
        return listed or (
            len(word) > 4
            and word.islower()
            and any(stem in self._edited[-1][0] for _, stem in list_stems(word) if len(stem) > 3)
        )

    def find(self, word: str) -> Found | None:
        """Phonemes of `word` (letters, apostrophes, hyphens; any case), or None when no list and no
        rule knows it.
        """
        forms = _list_forms(word)
        for lists in (self._edited, self._all):
            direct = (
                (lists, self._names) if lists is self._edited and word[:1].isupper() else (lists,)
            )
            for form, among in ((form, among) for among in direct for form in forms):
                entry = _find_listed(form, among)
                if entry is not None:
                    entry = (
                        self._find_owned(form) or self._as_heard(form, entry)
                        if entry.source == "cmudict"
                        else entry
                    )
                    return apply_accents(entry, word, form)
            for form in forms:
                entry = self._with_ending(form, lists) or (
                    self._find_slurred(form) if lists is self._edited else None
                )
                if entry is not None:
                    return apply_accents(entry, word, form)
        capitals = word.upper()  # hvac, when nothing knows it in small letters
        return (
            _find_listed(capitals, self._edited)
            if word.islower() and len(word) > 2 and capitals in self._edited[-1][0]
            else None
        )

    def _find_owned(self, word: str) -> Found | None:
        """The name with its 's, where CMUdict lists it otherwise than the name alone (Matt's,
        Scorsese's).
        """
        stem, mark, clitic = word.rpartition("'")
        entry = self.find(stem) if mark and stem and is_clitic(clitic) else None
        return entry and entry.with_change(
            lambda phonemes: with_clitic(phonemes, clitic, self.dialect), "morphology"
        )

    def _with_ending(self, word: str, lists: "Lists") -> Found | None:
        """The dogs', John's, who've, then walked; None without a known stem."""
        stem, mark, clitic = word.rpartition("'")
        if not mark:
            return self._find_inflected(word, lists)
        if not stem or (clitic and not is_clitic(clitic)):
            return None
        entry = _find_listed(stem, lists)
        entry = (
            (self._as_heard(stem, entry) if entry.source == "cmudict" else entry)
            if entry
            else self._with_ending(stem, lists)
        )
        return entry and entry.with_change(
            lambda phonemes: with_clitic(phonemes, clitic, self.dialect) if clitic else phonemes,
            "morphology",
        )

    def _find_inflected(self, word: str, lists: "Lists") -> Found | None:
        """The likeliest listed stem with its ending; the spelling's order decides among equals."""
        listed = [(suffix, stem, _find_listed(stem, lists)) for suffix, stem in list_stems(word)]
        candidates = [
            (suffix, stem, entry)
            for suffix, stem, entry in listed
            if entry is not None
            and len(stem) > 1
            and not has_wrong_ending(word, stem, entry.phonemes)
        ]
        if not candidates:
            return None
        suffix, _, stem_entry = min(candidates, key=lambda one: rank_stem(one[1], one[2].phonemes))
        return self._as_heard(
            word,
            _get_full(stem_entry).with_change(
                partial(_add_suffix, suffix, self.dialect), "morphology"
            ),
        )

    def _find_slurred(self, word: str) -> Found | None:
        """A form as people type it: lovin (the g of -ing left out; Lovin is a name), hasnt and
        youve without the apostrophe.
        """
        plain = word.lower()
        if plain in self._silver:
            return None
        if len(word) > 4 and word == plain and word.endswith("in"):
            entry = _find_listed(word + "g", self._edited)
            entry = entry or (
                None
                if word in self._names[0][0]
                else self._find_inflected(word + "g", self._edited)
            )
            return entry and entry.with_change(lambda phonemes: phonemes[:-1] + "n", "morphology")
        # either a word in n with its t (hasn, t), or a pronoun with its verb (you, ve)
        cut = _NO_APOSTROPHE.fullmatch(plain)
        whole = cut and f"{cut[1] or cut[3]}'{cut[2] or cut[4]}"
        entry = (
            (
                _find_listed(whole, self._edited)
                or (self._with_ending(whole, self._edited) if cut[3] else None)
            )
            if cut and whole
            else None
        )
        return entry and replace(entry, source="morphology")

    def _as_heard(self, word: str, built: Found) -> Found:
        """A built form with silver's weak vowels where nothing else differs: the voice was trained
        on them (replied, hardest).
        """
        entry = self._silver.get(word, self._silver.get(word.lower()))
        if (
            built.senses is None
            and isinstance(entry, str)
            and _replace_weak(to_kokoro(entry)) == _replace_weak(built.phonemes)
        ):
            return replace(built, phonemes=to_kokoro(entry))
        return built


def _replace_weak(phonemes: str) -> str:
    """Replace every weak vowel by one sign."""
    return _WEAK_VOWEL.sub("ə", phonemes)


def _add_suffix(suffix: str, dialect: Dialect, phonemes: str) -> str:
    return SUFFIXES[suffix](phonemes, dialect)


def _get_full(entry: Found) -> Found:
    """The form that a small word has as a stem: that before a pause; having is built from hˈæv."""
    full = (entry.senses or {}).get(BEFORE_PAUSE)
    return replace(entry, phonemes=full, senses=None) if full else entry


def apply_accents(entry: Found, word: str, form: str) -> Found:
    """An entry of the spelling without accents, `form`, said as the accents ask: rosé ends in A,
    piñata has nj.
    """
    if form == word or word.isascii():
        return entry
    open_senses = [
        phonemes
        for phonemes in (entry.senses or {}).values()
        if phonemes and _ENDS_OPEN.search(phonemes.rstrip("z"))
    ]
    if word.endswith(("é", "és")) and open_senses:  # résumé is no verb
        entry = Found(open_senses[0], entry.source, entry.confidence)
    if word.endswith(
        ("é", "ée") if word[:1].isupper() else ("é", "ée", "és")
    ) and not _ENDS_OPEN.search(entry.phonemes.rstrip("z")):
        entry = entry.with_change(
            lambda phonemes: (
                phonemes.replace(PRIMARY, SECONDARY) + f"{PRIMARY}A" + "z" * word.endswith("s")
            )
        )
    for place in [match.start() for match in re.finditer("ñ", word.lower())]:
        before = len(re.findall("n+", fold(word[:place]).lower()))
        entry = entry.with_change(partial(_insert_palatal, before))
    return entry


def _insert_palatal(skip: int, phonemes: str) -> str:
    """Insert a j behind the n that follows `skip` others."""
    places = [match.end() for match in re.finditer("n|ŋ", phonemes)]
    if skip >= len(places) or phonemes[places[skip] : places[skip] + 1] in ("j", ""):
        return phonemes
    return phonemes[: places[skip]] + "j" + phonemes[places[skip] :]


_NO_APOSTROPHE = re.compile("(.+n)(t)|(i|you|we|they|who|it|that|there|what)(ll|ve|re|d)")
_DRAWN_OUT = re.compile(r"([a-z]|[BGHMPRSTFZ])\1\1+")  # sooo, cooool: as so, cool
_WEAK_VOWEL = re.compile("(?<![ˈˌ])[ɪᵻəɛᵊʊ]")
_ENDS_OPEN = re.compile("[Ai]$")
Lists = tuple[tuple[Mapping[str, Entry], Source, float], ...]


def is_plural_acronym(word: str) -> bool:
    """APIs, CEOs: capitals and a small s, which lower case would take for another word."""
    return len(word) > 2 and word.endswith("s") and word[:-1].isupper()


def _list_forms(word: str) -> list[str]:
    """Spellings to try: as written, without accents, in lower case when capitals are not just the
    first letter.
    """
    if _DRAWN_OUT.search(word):
        drawn = word.lower() if word.isupper() else word
        return [word, _DRAWN_OUT.sub(r"\1\1", drawn), _DRAWN_OUT.sub(r"\1", drawn)]
    if word.isascii() and word.islower():
        return [word]
    folded = fold(word)
    shouted = word[1:] != word[1:].lower() and not is_plural_acronym(word)
    return list(dict.fromkeys([word, folded, *([folded.lower()] if shouted else [])]))


def _find_listed(word: str, lists: Lists) -> Found | None:
    """The first list that has the word; a capitalised word also in lower case, a lower-case word
    also as a name.
    """
    forms = [word]
    if len(word) > 1 and word[1:] == word[1:].lower():
        forms.append(word.lower() if word != word.lower() else word.capitalize())
    for entries, source, confidence in lists:
        for form in forms:
            if form in entries:
                return _make_found(entries[form], source, confidence)
    return None


def _make_found(entry: Entry, source: Source, confidence: float) -> Found:
    if isinstance(entry, str):
        return Found(entry if source == "user" else to_kokoro(entry), source, confidence)
    senses = {key: phonemes and to_kokoro(phonemes) for key, phonemes in entry.items()}
    return Found(senses[DEFAULT] or "", source, confidence, senses)
