"""The rules and chips as Markdown, for docs/neural-engine.md: `python -m mlprogram rules [--write FILE | --check FILE]`.

The generated part of a file stands between two marker lines; everything else in the file is left as it is.
"""

from __future__ import annotations

import argparse

from mlprogram.examine.report import last_line, with_generated_part
from mlprogram.examine.rules import Chip, Rule, Rules, load_rules
from mlprogram.files import aside

COMMAND = "python -m mlprogram rules --write docs/neural-engine.md"
_EFFECTS = {
    "leaves": "leaves the engine",
    "may_leave": "may leave",
    "graph_may_fail": "the whole graph may stay off",
    "cost": "costs time",
    "note": "note",
}


def run(arguments: argparse.Namespace) -> int:
    """Print, write or check the page; the last line of stdout is one JSON object."""
    rules = load_rules()
    page = render(rules)
    current = True
    if arguments.write:
        text = with_generated_part(arguments.write, COMMAND, page)
        with aside(arguments.write) as path:
            path.write_text(text, encoding="utf-8")
    elif arguments.check:
        current = arguments.check.read_text(encoding="utf-8") == with_generated_part(arguments.check, COMMAND, page)
        print(f"{arguments.check}: {'current' if current else 'out of date; renew it with --write'}")
    else:
        print(page)
    last_line({"rules": len(rules.rules), "chips": len(rules.chips), "reviewed": rules.reviewed, "current": current})
    return 0 if current else 1


def render(rules: Rules) -> str:
    """The whole generated part."""
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
            "| source | |",
            "| --- | --- |",
            *(f"| {key} | {f'[{s.title}]({s.url})' if s.url else s.title} |" for key, s in rules.sources.items()),
        ]
    )


def _rule_row(rule: Rule, rules: Rules) -> str:
    says = f"{rule.says}.{f' {_sentence(rule.remark)}' if rule.remark else ''}{_limits(rule)}"
    chips = "all" if set(rule.chips) == set(rules.chips) else ", ".join((*rule.chips, *(f"({c})" for c in rule.maybe_chips)))
    return f"| {rule.id} | {says} | {_EFFECTS[rule.effect]} | {chips} | {', '.join(rule.sources)} | {rule.confidence} |"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _limits(rule: Rule) -> str:
    """Parameters that the sentence does not repeat."""
    if rule.kind == "op_types" and len(rule.params["ops"]) > 2:
        return f" `{'`, `'.join(rule.params['ops'])}`."
    return ""


def _chip_row(chip: Chip) -> str:
    bands = (chip.fp16_tflops, chip.bandwidth_gb_s, chip.segment_ms, chip.on_chip_mib, chip.cpu_gflops, chip.cpu_gb_s)
    cells = " | ".join(f"{low:g} to {high:g}" for low, high in bands)
    return f"| {chip.name} | {chip.generation} | {cells} | {chip.note} | {', '.join(chip.sources)} | {chip.confidence} |"
