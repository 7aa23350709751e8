"""What a program holds and what it costs for one choice of shapes: `python -m mlprogram describe PKG`.

    description = describe(profile_program(program, shapes), top=10, by="bytes")
    description["totals"]["macs"]

Definitions: MACs and FLOPs as in cost.py. Bytes moved are the run-time operands and results of each operation in their declared types,
plus its weights as stored, as if every operation made a round trip; a change of shape moves nothing and a slice reads what it writes. The
live peak is the largest sum of activation bytes alive at once in program order.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from typing import Any

from mlprogram.examine.profile import OpProfile, Profile, count_by_type, open_program, profile_program
from mlprogram.examine.report import last_line, mega, new_table, percent, shape_text, show

_SORT = {"bytes": lambda op: op.bytes_moved, "macs": lambda op: op.macs, "flops": lambda op: op.flops}


def run(arguments: argparse.Namespace) -> int:
    """The command: tables, then one JSON line. Exit code 0."""
    program = open_program(arguments.package, arguments.function)
    profile = profile_program(program, program.shapes(dict(arguments.shape)))
    description = describe(profile, arguments.top, arguments.by)
    show(*_tables(description))
    last_line(description)
    return 0


def describe(profile: Profile, top: int, by: str) -> dict[str, Any]:
    """Everything the command says, ready for JSON."""
    program = profile.program
    heaviest = sorted(profile.ops, key=_SORT[by], reverse=True)[:top]
    return {
        "package": str(program.package.path),
        "function": program.function.name,
        "functions": list(program.package.function_names()),
        "shapes_from": profile.shapes_from,
        "inputs": [
            {"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "allowed": program.inputs[t.name].allowed()}
            for t in profile.inputs
            if t.name in program.inputs
        ],
        "outputs": [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape)} for t in profile.outputs],
        "op_counts": count_by_type(profile.ops),
        "result_dtypes": dict(Counter(t.dtype for op in profile.ops for t in op.outputs).most_common()),
        "weight_bytes": program.storage.bytes_by_kind(),
        "weights": dict(Counter(w.kind for w in program.storage.weights.values()).most_common()),
        "totals": _totals(profile),
        "by_type": {name: _sum(op for op in profile.ops if op.op_type == name) for name in count_by_type(profile.ops)},
        "top": [_op(op) for op in heaviest],
        "top_by": by,
    }


def _sum(ops: Iterable[OpProfile]) -> dict[str, int]:
    ops = list(ops)
    return {
        "ops": len(ops),
        "macs": sum(op.macs for op in ops),
        "flops": sum(op.flops for op in ops),
        "activation_bytes": sum(op.activation_bytes for op in ops),
        "weight_bytes": sum(op.weight_bytes for op in ops),
    }


def _totals(profile: Profile) -> dict[str, int]:
    return _sum(profile.ops) | {"bytes_moved": sum(op.bytes_moved for op in profile.ops), "live_peak_bytes": profile.live_peak_bytes()}


def _op(op: OpProfile) -> dict[str, Any]:
    return {
        "name": op.name,
        "op_type": op.op_type,
        "reads": [list(t.shape) for t in op.activations],
        "writes": [list(t.shape) for t in op.outputs],
        "weights": [list(w.tensor.shape) for w in op.weights],
        "times": op.times,
        "macs": op.macs,
        "flops": op.flops,
        "bytes_moved": op.bytes_moved,
    }


def _tables(d: dict[str, Any]) -> list[Any]:
    return [
        f"{d['package']}  function {d['function']} of {', '.join(d['functions'])}; shapes from {d['shapes_from']}",
        _interface_table(d),
        _weight_table(d),
        _type_table(d),
        _top_table(d),
    ]


def _interface_table(d: dict[str, Any]) -> Any:
    table = new_table("inputs and outputs", "name", "", "type", "shape", "allowed", text=5)
    for value in d["inputs"]:
        table.add_row(value["name"], "input", value["dtype"], shape_text(tuple(value["shape"])), value["allowed"])
    for value in d["outputs"]:
        table.add_row(value["name"], "output", value["dtype"], shape_text(tuple(value["shape"])), "")
    return table


def _weight_table(d: dict[str, Any]) -> Any:
    table = new_table("weights as stored", "kind", "tensors", "MB")
    for kind, size in d["weight_bytes"].items():
        table.add_row(kind, str(d["weights"][kind]), mega(size))
    table.add_row("all", str(sum(d["weights"].values())), mega(sum(d["weight_bytes"].values())))
    return table


def _type_table(d: dict[str, Any]) -> Any:
    totals = d["totals"]
    moved = totals["bytes_moved"] or 1
    table = new_table(
        f"operations; results in {', '.join(f'{n} {t}' for t, n in d['result_dtypes'].items())}; "
        f"live peak {mega(totals['live_peak_bytes'])} MB",
        "type",
        "count",
        "MMAC",
        "MFLOP",
        "activations MB",
        "weights MB",
        "% of bytes",
    )
    rows = sorted(d["by_type"].items(), key=lambda item: item[1]["activation_bytes"] + item[1]["weight_bytes"], reverse=True)
    for name, row in (*rows, ("all", totals)):
        share = percent((row["activation_bytes"] + row["weight_bytes"]) / moved)
        table.add_row(name, str(row["ops"]), *(mega(row[key]) for key in ("macs", "flops", "activation_bytes", "weight_bytes")), share)
    return table


def _top_table(d: dict[str, Any]) -> Any:
    table = new_table(
        f"the {len(d['top'])} operations with the most {d['top_by']}", "type", "name", "reads", "weights", "writes", "MMAC", "MB", text=5
    )
    for op in d["top"]:
        shapes = [", ".join(shape_text(tuple(s)) for s in op[key]) for key in ("reads", "weights", "writes")]
        table.add_row(op["op_type"], op["name"], *shapes, mega(op["macs"]), mega(op["bytes_moved"]))
    return table
