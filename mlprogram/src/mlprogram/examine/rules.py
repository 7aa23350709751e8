"""The rules and chips of data/ane_rules.json, read strictly: an unknown key, chip or
source is an error, not a shrug.

    from mlprogram.examine.rules import load_rules
    rules = load_rules(); rules.chips["m1"].on_chip_mib; rules.list_rules("m1")

Needs neither torch nor coremltools, so a command line can name the chips before anything heavy is
loaded.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlprogram.errors import EXIT_GOOD, EXIT_MISSED, ProgramError, conclude
from mlprogram.files import open_aside, parse_json, read_text

EFFECTS = ("leaves", "may_leave", "graph_may_fail", "cost", "note")
CONFIDENCES = ("high", "medium", "low")
KIND_PARAMS: Mapping[str, frozenset[str]] = MappingProxyType(
    # kind of rule -> its parameters, every one of them needed
    {
        kind: frozenset(params.split())
        for kind, params in {
            "op_types": "ops",
            "axis_limit": "spatial channel",
            "rank_limit": "max",
            "rank_other": "prefer",
            "conv_rank": "ops max_spatial",
            "kernel_size": "ops width height",
            "stride_factors": "ops native unequal",
            "palette_stride": "ops max",
            "dilation_factors": "ops native",
            "dilated_taps": "min_kernel",
            "dilated_width": "limit extra",
            "graph_after": "rules",
            "flexible_input": "flexibility min_inputs",
            "dtype": "any_of",
            "dtype_out": "any_of",
            "pad_mode": "modes",
            "pad_axes": "last",
            "reduced_axis": "ops max",
            "op_rank": "ops max",
            "slice_offset": "ops",
            "small_segment": "max_ops max_weight_mb",
            "last_axis": "bytes",
            "working_set": "",
            "weight_kind": "starts_with",
            "constant_operand": "op parameter value",
        }.items()
    }
)


@dataclass(frozen=True)
class Source:
    """Where a figure was published, and the day (ISO) on which it was last read."""

    title: str
    url: str
    date: str


@dataclass(frozen=True)
class Chip:
    """A chip and the working set of its engine."""

    name: str
    generation: str
    on_chip_mib: float
    sources: tuple[str, ...]
    confidence: str
    note: str


@dataclass(frozen=True)
class Rule:
    """One rule. `chips` it holds for, `maybe_chips` it may hold for; `kind` names the check
    (rule_checks.py), `params` its limits.
    """

    id: str
    says: str
    kind: str
    effect: str
    chips: tuple[str, ...]
    maybe_chips: tuple[str, ...]
    params: Mapping[str, Any]
    sources: tuple[str, ...]
    confidence: str
    remark: str = ""


@dataclass(frozen=True)
class Rules:
    """The whole file."""

    about: str
    reviewed: str
    sources: Mapping[str, Source]
    chips: Mapping[str, Chip]
    rules: tuple[Rule, ...]
    path: str = field(default="")

    def find_chip(self, name: str) -> Chip:
        """The chip of a name such as m1. Raises ProgramError that lists the chips."""
        if name.lower() not in self.chips:
            raise ProgramError(
                f"chip {name!r} is not in {self.path}; it has {', '.join(self.chips)}"
            )
        return self.chips[name.lower()]

    def list_rules(self, name: str) -> tuple[tuple[Rule, str], ...]:
        """(rule, effect) for a chip. A rule that only may hold for it can at most make an operation
        leave perhaps.
        """
        # Effects other than `leaves` are soft already.
        softer = {"leaves": "may_leave"}
        return tuple(
            (rule, rule.effect if name in rule.chips else softer.get(rule.effect, rule.effect))
            for rule in self.rules
            if name in (*rule.chips, *rule.maybe_chips)
        )


def load_rules(path: str | Path | None = None) -> Rules:
    """Read and check the data file (the packaged one by default). Raises ProgramError naming the
    entry that is wrong.
    """
    # In an installed package the file may lie in an archive, where it has no path.
    place = files("mlprogram") / "data" / "ane_rules.json" if path is None else Path(path)
    name = "data/ane_rules.json" if path is None else str(path)
    try:
        return parse_rules(
            parse_json(
                read_text(place) if isinstance(place, Path) else place.read_text(encoding="utf-8"),
                name,
            ),
            name,
        )
    except (TypeError, AttributeError, KeyError) as error:
        raise ProgramError(f"{name}: a value of another kind than expected ({error})") from error


def parse_rules(content: Any, name: str) -> Rules:
    """Rules from the parsed file. Raises ProgramError for a missing or unknown key, chip, source,
    kind, effect or confidence.
    """
    _check_keys(content, {"about", "reviewed", "sources", "chips", "rules"}, set(), name)
    sources = {
        key: Source(**_read_fields(value, Source, f"{name}: source {key}"))
        for key, value in content["sources"].items()
    }
    chips = {
        key: _read_chip(value, sources, f"{name}: chip {key}")
        for key, value in content["chips"].items()
    }
    rules = tuple(
        _read_rule(
            value,
            sources,
            chips,
            # A rule without an id is named by its place in the list.
            f"{name}: rule {value.get('id', i) if isinstance(value, dict) else i}",
        )
        for i, value in enumerate(content["rules"])
    )
    ids = [rule.id for rule in rules]
    repeated = sorted({one for one in ids if ids.count(one) > 1})
    if repeated:
        raise ProgramError(f"{name}: rule {repeated[0]} stands there twice; ids are unique")
    return Rules(
        content["about"],
        content["reviewed"],
        MappingProxyType(sources),
        MappingProxyType(chips),
        rules,
        name,
    )


def _check_keys(value: Any, needed: set[str], optional: set[str], where: str) -> None:
    if not isinstance(value, dict):
        raise ProgramError(f"{where}: must be an object with {', '.join(sorted(needed))}")
    missing, unknown = sorted(needed - set(value)), sorted(set(value) - needed - optional)
    if missing or unknown:
        problem = f"'{missing[0]}' is missing" if missing else f"unknown key '{unknown[0]}'"
        raise ProgramError(f"{where}: {problem}; it has {', '.join(sorted(needed | optional))}")


def _read_fields(value: Any, kind: type, where: str) -> dict[str, Any]:
    names = {f.name for f in fields(kind)}
    # `remark` is the one field with a default.
    optional = {"remark"} & names
    _check_keys(value, names - optional, optional, where)
    # JSON has no tuples, and the records are to be frozen.
    return {key: tuple(v) if isinstance(v, list) else v for key, v in value.items()}


def _read_chip(value: Any, sources: Mapping[str, Source], where: str) -> Chip:
    chip = Chip(**_read_fields(value, Chip, where))
    if not (isinstance(chip.on_chip_mib, int | float) and chip.on_chip_mib > 0):
        raise ProgramError(
            f"{where}: on_chip_mib must be a positive number; it is {chip.on_chip_mib!r}"
        )
    _require_known(chip.sources, sources, "source", where)
    _require_one_of(chip.confidence, CONFIDENCES, "confidence", where)
    return chip


def _read_rule(
    value: Any, sources: Mapping[str, Source], chips: Mapping[str, Chip], where: str
) -> Rule:
    rule = Rule(**_read_fields(value, Rule, where))
    _require_one_of(rule.kind, tuple(KIND_PARAMS), "kind", where)
    _require_one_of(rule.effect, EFFECTS, "effect", where)
    _require_one_of(rule.confidence, CONFIDENCES, "confidence", where)
    _require_known(rule.sources, sources, "source", where)
    _require_known(rule.chips, chips, "chip", where)
    # A rule may hold for sure wherever it holds at all.
    _require_known(rule.maybe_chips, chips, "chip", where, may_be_empty=True)
    _check_keys(rule.params, set(KIND_PARAMS[rule.kind]), set(), f"{where}: params")
    return rule


def _require_one_of(value: Any, allowed: tuple[str, ...], what: str, where: str) -> None:
    if value not in allowed:
        raise ProgramError(f"{where}: {what} {value!r} is unknown; one of {', '.join(allowed)}")


def _require_known(
    values: Any, allowed: Mapping[str, Any], what: str, where: str, may_be_empty: bool = False
) -> None:
    if not values and not may_be_empty:
        raise ProgramError(f"{where}: needs at least one {what}; known: {', '.join(allowed)}")
    for value in values:
        if value not in allowed:
            raise ProgramError(f"{where}: {what} {value!r} is unknown; known: {', '.join(allowed)}")


COMMAND = "python -m mlprogram rules --write mlprogram/RULES.md"
_EFFECTS = {
    "leaves": "leaves the engine",
    "may_leave": "may leave",
    "graph_may_fail": "the whole graph may stay off",
    "cost": "costs time",
    "note": "note",
}


def run(arguments: argparse.Namespace) -> int:
    """Print every rule in full, or write or check the page's summary; then the conclusion."""
    # late: who reads the rules needs no PyTorch
    from mlprogram.examine.describe import with_generated_part

    rules = load_rules()
    current = True
    if arguments.write:
        text = with_generated_part(arguments.write, COMMAND, render_summary(rules))
        with open_aside(arguments.write) as path:
            path.write_text(text, encoding="utf-8")
    elif arguments.check:
        current = read_text(arguments.check) == with_generated_part(
            arguments.check, COMMAND, render_summary(rules)
        )
        print(
            f"{arguments.check}: {'current' if current else 'out of date; renew it with --write'}"
        )
    else:
        print(render(rules))
    report = {
        "rules": len(rules.rules),
        "chips": len(rules.chips),
        "reviewed": rules.reviewed,
        "current": current,
    }
    code, meaning = (EXIT_GOOD, "done") if current else (EXIT_MISSED, "the page is out of date")
    return conclude(report, code, meaning, arguments.json)


def render_summary(rules: Rules) -> str:
    """The part of the page: rules by effect with the chips they hold for, and the sources."""
    listed = []
    # In the order of this table, from the gravest effect to a note.
    for effect, words in _EFFECTS.items():
        matches = [rule for rule in rules.rules if rule.effect == effect]
        # Rules with the same chips share a line; dict.fromkeys keeps the order of the file.
        groups = {
            chips: [r.id for r in matches if _list_chips(r, rules) == chips]
            for chips in dict.fromkeys(_list_chips(r, rules) for r in matches)
        }
        listed.append(
            f"- **{words}**. "
            + " ".join(f"On {chips}: {', '.join(names)}." for chips, names in groups.items())
        )
    return "\n".join(
        [
            f"Reviewed {rules.reviewed}. In brackets: the rule may hold for this chip.",
            (
                "`python -m mlprogram rules` prints what each rule says, its sources and"
                " confidence, and the working set of each chip."
            ),
            "",
            *listed,
            "",
            "Sources: "
            + ", ".join(f"[{key}]({s.url})" if s.url else key for key, s in rules.sources.items())
            + ".",
        ]
    )


def render(rules: Rules) -> str:
    """Everything, for the terminal: rules, chips, sources."""
    return "\n".join(
        [
            (
                f"Rules reviewed {rules.reviewed}. A chip in brackets: the rule may hold for it, so"
                " an operation at most may leave."
            ),
            "",
            "| rule | says | effect | chips | sources | confidence |",
            "| --- | --- | --- | --- | --- | --- |",
            *(_render_rule(rule, rules) for rule in rules.rules),
            "",
            "| chip | generation | working set MiB | note | sources | confidence |",
            "| --- | --- | --- | --- | --- | --- |",
            *(_render_chip(chip) for chip in rules.chips.values()),
            "",
            "| source | | read |",
            "| --- | --- | --- |",
            *(
                f"| {key} | {f'[{s.title}]({s.url})' if s.url else s.title} | {s.date} |"
                for key, s in rules.sources.items()
            ),
        ]
    )


def _render_rule(rule: Rule, rules: Rules) -> str:
    remark = f" {_make_sentence(rule.remark)}" if rule.remark else ""
    says = f"{rule.says}.{remark}{_list_limits(rule)}"
    return (
        f"| {rule.id} | {says} | {_EFFECTS[rule.effect]} | {_list_chips(rule, rules)} |"
        f" {', '.join(rule.sources)} | {rule.confidence} |"
    )


def _list_chips(rule: Rule, rules: Rules) -> str:
    """`all`, or the chips; in brackets those it may hold for."""
    return (
        "all"
        if set(rule.chips) == set(rules.chips)
        else ", ".join((*rule.chips, *(f"({c})" for c in rule.maybe_chips)))
    )


def _make_sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _list_limits(rule: Rule) -> str:
    """Parameters that the sentence does not repeat."""
    # One or two operations stand in the sentence already.
    if rule.kind == "op_types" and len(rule.params["ops"]) > 2:
        return f" `{'`, `'.join(rule.params['ops'])}`."
    return ""


def _render_chip(chip: Chip) -> str:
    return (
        f"| {chip.name} | {chip.generation} | {chip.on_chip_mib:g} | {chip.note} |"
        f" {', '.join(chip.sources)} | {chip.confidence} |"
    )
