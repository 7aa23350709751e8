"""Verbalizers of names, codes and addresses, letter by letter or as words. What each takes and
answers: quantities.py.
"""

import re

import kokoro_g2p.number_words as number_words
from kokoro_g2p.grammar.quantities import count, pairs
from kokoro_g2p.grammar.table import SlotContext
from kokoro_g2p.result import GB

# Capitals with a plural s, capitals, a word with or without its capital, digits, any sign
PIECES = re.compile(r"[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-zà-öø-ÿ]+|\d+|\S")
# Places where letters and digits change
SWITCH = re.compile(r"\d[A-Za-z]|[A-Za-z](?=\d)")
# What no English word begins or ends with: capitals that hold it are letters, not a shouted word.
ODD = re.compile(
    r"^(?!SCH|KN[AEIO]|PSY|GN[AO]|PNEU|TSU)(?:[BCDFGHJKLMNPQRSTVWXZ]{4}"
    r"|[BDFGHJKLMNPQRTVXZ][BCDFGJKMNPQSTVXZ])"
    r"|[JQV]$|[BCDFGHJKLMNPQRSTVWXZ]{4}$(?<!GHTS|GTHS)|^(?=.{4,5}$).*"
    r"(?:[BCFGHJKMPQSTVXZ]D|[BDFGHJKMPQTVWXZ]C|[BCDFHJKLMPQSTVXZ]G"
    r"|[BCDFGHJKNPQSTVXZ]B|[BCDGHJKNQSTVWXZ]F|[BCDFJKNPQTVXZ]M|[BCDFJKPQSTVZ]N"
    r"|[BCDFGHJKNQTVZ]P|[BCDFGJLMNQSTVWXZ]R|[BDFGHJKMPQTVXZ]K)$"
)
VOWEL = re.compile("[aeiouyà-öø-ÿ]")


def is_speakable(word: str) -> bool:
    """Whether letters can be read as a word."""
    return len(word) > 2 and VOWEL.search(word) is not None


def name_letter(sign: str, context: SlotContext) -> str:
    """One letter: a Greek one by its name."""
    sets = context.sets
    named = sets["greek"].get(sign) or sets["sym"].get(sign)
    return named[0] if named else f"[{sign.upper()}]"


def read_part(part: str, context: SlotContext) -> str:
    """A part of a name or address: digits, letters or a word."""
    sets = context.sets
    if len(part) == 1 and part.isalpha():
        return name_letter(part, context)
    if part.isdigit():
        return pairs(part, context)
    low = part.lower()
    if low in sets["respelled"]:
        return sets["respelled"][low][0]
    if low in sets["webword"]:
        return part
    if low in sets["spelled"]:
        return f"[{part.upper()}]"
    # Two small letters are a word only where a lexicon lists them.
    if len(part) == 2 and part.islower() and context.known and context.known(low):
        return part
    if part.isupper() or (part[:-1].isupper() and part[-1] == "s"):
        return acronym(part, context)
    return part if is_speakable(low) or low in sets["short"] else f"[{part.upper()}]"


def name(value: str, context: SlotContext) -> str:
    """camelCase, snake_case, B2B, iPhone15: the parts in it; whole where a lexicon lists it."""
    if context.known and value.isalpha() and context.known(value):
        return value
    # A row of letters and digits in turns is a code and has no words in it: x7k2p9.
    if len(value) > 5 and value.isalnum() and len(SWITCH.findall(value)) > 2:
        return code(value, context)
    mixed = any(map(str.isdigit, value))
    words = []
    for part in PIECES.findall(value):
        if part.isdigit():
            words.append(pairs(part, context))
        elif part.isupper() and "_" in value and is_common(part, context):
            words.append(part)
        elif mixed and part.isupper() and len(part) == 2:
            words.append(f"[{part}]")
        elif part.isupper() or (part[:-1].isupper() and part[-1] == "s"):
            words.append(acronym(part, context))
        elif part[0].isalpha():
            is_coded = (mixed or "_" in value) and part.lower() in context.sets["spelled"]
            # Letters without a vowel beside digits are an abbreviation: mp3, rtx4090.
            as_letters = is_coded or (mixed and not re.search("[aeiouy]", part.lower()))
            if len(part) == 1:
                words.append(name_letter(part, context))
            else:
                words.append(f"[{part.upper()}]" if as_letters else part)
    return " ".join(words)


def is_common(word: str, context: SlotContext) -> bool:
    """Whether capitals make an ordinary word when shouted."""
    low = word.lower()
    return low in context.sets["short"] or (
        len(word) > 3 and is_speakable(low) and not ODD.search(word)
    )


def web(value: str, context: SlotContext) -> str:
    """Addresses and paths: the signs by name, the parts as words or letters."""
    signs = context.sets["sign"]
    words = []
    # The scheme of an address is not said.
    for part in PIECES.findall(re.sub(r"^[a-z]+://", "", value)):
        if part in signs or part[0].isalpha() or part[0].isdecimal():
            words.append(signs[part][0] if part in signs else read_part(part, context))
    return " ".join(words)


def file(value: str, context: SlotContext) -> str:
    """A file's name: as an address, but _ and - are pauses and v2 is a version."""
    return web(re.sub(r"\bv(?=\d)", "version ", re.sub(r"[_-]", " ", value)), context)


def acronym(value: str, context: SlotContext) -> str:
    """Capitals, perhaps with a plural s: letters, or a word where they can be one."""
    sets = context.sets
    # CEOs: the plural s stands behind the letters.
    stem = value[:-1] if value[-1:] == "s" else value
    ending = value[len(stem) :]
    if stem in sets["readcaps"]:
        return value
    if stem.lower() in sets["respelled"]:
        return sets["respelled"][stem.lower()][0]
    if len(stem) == 1 or stem in sets["spelledcaps"] or stem.lower() in sets["ambiguous"]:
        return f"[{stem}]{ending}"
    return value if is_common(stem, context) else f"[{stem}]{ending}"


def code(value: str, context: SlotContext) -> str:
    """A code by its groups: letters and digits one by one, words as words; a comma between groups
    of digits. Where no run has more than two digits (combo 12-30-8, 5W-30, MERV 13) they are
    numbers.
    """
    groups_of = re.findall(r"[A-Za-z\d]+", value)
    if re.fullmatch(r"[1-9]\d?", value.strip()):
        return count(value, context)
    # Whether short runs are numbers hangs on all groups of the code together.
    runs = re.findall(r"\d+", value)
    is_lettered = re.search("[A-Za-z]", value) is not None
    is_short = len(groups_of) > 1 and all(re.fullmatch(r"[1-9]\d?", run) for run in runs)
    if is_short and not is_lettered and not all(len(run) == 2 for run in runs):
        return ", ".join(count(group, context) for group in groups_of)
    is_short &= is_lettered and len(runs) < 3 and len(groups_of) == 2
    words = ""
    # Each group with its neighbours, empty at both ends
    for before, group, after in zip(
        ["", *groups_of], groups_of, [*groups_of[1:], ""], strict=False
    ):
        numeric = before[-1:].isdecimal() and group[0].isdecimal()
        # BRX-20-QL: a number between letters
        is_number = re.fullmatch(r"[1-9]\d", group) is not None
        is_number &= before.isalpha() and after.isalpha()
        one = read_group(group, is_short or is_number, context)
        words += (", " if numeric else " " if words else "") + one
    return words


def read_group(group: str, is_short: bool, context: SlotContext) -> str:
    """One group of a code."""
    words: list[str] = []
    behind_word = False
    for piece in re.findall(r"[A-Za-z]+|\d+", group):
        low = piece.lower()
        # Digits inside a group are read one by one even where the code is short.
        at_edge = group.startswith(piece) or group.endswith(piece)
        if piece.isdecimal() and ((is_short and at_edge) or (behind_word and len(piece) < 5)):
            words.append(number_words.name_digits(piece, context.dialect))
        elif piece.isdecimal():
            words.append(read_digits(piece))
        elif len(piece) > 3 and (
            context.has_word(low) or (piece.islower() and is_speakable(piece))
        ):
            words.append(low)
            behind_word = True
        else:
            words.append(f"[{piece.upper()}]")
    return " ".join(words)


def read_digits(run: str) -> str:
    """Digits one by one; six to twelve of them in groups of three or four, a pause between."""
    if not 6 <= len(run) <= 12:
        return number_words.digits(run)
    count = (len(run) + 3) // 4
    cuts = [number * len(run) // count for number in range(count + 1)]
    parts = [run[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]
    return ", ".join(map(number_words.digits, parts))


def parted(value: str, context: SlotContext) -> str:
    """5-649 of a room or unit, P2-118: five, six forty-nine."""
    return " ".join(name(part, context) for part in value.split("-"))


def route(value: str, context: SlotContext) -> str:
    """FRA-IAH: from one airport to another; two words in capitals stay words."""
    first, second = re.findall("[A-Z]+", value)
    is_prefixed = first in context.sets["prefixcaps"]
    if is_prefixed or (is_common(first, context) and is_common(second, context)):
        return loud(value, context)
    return f"[{first}] to [{second}]"


def place(value: str, context: SlotContext) -> str:
    """A street's kind, short or whole."""
    return context.find_entry("place", value)[0]


def loud(value: str, context: SlotContext) -> str:
    """MID-WEEK is one word; in NON-GMO the prefix is a word and the rest letters."""
    sets = context.sets
    pieces = value.split("-")
    listed = context.known is not None and context.known(value.lower())
    words = [
        is_common(piece, context) or piece in sets["prefixcaps"]
        for piece in pieces
        if piece not in sets["spelledcaps"]
    ]
    if listed or (len(words) == len(pieces) and all(words)):
        # The non-breaking hyphen keeps a shouted compound one word.
        return value.lower().replace("-", "‑")
    return " ".join(
        piece.lower()
        if piece in sets["prefixcaps"] and piece not in sets["spelledcaps"]
        else acronym(piece, context)
        for piece in pieces
    )


def ampersand(value: str, context: SlotContext) -> str:
    """AT&T: letters one by one on both sides."""
    return " and ".join(" ".join(f"[{one}]" for one in part) for part in value.split("&"))


def groups(value: str, context: SlotContext) -> str:
    """Digits by groups, a comma between them; a leading plus is said."""
    zero = "oh" if context.dialect == GB else "zero"
    words = ", ".join(number_words.digits(part, zero) for part in re.findall(r"\d+", value))
    return f"plus {words}" if value[0] == "+" else words


def phone(value: str, context: SlotContext) -> str:
    """An area code: 800 -> eight hundred, others digit by digit."""
    if value[1:] == "00" and value[0] != "0":
        return f"{number_words.cardinal(int(value[0]), context.dialect)} hundred"
    return number_words.digits(value, "oh" if context.dialect == GB else "zero")


def titled(value: str, context: SlotContext) -> str:
    """A title without its dot."""
    return context.find_entry("titled", value.rstrip("."))[0]


def letters(value: str, context: SlotContext) -> str:
    """Letter by letter; dots between them are silent."""
    return f"[{value.replace('.', '').replace(' ', '').upper()}]"


def formula(value: str, context: SlotContext) -> str:
    """CaCO3: letters and numbers."""
    return " ".join(
        number_words.cardinal(int(part), context.dialect) if part.isdigit() else f"[{part.upper()}]"
        for part in re.findall(r"[A-Za-z]+|\d+", value)
    )


def stammer(value: str, context: SlotContext) -> str:
    """W-what: one word, its first sound repeated, as reading.py takes small letters; D-Day."""
    if context.known is not None and context.known(value):
        return value.replace("-", "‑")
    # W-w-what: what stands before the last part are repeated sounds.
    *heads, word = re.split("[-–—…. ]+", value)
    return "".join(f"{head.lower()}‑" for head in heads) + word


def raw(value: str, context: SlotContext) -> str:
    """As it stands."""
    return value
