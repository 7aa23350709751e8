"""Made-up sentences with known tags: relative clauses, subordinate clauses, questions, commands, which WordNet's examples seldom show.

    from g2p.training.tagger.patterns import sentences; from g2p.training.tagger.silver import Silver
    next(sentences(Silver.load(), 1, 0))

A small grammar filled with words of the two sources. What the sentences mean does not matter: they teach which tags stand side by side.
"""

import math
import random
from collections.abc import Iterator

from g2p.training.tagger.silver import Silver

Tagged = list[tuple[str, str]]
DRAWN = ("nn", "nns", "jj", "rb", "vb", "vbp", "vbz", "vbd", "vbn", "vbg")
DEEP = 5  # names inside names
LEAST = -11.0  # log P(word | tag) below which a reading is too rare to stand in a sentence
GIVEN = """\
DT: the the the the a this that every each no another
DTS: the the the these those some many most few all several both
OUR: my your his her its our their
WE: I you we they
HE: he she it
ME: me you him her it us them
MD: will would can could should may might must cannot won't can't couldn't
IN: of of in in on at for with from by about after before under over between through into against during without
IF: if when as because while although unless until once before after since whenever where though
CC: and but or so
WHO: who that which
DO: do did don't didn't
DOES: does did doesn't didn't
HAVE: have had
HAS: has had
ARE: are were
IS: is was
HOW: how why when where what
THAT: that
TO: to
.: . . . . !
?: ?
,: ,
THERE: there
NOT: not never always often rarely also soon
WANT: want need try like hope begin plan
"""
# What a name may become. Upper case: a word of GIVEN; lower case: a word with that tag; any other name: another rule.
RULES = """\
Whole: Clause . | Clause . | Clause . | IF Clause , Clause . | Clause IF Clause . | Clause CC Clause . | Order . | Ask ? | IF Clause ,
    Order . | Clause , CC Clause .
Clause: One Vpz | One Vpz | Many Vpp | Many Vpp | One Vpd | Many Vpd | WE Vpp | HE Vpz | WE Vpd | HE Vpd | One Modal | Many Modal | WE
    Modal | HE Modal | THERE IS One | THERE ARE Many
One: DT nn | DT jj nn | OUR nn | OUR jj nn | DT nn nn | DT nn IN Any | DT nn Rel1 | OUR nn | DT rb jj nn | DT nn Reduced | DT vbn nn
Many: DTS nns | nns | jj nns | DTS jj nns | OUR nns | DTS nns IN Any | DTS nns Rel2 | nns IN Any | DTS nn nns | DTS nns Reduced | nns CC
    nns
Any: One | One | Many | nn | jj nn
Rel1: WHO vbz Any | WHO vbd Any | WE vbp | HE vbz | WE vbd | HE vbd | Many vbp | WHO MD vb Any | WHO IS vbn | WE HAVE vbn | WE MD vb
Rel2: WHO vbp Any | WHO vbp | WHO vbp IN Any | WHO vbd Any | WE vbp | WE vbp | HE vbz | WE vbd | HE vbd | Many vbp | WHO MD vb Any | WHO
    ARE vbn | WE HAVE vbn | WE MD vb
Reduced: vbn IN Any | vbn TO vb Any | vbg Any | TO vb | vbn rb
Vpz: vbz Any | vbz Any IN Any | vbz IN Any | vbz THAT Clause | IS vbn IN Any | IS jj | IS vbg Any | HAS vbn Any | NOT vbz Any | vbz | IS
    IN Any | IS One | vbz jj | IS vbn TO vb Any
Vpp: vbp Any | vbp Any IN Any | vbp IN Any | vbp THAT Clause | ARE vbn IN Any | ARE jj | ARE vbg Any | HAVE vbn Any | NOT vbp Any | vbp
    | WANT TO vb Any | ARE IN Any | vbp jj | vbp rb | vbp Any TO vb Any
Vpd: vbd Any | vbd Any IN Any | vbd IN Any | vbd THAT Clause | vbd | NOT vbd Any | vbd ME TO vb Any | vbd Any CC vbd Any | vbd Any rb
Modal: MD vb Any | MD vb IN Any | MD vb | MD HAVE2 vbn Any | MD NOT vb Any | MD BE vbn | MD vb Any IN Any | MD vb ME | MD BE jj
HAVE2: have
BE: be
Order: vb Any | vb Any IN Any | vb ME IN Any | NEVER vb Any | PLEASE vb Any | LETS vb Any | vb Any CC vb Any | vb rb | vb IN Any | DONT
    vb Any
NEVER: never
PLEASE: please
LETS: let's
DONT: don't
Ask: DO WE vb Any | DOES HE vb Any | DOES One vb Any | DO Many vb Any | MD WE vb Any | HOW DO WE vb | HOW DOES One vb Any | IS One jj |
    ARE Many vbn IN Any | HAVE WE vbn Any | HAS One vbn Any | HOW MD WE vb Any
"""


def sentences(silver: Silver, count: int, seed: int) -> Iterator[Tagged]:
    """`count` sentences as (word, tag) pairs; the tag of a given word is empty."""
    generator, drawn, given, rules = random.Random(seed), lists(silver), read_block(GIVEN), read_block(RULES)

    def grow(name: str, depth: int) -> Tagged:
        """Expand one name; deep inside, the first (shortest) alternatives are taken."""
        if name in drawn:
            words, weights = drawn[name]
            return [(generator.choices(words, cum_weights=weights)[0], name)]
        if name in given:
            return [(generator.choice(given[name][0].split()), "")]
        if name not in rules:
            return [(name, "")]
        chosen = generator.choice(rules[name] if depth < DEEP else rules[name][:2])
        return [pair for part in chosen.split() for pair in grow(part, depth + 1)]

    for _ in range(count):
        found = grow("Whole", 0)
        if len(found) > 2:
            first, tag = found[0]
            yield [(first.capitalize(), tag), *found[1:]]


def read_block(text: str) -> dict[str, list[str]]:
    """`Name: one | other` lines, each continued by indented ones, to the alternatives of each name."""
    joined = text.replace("\n    ", " ")
    return {
        name: [choice.strip() for choice in choices.split("|")] for name, choices in (line.split(": ", 1) for line in joined.splitlines())
    }


def lists(silver: Silver) -> dict[str, tuple[list[str], list[float]]]:
    """For each tag its words, and cumulated weights: the root of how often Festival's corpus has them."""
    found: dict[str, tuple[list[str], list[float]]] = {tag: ([], []) for tag in DRAWN}
    for word in sorted(silver.model.emit):
        readings = silver.readings(word)
        if not word.isalpha() or not word.isascii() or len(word) < 3 or not set(readings) <= {*DRAWN, "nnp", "jjr", "nnps", "rp"}:
            continue
        for tag in DRAWN:
            if readings.get(tag, -99.0) > LEAST:
                words, weights = found[tag]
                words.append(word)
                weights.append((weights[-1] if weights else 0.0) + math.exp(readings[tag] / 2))
    return found
