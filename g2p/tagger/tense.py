"""Verbs whose forms are written alike: read (past or present) and used (of habit or not). The clause's auxiliary and times of day decide.

from g2p.tagger.tense import is_habit, is_past
is_past("She read it yesterday".split(), 1, classes)     # True
is_habit("We used to go".split(), 1, classes)            # True: ends in an unvoiced st
"""

from collections.abc import Callable, Sequence

from g2p.tagger.words import word_set

PERFECT = word_set(
    "have has had having i've you've we've they've haven't hasn't hadn't be been being is are was were am isn't aren't wasn't weren't"
)
BARE = word_set(
    "to will would can could shall should may might must do does did don't doesn't didn't won't can't cannot couldn't wouldn't shouldn't "
    "let let's i'll you'll he'll she'll it'll we'll they'll help helped make made i'd you'd he'd she'd we'd they'd please better"
)
OTHERS = word_set("he she it")
RELATIVES = frozenset(("who", "that", "which"))
PAST_TIMES = word_set("yesterday ago last earlier once then after when until before while")
PRESENT_TIMES = word_set("every daily always often usually never sometimes tonight tomorrow now today if nowadays each seldom rarely")
BETWEEN = word_set("not never always often also just already ever only still even yet been recently once really actually")
BE = word_set(
    "be been being is are was were am isn't aren't wasn't weren't i'm you're he's she's it's we're they're get gets got getting become "
    "became not"
)
STOPS = frozenset(".?!;:,")
Classes = Callable[[str], str]


def is_past(words: Sequence[str], at: int, classes: Classes) -> bool:
    """Is the verb `words[at]`, which looks the same in both, past tense or participle?"""
    lower = [word.lower() for word in words]
    before = helper(lower, at)
    if before in PERFECT:
        return True
    if before in BARE or at == 0 or lower[at - 1] in STOPS or lower[at - 1] in ("and", "or") and at > 1 and helper(lower, at - 1) in BARE:
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
    """Whether another clause has a pronoun and a verb of the present (children read better when they sleep)."""
    pairs = zip(words, words[1:], strict=False)
    return any(
        one.lower() in ("they", "we", "you", "i") and "v" in classes(two) and "d" not in classes(two)
        for index, (one, two) in enumerate(pairs)
        if index + 1 != at
    )


def helper(lower: Sequence[str], at: int) -> str:
    """The auxiliary (or `to`) that governs the verb: straight before it, over adverbs, or over a subject in a question; else empty."""
    index = at - 1
    while index >= 0 and (lower[index] in BETWEEN or lower[index].endswith("ly")):
        index -= 1
    if index >= 0 and (lower[index] in PERFECT or lower[index] in BARE):
        return lower[index]
    for back in range(index, max(-1, index - 4), -1):  # did you read, has anyone in the class read
        if lower[back] in STOPS:
            break
        opens = back == 0 or lower[back - 1] in STOPS or lower[back - 1] in ("what", "why", "when", "where", "how", "which", "who")
        if opens and (lower[back] in PERFECT or lower[back] in BARE):
            return lower[back]
    return ""


def is_habit(words: Sequence[str], at: int, classes: Classes) -> bool:
    """Is `used` before `to` the verb of habit (we used to go) or custom (I am used to it), not the tool's (used to open the box)?"""
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
    return classes(following)[:1] in ("D", "S", "O", "P", "g", "N", "I", "n") and "v" not in classes(following) or following == ""


def finite_follows(words: Sequence[str], at: int, classes: Classes) -> bool:
    """Does the clause have its finite verb after `words[at]` (methods used to date bones are rare)?"""
    for word in words[at + 3 :]:
        if word in STOPS or classes(word)[:1] in ("C", "W", "P") or word.lower() in ("that", "when", "because", "if", "before", "until"):
            return False
        if classes(word) in ("z", "M") or word.lower() in PERFECT:
            return True
    return False
