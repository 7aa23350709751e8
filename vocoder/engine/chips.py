"""Which form of Snake a package needs for the chips it is built for.

    form_for(("m1", "m4"))   # "polynomial": M1's engine has no cos

The chips and what their engines lack are mlprogram/data/ane_rules.json.
"""

from mlprogram.errors import ProgramError
from mlprogram.examine.rules import load_rules
from pipeline.errors import InputError

SINE, POLYNOMIAL = "sine", "polynomial"  # how a Snake bends: cos of the chip, or a polynomial for chips without one
LITERAL, ENGINE = "literal", "engine"
VARIANTS = (LITERAL, ENGINE)
STAGES = {SINE: "KokoroVocoderEngine", POLYNOMIAL: "KokoroVocoderEnginePolynomial"}  # what a package's name begins with


def form_for(chips: tuple[str, ...]) -> str:
    """POLYNOMIAL when the rules say that cos leaves the engine of one of `chips`, or may; else SINE. InputError for an unknown chip."""
    rules = load_rules()
    for name in chips:
        try:
            rules.chip(name)
        except ProgramError as problem:
            raise InputError(f"--chips: {problem}") from None
    lacking = {
        chip
        for rule in rules.rules
        if rule.kind == "op_types" and "cos" in rule.params["ops"] and rule.effect in ("leaves", "may_leave")
        for chip in (*rule.chips, *rule.maybe_chips)
    }
    return POLYNOMIAL if lacking & {name.lower() for name in chips} else SINE


def form_of(variant: str, chips: tuple[str, ...]) -> str | None:
    """The form of an engine package, None for the literal rewrite. InputError for options that contradict each other."""
    if variant == LITERAL and chips:
        raise InputError(f"--chips {','.join(chips)}: the literal variant is the same for every chip; add --variant {ENGINE}")
    return None if variant == LITERAL else form_for(chips)
