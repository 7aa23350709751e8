"""What the tagger sees of a word's surroundings: features of the three words on each side and of the clause.

    from g2p.tagger.features import names
    names(["They", "record", "songs", "."], 1, str.lower)

The word itself is a feature only where it is a heteronym; every other word of the training text teaches the context alone.
"""

import zlib
from collections.abc import Callable, Sequence

from g2p.tagger.words import word_set

EDGE = "#"
REACH = 9  # words looked back for the auxiliary of the clause
AUXILIARIES = word_set(
    "to will would can could shall should may might must do does did don't doesn't didn't won't can't cannot couldn't wouldn't shouldn't "
    "let let's have has had having haven't hasn't hadn't i've you've we've they've been be being is are was were am isn't aren't wasn't "
    "weren't i'll you'll he'll she'll it'll we'll they'll i'd you'd he'd she'd we'd they'd i'm you're we're they're get gets got help"
)
TIMES = word_set(
    "yesterday ago last earlier once then already never ever just always often usually sometimes every each daily today now tomorrow next "
    "before after when while until since"
)
STOPS = frozenset(".?!;:")


def keys(words: Sequence[str], at: int, classes: Callable[[str], str], known: bool = False) -> list[int]:
    """CRC-32 of every feature of `words[at]`: what the weight table is indexed by."""
    return [zlib.crc32(name.encode("utf-8", "surrogatepass")) for name in names(words, at, classes, known)]


def names(words: Sequence[str], at: int, classes: Callable[[str], str], known: bool = False) -> list[str]:
    """Features of `words[at]`. `classes` gives the ambiguity class of a word; `known`: the word itself may be used."""
    lower = [EDGE if not 0 <= index < len(words) else words[index].lower() for index in range(at - 3, at + 4)]
    kinds = [EDGE if word == EDGE else classes(words[at - 3 + index]) for index, word in enumerate(lower)]
    _, w2, w1, word, v1, v2, _ = lower
    k3, k2, k1, _, n1, n2, n3 = kinds
    helper, near, times, finite = clause(words, at, classes)
    found = [
        f"a{w1}", f"b{v1}", f"c{w2}", f"d{v2}", f"e{w2} {w1}", f"f{w1} {v1}", f"g{v1} {v2}",
        f"h{k1}", f"i{n1}", f"j{k2}", f"k{n2}", f"l{k2} {k1}", f"m{k1} {n1}", f"n{n1} {n2}", f"o{k3} {k2} {k1}", f"p{k2} {k1} {n1}",
        f"q{k1} {n1} {n2}", f"r{w1} {n1}", f"s{k1} {v1}", f"t{w1} {k2}", f"u{k1} {n1} {finite}", f"v{helper} {near}",
        f"w{helper} {k1} {n1}", f"x{times} {helper}", f"y{finite} {n1}", f"z{n1} {n2} {n3}", f"A{k3} {k2} {k1} {finite}",
        f"B{form(word)} {k1}", f"C{form(word)} {n1}",
    ]  # fmt: skip
    if known:
        found += [f"D{word}", f"E{word} {w1}", f"F{word} {v1}", f"G{word} {k1}", f"H{word} {n1}", f"I{word} {helper}"]
    return found


def form(word: str) -> str:
    """Ending of a word, as far as it tells parts of speech apart."""
    for ending in ("ing", "ed", "ate", "ates", "s"):
        if word.endswith(ending):
            return ending
    return ""


def clause(words: Sequence[str], at: int, classes: Callable[[str], str]) -> tuple[str, str, str, str]:
    """The last auxiliary before the word and how far it is, a word of time in the sentence, and how many other words are surely finite."""
    helper, near = EDGE, ""
    for index in range(at - 1, max(-1, at - REACH), -1):
        word = words[index].lower()
        if word in STOPS:
            break
        if word in AUXILIARIES:
            helper, near = word, str(min(at - index, 4))
            break
    times, finite = "", 0
    for index, word in enumerate(words):
        if index != at:
            finite += classes(word) in ("z", "d", "v", "M", "dv", "vd", "de")
            times = word.lower() if word.lower() in TIMES else times
    return helper, near, times, str(min(finite, 2))
