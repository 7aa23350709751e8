"""Places where a word must be the clause's verb, or cannot be, whatever the tagger's three neighbours say.

from g2p.tagger.clauses import is_verb
is_verb("Soldiers who desert are punished .".split(), 2, classes)      # True
"""

from collections.abc import Callable, Sequence

from g2p.tagger.words import word_set

OPENERS = word_set("if when unless while because although until whenever once as")
PATHS = word_set("through around down up past along across over into between its his her their towards toward back out")
TURNED = word_set("was were is are be been being tightly tight loosely carefully get got gets")
KEEPS = word_set("keep keeps kept keeping hold holds held holding")
KEPT = word_set("close separate")
BEHIND_KEPT = word_set("and from to at but while") | {""}
OWNERS = word_set("my your our their its")
CUED = word_set("axes bases bows leads rows tears")  # senses.py tells them apart
CHAT_SUBJECTS = word_set("u i you we they")
ANYBODY = word_set("nobody everybody somebody anybody everyone someone anyone one he she it")
NOT_NAMED = word_set("already never ever always also just even not still often then really")  # may part `to` from its verb
DWELLING = word_set("in on at near with among under alone together longer forever there here by without within off through to by therein")
OBJECTS = word_set("to the a an your my our their his her its how what you us them him it me everyone many all both some any people")
OBJECTS_ALONE = word_set("it them him me us")
HOW_TO_LIVE = word_set("with long in by free as like well together life your without within simply and up each every to")
MARKS = frozenset(".?!;:,—…“”()")
DETERMINERS = word_set("the a an these those this your my his her our their its all any each every well")
PERFECT = word_set("has have had having i've you've we've they've he's she's i'd he'd she'd we'd they'd who've who's")
LENDS_VERB = word_set(
    "do does did don't doesn't didn't let lets make makes made making help helps helped see saw watch watched hear heard have had has "
    "will would can could may might must shall should to that and if suggest suggests insist demand who which"
)  # behind these a noun may be followed by a base form
PAST = word_set("dove wound read")  # forms of the past agree with any subject
COLLECTIVE = word_set("police people staff public youth majority cattle couple team family press crew government lot number few pair media")


def is_verb(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Behind `who`; at the end of an opening clause (if the neighbours object, ...); behind do you; wound of a road."""
    before = words[at - 1].lower() if at else ""
    after = words[at + 1].lower() if at + 1 < len(words) else ""
    if before == "who" and after != "," and classes(words[at])[:1] not in ("I", "W"):
        return True
    if after in DETERMINERS and words[at].lower().endswith("s") and (at == 0 or before in ("and", "then", "which", "that", "it")):
        return True  # Records the time. It rises and increases the load.
    if before in CHAT_SUBJECTS and at > 1 and words[at - 2].lower() in ("do", "did", "does", "don't"):
        return True
    if before in NOT_NAMED and at > 1 and words[at - 2].lower() == "to":
        return True
    if before in ANYBODY and words[at].endswith("s") and not words[at].endswith("ss"):
        return True
    if after in OBJECTS_ALONE and before and classes(words[at - 1])[:1] not in ("D", "S", "j", "n", "I", "0"):
        return True  # first increase it
    if words[at].lower() == "live" and (at == 0 or before in MARKS or before == "or") and after in HOW_TO_LIVE:
        return not (after == "in" and words[at + 2 : at + 3] and words[at + 2].lower() in ("concert", "studio", "the", "person"))
    if words[at].lower() in ("live", "lives"):
        return dwells(words, at, classes)
    if words[at].lower() == "affect" and after in OBJECTS:
        return True
    if words[at].lower() == "wound" and before in TURNED and after in PATHS - {"its", "his", "her", "their"}:
        return True  # was wound around the post
    if words[at].lower() == "wound" and before in ("i", "we", "they", "he", "she", "it") and after in PATHS | OWNERS:
        return True  # we wound our way
    if words[at].lower() == "wound":
        return after in PATHS and classes(before)[:1] in ("n", "N") and not (at > 1 and classes(words[at - 2])[:1] in ("I",))
    opens = words[0].lower() in OPENERS and after == "," and classes(before)[:1] == "N"
    return opens and not any(classes(word)[:1] in ("z", "d", "M") for word in words[1:at])


def dwells(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Whether live or lives stands between who lives and where: Americans live in, my aunt lives near."""
    if at == 0 or at + 1 >= len(words) or words[at + 1].lower() not in DWELLING:
        return False
    before, kind = words[at - 1], classes(words[at - 1])
    if words[at].lower() == "lives":
        subject = kind == "n" or (kind[:1] == "n" and at > 1 and classes(words[at - 2])[:1] == "D")
        return subject and before.islower() and not before.endswith("s") and before not in ("human", "love", "sex")
    plural = kind in ("N", "Nj") or (before[:1].isupper() and before.endswith("s") and kind[:1] == "n")
    return plural or (before in ("and", "or") and words[at + 1].lower() in ("in", "near", "with", "among"))


def is_adjective(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """What is kept so (keep your friends close), and the second of two adjectives before a noun (slow, deliberate steps)."""
    after = words[at + 1].lower() if at + 1 < len(words) else ""
    if words[at].lower() in KEPT and (after in BEHIND_KEPT or after in MARKS):
        return any(word.lower() in KEEPS for word in words[max(0, at - 7) : max(0, at - 1)])
    return at > 1 and words[at - 1] == "," and "j" in classes(words[at - 2]) and {*classes(after)} & {"n", "N"} != set()


def is_noun(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Whether a base form cannot be a verb: it stands behind a singular noun with its determiner (her birthday present)."""
    after = words[at + 1] if at + 1 < len(words) else ""
    if at == 0 and after == ":":  # Content: ...
        return True
    if at and words[at].lower().endswith("s") and words[at].lower() not in CUED and words[at - 1].lower() in OWNERS:  # risk their lives
        return True
    if at < 2 or words[at].lower().endswith("s") or words[at].lower() in PAST:
        return False
    before = words[at - 1]
    if classes(before) != "n" or not before.islower() or before.endswith("s") or before in COLLECTIVE:
        return False
    return classes(words[at - 2])[:1] in ("D", "S") and not any(word.lower() in LENDS_VERB for word in words[: at - 2])
