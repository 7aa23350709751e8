"""What the clause decides whatever the tagger's three neighbours say: verb or noun, `that` that
points or joins, past or present.

    is_verb("Soldiers who desert are punished .".split(), 2, classes)  # True
    # True: stressed where it points
    is_demonstrative("Give me that .".split(), 2, classes)
    is_past("She read it yesterday".split(), 1, classes)  # True
    # True: ends in an unvoiced st
    is_habit("We used to go".split(), 1, classes)
"""

from collections.abc import Callable, Sequence

from kokoro_ane.g2p.word_lists import word_set, word_sets

(
    OPENERS,
    PATHS,
    TURNED,
    KEEPS,
    KEPT,
    OWNERS,
    CHAT_SUBJECTS,
    ANYBODY,
    DWELLING,
    OBJECTS,
    OBJECTS_ALONE,
    HOW_TO_LIVE,
) = word_sets(
    "clauses",
    "openers paths turned keeps kept owners chat_subjects anybody dwelling objects objects_alone"
    " how_to_live",
)
(
    DETERMINERS,
    PERFECT,
    LENDS_VERB,
    COLLECTIVE,
    VERBS_BEHIND,
    PREPOSITIONS,
    JOINS_BEFORE,
    OPENS,
    SUBJECTS,
    ADVERBS,
    SAYS,
) = word_sets(
    "clauses",
    "determiners perfect lends_verb collective verbs_behind prepositions joins_before opens"
    " subjects adverbs says",
)
(
    ANTECEDENTS,
    WAYS,
    ENDS_THOUGHT,
    ABSTRACT,
    SUBORDINATES,
    POINTS_BEHIND,
    FINITE,
    AFTER_POINTING,
    PLURAL_VERBS,
    BASE_FOLLOWS,
) = word_sets(
    "clauses",
    "antecedents ways ends_thought abstract subordinates points_behind finite after_pointing"
    " plural_verbs base_follows",
)
PEOPLE_BEFORE, PERFECT_OR_PASSIVE, BARE, OTHERS, PAST_TIMES, PRESENT_TIMES, BETWEEN, BE = word_sets(
    "clauses", "people_before perfect_or_passive bare others past_times present_times between be"
)
BEHIND_KEPT = word_set("and from to at but while") | {""}
# their own cues tell them apart
CUED = word_set("axes bases bow bows close content contents invalid leads row rows tear tears")
# may part `to` from its verb
NOT_NAMED = word_set("already never ever always also just even not still often then really")
MARKS = frozenset(".?!;:,—…“”()")
PAST = word_set("dove wound read")  # forms of the past agree with any subject


def is_verb(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Behind `who`; at the end of an opening clause (if the neighbours object, ...); behind do you;
    wound of a road.
    """
    before = words[at - 1].lower() if at else ""
    after = words[at + 1].lower() if at + 1 < len(words) else ""
    relative = (
        before in ("that", "which")
        and at > 1
        and classes(words[at - 2].lower())[:1] == "N"
        and not has_verb(words, at + 1, classes)
    )
    if (before == "who" or relative) and after != "," and classes(words[at])[:1] not in ("I", "W"):
        return True  # plants that produce oxygen
    if (
        after in DETERMINERS
        and words[at].lower().endswith("s")
        and (at == 0 or before in ("and", "then", "which", "that", "it"))
    ):
        return True  # Records the time. It rises and increases the load.
    first = words[at - 2].lower() if at > 1 else ""
    if (before in CHAT_SUBJECTS and first in ("do", "did", "does", "don't")) or (
        before in NOT_NAMED and first == "to"
    ):
        return True
    word = words[at].lower()
    if (before in ANYBODY and word.endswith("s") and not word.endswith("ss")) or (
        word == "affect" and after in OBJECTS
    ):
        return True
    if (
        after in OBJECTS_ALONE
        and before
        and classes(words[at - 1])[:1] not in ("D", "S", "j", "n", "I", "0")
    ):
        return True  # first increase it
    if word == "live" and (at == 0 or before in MARKS or before == "or") and after in HOW_TO_LIVE:
        return not (
            after == "in"
            and words[at + 2 : at + 3]
            and words[at + 2].lower() in ("concert", "studio", "the", "person")
        )
    if word in ("live", "lives"):
        return dwells(words, at, classes)
    if word == "wound":
        if before in TURNED and after in PATHS - {"its", "his", "her", "their"}:
            return True  # was wound around the post
        if before in ("i", "we", "they", "he", "she", "it") and after in PATHS | OWNERS:
            return True  # we wound our way
        return (
            after in PATHS
            and classes(before)[:1] in ("n", "N")
            and not (at > 1 and classes(words[at - 2])[:1] in ("I",))
        )
    opens = words[0].lower() in OPENERS and after == "," and classes(before)[:1] == "N"
    return opens and not any(classes(word)[:1] in ("z", "d", "M") for word in words[1:at])


def dwells(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Whether live or lives stands between who lives and where: Americans live in, my aunt lives
    near.
    """
    if at == 0 or at + 1 >= len(words) or words[at + 1].lower() not in DWELLING:
        return False
    before, kind = words[at - 1], classes(words[at - 1])
    if words[at].lower() == "lives":
        subject = kind == "n" or (kind[:1] == "n" and at > 1 and classes(words[at - 2])[:1] == "D")
        return (
            subject
            and before.islower()
            and not before.endswith("s")
            and before not in ("human", "love", "sex")
        )
    plural = kind in ("N", "Nj") or (
        before[:1].isupper() and before.endswith("s") and kind[:1] == "n"
    )
    return plural or (
        before in ("and", "or") and words[at + 1].lower() in ("in", "near", "with", "among")
    )


def is_adjective(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """What is kept so (keep your friends close), and the second of two adjectives before a noun
    (slow, deliberate steps).
    """
    after = words[at + 1].lower() if at + 1 < len(words) else ""
    if words[at].lower() in KEPT and (after in BEHIND_KEPT or after in MARKS):
        return any(word.lower() in KEEPS for word in words[max(0, at - 7) : max(0, at - 1)])
    return (
        at > 1
        and words[at - 1] == ","
        and "j" in classes(words[at - 2])
        and {*classes(after)} & {"n", "N"} != set()
    )


def is_noun(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Whether a base form cannot be a verb: it stands behind a singular noun with its determiner
    (her birthday present).
    """
    after = words[at + 1] if at + 1 < len(words) else ""
    word, before = words[at].lower(), words[at - 1] if at else ""
    plural = word.endswith("s") and word not in CUED
    # Content: ..., risk their lives
    if (at == 0 and after == ":") or (plural and before.lower() in OWNERS):
        return True
    if at < 2 or word.endswith("s") or word in PAST:
        return False
    if (
        classes(before) != "n"
        or not before.islower()
        or before.endswith("s")
        or before in COLLECTIVE
    ):
        return False
    # network transfer time
    inside = classes(words[at - 2])[:1] in ("D", "S") or classes(after) == "n"
    return inside and not any(word.lower() in LENDS_VERB for word in words[: at - 1])


JOINS_CLAUSE = word_set("be not it")  # it's not that he minds
# a singular may follow
MODIFIERS = word_set("sales sports arms savings goods customs news physics politics series")
MARKS_AND_QUOTES, QUOTES = frozenset('.?!;:,—…"“”()'), frozenset('"“”')


def has_verb(
    words: Sequence[str], start: int, classes: Callable[[str], str], past_commas: bool = False
) -> bool:
    """Whether a finite verb stands between `start` and the next mark: what follows `that` is then a
    clause, no noun alone.
    """
    for word in words[start:]:
        if word in MARKS_AND_QUOTES and not (past_commas and word == ","):
            return False
        if word.lower() in FINITE or classes(word)[:1] in ("z", "d", "M"):
            return True
    return False


def counts_many(words: Sequence[str], start: int, classes: Callable[[str], str]) -> bool:
    """Whether a plural is among the nouns and adjectives from `start` on: `that` cannot point at
    many, so it joins.
    """
    for word in words[start:]:
        if classes(word)[:1] not in ("n", "N", "j"):
            break
        many = classes(word)[:1] == "N" or (
            word[:1].isupper() and word.endswith("s") and not word.endswith("ss")
        )
        if many and word not in MODIFIERS:
            return True
    return False


def is_demonstrative(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Is `words[at]` (that) a demonstrative or a pronoun that points, not a conjunction, a relative
    or an adverb?
    """
    before = words[at - 1].lower() if at else ""
    skip = 2 if words[at + 1 : at + 2] and words[at + 1] in QUOTES and words[at + 2 : at + 3] else 1
    after = words[at + skip].lower() if at + skip < len(words) else ""
    opens = not before or before in MARKS_AND_QUOTES
    left = classes(words[at - 1])[:1] if at else ""
    if words[at].lower() != "that":  # that's: behind a noun it joins (a thing that's done)
        return opens or not (
            before in ANTECEDENTS | PEOPLE_BEFORE or before == "thing" or left in ("n", "N")
        )
    if before == "fact" or (after in PLURAL_VERBS and before not in OPENS):
        return False
    beyond = words[at + 2] if at + 2 < len(words) else "."
    behind = classes(words[at - 2])[:1] if at > 1 else ""  # the fine bristles that, an object that
    nounlike = (
        left in ("n", "N")
        or (behind in ("D", "S", "j", "n") and bool({*"nN"} & {*classes(words[at - 1])}))
        or behind + left == "Dv"
    )
    # I believe that, if he comes, ...
    if beyond.lower() in SUBORDINATES and after == "," and (nounlike or before in SAYS):
        return False
    if before in ("is", "was", ",") and after in SUBORDINATES:  # the point is that if he comes
        return False
    # I never did it that way before
    if after in WAYS and (beyond in MARKS_AND_QUOTES or not has_verb(words, at + 2, classes)):
        return True
    if (
        before in SAYS
        and after in (",", "…", "...")
        and beyond.lower() not in ENDS_THOUGHT
        and has_verb(words, at + 2, classes, True)
    ):
        return False  # they decided that, this year, we celebrate
    if not after or after in MARKS_AND_QUOTES or after == "which":
        return True
    # Is that your nose?
    if before in ("is", "was", "isn't") and (
        at == 1 or (words[at - 2] in MARKS_AND_QUOTES and "?" in words[at:])
    ):
        return True
    # after that you can go
    if (before in POINTS_BEHIND and after in SUBJECTS) or (
        before == "now" and after in VERBS_BEHIND
    ):
        return True
    if after in ("much", "many", "far") and beyond in MARKS_AND_QUOTES:  # expect that much
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
    if (left == "O" or before == "all") and kind in ("n", "j") and not clause:
        return True
    verb_before = at > 1 and (
        words[at - 2].lower() in BASE_FOLLOWS or words[at - 2].endswith("'ll")
    )
    noun_before = (
        (nounlike or left == "O" or before in ANTECEDENTS | PEOPLE_BEFORE)
        and not opens
        and not verb_before
    )
    if after in VERBS_BEHIND or kind in ("z", "M", "d"):
        return not noun_before
    if before in PREPOSITIONS or opens or before in OPENS:
        return True
    if noun_before:
        return False
    return kind in ("n", "j", "0") or after in AFTER_POINTING


RELATIVES = frozenset(("who", "that", "which"))
STOPS = frozenset(".?!;:,")
Classes = Callable[[str], str]


def is_past(words: Sequence[str], at: int, classes: Classes) -> bool:
    """Is the verb `words[at]`, which looks the same in both, past tense or participle?"""
    lower = [word.lower() for word in words]
    before = helper(lower, at)
    if before in PERFECT_OR_PASSIVE:
        return True
    if (
        before in BARE
        or at == 0
        or lower[at - 1] in STOPS
        or lower[at - 1] in ("and", "or")
        and at > 1
        and helper(lower, at - 1) in BARE
    ):
        return False
    subject = lower[at - 1] if lower[at - 1] not in BETWEEN or at < 2 else lower[at - 2]
    if subject in RELATIVES and at > 1:
        subject = lower[at - 2]
    question = any(word in BARE for word in lower[max(0, at - 5) : at])
    if (subject in OTHERS or classes(subject)[:1] == "n") and not question:
        return True
    if PRESENT_TIMES & {*lower} and "last" not in lower:
        return False
    tensed = any(classes(word) in ("d", "de") for index, word in enumerate(words) if index != at)
    if not tensed and classes(subject) == "N" and present_clause(words, at, classes):
        return False
    return bool(PAST_TIMES & {*lower}) or tensed or subject in ("i", "we")


def present_clause(words: Sequence[str], at: int, classes: Classes) -> bool:
    """Whether another clause has a pronoun and a verb of the present (children read better when
    they sleep).
    """
    pairs = zip(words, words[1:], strict=False)
    return any(
        one.lower() in ("they", "we", "you", "i")
        and "v" in classes(two)
        and "d" not in classes(two)
        for index, (one, two) in enumerate(pairs)
        if index + 1 != at
    )


def helper(lower: Sequence[str], at: int) -> str:
    """The auxiliary (or `to`) that governs the verb: straight before it, over adverbs, or over a
    subject in a question; else empty.
    """
    index = at - 1
    while index >= 0 and (lower[index] in BETWEEN or lower[index].endswith("ly")):
        index -= 1
    if index >= 0 and (lower[index] in PERFECT_OR_PASSIVE or lower[index] in BARE):
        return lower[index]
    for back in range(index, max(-1, index - 4), -1):  # did you read, has anyone in the class read
        if lower[back] in STOPS:
            break
        opens = (
            back == 0
            or lower[back - 1] in STOPS
            or lower[back - 1] in ("what", "why", "when", "where", "how", "which", "who")
        )
        if opens and (lower[back] in PERFECT_OR_PASSIVE or lower[back] in BARE):
            return lower[back]
    return ""


def is_habit(words: Sequence[str], at: int, classes: Classes) -> bool:
    """Is `used` before `to` the verb of habit (we used to go) or custom (I am used to it), not the
    tool's (used to open the box)?
    """
    after = [word.lower() for word in words[at + 1 : at + 3]]
    if not after or after[0] != "to":
        return False
    start = at - 1
    while start >= 0 and words[start].lower() in (*BETWEEN, "so", "quite", "more", "very", "to"):
        start -= 1
    if start < 0 or words[start].lower() not in BE:
        return not finite_follows(words, at, classes)
    ahead = at + 2
    while ahead < len(words) and words[ahead].lower() in BETWEEN:
        ahead += 1
    following = words[ahead] if len(words) > ahead else ""
    return (
        classes(following)[:1] in ("D", "S", "O", "P", "g", "N", "I", "n")
        and "v" not in classes(following)
        or following == ""
    )


def finite_follows(words: Sequence[str], at: int, classes: Classes) -> bool:
    """Does the clause have its finite verb after `words[at]` (methods used to date bones are
    rare)?
    """
    for word in words[at + 3 :]:
        if (
            word in STOPS
            or classes(word)[:1] in ("C", "W", "P")
            or word.lower() in ("that", "when", "because", "if", "before", "until")
        ):
            return False
        if classes(word) in ("z", "M") or word.lower() in PERFECT_OR_PASSIVE:
            return True
    return False
