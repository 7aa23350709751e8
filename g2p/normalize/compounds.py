"""What begins with a letter and is no plain word: abbreviations' neighbours aside, capitals,
camelCase, snake_case, hyphens, B2B, C++.

    scan = Scan("getUserName state-of-the-art B2B C++", "us")

Hyphenated plain words stay one token: the lexicon lists some (`Blu-ray`) and the reader joins the
others with the stress of a compound.
"""

import re

from kokoro_ane.g2p.normalize.characters import LATIN
from kokoro_ane.g2p.normalize.short_forms import (
    LOWER,
    TITLES,
    UPPER,
    VOWEL,
    WORDS,
    acronym,
    is_common,
    is_shouted,
    say_pieces,
    unsqueezed,
)
from kokoro_ane.g2p.normalize.state import (
    AMBIGUOUS,
    COUNTED,
    KEEP,
    LETTERED,
    MONTH_FORMS,
    PREFIXES,
    RESPELLED,
    SPELLED,
    STARTERS,
    WEB_LETTERS,
    WEEKDAY_NAMES,
    WEEKDAYS,
    Scan,
)
from kokoro_ane.g2p.word_lists import pairs, word_sets
from kokoro_ane.g2p.word_parts import CAMEL

# of so many parts at most: the reader goes one call deeper at every apostrophe
RUN = re.compile(
    rf"[{LATIN}\d]++(?:(?:['_]|-(?!-|\d{{1,2}}/\d|[A-Z]\.[A-Z]\.))++[{LATIN}\d]++){{0,64}}+"
)
PLAIN_PART = (
    rf"(?:[{LATIN}][{LOWER}]*+(?:'[{LATIN}]{{1,3}})?|O'[{UPPER}][{LOWER}]++|(?:Mc|Mac|De"
    rf"|Di|Fitz|Van|Le|La|Du)[{UPPER}][{LOWER}]++(?:'s)?)"
)
PLAIN_WORD = re.compile(rf"{PLAIN_PART}(?:-{PLAIN_PART}){{0,7}}")
JOINED_NEXT = re.compile(rf"&[{UPPER}]")
# th' end o' th' road: small words without their ending
ELIDED_WORD = re.compile(r"(th|o|t|wi|an)'(?=\s+(?-i:[a-z]))", re.IGNORECASE)
ELIDED_WORDS = pairs("th:the o:of t:the wi:with an:and")
CAPITALS = re.compile(rf"([{UPPER}]{{2,}})('?s)?")
ELISION = re.compile(rf"[{LATIN}]++(?:'[{LATIN}]++)++")
SHARP = re.compile(r"([A-GJ])(#|\+\+)(?![\w#+])")
WORD_RANGE = re.compile(
    rf"([{LATIN}]{{1,10}})\.?[-–]([{LATIN}]{{1,10}})(?![\w-])(?:\.(?=\s+[^\sA-Z]|[,;:)]))?"
)
INITIAL_AFTER = re.compile(r"\.(?=\s+([A-Z][\w']*))")
BY_BEFORE, BY_AFTER = re.compile(r"[\d\"'mWDHL]\s?$"), re.compile(r"\s?\d")
CONSONANTS = re.compile(
    "[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ][b-df-hj-np-tv-xz]{3}[b-df-hj-np-tv-z]{0,9}"
)
# x 10 days; 3 sets x 12 reps
COURSE = re.compile(
    r"(?:[a-z]{2,}s|day|°[FC]) x\s?(?=\d+ (days?|weeks?|wks?|months?|mos?|min|hrs?)?)"
)
OPTION = re.compile(r"(?:^|[\s(\"'`])-$")  # the -a of ls -a
POSSESSIVE = re.compile(r"(?<=[sS])'(?=[\s.,;:!?)]|$)")
CHAT_LETTER = re.compile(r"([cur])(?=\s+[a-z]{1,15}(?![\w=])|[?!,.]|\s*(?:$|<3|[:;])|\s[$@\d])")
U_WANT = re.compile(
    r"U(?=\s+(?:want|need|still|ok|coming|going|free|have|got|know|can|should|home|good"
    r"|ready|around|awake|there|up)\b)"
)
BE = re.compile(
    r"[bB](?=\s+(?:there|back|right|ready|late|home|here|careful|safe|good|nice|able|in"
    r"|at|on|sure|like|so|a|the)\b)"
)
BEFORE_BE, BEFORE_YOU, FOR_NEXT, TO_BEFORE, TO_NEXT, BEFORE_INITIAL = word_sets(
    "words", "before_be before_you for_next to_before to_next before_initial"
)
YOU_NEXT = re.compile(r"\s+(?:u|you|ya|we|they)(?!\w)", re.IGNORECASE)
LONGEST_PLAIN, LETTER_NEXT = 80, frozenset("+^/&")  # an `a` before these signs is a letter


def sharp(scan: Scan, position: int) -> int:
    """C#, F#, C++."""
    match = SHARP.match(scan.text, position)
    if not match:
        return position
    scan.letters(match[1], position, position + 1, True)
    return scan.say("sharp" if match[2] == "#" else "plus plus", position + 1, match.end())


def word_range(scan: Scan, position: int) -> int:
    """Monday-Friday, Jan-Mar, A-Z: `to`."""
    match = WORD_RANGE.match(scan.text, position)
    if not match:
        return position
    first, second = match[1], match[2]
    days, months = (
        first in WEEKDAYS and second in WEEKDAYS,
        first in MONTH_FORMS and second in MONTH_FORMS,
    )
    if not (days or months or f"{first}{second}" in ("AZ", "az")):
        return position
    for index, group in enumerate((1, 2)):
        if index:
            scan.say("to", match.end(1), match.start(2), True)
        name: str = match[group]
        text = MONTH_FORMS.get(name) or WEEKDAY_NAMES.get(name, name)
        scan.say(
            f"~{text.upper()}" if len(text) == 1 else text,
            match.start(group),
            match.end(group) if not index else match.end(),
            True if not index else None,
        )
    return match.end()


WEEKLY = re.compile(
    r"(Mo?|T[uh]|T(?=/Th)|We?|Fr?|S[au])([-–/])(T[uh]|We?|Fr?|S[au])(?:/(Fr?))?"
    r"(?=:?\s+(?:\d|only|at|from|closed|by|after|before|until)|[,;]|\s*$)"
)
WEEKLY_NAMES = pairs("M:Monday T:Tuesday W:Wednesday F:Friday Th:Thursday Sa:Saturday Su:Sunday")


CHAT_NUMBER = re.compile(r"([24])(?=\s+([a-z]+))")


def chat_number(scan: Scan, position: int) -> int:
    """want 2 go, thanks 4 the ride: to and for."""
    whole = RUN.match(scan.text, position)
    if whole and whole[0] in RESPELLED:  # 2nite
        return scan.say(RESPELLED[whole[0]], position, whole.end())
    match = CHAT_NUMBER.match(scan.text, position)
    if not match or not scan.space_before(position) or not scan.previous_word():
        return position
    is_to = match[1] == "2" and scan.previous_word() in TO_BEFORE and match[2] in TO_NEXT
    is_for = (
        match[1] == "4"
        and match[2] in FOR_NEXT
        and scan.previous_word() not in ("at", "by", "before", "after", "until", "till", "around")
    )
    return (
        scan.say("to" if is_to else "for", position, position + 1) if is_to or is_for else position
    )


def weekly(scan: Scan, position: int) -> int:
    """M-F 9-5, Tu/Th: days of the week by their letters."""
    match = WEEKLY.match(scan.text, position)
    if not match:
        return position
    days = [WEEKLY_NAMES.get(day) or WEEKLY_NAMES[day[0]] for day in match.group(1, 3, 4) if day]
    return scan.say((" and " if match[2] == "/" else " to ").join(days), position, match.end())


def initial(scan: Scan, position: int) -> int:
    """A capital with a dot before a name (George W. Bush): the letter, no full stop."""
    text = scan.text
    after = INITIAL_AFTER.match(text, position + 1)
    if not after or not text[position].isupper() or (position and text[position - 1].isalnum()):
        return position
    before = scan.previous()
    small = (
        before[:1].islower()
        and before not in COUNTED | BEFORE_INITIAL
        and before not in TITLES.values()
    )
    if after[1] in STARTERS or small or before == "I":
        return position
    return scan.letters(text[position], position, position + 2)


def capitals(scan: Scan, position: int, end: int, constant: bool = False) -> bool:
    """FBI, CDs, FBI's, NASA, STOP: the whole run is capitals with an ending perhaps; `constant`: in
    MAX_VALUE.
    """
    match = CAPITALS.fullmatch(scan.text, position, end)
    if not match:
        return False
    stem, ending = match[1], match[2] or ""
    # AT&T: one by one, so that nobody reads a word
    if len(stem) < 4 and JOINED_NEXT.match(scan.text, end):
        for place, letter in enumerate(stem, position):
            scan.letters(letter, place, place + 1, True)
        return True
    shouted = is_common(stem) if constant else is_shouted(scan, stem, end)
    # IIRC
    spoken = (
        RESPELLED.get(stem.lower()) or acronym(stem, shouted)
        if len(stem) > 3 and not shouted
        else acronym(stem, shouted)
    )
    if spoken in (stem, f"~{stem}"):
        spoken += ending
    elif ending:
        spoken += "'s" if "'" in ending else "s"
    if spoken[0] == "~" or "~" in spoken or spoken != stem + ending:
        scan.say(spoken, position, end)
    else:
        scan.word(spoken, position, end)
    return True


def single(scan: Scan, position: int) -> int:
    """One letter alone: the article and the pronoun are words, the others letters; `by` between two
    measures.
    """
    text, course = (
        scan.text[position],
        COURSE.search(scan.text, max(0, position - 4), position + 12),
    )
    if (
        text in "xX"
        and BY_BEFORE.search(scan.text[max(0, position - 3) : position])
        and BY_AFTER.match(scan.text, position + 1)
    ):
        scan.say("by", position, position + 1)
    elif course and text == "x":
        scan.say("for" if course[1] else "of", position, position + 1)
    elif text == "a" and OPTION.search(scan.text[max(0, position - 2) : position]):
        scan.letters("A", position, position + 1)
    elif (
        text in "aAI"
        and scan.text[position + 1 : position + 2] not in LETTER_NEXT
        and (text != "A" or scan.previous() not in LETTERED)
    ) or not text.isascii():
        scan.word(text, position, position + 1)
    else:
        scan.letters(text.upper(), position, position + 1)
    return position + 1


def chat(scan: Scan, position: int) -> int:
    """Shorthand of messages: a lower-case u before a word is `you`, an r beside it `are`, a c
    before it `see`, b behind a verb `be`.
    """
    if BE.match(scan.text, position) and scan.previous_word() in BEFORE_BE | {""}:
        return scan.say("be", position, position + 1)
    if not scan.previous_word() and U_WANT.match(scan.text, position):
        return scan.say("you", position, position + 1)
    match = CHAT_LETTER.match(scan.text, position)
    if not match or not (scan.space_before(position) or match[1] != "u"):
        return position
    asks = YOU_NEXT.match(scan.text, position + 1) is not None
    after_you = scan.previous_word() in ("you", "they", "we", "who", "where", "how", "what")
    if (
        match[1] != "u"
        and not asks
        and not (match[1] == "r" and after_you and scan.space_before(position))
    ):
        return position
    if (
        match[1] == "u"
        and scan.text[position + 1 : position + 2] in (",", ".")
        and scan.previous_word() not in BEFORE_YOU
    ):
        return position
    return scan.say({"u": "you", "r": "are", "c": "see"}[match[1]], position, position + 1)


def word(scan: Scan, position: int) -> int:
    """Any run of letters, digits, hyphens, underscores and inner apostrophes that begins with a
    letter.
    """
    match = RUN.match(scan.text, position)
    if not match:
        return position
    end, text = match.end(), match[0]
    elided = ELIDED_WORD.match(scan.text, position)
    if elided and scan.text[position - 1 : position] not in ("'", '"') and not scan.quote_open:
        return scan.say(ELIDED_WORDS[elided[1].lower()], position, elided.end())
    if end - position == 1:
        return single(scan, position)
    # Abraham left Ur. Jony Ive
    if text in RESPELLED and not (text in WORDS and scan.previous_word()):
        scan.say(RESPELLED[text], position, end)
    elif (
        scan.known is not None
        and CONSONANTS.fullmatch(text)
        and not scan.known(text)
        and unsqueezed(text)
    ):
        scan.say(unsqueezed(text), position, end)
    elif text in KEEP or (len(text) <= LONGEST_PLAIN and PLAIN_WORD.fullmatch(text)):
        if POSSESSIVE.match(scan.text, end) and not scan.quote_open:
            text, end = f"{text}'", end + 1
        if (
            scan.text[end : end + 1] == "^"
            and len(text) < 4
            and text.isalpha()
            and not VOWEL.search(text)
        ):
            scan.letters(text.upper(), position, end)
        else:
            scan.word(text, position, end)
    elif (
        scan.known is not None
        and text.isalpha()
        and not text.isupper()
        and (scan.known(text) or CAMEL.fullmatch(text))
    ):
        scan.word(text, position, end)  # the reader stresses DoorDash as one word
    elif not capitals(scan, position, end) and not loud_compound(scan, text, position, end):
        parts(scan, position, end)
    return end


def loud_compound(scan: Scan, text: str, position: int, end: int) -> bool:
    """RE-WRITE, MID-WEEK, WOO-WOO: capitals with hyphens that are words in every part, or that a
    list has in lower case.
    """
    if "-" not in text or not text.isupper() or not all(part.isalpha() for part in text.split("-")):
        return False
    pieces = text.split("-")
    listed = scan.known is not None and scan.known(text.lower())
    words = len(pieces) > 2 or all(
        is_common(piece) or piece.lower() in PREFIXES for piece in pieces
    )
    read = (
        words
        and any(map(is_common, pieces))
        and all(is_loud_part(piece, len(pieces)) for piece in pieces)
    )
    if listed or read:
        scan.word(text.lower(), position, end)
    return listed or read


def is_loud_part(piece: str, count: int) -> bool:
    """Whether a part of a loud compound is said as a word: no letters of a list, but small words in
    a long one (THE-MAN-WHO-IS-IT).
    """
    if piece.lower() in AMBIGUOUS or len(piece) == 1:
        return count > 2
    return (is_common(piece) or piece.lower() in PREFIXES) and piece not in SPELLED


def parts(scan: Scan, position: int, end: int) -> None:
    """A run of several kinds, part by part; hyphens and underscores are not spoken."""
    previous = position
    snake = "_" in scan.text[position:end]
    coded = snake or any(map(str.isdigit, scan.text[position:end]))
    for match in re.finditer(r"[^_-]++", scan.text[position:end]):
        first, last = position + match.start(), position + match.end()
        if first > position:
            scan.silent(previous, first)
        previous = last
        text = match[0].strip("'")
        if (
            not snake
            and last < end
            and text.isupper()
            and text.lower() in PREFIXES
            and text not in SPELLED
        ):
            scan.word(text.lower(), first, last, True)  # NON-GMO
            continue
        if capitals(scan, first, last, snake and scan.text[position:end].isupper()):
            continue
        if text in KEEP or PLAIN_WORD.fullmatch(text) or ELISION.fullmatch(text):
            if coded and text in WEB_LETTERS:
                scan.letters(text.upper(), first, last, True if last < end else None)
            elif len(text) == 1:
                scan.say(
                    text if text in "a" and last - position > 2 else f"~{text.upper()}",
                    first,
                    last,
                    True if last < end else None,
                )
            else:
                scan.word(text, first, last, True if last < end else None)
        else:
            say_pieces(scan, first, last, any(c.isdigit() for c in text))
