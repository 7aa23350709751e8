"""The rules and chips as Markdown: in full on stdout, in short for docs/neural-engine.md.

    python -m mlprogram rules [--write FILE | --check FILE]

The generated part of a file stands between two marker lines; everything else in the file is left as it is.
"""

from __future__ import annotations

import argparse

from mlprogram.examine.report import last_line, with_generated_part
from mlprogram.examine.rules import Chip, Numeric, Rule, Rules, load_rules
from mlprogram.files import aside, read_text

COMMAND = "python -m mlprogram rules --write docs/neural-engine.md"
_EFFECTS = {
    "leaves": "leaves the engine",
    "may_leave": "may leave",
    "graph_may_fail": "the whole graph may stay off",
    "cost": "costs time",
    "note": "note",
}


def run(arguments: argparse.Namespace) -> int:
    """Print every rule in full, or write or check the page's summary; the last line of stdout is one JSON object."""
    rules = load_rules()
    current = True
    if arguments.write:
        text = with_generated_part(arguments.write, COMMAND, summary(rules))
        with aside(arguments.write) as path:
            path.write_text(text, encoding="utf-8")
    elif arguments.check:
        current = read_text(arguments.check) == with_generated_part(arguments.check, COMMAND, summary(rules))
        print(f"{arguments.check}: {'current' if current else 'out of date; renew it with --write'}")
    else:
        print(render(rules))
    last_line({"rules": len(rules.rules), "chips": len(rules.chips), "reviewed": rules.reviewed, "current": current})
    return 0 if current else 1


def summary(rules: Rules) -> str:
    """The part of the page: rules by effect with the chips they hold for, rates of the chips, sources."""
    listed = []
    for effect, words in _EFFECTS.items():
        found = [rule for rule in rules.rules if rule.effect == effect]
        groups = {chips: [r.id for r in found if _chips(r, rules) == chips] for chips in dict.fromkeys(_chips(r, rules) for r in found)}
        listed.append(f"- **{words}**. " + " ".join(f"On {chips}: {', '.join(names)}." for chips, names in groups.items()))
    return "\n".join(
        [
            f"Reviewed {rules.reviewed}. In brackets: the rule may hold for this chip.",
            "`python -m mlprogram rules` prints what each rule says, with its sources and confidence.",
            "",
            *listed,
            "",
            "| chip | fp16 TFLOPS | GB/s | segment ms | on-chip MiB |",
            "| --- | --- | --- | --- | --- |",
            *(f"| {chip.name} ({chip.generation}) | {_bands(*_engine(chip))} |" for chip in rules.chips.values()),
            "",
            "Sources: " + ", ".join(f"[{key}]({s.url})" if s.url else key for key, s in rules.sources.items()) + ".",
        ]
    )


def render(rules: Rules) -> str:
    """Everything, for the terminal: rules, chips, sources."""
    return "\n".join(
        [
            f"Rules reviewed {rules.reviewed}. A chip in brackets: the rule may hold for it, so an operation at most may leave.",
            "",
            "| rule | says | effect | chips | sources | confidence |",
            "| --- | --- | --- | --- | --- | --- |",
            *(_rule_row(rule, rules) for rule in rules.rules),
            "",
            "| chip | generation | fp16 TFLOPS | GB/s | segment ms | on-chip MiB | CPU GFLOPS | CPU GB/s | note | sources | confidence |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *(_chip_row(chip) for chip in rules.chips.values()),
            "",
            "| arithmetic | says | published | chips | sources | confidence |",
            "| --- | --- | --- | --- | --- | --- |",
            *(_numeric_row(numeric, rules) for numeric in rules.numerics),
            "",
            "| source | |",
            "| --- | --- |",
            *(f"| {key} | {f'[{s.title}]({s.url})' if s.url else s.title} |" for key, s in rules.sources.items()),
        ]
    )


def _rule_row(rule: Rule, rules: Rules) -> str:
    says = f"{rule.says}.{f' {_sentence(rule.remark)}' if rule.remark else ''}{_limits(rule)}"
    return f"| {rule.id} | {says} | {_EFFECTS[rule.effect]} | {_chips(rule, rules)} | {', '.join(rule.sources)} | {rule.confidence} |"


def _chips(rule: Rule, rules: Rules) -> str:
    """`all`, or the chips; in brackets those it may hold for."""
    return "all" if set(rule.chips) == set(rules.chips) else ", ".join((*rule.chips, *(f"({c})" for c in rule.maybe_chips)))


def _numeric_row(numeric: Numeric, rules: Rules) -> str:
    says = f"{numeric.says}.{f' {_sentence(numeric.remark)}' if numeric.remark else ''}"
    span = "" if numeric.low is None else f"{numeric.low:g}" if numeric.low == numeric.high else f"{numeric.low:g} to {numeric.high:g}"
    chips = "all" if set(numeric.chips) == set(rules.chips) else ", ".join(numeric.chips)
    return f"| {numeric.id} | {says} | {f'{span} {numeric.unit}'.strip()} | {chips} | {', '.join(numeric.sources)} | {numeric.confidence} |"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _limits(rule: Rule) -> str:
    """Parameters that the sentence does not repeat."""
    if rule.kind == "op_types" and len(rule.params["ops"]) > 2:
        return f" `{'`, `'.join(rule.params['ops'])}`."
    return ""


def _chip_row(chip: Chip) -> str:
    bands = _bands(*_engine(chip), chip.cpu_gflops, chip.cpu_gb_s)
    return f"| {chip.name} | {chip.generation} | {bands} | {chip.note} | {', '.join(chip.sources)} | {chip.confidence} |"


def _engine(chip: Chip) -> tuple[tuple[float, float], ...]:
    return chip.fp16_tflops, chip.bandwidth_gb_s, chip.segment_ms, chip.on_chip_mib


def _bands(*bands: tuple[float, float]) -> str:
    return " | ".join(f"{low:g} to {high:g}" for low, high in bands)
