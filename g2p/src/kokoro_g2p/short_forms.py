"""Whether the full stop of a short form that is also a word or a name (Ed, Mass, hum) ends its
sentence: how the form is read, the grammar says.

is_signed("the 2nd ed. of it", 8, 11)      # True: a sign that it is short
is_signed("I talked to Ed.", 12, 15)       # False
"""

import re

from kokoro_g2p.word_lists import read_word_sets

WORDS, TITLES, MONTH_FORMS, WEEKDAYS, BEGINNINGS = read_word_sets(
    "sentence_ends", "words before_names months weekdays starters"
)
NAME_NEXT = re.compile(
    r"\s+[\"“(]?(?!(?:Apt|Ste|Unit|Suite|Rm|Bldg|Fl)\b|(?:NE|NW|SE|SW|[NSEW])(?![\w.']))[A-ZÀ-ÖØ-Þ]"
)
STARTER_NEXT = re.compile(r"\s+[\"“(]?([A-Z][a-z]*)")
MARK_NEXT = re.compile(
    r"(?<=\.)(?:\s*[,;:&/–—]|-|\s+(?:\(?[#$£€]?\d|[AP]M\b|Finals?\b|'\d|[A-Z][a-z]{2,3}\.?\s\d"
    r"|(?!(?:he|she|it|they|we|i|you|so|then|but|and)\b)[a-z(]))"
)
NUMBER_BESIDE = re.compile(r"(?<!\.):?\s?[-#$£€(]?\d|\s(?![AI]\s)[A-Z]\d{0,4}(?![\w'.])")
COUNT_BEFORE = re.compile(r"[\d½¼¾⅓⅔]\s?$|\d-[a-z]+\s$")
FEATURED = re.compile(r"(?:^|[A-Z][\w'-]*\s?|[(,]\s?)[Ff]eat$")
LOOK_BACK = 32  # characters


def is_signed(text: str, start: int, end: int) -> bool:
    """Whether text[start:end], one of WORDS with its dot or without, has a sign that it is short: a
    number, a mark that follows no full stop, a name behind a title.
    """
    form = text[start:end].rstrip(".")
    before = text[max(0, start - LOOK_BACK) : start]
    if NAME_NEXT.match(text, end) and (form in TITLES or FEATURED.search(before + form)):
        beginning = STARTER_NEXT.match(text, end)
        return beginning is None or beginning[1].lower() not in BEGINNINGS
    return bool(
        MARK_NEXT.match(text, end)
        or NUMBER_BESIDE.match(text, end)
        or COUNT_BEFORE.search(before)
        or text.startswith(".)", end - 1)
        or form in WEEKDAYS
    )
