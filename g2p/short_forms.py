"""Whether a short form that is also a word or a name (Ed, Mass, hum) has a sign that it is short.

is_signed("the 2nd ed. of it", 8, 11)      # True
is_signed("I talked to Ed.", 12, 15)       # False
"""

import re

from kokoro_ane.g2p.word_lists import word_sets

WORDS, TITLES, MONTH_FORMS, WEEKDAYS, STATES, BEGINNINGS = word_sets(
    "sentence_ends", "words before_names months weekdays states starters"
)
_MONTHS = "|".join(sorted(MONTH_FORMS, key=lambda form: (-len(form), form)))
NAME_NEXT = re.compile(
    r"\s+[\"“(]?(?!(?:Apt|Ste|Unit|Suite|Rm|Bldg|Fl)\b|(?:NE|NW|SE|SW|[NSEW])(?![\w.']))[A-ZÀ-ÖØ-Þ]"
)
STARTER_NEXT = re.compile(r"\s+[\"“(]?([A-Z][a-z]*)")
MARK_NEXT = re.compile(
    r"(?<=\.)(?:\s*[,;:&/–—]|-|\s+(?:\(?[#$£€]?\d|[AP]M\b|Finals?\b|Nos?\.\s?\d|[B-HJ-Z](?![\w'.])"
    r"|(?!(?:he|she|it|they|we|i|you|so|then|but|and)\b)[a-z(]))"
)
NUMBER_BESIDE = re.compile(r"(?<!\.):?\s?[-#$£€(]?\d|\s(?![AI]\s)[A-Z]\d{0,4}(?![\w'.])")
COUNT_BEFORE = re.compile(r"[\d½¼¾⅓⅔]\s?$|\d-[a-z]+\s$")
EDITION_BEFORE = re.compile(
    r"(?:\d(?:st|nd|rd|th)|\b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
    r"|revised|rev\.|expanded|updated|paperback))\s$"
)
FEATURED = re.compile(r"(?:^|[A-Z][\w'-]*\s?|[(,]\s?)[Ff]eat$")
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
MONTH_NEXT = re.compile(rf"\s+(?:'\d|(?:{_MONTHS})(?!\w))")
CITY_BEFORE = re.compile(
    r"(?:^|[\s(])(?!(?:Hello|Hi|Hey|Yes|No|Thanks|Sorry|Okay|OK|Oh|Well|Please|Now|Come|Sure"
    r"|Goodbye|Bye|Look|Listen|Wait|Dear|Stop|Help|So|And|But)\b)[A-Z][\w.'-]+,\s$"
)
LOOK_BACK = 32  # characters


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
        or (form in STATES and CITY_BEFORE.search(before))
    )
