"""Spanish and Italian: written text to spoken words (numbers, dates, money, abbreviations, signs), and words to sounds by rule.

    NORMALIZERS["es"]("El 3/5/2026 pagó 2,50 €.")
    LANGUAGES["it"].sounds("formaggio")

One pattern finds what is no plain word; characters, offsets and drops are those of the English normalizer (g2p/normalize/characters.py).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from kokoro_ane.g2p.alphabet import KNOWN, PAUSES, SECONDARY, restress
from kokoro_ane.g2p.languages import italian, spanish
from kokoro_ane.g2p.languages.grammar import ITALIAN, SPANISH, Grammar
from kokoro_ane.g2p.normalize import tokens_of
from kokoro_ane.g2p.normalize.characters import LATIN, clean
from kokoro_ane.g2p.normalize.number_words import roman_value
from kokoro_ane.g2p.normalize.state import Scan
from kokoro_ane.g2p.overrides import Override
from kokoro_ane.g2p.result import PUNCTUATION, Normalized, Source, Token, Word
from kokoro_ane.g2p.sentence import Sentence, mark_of, override_at, pause_mark

Code = Literal["es", "it"]


@dataclass(frozen=True)
class Language:
    """A language by its functions. `joined`: what a word's neighbours change.

    `confidence`: the share of held-out words read as the voices' training data has them (bench.g2p_languages of commit ec85133).
    """

    grammar: Grammar
    sounds: Callable[[str], str]
    spelled: Callable[[str], str]
    weakened: Callable[[str, str], str]  # phonemes and the mark that stays, "" or a secondary stress
    joined: Callable[[str, str, str], str]  # phonemes, those before and after it ("" at a pause)
    confidence: float


LANGUAGES: Mapping[Code, Language] = {
    "es": Language(SPANISH, spanish.sounds, spanish.spelled, spanish.weakened, spanish.joined, 0.99),
    "it": Language(ITALIAN, italian.sounds, italian.spelled, italian.weakened, italian.joined, 0.85),
}
REMEMBERED = 50_000  # readings kept


def unflapped(phonemes: str) -> str:
    """What somebody wrote as ɾ: English reads it as its flap T, these languages as their r."""
    return phonemes.replace("T", "ɾ")


class RuleReader:
    """Responsibilities: 1. one reading for one spelling, the user's first; 2. the form it takes between its neighbours."""

    def __init__(self, language: Language, user: Mapping[str, str]) -> None:
        self.language, self._user = language, {word: unflapped(phonemes) for word, phonemes in user.items()}
        self._sounds = lru_cache(REMEMBERED)(language.sounds)

    def prepare(self, words: Iterable[str]) -> None:
        """Nothing is asked for many words at once."""

    def words(self, sentence: Sentence) -> tuple[tuple[Word, ...], int]:
        """The words of a sentence in order, and how many characters have no sound at all."""
        found: list[tuple[Word, bool]] = []  # whether the form is given, not to be changed
        unsaid = 0
        for token in sentence.normalized.tokens:
            override = override_at(sentence.marked, token)
            phonemes, source, lost = self._read(token, override, sentence.marked.text)
            if override is not None and override.stress is not None:
                phonemes = restress(phonemes, override.stress)
            unsaid += lost
            if phonemes:
                start, end = sentence.marked.original(token.start, token.end) if not sentence.marked.plain else (token.start, token.end)
                pause_s = override.pause_s if override is not None and source == "pause" else 0.0
                confidence = self.language.confidence if source == "rule" else 1.0
                at = (start + sentence.offset, end + sentence.offset)
                word = Word(sentence.text[start:end], *at, token.text, phonemes, source, confidence, token.space, pause_s)
                found.append((word, override is not None or source != "rule"))
        return tuple(self._in_context(found)), unsaid

    def _read(self, token: Token, override: Override | None, text: str) -> tuple[str, Source, int]:
        """Phonemes of a token, where they come from, and characters without a sound."""
        if token.kind == "punctuation":
            return mark_of(text, token), "punctuation", 0
        if token.kind == "override":
            return self._overridden(override)
        if token.kind == "letters":
            return self._spelled(token.text)
        mine = self._user.get(token.text) or self._user.get(token.text.lower())
        if mine is not None:
            return mine, "user", 0
        phonemes = self._sounds(token.text.lower())
        good = bool(phonemes) and KNOWN.issuperset(phonemes)
        return (phonemes, "rule", 0) if good else ("", "rule", sum(map(str.isalnum, token.text)))

    def _overridden(self, override: Override | None) -> tuple[str, Source, int]:
        if override is None:
            return "", "override", 1
        if override.pause_s:
            return pause_mark(override.pause_s), "pause", 0
        if override.say_as:
            return self._spelled(override.say_as)
        return unflapped(override.phonemes or ""), "user" if override.user else "override", 0

    def _spelled(self, text: str) -> tuple[str, Source, int]:
        """Letters and digits one by one."""
        digits = self.language.grammar.digits
        names = [
            self._sounds(digits[int(letter)]) if letter.isdecimal() else self.language.spelled(letter.lower())
            for letter in text
            if letter.isalnum()
        ]
        letters = self.language.spelled(text.lower()) if text.isalpha() else " ".join(filter(None, names))
        return letters, "spelled", sum(not name for name in names)

    def _in_context(self, found: Sequence[tuple[Word, bool]]) -> list[Word]:
        said: list[Word] = []
        for place, (word, given) in enumerate(found):
            after = found[place + 1][0] if place + 1 < len(found) else None
            pause = after is None or after.phonemes[0] in PAUSES or after.source == "pause"
            phonemes = word.phonemes
            if not given and not pause:
                phonemes = self._weakened(word.spoken.lower(), phonemes)
            if not given:
                before = said[-1].phonemes if said and said[-1].phonemes[-1] not in PAUSES else ""
                phonemes = self.language.joined(phonemes, before, "" if pause or after is None else after.phonemes)
            said.append(replace(word, phonemes=phonemes))
        return said

    def _weakened(self, word: str, phonemes: str) -> str:
        if word in self.language.grammar.unstressed:
            return self.language.weakened(phonemes, "")
        return self.language.weakened(phonemes, SECONDARY) if word in self.language.grammar.secondary else phonemes


OPENING = str.maketrans("¿¡", "  ")  # part of the spelling, not said
NUMBER = r"\d{1,3}(?:\.\d{3})+(?:,\d+)?(?!\d)|\d{1,3}(?: \d{3})+(?:,\d+)?(?![\d.])|\d+(?:[.,]\d+)?"
WORD = rf"[{LATIN}]+(?:'[{LATIN}]+)*'?"
VOWEL = "aeiouáéíóúàèìòù"
WORDLIKE = re.compile(rf"(?:[^{VOWEL}]?[lr]?[{VOWEL}]{{1,2}}[nrslmdkcx]?)+", re.IGNORECASE)
LONGEST_DIGITS = 15
Handler = Callable[[Scan, "re.Match[str]"], int]


class Normalizer:
    """normalize(text) -> Normalized, as SentenceReader wants it."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._pattern = re.compile(self._alternatives())

    def _alternatives(self) -> str:
        grammar = self.grammar
        units = "|".join(sorted(map(re.escape, grammar.units), key=len, reverse=True))
        short = "|".join(re.escape(text).replace(r"\ ", " ?") for text in sorted(grammar.abbreviations, key=len, reverse=True))
        signs = "".join(map(re.escape, sorted(set("".join(grammar.currencies)) - set("EURSD"))))
        months = "|".join(grammar.months)
        elided = rf"(?P<elided>(?i:\b(?:{grammar.elided})'))?" if grammar.elided else "(?P<elided>(?!))?"
        return "|".join(
            (
                r"(?P<override>[\ue000-\uf8ff])",
                r"(?P<address>[\w.+-]+@\w[\w-]*(?:\.\w[\w-]*)+|(?:https?://|www\.)[^\s<>\"”)]*[\w/]|\b\w+\.(?:com|org|net|es|it|eu)\b(?![.\w]))",
                rf"(?P<short>(?<!\w)(?:{short})(?!\w))",
                r"(?P<iso>\b\d{4}-\d{2}-\d{2}\b)",
                r"(?P<date>\b\d{1,2}(?:/\d{1,2}/|-\d{1,2}-|\.\d{1,2}\.)\d{2,4}\b)",
                r"(?P<clock>\b(?:[01]?\d|2[0-4])(?::|(?<=(?:las|lle|ore) \d)\.|(?<=(?:las|lle|ore) \d\d)\.)"
                r"[0-5]\d(?::[0-5]\d)?(?: ?h\b)?(?!\d|[,.]\d))",
                r"(?P<fraction>\b[1-9]\d?/[1-9]\d?\b(?![/\d]))",
                rf"(?P<money>(?P<sign>[{signs}]) ?(?P<price>{NUMBER})|(?P<price2>{NUMBER}) ?(?P<sign2>[{signs}]|EUR\b|USD\b))",
                r"(?P<ordinal>\b(?P<nth>\d{1,4})(?:\.?[ºª]|\.?[oa]\b|\.?er\b|°(?! ?[CF]\b)(?= [a-zà-ú])))",
                rf"(?P<first>\b1°?(?= (?:{months})\b))",
                rf"{elided}(?P<number>(?<![\w.,])[-−]?(?:{NUMBER}))(?P<after> ?(?:%|‰|°(?: ?[CF]\b)?|(?:{units})(?![\w/²³])))?",
                rf"(?P<capitals>\b[{LATIN}](?<=[A-ZÀ-Þ])[A-ZÀ-Þ]+\b)",
                r"(?P<single>\b[IVX]\b)",
                rf"(?P<word>{WORD})",
                r"(?P<dash>(?<=\s)[-–](?=\s)|–|--+)",
                r"(?P<dots>\.\.\.+)",
                rf"(?P<mark>[{re.escape(PUNCTUATION)}])",
                r"(?P<space>\s+)",
                r"(?P<digits>\d+)",
                r"(?P<other>.)",
            )
        )

    def __call__(self, text: str, *, dialect: str = "") -> Normalized:
        """Spoken tokens of `text` in order, and what was left out. Never raises on any text."""
        cleaned = clean(text.translate(OPENING))
        scan = Scan(cleaned.text, "us")
        self.shouted = not re.search(r"[a-zß-ÿ]", cleaned.text) and len(re.findall(r"[A-ZÀ-Þ]{2,}", cleaned.text)) > 2
        place = 0
        while place < len(cleaned.text):
            match = self._pattern.match(cleaned.text, place)
            assert match is not None and match.end() > place  # `other` takes any character, `space` a line break
            kind = next(name for name in KINDS if match[name] is not None)
            getattr(self, f"_{kind}")(scan, match)
            place = match.end()
        drops = cleaned.drops + [(*cleaned.span(start, end), why) for start, end, why in scan.drops]
        return Normalized(tuple(tokens_of(scan, cleaned)), dict(Counter(why for _, _, why in drops)))

    def _override(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.tokens.append((match[0], *match.span(), "override", None))

    def _space(self, scan: Scan, match: "re.Match[str]") -> None:
        """Nothing to say."""

    def _word(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.word(match[0], *match.span())

    def _mark(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.mark(match[0], *match.span())

    def _dots(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.mark("…", *match.span())

    def _dash(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.mark("—", *match.span())

    def _capitals(self, scan: Scan, match: "re.Match[str]") -> None:
        """A Roman numeral, letters one by one, or a word in capitals."""
        value = roman_value(match[0])
        if value is not None and (self._numbered(scan) or len(match[0]) > 2 or value < 21):
            following = re.match(rf"\s*([{LATIN}]+)", scan.text[match.end() :])  # il XX secolo
            counted = following[1] if following and self.grammar.roman_after.search(following[1]) else scan.previous()
            scan.say(self.grammar.roman_ordinal(value, counted), *match.span())
        elif not self.shouted and (match[0] in self.grammar.spelled or len(match[0]) < 3 or not WORDLIKE.fullmatch(match[0])):
            scan.letters(match[0], *match.span())
        else:
            scan.word(match[0], *match.span())

    def _single(self, scan: Scan, match: "re.Match[str]") -> None:
        """I, V, X: numerals behind a word that is numbered."""
        if self._numbered(scan):
            scan.say(self.grammar.roman_ordinal(roman_value(match[0]) or 0, scan.previous()), *match.span())
        else:
            scan.word(match[0], *match.span())

    def _numbered(self, scan: Scan) -> bool:
        return bool(self.grammar.roman_after.search(scan.previous())) or (
            scan.previous()[:1].isupper() and len(scan.tokens) > 1 and not scan.previous().isupper()
        )

    def _short(self, scan: Scan, match: "re.Match[str]") -> None:
        """An abbreviation; its point ends the sentence where nothing follows."""
        key = next(text for text in self.grammar.abbreviations if text.replace(" ", "") == match[0].replace(" ", ""))
        ends = match[0].endswith(".") and not scan.text[match.end() :].strip(' \n"”)')
        scan.say(self.grammar.abbreviations[key], match.start(), match.end() - ends, False if ends else None)
        if ends:
            scan.mark(".", match.end() - 1, match.end())

    def _address(self, scan: Scan, match: "re.Match[str]") -> None:
        text = re.sub(r"^https?://", "", match[0]).rstrip("/")
        pieces = (self.grammar.web.get(piece, piece) for piece in re.findall(r"\d+|[^\W\d_]+|[\W_]", text))
        scan.say(" ".join(self._integer(piece, "") if piece.isdigit() else piece for piece in pieces), *match.span())

    def _iso(self, scan: Scan, match: "re.Match[str]") -> None:
        year, month, day = match[0].split("-")
        self._dated(scan, match, day, month, year)

    def _date(self, scan: Scan, match: "re.Match[str]") -> None:
        day, month, year = re.split(r"[/.-]", match[0])
        self._dated(scan, match, day, month, year)

    def _dated(self, scan: Scan, match: "re.Match[str]", day: str, month: str, year: str) -> None:
        """Day, month, year where they can be; else the numbers one after the other."""
        if 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
            said = self.grammar.date(int(day), self.grammar.months[int(month) - 1], self._integer(year, ""))
        else:
            said = " ".join(self._integer(part, "") for part in re.split(r"[/.-]", match[0]))
        scan.say(said, *match.span())

    def _clock(self, scan: Scan, match: "re.Match[str]") -> None:
        hour, minute, *_second = (int(part) for part in re.findall(r"\d+", match[0]))
        said = self.grammar.clock(hour, minute)
        scan.say(said + (f" {self.grammar.cardinal(_second[0], '')}" if _second else ""), *match.span())

    def _fraction(self, scan: Scan, match: "re.Match[str]") -> None:
        above, below = match[0].split("/")
        known = self.grammar.fractions.get(match[0])
        scan.say(known or f"{self._integer(above, '')} {self.grammar.over} {self._integer(below, '')}", *match.span())

    def _money(self, scan: Scan, match: "re.Match[str]") -> None:
        one, several, cent, cents = self.grammar.currencies[match["sign"] or match["sign2"]]
        whole, fraction = self._parts(match["price"] or match["price2"])
        scaled = re.match(r" ?(mil millones|millones|millón|miliardi|miliardo|milioni|milione|mila|mil)\b", scan.text[match.end() :])
        if scaled or (fraction and len(fraction) != 2) or not cent:
            scan.say(self._spoken(match["price"] or match["price2"], several), *match.span())
            if not scaled:
                scan.say(several, *match.span())
            return
        said = []
        if int(whole) or not fraction:
            said.append(f"{self._integer(whole, several)} {self._of(whole)}{one if whole == '1' else several}")
        if fraction and int(fraction):
            said.append(f"{self._integer(fraction, cents)} {cent if int(fraction) == 1 else cents}")
        scan.say(f" {self.grammar.money_joint} ".join(said) or f"{self._integer('0', several)} {several}", *match.span())

    def _ordinal(self, scan: Scan, match: "re.Match[str]") -> None:
        said = self.grammar.ordinal(int(match["nth"]), match[0][-1] in "ªa")
        apocope = match[0].endswith("er") or (said in ("primero", "tercero") and re.match(r" [a-zá-ú]", scan.text[match.end() :]))
        scan.say(said[:-1] if apocope else said, *match.span())

    def _first(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.say(self.grammar.date(1, "", "").strip(), *match.span())

    def _number(self, scan: Scan, match: "re.Match[str]") -> None:
        """A number, its sign, and the unit or per cent behind it."""
        text, unit, grammar = match["number"], (match["after"] or "").strip(), self.grammar
        following = re.match(rf"\s*([{LATIN}]+)", scan.text[match.end() :])
        one = text.lstrip("-−") in ("1", "01")
        forms = grammar.units.get(unit) or (grammar.degrees if unit.startswith("°") else None)
        counted = forms[not one].split()[0] if forms else "" if unit else following[1] if following else ""
        said = [self._spoken(text, counted)]
        if forms:
            said.append(forms[not one] + {"C": " Celsius", "F": " Fahrenheit"}.get(unit[-1:] if unit[:1] == "°" else "", ""))
        elif unit:
            said.append(grammar.percent)
        start = match.start("number")
        if match["elided"]:
            head, *rest = " ".join(said).split(" ", 1)
            scan.word(match["elided"] + head, match.start("elided"), match.end("number"), bool(rest) or None)
            said, start = rest, match.start("number")
        if said:
            scan.say(" ".join(said), start, match.end())

    def _digits(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.say(self._integer(match[0], ""), *match.span())

    def _other(self, scan: Scan, match: "re.Match[str]") -> None:
        said = self.grammar.signs.get(match[0])
        if said:
            scan.say(said, *match.span())
        elif match[0] in "-'" and scan.tokens and scan.tokens[-1][2] == match.start():
            scan.silent(*match.span())
            scan.space_last()
        else:
            scan.drop(*match.span(), "symbol")

    def _parts(self, text: str) -> tuple[str, str]:
        """Whole part and decimals of a number as it is written: a point before three digits parts thousands, a comma decimals."""
        plain = text.replace(" ", "")
        if re.fullmatch(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?", plain):
            plain = plain.replace(".", "")
        whole, _, fraction = plain.replace(".", ",").partition(",")
        return whole, fraction

    def _spoken(self, text: str, counted: str) -> str:
        sign, plain = text[0] in "-−", text.lstrip("-−")
        whole, fraction = self._parts(plain)
        said = self._integer(whole, "" if fraction else counted)
        if fraction:
            zeros = len(fraction) - len(fraction.lstrip("0"))
            tail = fraction.lstrip("0")
            names = [self.grammar.digits[0]] * zeros + [self._integer(tail, counted) if 0 < len(tail) <= 2 else self._one_by_one(tail)]
            said = f"{said} {self.grammar.point} {' '.join(names)}".strip()
        elif counted and counted.lower() != self.grammar.of_millions and self._of(whole):
            said = f"{said} {self.grammar.of_millions}"
        return f"{self.grammar.minus} {said}" if sign else said

    def _of(self, whole: str) -> str:
        number = int(whole)
        return f"{self.grammar.of_millions} " if number >= 10**6 and number % 10**6 == 0 else ""

    def _integer(self, text: str, counted: str) -> str:
        if len(text) > LONGEST_DIGITS - 1 or (len(text) > 2 and text[0] == "0"):
            return self._one_by_one(text)
        return self.grammar.cardinal(int(text), counted)

    def _one_by_one(self, text: str) -> str:
        return " ".join(self.grammar.digits[int(digit)] for digit in text)


KINDS = (
    "override", "address", "short", "iso", "date", "clock", "fraction", "money", "ordinal", "first", "number", "capitals", "single",
    "word", "dash", "dots", "mark", "space", "digits", "other",
)  # fmt: skip
NORMALIZERS = {code: Normalizer(language.grammar) for code, language in LANGUAGES.items()}


def rule_stages(code: Code, words: Mapping[str, str]) -> tuple[Normalizer, RuleReader, RuleReader]:
    """Normalizer, and what reads words and sentences. `words`: the user's own."""
    reader = RuleReader(LANGUAGES[code], words)
    return NORMALIZERS[code], reader, reader
