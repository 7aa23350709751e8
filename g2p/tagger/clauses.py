"""Places where a word must be the clause's verb, whatever the tagger's three neighbours say.

from g2p.tagger.clauses import is_verb
is_verb("Soldiers who desert are punished .".split(), 2, classes)      # True
"""

from collections.abc import Callable, Sequence

from g2p.tagger.words import word_set

OPENERS = word_set("if when unless while because although until whenever once as")
PATHS = word_set("through around down up past along across over into between its his her their towards toward back out")
CHAT_SUBJECTS = word_set("u i you we they")


def is_verb(words: Sequence[str], at: int, classes: Callable[[str], str]) -> bool:
    """Behind `who`; at the end of an opening clause (if the neighbours object, ...); behind do you; wound of a road."""
    before = words[at - 1].lower() if at else ""
    after = words[at + 1].lower() if at + 1 < len(words) else ""
    if before == "who" and after != "," and classes(words[at])[:1] not in ("I", "W"):
        return True
    if before in CHAT_SUBJECTS and at > 1 and words[at - 2].lower() in ("do", "did", "does", "don't"):
        return True
    if words[at].lower() == "wound":
        return after in PATHS and classes(before)[:1] in ("n", "N") and not (at > 1 and classes(words[at - 2])[:1] in ("I",))
    opens = words[0].lower() in OPENERS and after == "," and classes(before)[:1] == "N"
    return opens and not any(classes(word)[:1] in ("z", "d", "M") for word in words[1:at])
