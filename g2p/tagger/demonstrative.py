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
JOINS_BEFORE = word_set("so such now given provided except enough")
OPENS = word_set("and but or if because when while though although unless what is was isn't wasn't does did do who why how where not")
SUBJECTS = word_set(
    "i he she we they you it the a an my your his her its our their this these those there no every each all some any one who which what"
)
SUBJECTS |= word_set(
    "nothing thou ye nobody everybody everyone everything anybody anyone anything somebody someone something none such men people today"
)
ADVERBS = word_set("much many far long big bad good high low often easy hard")
SAYS = word_set(
    "know knows knew think thinks thought say says said saying believe believes believed ruled predict agree suppose expect sure fact feel "
    "mention assume learn learned find found understand add added hope hoped wish claim claims show shows imply see saw notice argue admit "
    "realize remember means meant "
    "hoping thinking knowing believing finding showing saying meaning noting realizing realized noticed notices "
    "hear hears heard observe observed observing assure assures assured assumes assuming proving proved realizes "
    "supposing suppose suggest suggests suggested suggesting discover discovers discovered warn warns warned insist insists insisted prove "
    "proves proved "
    "ensure decide decided conclude concluded indicate indicates explain explained report reported announced confirmed demand "
    "doubt deny pretend imagine guess forget forgot seems seem seemed appears appeared happens possible likely unlikely clear true certain "
    "obvious important afraid glad happy aware convinced worried proud evident"
)  # what a clause with that may follow
ANTECEDENTS = word_set("one ones those all else more little much anything something everything nothing anyone someone everyone people will")
WAYS = word_set("way day night time morning evening afternoon year")
ENDS_THOUGHT = word_set("but and or so yet too either because")
ABSTRACT = word_set("truth problem fact point thing reason idea question trouble result answer difference hope news rule advantage catch")
SUBORDINATES = word_set("if when whereas while because although though unless since once")
POINTS_BEHIND = word_set("after before of from with for about by like to")
FINITE = word_set("is are was were am be can could will would has have had may might must should do does did don't doesn't isn't aren't")
AFTER_POINTING = word_set("by from up out off down away back and or to in into at on for with again anymore too either")
JOINS_CLAUSE = word_set("be not it")  # it's not that he minds
MODIFIERS = word_set("sales sports arms savings goods customs news physics politics series")  # a singular may follow
PLURAL_VERBS = word_set("are were have do aren't weren't haven't don't")
LENDS_VERB = word_set("to will can could would should might may must don't didn't doesn't please")
PEOPLE_BEFORE = word_set("them they those he she it")
MARKS, QUOTES = frozenset('.?!;:,—…"“”()'), frozenset('"“”')


def has_verb(words: Sequence[str], start: int, classes: Callable[[str], str], past_commas: bool = False) -> bool:
    """Whether a finite verb stands between `start` and the next mark: what follows `that` is then a clause, no noun alone."""
    for word in words[start:]:
        if word in MARKS and not (past_commas and word == ","):
            return False
        if word.lower() in FINITE or classes(word)[:1] in ("z", "d", "M"):
            return True
    return False


def counts_many(words: Sequence[str], start: int, classes: Callable[[str], str]) -> bool:
    """Whether a plural is among the nouns and adjectives from `start` on: `that` cannot point at many, so it joins."""
    for word in words[start:]:
        if classes(word)[:1] not in ("n", "N", "j"):
            break
        many = classes(word)[:1] == "N" or (word[:1].isupper() and word.endswith("s") and not word.endswith("ss"))
        if many and word not in MODIFIERS:
            return True
    return False


def is_demonstrative(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Is `words[at]` (that) a demonstrative or a pronoun that points, not a conjunction, a relative or an adverb?"""
    before = words[at - 1].lower() if at else ""
    skip = 2 if words[at + 1 : at + 2] and words[at + 1] in QUOTES and words[at + 2 : at + 3] else 1
    after = words[at + skip].lower() if at + skip < len(words) else ""
    opens = not before or before in MARKS
    left = classes(words[at - 1])[:1] if at else ""
    if words[at].lower() != "that":  # that's: behind a noun it joins (a thing that's done)
        return opens or not (before in ANTECEDENTS | PEOPLE_BEFORE or before == "thing" or left in ("n", "N"))
    if before == "fact" or (after in PLURAL_VERBS and before not in OPENS):
        return False
    beyond = words[at + 2] if at + 2 < len(words) else "."
    behind = classes(words[at - 2])[:1] if at > 1 else ""  # the fine bristles that, an object that
    nounlike = left in ("n", "N") or (behind in ("D", "S", "j", "n") and bool({*"nN"} & {*classes(words[at - 1])})) or behind + left == "Dv"
    if beyond.lower() in SUBORDINATES and after == "," and (nounlike or before in SAYS):  # I believe that, if he comes, ...
        return False
    if before in ("is", "was") and after in SUBORDINATES:  # the point is that if he comes
        return False
    if after in WAYS and (beyond in MARKS or not has_verb(words, at + 2, classes)):  # I never did it that way before
        return True
    if before in SAYS and after in (",", "…", "...") and beyond.lower() not in ENDS_THOUGHT and has_verb(words, at + 2, classes, True):
        return False  # they decided that, this year, we celebrate
    if before == "," and after in SUBORDINATES:
        return False
    if not after or after in MARKS or after == "which":
        return True
    if before in ("is", "was", "isn't") and (at == 1 or (words[at - 2] in MARKS and "?" in words[at:])):  # Is that your nose?
        return True
    if before in POINTS_BEHIND and after in SUBJECTS:  # after that you can go
        return True
    if after in ("much", "many", "far") and beyond in MARKS:  # expect that much
        return True
    if before == "now" and after in BE:  # Now that should be enough.
        return True
    if before in JOINS_BEFORE or after.split("'")[0] in SUBJECTS or after in ADVERBS:
        return False
    kind = classes(words[at + skip])[:1]
    if not opens and before not in PREPOSITIONS and counts_many(words, at + skip, classes):
        return False
    clause = has_verb(words, at + skip + 1, classes, past_commas=kind == "I" and before in SAYS)
    if clause and (
        before in SAYS
        or before in JOINS_CLAUSE
        or (before in ("is", "was") and at > 1 and words[at - 2].lower() in ABSTRACT)
        or (before in ("is", "was") and at > 2 and kind not in ("z", "M", "d", "r"))
    ):
        return False
    if left == "O" and kind in ("n", "j") and not clause:
        return True
    verb_before = at > 1 and (words[at - 2].lower() in LENDS_VERB or words[at - 2].endswith("'ll"))
    noun_before = (nounlike or left == "O" or before in ANTECEDENTS | PEOPLE_BEFORE) and not opens and not verb_before
    if before == "all" and kind in ("n", "j") and not clause:
        return True
    if after in BE or kind in ("z", "M", "d"):
        return not noun_before
    if before in PREPOSITIONS or opens or before in OPENS:
        return True
    if noun_before:
        return False
    return kind in ("n", "j", "0") or after in AFTER_POINTING
