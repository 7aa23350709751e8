"""Words of a language other than English to sounds: one reading for each spelling (the user's, else
the list's, else the network's) and the form it takes in its sentence.

    reader = LanguageReader(LANGUAGES["fr"], {}, LateNeural("fr"))
    reader.read_word("les")  # "le/leZ": at the end of a phrase, and inside
    reader.read_sentence(sentence)
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kokoro_g2p.alphabet import KNOWN, PAUSES, PRIMARY, SECONDARY, fold_word, restress
from kokoro_g2p.languages import french
from kokoro_g2p.languages.language import Language
from kokoro_g2p.overrides import Override
from kokoro_g2p.reading import Neural
from kokoro_g2p.result import Source, Token, Word
from kokoro_g2p.sentence import Sentence, find_override, mark_of
from kokoro_g2p.word_lists import parse_pairs

FOREIGN = str.maketrans(parse_pairs("æ:ae œ:oe ø:o ð:d þ:t ł:l đ:d ħ:h ŧ:t ŋ:n ĸ:k ı:i"))
REMEMBERED = 50_000  # readings kept
VOWEL = re.compile("[aeiouyà-öø-ÿœ]")


def replace_flaps(phonemes: str) -> str:
    """A user's ɾ, which English reads as its flap T and these languages as their r."""
    return phonemes.replace("T", "ɾ")


class LanguageReader:
    """Responsibilities: 1. one reading for one spelling, the user's first; 2. the form it takes
    between its neighbours.
    """

    def __init__(self, language: Language, user: Mapping[str, str], neural: Neural) -> None:
        self.language = language
        self._user = {word: replace_flaps(phonemes) for word, phonemes in user.items()}
        self.neural = neural
        self.listed = language.listed
        self._guesses: dict[str, str] = {}

    def prepare(self, words: Iterable[str]) -> None:
        """Ask the network once for every part of `words` that the list lacks."""
        # The memory is bounded, since a long text has ever new words.
        if len(self._guesses) > REMEMBERED:
            self._guesses.clear()
        # Parts of elided and hyphenated words are asked for apart: l'ami is l and ami.
        parts = {
            part for word in words for part in re.split("['-]", self._strip_ending(word.lower()))
        }
        asked = sorted(part for part in parts if part not in self._guesses and self._is_asked(part))
        for part, guess in zip(asked, self.neural.predict(asked) if asked else (), strict=True):
            self._guesses[part] = clean_sounds(guess.phonemes)

    def _is_asked(self, word: str) -> bool:
        is_word = len(word) > 1 and VOWEL.search(word) is not None
        return is_word and self.listed.get(word) is None

    def _strip_ending(self, word: str) -> str:
        """The word without an adverb's ending that has a stress of its own."""
        ending = self.language.adverb_ending
        # Words with fewer vowels are no adverbs: mente, demente.
        is_adverb = ending != "" and word.endswith(ending) and len(VOWEL.findall(word)) > 3
        return word[: -len(ending)] if is_adverb else word

    def read_word(self, word: str) -> str:
        """Reading of a word in lower case: the list's, its parts', the network's; letter by letter
        where it has no vowel. Empty for one with other letters.
        """
        word = word.strip("'-")
        listed = self.listed.get(word)
        if listed is not None:
            return listed
        parts = re.match(r"([^'-]+)(['-]+)(.+)", word)
        if parts:
            # A word of several parts is its first part joined to the reading of the rest.
            return self._join_parts(parts[1], parts[2][0], parts[3])
        return self.read_unlisted(word) if word else ""

    def read_unlisted(self, word: str) -> str:
        """Reading of a word that no list has."""
        stem = self._strip_ending(word)
        if stem != word:
            # The stem of an adverb is inside a word, and its own forms in a phrase do not matter.
            return self.read_word(stem).partition("/")[0] + self.language.adverb_sounds
        if VOWEL.search(word) is None:
            return self.read_letters(word) if len(word) > 1 else ""
        if word not in self._guesses:
            self.prepare([word])
        return self._guesses.get(word, "")

    def _join_parts(self, head: str, mark: str, tail: str) -> str:
        """l'ami, dit-il: the first part inside the word, then each form of the rest."""
        rest = self.read_word(tail)
        elided = self.language.elided
        # The t of a-t-il is elided too, though a hyphen follows it.
        if head in elided and (mark == "'" or head == "t"):
            first = elided[head]
        else:
            first = self.language.joined(self.read_word(head), "", rest)
            # An elided word bears no stress of its own.
            first = first.replace(PRIMARY, "") if mark == "'" else first
        # Inside a word liaison is not blocked, so that the mark of the rest goes.
        return (
            "/".join(first + form.removeprefix(french.BLOCKED) for form in rest.split("/"))
            if rest
            else first
        )

    def read_letters(self, letters: str) -> str:
        """Letter by letter, as one word: the last name bears the stress."""
        said = ""
        for place, letter in enumerate(letters):
            # Marks of latent and blocked sounds mean nothing inside a spelled word.
            name = self.read_word(letter).partition("/")[0].strip("-ZTNPR")
            name = self.language.joined(name, said, "")
            # Only the last name keeps the main stress.
            if place + 1 < len(letters):
                name = name.replace(PRIMARY, SECONDARY)
                for stressed, unstressed in self.language.reduced:
                    name = name.replace(stressed, unstressed)
            said += name
        return said

    def read_sentence(self, sentence: Sentence) -> tuple[tuple[Word, ...], int]:
        """The words of a sentence in order, and how many characters have no sound at all."""
        readings: list[tuple[Word, bool]] = []  # whether the form is given, not to be changed
        unsaid = 0
        for token in sentence.normalized.tokens:
            override = find_override(sentence.marked, token)
            phonemes, source, lost = self._read(token, override, sentence.marked.text)
            if override is not None and override.stress is not None:
                # in a form that its neighbours leave alone
                phonemes = restress(self.language.joined(phonemes, "", ""), override.stress)
            unsaid += lost
            if phonemes:
                confidence = self.language.confidence if source == "rule" else 1.0
                word = sentence.make_word(token, phonemes, source, override, confidence)
                readings.append((word, override is not None or source != "rule"))
        return tuple(self._apply_context(readings)), unsaid

    def _read(self, token: Token, override: Override | None, text: str) -> tuple[str, Source, int]:
        """Phonemes of a token, where they come from, and characters without a sound."""
        if token.kind == "punctuation":
            return mark_of(text, token), "punctuation", 0
        if token.kind == "override":
            return self._read_override(override)
        if token.kind == "letters":
            return self._read_spelled(token.text)
        # The exact spelling of a user's word comes before that in lower case.
        mine = self._user.get(token.text) or self._user.get(token.text.lower())
        if mine is not None:
            return mine, "user", 0
        # Letters that the language lacks are read as those it has: ø as o, æ as ae.
        plain = fold_word(token.text).translate(FOREIGN)
        phonemes = self.read_word(token.text.lower()) or "".join(
            map(self.read_word, re.findall(r"[^\W\d_]+", plain))
        )
        return (phonemes, "rule", 0) if phonemes else self._read_spelled(plain)

    def _read_override(self, override: Override | None) -> tuple[str, Source, int]:
        if override is None:
            return "", "override", 1
        spelled = override.say_as or override.clitic[:1]
        if spelled:
            return self._read_spelled(spelled)
        phonemes, source = override.sound
        return replace_flaps(phonemes), source, 0

    def _read_spelled(self, text: str) -> tuple[str, Source, int]:
        """Letters and digits one by one."""
        digits = self.language.grammar.digits
        names = [
            # alone, a digit has its form at the end of a phrase
            self.language.joined(self.read_word(digits[int(letter)]), "", "")
            if letter.isdecimal()
            else self.read_letters(letter.lower())
            for letter in text
            if letter.isalnum()
        ]
        # Letters alone are one word; digits among them part it.
        letters = (
            self.read_letters(text.lower()) if text.isalpha() else " ".join(filter(None, names))
        )
        return letters, "spelled", sum(not name for name in names)

    def _apply_context(self, readings: Sequence[tuple[Word, bool]]) -> list[Word]:
        spoken: list[Word] = []
        for place, (word, is_fixed) in enumerate(readings):
            after = readings[place + 1][0] if place + 1 < len(readings) else None
            # At a pause a word has its form at the end of a phrase.
            pause = after is None or after.phonemes[0] in PAUSES or after.source == "pause"
            phonemes = word.phonemes
            if not is_fixed:
                before = (
                    spoken[-1].phonemes if spoken and spoken[-1].phonemes[-1] not in PAUSES else ""
                )
                phonemes = self.language.joined(
                    phonemes, before, "" if pause or after is None else after.phonemes
                )
            spoken.append(replace(word, phonemes=phonemes))
        return spoken


def clean_sounds(sounds: str) -> str:
    """What a network answers: marks only where they mean something."""
    # A blocked sound stands first and a latent one last; elsewhere they are noise.
    ends = {0: french.BLOCKED, len(sounds) - 1: "".join(french.LATENT)}
    return "".join(
        sound
        for place, sound in enumerate(sounds)
        if (sound in KNOWN and sound not in french.LATENT) or sound in ends.get(place, "")
    )
