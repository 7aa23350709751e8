"""The word `that`: stressed where it points (that book, give me that), weak where it joins clauses (I know that, the house that fell).

from g2p.tagger.demonstrative import is_demonstrative
is_demonstrative("Give me that .".split(), 2, classes)      # True
"""

from collections.abc import Callable, Sequence

from g2p.tagger.words import word_set

BE = word_set(
    "is was isn't wasn't would will can could should may might must has had does did makes made means meant seems seemed sounds looks"
)
PREPOSITIONS = word_set(
    "of for with about like after before at on by from to into over under without than as against through during since till until"
)
JOINS_BEFORE = word_set("so such now given provided except")
OPENS = word_set("and but or if because when while though although unless what is was isn't wasn't does did do who why how where not")
SUBJECTS = word_set(
    "i he she we they you it the a an my your his her its our their this these those there no every each all some any one who which what"
)
ADVERBS = word_set("much many far long big bad good high low often easy hard")
MARKS = frozenset('.?!;:,—…"“”()')


def is_demonstrative(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Is `words[at]` (that) a demonstrative or a pronoun that points, not a conjunction, a relative or an adverb?"""
    before = words[at - 1].lower() if at else ""
    after = words[at + 1].lower() if at + 1 < len(words) else ""
    opens = not before or before in MARKS
    if not after or after in MARKS:
        return True
    if before in JOINS_BEFORE or after in SUBJECTS or after in ADVERBS:
        return False
    kind, left = classes(words[at + 1])[:1], classes(words[at - 1])[:1] if at else ""
    noun_before = left in ("n", "N", "O") and not opens
    if after in BE or kind in ("z", "M", "d"):
        return not noun_before
    if before in PREPOSITIONS or opens or before in OPENS:
        return True
    if noun_before:
        return False
    return kind in ("n", "j", "0") or after in ("and", "or", "to", "in", "at", "on", "for", "with", "again", "anymore", "too", "either")
