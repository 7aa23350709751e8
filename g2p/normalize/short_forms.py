"""Short forms: titles, street names, e.g., No. 5, initials; capitals said as letters (FBI) or words
(NASA); pieces of B2B, iPhone15.

    abbreviation(Scan("Dr. Smith lives on Elm Dr.", "us"), 0)
    acronym("FBI", shouted=False)   # "~FBI"

A dot that also ends the sentence is said as one.
"""

import re
from functools import lru_cache

from kokoro_ane.g2p.normalize.characters import LATIN
from kokoro_ane.g2p.normalize.number_words import below_hundred, cardinal, digits, plural
from kokoro_ane.g2p.normalize.state import (
    ABBREVIATIONS,
    AMBIGUOUS,
    CUT,
    MONTH_FORMS,
    MONTHS,
    READ,
    RESPELLED,
    SHORT,
    SPELLED,
    SQUEEZED,
    STARTERS,
    WEB_LETTERS,
    WEEKDAYS,
    Scan,
    alternation,
    read,
)
from kokoro_ane.g2p.result import Dialect
from kokoro_ane.g2p.word_lists import word_set, word_sets

TITLES, PLACES, ENDINGS, NUMBERS, OTHERS = (
    ABBREVIATIONS[key] for key in ("title", "place", "ending", "number", "plain")
)
DOTTED, SLASHED = ABBREVIATIONS["dotted"], ABBREVIATIONS["slashed"]
DOTLESS_TITLES, DOTLESS = (
    frozenset(ABBREVIATIONS["title_without_dot"]),
    frozenset(ABBREVIATIONS["without_dot"]),
)
# of forms of two words: rev. ed.
LEADING = frozenset(form.split(".")[0] for form in DOTTED if ". " in form)
LOWER_COUNTED = word_set("p pp vol ch sc")  # before small roman numerals: pp. xi-xv
LABELS = ABBREVIATIONS["label"]  # before a colon or slash
SPEAKERS = word_set("Mo Cal Len Pop Cap")  # labels before a number alone
# Forms that are also words or names (Ed, Mass, hum): said whole only where `is_signed`.
WORDS = frozenset(ABBREVIATIONS["word"].split())
STATES = frozenset(read("identifiers")["states"].values())
(BEGINNINGS,) = word_sets("sentence_ends", "starters")
KNOWN = frozenset({"v", *LEADING, *TITLES, *PLACES, *ENDINGS, *NUMBERS, *OTHERS, *LABELS})

WORD = re.compile(r"([A-Za-z]{1,8})(\.?)(?:(?<=\.)(?=\d)|(?![\w'@]))")  # no.5
DOTTED_FORM = re.compile(rf"(?:{alternation(tuple(DOTTED))})(?!\w)")
SLASHED_FORM = re.compile(rf"(?:{alternation(tuple(SLASHED))})(?![\w/])")
ACRONYM = re.compile(r"(?:[A-Za-z]\.){2,12}(?:[A-Z](?!\w))?(?!\w)('s)?")
NAME_NEXT = re.compile(
    r"\s+[\"“(]?(?!(?:Apt|Ste|Unit|Suite|Rm|Bldg|Fl)\b|(?:NE|NW|SE|SW|[NSEW])(?![\w.']))[A-ZÀ-Þ]"
)
NUMBER_NEXT = re.compile(r"\s*#?\(?(?:\d|[A-Z]{1,8}-?\d|[a-z]\d{3}|[IVXLC]{2,}\b|[VX]\b|I(?=[,;]))")
SMALL_ROMAN_NEXT = re.compile(r"\s*[ivx]{1,6}(?![\w'])")
STARTER_NEXT = re.compile(r"\s+[\"“(]?([A-Z][a-z]*)")
SENTENCE_END = re.compile(r"[\"”')]*(?:\s*$|\s*\n\s*\n|\s+[\"“(]?[A-Z])")
LETTERED_PLACES = frozenset(ABBREVIATIONS["before_number"])
LETTER_OR_NUMBER = re.compile(r"\s+#?(?:\d|[A-Z]\d{0,4}(?![\w']))")
YEAR_NEXT = re.compile(
    r"\s+(?:1[5-9]|20)\d\d\b(?!\s(?:sq|sf|ft|mi|lb|kg|people|miles|users|units))"
)
ESTIMATE = re.compile(r"\s+(?!in\b|by\b)[a-z]")
# 12 Elm St.
ADDRESS_BEFORE = re.compile(
    r"\b\d[\w-]*\s(?:[NSEW]{1,2}\.?\s)?(?:[A-Z][a-z]+\s){1,2}[A-Z][a-z]{1,3}\.?$"
)
LABEL_NEXT = re.compile(r"\s?:(?!\d)|\s?/\s?[A-Z]")
# Signs of a short form that is also a word. A full stop stands before none of these marks.
MARK_NEXT = re.compile(
    r"(?<=\.)(?:\s*[,;:&/–—]|-|\s+(?:\(?[#$£€]?\d|[AP]M\b|Finals?\b"
    r"|(?!(?:he|she|it|they|we|i|you|so|then|but|and)\b)[a-z(]))"
)
NUMBER_BESIDE = re.compile(r"(?<!\.):?\s?[-#$£€(]?\d|\s(?![AI]\s)[A-Z]\d{0,4}(?![\w'.])")
COUNT_BEFORE = re.compile(r"[\d½¼¾⅓⅔]\s?$|\d-[a-z]+\s$")
EDITION_BEFORE = re.compile(
    r"(?:\d(?:st|nd|rd|th)|\b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
    r"|revised|rev\.|expanded|updated|paperback))\s$"
)
FEATURED = re.compile(r"(?:^|[A-Z][\w'-]*\s?|[(,]\s?)[Ff]eat$")
# to no avail, equip the troops
VERB_BEFORE = re.compile(
    r"\b(?:no|little|any|small|great|much|what|of|to|will|would|can|could|must|should|may|might"
    r"|they|we|you|I)\s$",
    re.IGNORECASE,
)
VERB_NEXT = re.compile(r"\s(?:your|our|him|her|it|them|my|the|each|every|an?|us|me|their|his)")
BODY_BEFORE = re.compile(r"\b(?:[Tt]he|[Oo]ur|an?|Dr\.?|Mr\.?|Mrs\.?|Ms\.?)\s$")
LIST_BEFORE = re.compile(r"\b[A-Z][a-z]{1,4}\.(?:,|\s&|-)?\s?(?:(?:and|or|to|through)\s)?$")
MONTH_BEFORE = re.compile(
    r"\b(?:in|since|until|till?|thru|through|during|this|next|last|early|late|mid|due|(?:end|start"
    r"|begin|open|close|expire)s?|starting|beginning)[ -]$",
    re.IGNORECASE,
)
MONTH_NEXT = re.compile(rf"\s+(?:'\d|(?:{alternation(tuple(MONTH_FORMS))})(?!\w))")
CITY_BEFORE = re.compile(
    r"(?:^|[\s(])(?!(?:Hello|Hi|Hey|Yes|No|Thanks|Sorry|Okay|OK|Oh|Well|Please|Now|Come|Sure"
    r"|Goodbye|Bye|Look|Listen|Wait|Dear|Stop|Help|So|And|But)\b)[A-Z][\w.'-]+,\s$"
)
STOP = re.compile(r"[\"”')]*(?:\s*$|\s*\n\s*\n)")
LOOK_BACK = 32  # characters


def starts_sentence(scan: Scan, position: int) -> bool:
    """Whether a word that begins sentences (The, It, He) follows."""
    match = STARTER_NEXT.match(scan.text, position)
    return match is not None and match[1] in STARTERS


def is_signed(text: str, start: int, end: int) -> bool:
    """Whether text[start:end], one of WORDS with its dot or without, has a sign that it is short: a
    number, a list of such forms, a mark that follows no full stop, a name behind a title.
    """
    form, before = text[start:end].rstrip("."), text[max(0, start - LOOK_BACK) : start]
    if NAME_NEXT.match(text, end) and (form in TITLES or FEATURED.search(before + form)):
        beginning = STARTER_NEXT.match(text, end)
        return beginning is None or beginning[1].lower() not in BEGINNINGS
    return bool(
        MARK_NEXT.match(text, end)
        or NUMBER_BESIDE.match(text, end)
        or COUNT_BEFORE.search(before)
        or (form == "ed" and EDITION_BEFORE.search(before))
        or (before.endswith("(") and text.startswith(".)", end - 1))
        or (form in MONTH_FORMS and (MONTH_BEFORE.search(before) or MONTH_NEXT.match(text, end)))
        or (form[0].isupper() and LIST_BEFORE.search(before))
        or (form in WEEKDAYS and not BODY_BEFORE.search(before))
        or (
            form.lower() in ("avail", "equip")
            and not VERB_BEFORE.search(before)
            and not VERB_NEXT.match(text, end)
        )
        or (OTHERS.get(form) in STATES and CITY_BEFORE.search(before))
    )


def finish(scan: Scan, spoken: str, start: int, dot: int, certain: bool) -> int:
    """Say it; the dot at `dot` - 1 is a full stop too where the text ends there, or (`certain`)
    where a capital follows.
    """
    ends = (SENTENCE_END if certain else STOP).match(scan.text, dot)
    if ends and scan.text[dot - 1] == ".":
        scan.say(spoken, start, dot - 1, False)
        scan.mark(".", dot - 1, dot)
    else:
        scan.say(spoken, start, dot)
    return dot


def place_or_title(scan: Scan, text: str, end: int) -> str:
    """St, Dr, Ft ...: the street after a name and before no name, else the title."""
    before = scan.previous()
    named = before[:1].isupper() or before.endswith(
        ("st", "nd", "rd", "th", "first", "second", "third")
    )
    title = "saint" if text == "St" else TITLES.get(text, "")
    street = scan.previous() in TITLES.values() or ADDRESS_BEFORE.search(
        scan.text, max(0, end - 40), end
    )
    if text in PLACES and named and (not title or street or not NAME_NEXT.match(scan.text, end)):
        return PLACES[text]
    if NAME_NEXT.match(scan.text, end) and title:
        return title
    return PLACES[text] if named and text in PLACES else title


def single_word(scan: Scan, position: int) -> int:
    """One word with or without its dot."""
    match = WORD.match(scan.text, position)
    if not match or (match[1] not in KNOWN and not match[2]):
        return position
    text, dot, end = match[1], match[2], match.end()
    if text == "v" and scan.previous()[:1].isupper() and NAME_NEXT.match(scan.text, end):
        return scan.say("versus", position, end)
    label = NUMBER_BESIDE if text in SPEAKERS else LABEL_NEXT
    if text in LABELS and label.match(scan.text, end):
        return scan.say(LABELS[text], position, end)
    if text in ("est", "Est") and (
        YEAR_NEXT.match(scan.text, end) or (dot and ESTIMATE.match(scan.text, end))
    ):
        return scan.say(
            "established" if YEAR_NEXT.match(scan.text, end) else "estimated", position, end
        )
    number = (dot or text in ("p", "pp")) and NUMBER_NEXT.match(scan.text, end)
    if text in NUMBERS and (
        number or (text in LOWER_COUNTED and dot and SMALL_ROMAN_NEXT.match(scan.text, end))
    ):
        return scan.say(NUMBERS[text], position, end)
    if text in LETTERED_PLACES and LETTER_OR_NUMBER.match(scan.text, end):
        return scan.say(PLACES.get(text) or NUMBERS.get(text) or OTHERS[text], position, end)
    owner = scan.previous(2).lower() if scan.previous_word() == "of" else ""
    if text == "Ed" and dot and owner in ("department", "board", "secretary", "college"):
        return finish(scan, "education", position, end, False)
    if text in WORDS and not is_signed(scan.text, position, end):
        return position
    if text in TITLES or text in PLACES:
        spoken = (
            place_or_title(scan, text, end)
            if dot or text in DOTLESS_TITLES or text in DOTLESS
            else ""
        )
        return (
            finish(
                scan,
                spoken,
                position,
                end,
                spoken == PLACES.get(text) and starts_sentence(scan, end),
            )
            if spoken
            else position
        )
    if (
        dot
        and text not in KNOWN
        and scan.known is not None
        and len(text) > 2
        and text[-1] not in "aeiou"
    ):
        at = CUT.find(f" {text.lower()}")
        # emerg. exit, accum.: 2 in; not "it returns an int."
        is_cut = at >= 0 and scan.unlisted(text) and is_signed(scan.text, position, end)
        whole = CUT[at + 1 :].split(" ", 1)[0] if is_cut else ""
        return finish(scan, whole, position, end, False) if len(whole) > len(text) + 1 else position
    if not dot and text not in DOTLESS:
        return position
    if text in ENDINGS:
        return finish(
            scan,
            ENDINGS[text],
            position,
            end,
            text == "etc" or (text != "al" and starts_sentence(scan, end)),
        )
    if text in OTHERS and not (
        OTHERS[text] in MONTHS or OTHERS[text] in WEEKDAYS or NUMBERS.get(text)
    ):
        return finish(scan, OTHERS[text], position, end, False)
    return position


def initials(scan: Scan, position: int) -> int:
    """U.S., D.C., J.K.: capitals with dots."""
    match = ACRONYM.match(scan.text, position)
    if not match:
        return position
    letters, ending = match[0].removesuffix(match[1] or "").replace(".", "").upper(), match[1] or ""
    return finish(
        scan,
        f"~{letters}{ending}",
        position,
        match.end(),
        scan.text[position].islower() or starts_sentence(scan, match.end()),
    )


def abbreviation(scan: Scan, position: int) -> int:
    """Whatever of this file stands at `position`."""
    for pattern, table in ((DOTTED_FORM, DOTTED), (SLASHED_FORM, SLASHED)):
        match = pattern.match(scan.text, position)
        if match:
            return finish(
                scan,
                table[match[0]],
                position,
                match.end(),
                match[0] not in ("e.g.", "i.e.", "eg.", "ie.", "a.k.a.", "w.r.t."),
            )
    return (
        initials(scan, position)
        if scan.text[position + 1 : position + 2] == "." and ACRONYM.match(scan.text, position)
        else single_word(scan, position)
    )


DOLLAR = re.compile(r"[A-Za-z]{1,12}\$[A-Za-z]{1,12}(?![\w$])")


def dollar_letter(scan: Scan, position: int) -> int:
    """A$AP, Ke$ha: the sign is an s."""
    match = DOLLAR.match(scan.text, position)
    return (
        scan.word(match[0].replace("$", "s").capitalize(), position, match.end())
        if match
        else position
    )


UPPER, LOWER = "A-ZÀ-ÖØ-Þ", "a-zß-öø-ÿĀ-ſ"
PIECE = re.compile(
    rf"'[sS](?![{LATIN}])|[{UPPER}]++s(?![{LOWER}])|[{UPPER}]+(?![{LOWER}])|[{UPPER}]?[{LOWER}]++|\d++(?:s"
    rf"(?![{LOWER}]))?|[{LATIN}]"
)
VOWEL = re.compile("[aeiouyà-öø-ÿ]", re.IGNORECASE)
# Beginnings and endings that no English word has: such capitals are spelled.
ODD = re.compile(
    r"^(?!SCH|KN[AEIO]|PSY|GN[AO]|PNEU|TSU)(?:[BCDFGHJKLMNPQRSTVWXZ]{4}"
    r"|[BDFGHJKLMNPQRTVXZ][BCDFGJKMNPQSTVXZ])"
    r"|[JQV]$|[BCDFGHJKLMNPQRSTVWXZ]{4}$(?<!GHTS|GTHS)|^(?=.{4,5}$).*"
    r"(?:[BCFGHJKMPQSTVXZ]D|[BDFGHJKMPQTVWXZ]C|[BCDFHJKLMPQSTVXZ]G"
    r"|[BCDFGHJKNPQSTVXZ]B|[BCDGHJKNQSTVWXZ]F|[BCDFJKNPQTVXZ]M|[BCDFJKPQSTVZ]N"
    r"|[BCDFGHJKNQTVZ]P|[BCDFGJLMNQSTVWXZ]R|[BDFGHJKMPQTVXZ]K)$"
)
CAPITALS_NEXT = re.compile(r"[^\w\n]{1,3}([A-Z]{2,20})(?![\w])")


def is_common(word: str) -> bool:
    """Whether capitals make an ordinary word when shouted."""
    return word.lower() in SHORT or (
        len(word) > 3 and VOWEL.search(word) is not None and not ODD.search(word)
    )


def is_shouted(scan: Scan, text: str, end: int) -> bool:
    """Whether the neighbours are shouted words too."""
    loud = text.lower() in LOUD  # words that are letters elsewhere: CALL ME NOW
    if not (is_common(text) or loud) or text in SPELLED and text.lower() not in SHORT:
        return False
    before, after = scan.previous(), CAPITALS_NEXT.match(scan.text, end)
    if before in (",", "!", ":") and not loud:
        before = scan.previous(2)
    left = len(before) > 1 and before.isupper() and before.isalpha() and before not in READ
    right = (
        after is not None
        and is_common(after[1])
        and after[1] not in READ | SPELLED - AMBIGUOUS_CAPITALS
    )
    return bool(left or right)


(LOUD,) = word_sets("words", "loud")
AMBIGUOUS_CAPITALS = frozenset(word.upper() for word in AMBIGUOUS)


def acronym(text: str, shouted: bool) -> str:
    """Capitals (with a plural s perhaps) as spoken text."""
    if text in RESPELLED:
        return RESPELLED[text]
    stem = text[:-1] if text.endswith("s") else text
    if stem in READ or shouted:
        return text
    if stem in SPELLED or len(stem) == 1:
        return f"~{text}"
    if len(stem) <= 3:
        common = stem.lower() in SHORT and stem.lower() not in AMBIGUOUS
        return text if common else f"~{text}"
    return f"~{text}" if not VOWEL.search(stem) or ODD.search(stem) else text


@lru_cache(maxsize=4096)  # a word is asked for twice, of 1,752
def unsqueezed(text: str) -> str:
    """The word that is written so without its vowels (pwdr), perhaps with one of two equal letters;
    empty where there is none.
    """
    for word in SQUEEZED.split():
        short = word[0] + re.sub("[aeiou]", "", word[1:])
        if text.lower() in (short, re.sub(r"(.)\1", r"\1", short)):
            return word
    return ""


def lower_piece(text: str) -> str:
    """A lower-case or capitalized piece beside digits or in an address: a word where it can be one,
    else letters.
    """
    if text.lower() in WEB_LETTERS or len(text) == 1 or not VOWEL.search(text):
        return f"~{text.upper()}"
    return text


def number_piece(text: str, dialect: Dialect) -> str:
    """Digits inside a name: 19 -> nineteen, 747 -> seven forty-seven, 2020 -> twenty twenty, 007
    and long ones digit by digit.
    """
    if (text[0] == "0" and len(text) > 1) or len(text) > 4:
        return digits(text)
    if len(text) < 3 or int(text) % 1000 == 0:
        return cardinal(int(text), dialect)
    head, tail = int(text[:-2]), int(text[-2:])
    if len(text) == 4 and head % 10 == 0 and tail < 10:
        return cardinal(int(text), dialect)
    low = (
        "hundred" if not tail else f"oh {below_hundred(tail)}" if tail < 10 else below_hundred(tail)
    )
    return f"{below_hundred(head)} {low}"


def say_pieces(scan: Scan, start: int, end: int, mixed: bool) -> None:
    """text[start:end], letters and digits only, piece by piece; `mixed`: lower-case pieces need not
    be words.
    """
    previous = start
    for match in PIECE.finditer(scan.text, start, end):
        text, first, last = match[0], match.start(), match.end()
        if first > previous:
            scan.silent(previous, first)
        previous = last
        space = None if last == end else True
        if text[0] == "'":
            scan.owns(first, last)
        elif text[0].isdigit() and text[-1] == "s":
            scan.say(plural(number_piece(text[:-1], scan.dialect)), first, last, space)
        elif text.isdigit():
            scan.say(number_piece(text, scan.dialect), first, last, space)
        elif text in RESPELLED:
            scan.say(RESPELLED[text], first, last, space)
        elif text.isupper() or (
            text[:-1].isupper() and text[-1] == "s" and (mixed or len(text) > 2)
        ):
            scan.say(acronym(text, False), first, last, space)
        elif text.lower() == "v" and scan.text[last : last + 1].isdigit():
            scan.say("version", first, last, space)
        elif mixed or len(text) == 1:
            scan.say(lower_piece(text), first, last, space)
        else:
            scan.word(text, first, last, space)
    if previous < end:
        scan.silent(previous, end)
