"""Which variant of the vocoder to export: the literal one, or the engine's with its options.

variant = EngineOptions.of(chips=("m1", "m2"))
variant.name                                        # "engine-poly": part of the package's name
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from mlprogram.errors import ProgramError
from mlprogram.examine.rules import Rules, load_rules
from pipeline.errors import InputError
from vocoder.engine.layers import PolynomialSnake, SineSnake

LITERAL, ENGINE = "literal", "engine"
VARIANTS = (LITERAL, ENGINE)


def chips_without_sine(rules: Rules) -> frozenset[str]:
    """Chips on which sin leaves the engine, or may, by the rules file."""
    named = [rule for rule in rules.rules if rule.kind == "op_types" and "sin" in rule.params["ops"]]
    return frozenset(chip for rule in named for chip in (*rule.chips, *rule.maybe_chips))


@dataclass(frozen=True)
class EngineOptions:
    """A checked choice: the target chips, and what follows from them."""

    chips: tuple[str, ...]
    polynomial: bool
    apart: bool = False  # ready for int8 inputs: SnakeConv

    @classmethod
    def of(cls, chips: tuple[str, ...] | None = None) -> "EngineOptions":
        """Every chip of the rules file unless told otherwise. InputError lists the chips."""
        rules = load_rules()
        try:
            names = tuple(dict.fromkeys(chip.lower() for chip in chips or rules.chips if rules.chip(chip)))
        except ProgramError as problem:
            raise InputError(str(problem)) from None
        return cls(names, bool(chips_without_sine(rules) & set(names)))

    @classmethod
    def chosen(cls, variant: str, chips: tuple[str, ...] | None) -> "EngineOptions | None":
        """Options of the engine variant, None for the literal one. InputError where an option belongs to the other variant."""
        if variant == ENGINE:
            return cls.of(chips)
        if chips is not None:
            raise InputError(f"--chips belongs to --variant {ENGINE}; the {LITERAL} variant has no such choice")
        return None

    @classmethod
    def recorded(cls, features: Mapping[str, Any]) -> "EngineOptions | None":
        """The options of a built package, from its manifest's description of `features`; None for the literal one."""
        return cls.of(tuple(features["chips"])) if "variant" in features else None

    @property
    def name(self) -> str:
        """Part of the package's name."""
        return f"{ENGINE}-poly" if self.polynomial else ENGINE

    def form(self) -> nn.Module:
        """The Snake of these chips."""
        return PolynomialSnake() if self.polynomial else SineSnake()
