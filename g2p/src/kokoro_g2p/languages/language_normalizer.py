"""Written text of a language other than English to spoken words (numbers, codes, dates, money,
abbreviations, signs).

    Normalizer(SPANISH)("El 3/5/2026 pagó 2,50 €.")

One pattern finds what is no plain word; characters, offsets and drops are those of the English
normalizer (g2p/characters.py).
"""

import re
from collections.abc import Callable

from kokoro_g2p.characters import BREAK, LATIN, clean, mark_breaks
from kokoro_g2p.grammar.tokens import build_normalized
from kokoro_g2p.languages.grammar import LanguageGrammar, split_number
from kokoro_g2p.languages.scan import Scan, start_scan
from kokoro_g2p.number_words import parse_roman
from kokoro_g2p.result import PUNCTUATION, Normalized

OPENING = str.maketrans("¿¡", "  ")  # part of the spelling, not said
NUMBER = r"\d{1,3}(?:\.\d{3})+(?:,\d+)?(?!\d)|\d{1,3}(?: \d{3})+(?:,\d+)?(?![\d.])|\d+(?:[.,]\d+)?"
VOWEL = "aeiouáéíóúàèìòù"
WORDLIKE = re.compile(rf"(?:[^{VOWEL}]?[lr]?[{VOWEL}]{{1,2}}[nrslmdkcx]?)+", re.IGNORECASE)
CODE = re.compile(r"\d{1,20}(?:[ -]\d{2,12}){0,6}(?![\w%€$£]| ?[€$£%]|[.,:/]\d)")
PLURAL_NEXT = re.compile(r"\s(?!es\b|m[aá]s\b|las\b|los\b|tras\b|sus\b)[a-zá-ú]+s\b")
SCALED = re.compile(
    r" ?(mil"
    r" millones|millones|millón|miliardi|miliardo|milioni|milione|mila|mil|milliards?"
    r"|millions?|[mb]ilhões|[mb]ilhão)\b"
)
Handler = Callable[[Scan, "re.Match[str]"], int]


class Normalizer:
    """The function normalize(text) -> Normalized. A language may have other patterns."""

    word = rf"[{LATIN}]+(?:'[{LATIN}]+)*'?"
    clock = (
        r"\b(?:[01]?\d|2[0-4])(?::|(?<=(?:las|lle|ore) \d)\.|(?<=(?:las|lle|ore) \d\d)\.)"
        r"[0-5]\d(?::[0-5]\d)?(?: ?h\b)?(?!\d|[,.]\d)"
    )
    nth, century = "", "(?!)"  # marks of an ordinal; a numeral with one

    def __init__(self, grammar: LanguageGrammar) -> None:
        self.grammar = grammar
        self._pattern = re.compile(self._join_alternatives())
        methods = {
            name: getattr(type(self), f"_handle_{name}", None) for name in self._pattern.groupindex
        }
        self.handlers = {name: method for name, method in methods.items() if method}

    def _join_alternatives(self) -> str:
        grammar = self.grammar
        units = "|".join(sorted(map(re.escape, grammar.units), key=len, reverse=True))
        short = "|".join(
            re.escape(text).replace(r"\ ", " ?")
            for text in sorted(grammar.abbreviations, key=len, reverse=True)
        )
        signs = "|".join(
            re.escape(sign)
            for sign in sorted(grammar.currencies, key=len, reverse=True)
            if not sign.isalpha()
        )
        months = "|".join(grammar.months)
        elided = (
            rf"(?P<elided>(?i:\b(?:{grammar.elided})'))?" if grammar.elided else "(?P<elided>(?!))?"
        )
        return "|".join(
            (
                rf"(?P<saint>\b{grammar.saints} ?(?=[A-ZÀ-Þ][a-zà-ÿ]))",
                r"(?P<override>[\ue000-\uf8ff])",
                rf"(?P<line>{BREAK})",
                r"(?P<tag><(?=[/!?A-Za-z])|>)",
                r"(?P<address>[\w.+-]+@\w[\w-]*(?:\.\w[\w-]*)+|(?:https?://"
                r"|www\.)[^\s<>\"”)]*[\w/]|\b\w+\.(?:com|org|net|es|it|eu|fr|br|pt)\b"
                r"(?![.\w]))",
                rf"(?P<short>(?<!\w)(?:(?i:{grammar.elided or '(?!)'})')?(?:{short})(?!\w))",
                r"(?P<iso>\b\d{4}-\d{2}-\d{2}\b)",
                r"(?P<date>\b\d{1,2}(?:/\d{1,2}/|-\d{1,2}-|\.\d{1,2}\.)\d{2,4}\b)",
                rf"(?P<clock>{self.clock})",
                # 2-1, 10-12, 1990-1995
                r"(?P<range>(?<![\w.,/-])(?:\d{1,3}[-–]\d{1,3}|[12]\d{3}[-–][12]\d{3})"
                r"(?![\w/-]|[.,]\d| ?[%€$£]))",
                r"(?P<fraction>\b[1-9]\d?/[1-9]\d?\b(?![/\d]))",
                (
                    rf"(?P<money>(?P<sign>{signs}) ?(?P<price>{NUMBER})|(?P<price2>{NUMBER})"
                    rf" ?(?P<sign2>{signs}|EUR\b|USD\b))"
                ),
                (
                    r"(?P<ordinal>\b(?P<nth>\d{1,4})(?:\.?[ºª]|\.?[oa]\b|\.?er\b|°(?!"
                    rf" ?[CF]\b)(?= [a-zà-ú]){self.nth}))"
                ),
                rf"(?P<century>{self.century})",
                rf"(?P<first>\b1°?(?= (?:{months})\b))",
                (
                    rf"{elided}(?P<number>(?<![\w.,])[-−]?(?:{NUMBER}))(?P<after> ?(?:%|‰|°(?:"
                    rf" ?[CF]\b)?|(?:{units})(?![\w/²³])))?"
                ),
                rf"(?P<capitals>\b[{LATIN}](?<=[A-ZÀ-Þ])[A-ZÀ-Þ]+\b)",
                r"(?P<single>\b[IVX]\b)",
                rf"(?P<word>{self.word})",
                rf"(?P<mark>(?<=\s)[-–](?=\s)|–|--+|\.(?: ?\.){{2,}}|[{re.escape(PUNCTUATION)}])",
                r"(?P<space>\s+)",
                r"(?P<digits>\d+)",
                r"(?P<other>.)",
            )
        )

    def __call__(self, text: str, *, dialect: str = "") -> Normalized:
        """Spoken tokens of `text` in order, and what was left out. Never raises on any text."""
        cleaned = clean(mark_breaks(text).translate(OPENING))
        scan = start_scan(cleaned.text)
        self.shouted = (
            not re.search(r"[a-zß-ÿ]", cleaned.text)
            and len(re.findall(r"[A-ZÀ-Þ]{2,}", cleaned.text)) > 2
        )
        place = 0
        while place < len(scan.text):
            begins = scan.text[place].isdecimal() or scan.text[place] == "("
            end = self._read_code(scan, place) if begins else place
            if end > place:
                place = end
                continue
            match = self._pattern.match(scan.text, place)
            # `other` takes any character, `space` a line break
            assert match is not None
            assert match.end() > place
            kind = next(name for name in self.handlers if match[name] is not None)
            place = max(self.handlers[kind](self, scan, match) or 0, match.end())
        return build_normalized(scan.pieces, cleaned)

    def _handle_override(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.say(match[0], *match.span())

    def _read_phone(self, scan: Scan, place: int) -> int:
        """The end of a telephone number that the language reads in its own way; else `place`."""
        return place

    def _read_code(self, scan: Scan, place: int) -> int:
        """A code or a telephone number: digits apart, in groups; behind one of the grammar's words,
        or of nine digits.
        """
        end = self._read_phone(scan, place)
        if end > place:
            return end
        match = CODE.match(scan.text, place)
        if not match or scan.text[place - 1 : place].isalnum() and place:
            return place
        groups = re.findall(r"\d+", match[0])
        cued = self.grammar.codes.search(scan.text, max(0, place - 40), place)
        many = len("".join(groups)) > 4 and not PLURAL_NEXT.match(scan.text, match.end())
        if not (
            (cued and (many or groups[0][0] == "0")) or (len(groups[0]) > 8 and len(groups) == 1)
        ):
            return place
        parts = [group[at : at + 3] for group in groups for at in range(0, len(group), 3)]
        return scan.say(" , ".join(map(self.grammar.read_digits, parts)), place, match.end())

    def _handle_line(self, scan: Scan, match: "re.Match[str]") -> None:
        """A line break is spoken as a full stop, except behind a mark."""
        if scan.last.words and (scan.last.words not in PUNCTUATION or scan.last.words in ")”"):
            scan.say(".", *match.span())

    def _handle_tag(self, scan: Scan, match: "re.Match[str]") -> int:
        """Markup, a bracket around words, or a sign."""
        bracket = scan.signs.match_bracket(scan.text, match.start())
        if bracket is None:
            self._handle_other(scan, match)
            return match.end()
        scan.pieces.append(bracket)
        return bracket.end

    def _handle_space(self, scan: Scan, match: "re.Match[str]") -> None:
        """White space is not spoken."""

    def _handle_word(self, scan: Scan, match: "re.Match[str]") -> None:
        spoken = self.grammar.respelled.get(match[0].lower())
        scan.say(spoken or match[0], *match.span(), "")

    def _handle_mark(self, scan: Scan, match: "re.Match[str]") -> None:
        mark = match[0]
        spoken = "…" if mark[:1] == "." and mark[1:] else "—" if mark[0] in "-–" else mark
        scan.say(spoken, *match.span())

    def _handle_capitals(self, scan: Scan, match: "re.Match[str]") -> None:
        """A Roman numeral, letters one by one, or a word in capitals."""
        value = parse_roman(match[0])
        if value is not None and (
            self._find_ordered(scan, match)
            or self._is_numbered(scan)
            or len(match[0]) > 2
            or value < 21
        ):
            counted = self._find_ordered(scan, match) or scan.previous
            scan.say(self.grammar.roman_ordinal(value, counted), *match.span())
        elif not self.shouted and (
            match[0] in self.grammar.spelled
            or len(match[0]) < 3
            or not WORDLIKE.fullmatch(match[0])
        ):
            scan.say(f"[{match[0]}]", *match.span())
        else:
            scan.say(match[0], *match.span(), "")

    def _handle_single(self, scan: Scan, match: "re.Match[str]") -> None:
        """I, V, X: numerals behind a word that is numbered."""
        counted = self._find_ordered(scan, match)
        if counted or self._is_numbered(scan):
            scan.say(
                self.grammar.roman_ordinal(parse_roman(match[0]) or 0, counted or scan.previous),
                *match.span(),
            )
        else:
            scan.say(match[0], *match.span(), "")

    def _find_ordered(self, scan: Scan, match: "re.Match[str]") -> str:
        """The noun behind a numeral that counts it: il XX secolo, la II Guerra Mundial."""
        following = self.grammar.roman_first.match(scan.text, match.end())
        return following[1] if following else ""

    def _is_numbered(self, scan: Scan) -> bool:
        return bool(self.grammar.roman_after.search(scan.previous)) or (
            scan.previous[:1].isupper() and not scan.previous.isupper()
        )

    def _handle_short(self, scan: Scan, match: "re.Match[str]") -> None:
        """An abbreviation; its point ends the sentence where nothing follows."""
        article, apostrophe, form = match[0].rpartition("'")
        key = next(
            text
            for text in self.grammar.abbreviations
            if text.replace(" ", "") == form.replace(" ", "")
        )
        ends = match[0].endswith(".") and not scan.text[match.end() :].strip(' \n"”)')
        spoken = (
            article + apostrophe + self.expand_short(scan, match, self.grammar.abbreviations[key])
        )
        scan.say(spoken, match.start(), match.end() - ends)
        if ends:
            scan.say(".", match.end() - 1, match.end())

    def expand_short(self, scan: Scan, match: "re.Match[str]", words: str) -> str:
        """What an abbreviation stands for here; a language may look at what follows."""
        return words

    def _handle_range(self, scan: Scan, match: "re.Match[str]") -> None:
        """Two numbers with a dash: a score, pages, years."""
        numbers = [self.grammar.read_integer(part, "") for part in re.split("[-–]", match[0])]
        scan.say(f" {self.grammar.range_joint} ".join(numbers), *match.span())

    def _handle_saint(self, scan: Scan, match: "re.Match[str]") -> None:
        """S. Pietro, S. Maria, S. Antonio."""
        name = re.match(rf"[{LATIN}]+", scan.text[match.end() :])
        first, last = (name[0][0].lower(), name[0][-1]) if name else ("", "")
        spoken = (
            "sant'"
            if first in VOWEL and first
            else (
                "santa"
                if last == "a" and name and name[0] not in ("Luca", "Andrea", "Nicola")
                else "san"
            )
        )
        scan.say(spoken, match.start(), match.start() + 2)

    def _handle_address(self, scan: Scan, match: "re.Match[str]") -> None:
        text = re.sub(r"^https?://", "", match[0]).rstrip("/")
        grammar = self.grammar
        pieces = (
            grammar.web.get(piece, piece) for piece in re.findall(r"\d+|[^\W\d_]+|[\W_]", text)
        )
        words = (grammar.read_integer(piece, "") if piece.isdigit() else piece for piece in pieces)
        scan.say(" ".join(words), *match.span())

    def _handle_iso(self, scan: Scan, match: "re.Match[str]") -> None:
        year, month, day = match[0].split("-")
        self._read_date(scan, match, day, month, year)

    def _handle_date(self, scan: Scan, match: "re.Match[str]") -> None:
        day, month, year = re.split(r"[/.-]", match[0])
        self._read_date(scan, match, day, month, year)

    def _read_date(
        self, scan: Scan, match: "re.Match[str]", day: str, month: str, year: str
    ) -> None:
        """Day, month, year where they can be; else the numbers one after the other."""
        if 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
            spoken = self.grammar.date(
                int(day), self.grammar.months[int(month) - 1], self.grammar.read_integer(year, "")
            )
        else:
            spoken = " ".join(
                self.grammar.read_integer(part, "") for part in re.split(r"[/.-]", match[0])
            )
        scan.say(spoken, *match.span())

    def _handle_clock(self, scan: Scan, match: "re.Match[str]") -> None:
        hour, minute, *_second = (int(part) for part in re.findall(r"\d+", match[0]))
        spoken = self.grammar.clock(hour, minute)
        scan.say(
            spoken + (f" {self.grammar.cardinal(_second[0], '')}" if _second else ""), *match.span()
        )

    def _handle_fraction(self, scan: Scan, match: "re.Match[str]") -> None:
        above, below = match[0].split("/")
        day = self.grammar.day_before.search(scan.text, max(0, match.start() - 16), match.start())
        if day and int(above) < 32 and int(below) < 13 and match[0] not in self.grammar.always:
            scan.say(
                self.grammar.date(int(above), self.grammar.months[int(below) - 1], ""),
                *match.span(),
            )
            return
        fixed = self.grammar.always.get(match[0]) or self.grammar.fractions.get(match[0])
        numbers = self.grammar.read_integer(above, ""), self.grammar.read_integer(below, "")
        scan.say(fixed or f" {self.grammar.over} ".join(numbers), *match.span())

    def _handle_money(self, scan: Scan, match: "re.Match[str]") -> None:
        one, several, cent, cents = self.grammar.currencies[match["sign"] or match["sign2"]]
        price = match["price"] or match["price2"]
        named = self.grammar.money_words.match(scan.text, match.end())
        if named:  # $20 pesos
            scan.say(self.grammar.read_number(price, named[1]), *match.span())
            return
        whole, fraction = split_number(price)
        scaled = SCALED.match(scan.text, match.end())
        if scaled or (fraction and len(fraction) != 2) or not cent:
            scan.say(self.grammar.read_number(price, several), *match.span())
            if not scaled:
                scan.say(several, *match.span())
            return
        spoken = []
        if int(whole) or not fraction:
            spoken.append(
                f"{self.grammar.read_integer(whole, several)}"
                f" {self.grammar.find_joint(whole)}{one if whole == '1' else several}"
            )
        if fraction and int(fraction):
            spoken.append(
                f"{self.grammar.read_integer(fraction, cents)}"
                f" {cent if int(fraction) == 1 else cents}"
            )
        scan.say(
            f" {self.grammar.money_joint} ".join(spoken)
            or f"{self.grammar.read_integer('0', several)} {several}",
            *match.span(),
        )

    def _handle_ordinal(self, scan: Scan, match: "re.Match[str]") -> None:
        spoken = self.grammar.ordinal(int(match["nth"]), match[0][-1] in "ªa")
        apocope = match[0].endswith("er") or (
            spoken in ("primero", "tercero") and re.match(r" [a-zá-ú]", scan.text[match.end() :])
        )
        scan.say(spoken[:-1] if apocope else spoken, *match.span())

    def _handle_first(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.say(self.grammar.date(1, "", "").strip(), *match.span())

    def _handle_number(self, scan: Scan, match: "re.Match[str]") -> None:
        """A number, its sign, and the unit or per cent behind it."""
        text = match["number"]
        unit = (match["after"] or "").strip()
        grammar = self.grammar
        following = re.match(rf"\s*([{LATIN}]+)", scan.text[match.end() :])
        one = text.lstrip("-−") in ("1", "01")
        forms = grammar.units.get(unit) or (grammar.degrees if unit.startswith("°") else None)
        counted = (
            forms[not one].split()[0]
            if forms
            else ""
            if unit
            else following[1]
            if following
            else ""
        )
        spoken = [self.grammar.read_number(text, counted)]
        if forms:
            spoken.append(
                forms[not one]
                + {"C": " Celsius", "F": " Fahrenheit"}.get(
                    unit[-1:] if unit[:1] == "°" else "", ""
                )
            )
        elif unit:
            spoken.append(grammar.percent)
        start = match.start("number")
        if match["elided"]:
            head, *rest = " ".join(spoken).split(" ", 1)
            scan.say(match["elided"] + head, match.start("elided"), match.end("number"), "")
            spoken = rest
            start = match.start("number")
        if spoken:
            scan.say(" ".join(spoken), start, match.end())

    def _handle_digits(self, scan: Scan, match: "re.Match[str]") -> None:
        scan.say(self.grammar.read_integer(match[0], ""), *match.span())

    def _handle_other(self, scan: Scan, match: "re.Match[str]") -> None:
        spoken = self.grammar.signs.get(match[0])
        if spoken:
            scan.say(spoken, *match.span())
        elif match[0] in "-'" and scan.last.end == match.start():
            scan.extend(match.end())
        else:
            scan.drop(*match.span(), "symbol")
