"""What the engine variant saves: operations, MACs and activation bytes of a second of audio by operation type, against the literal vocoder.

    python -m bench.engine_passes [--seconds 30]

Full size, random weights, converted here (minutes). A Markdown table, then one JSON object; exit 2 for bad input.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from bench.markdown import print_markdown
from pipeline.contract import FRAMES_PER_SECOND
from pipeline.errors import EXIT_GOOD, InputError, run_cli

LITERAL = "literal"
FORMS = {
    LITERAL: None,
    "engine, rows of 40": (("m3", "m4", "m5"), 40),
    "engine, rows of 120": (("m3", "m4", "m5"), 120),
    "engine-poly, rows of 40": (("m1", "m2"), 40),
}


def passes(form: str, seconds: int) -> dict[str, Any]:
    """Operations, MACs and bytes moved of one form, the last two a second of the audio that its bucket holds."""
    from bench.forecast import build_vocoder
    from bench.random_checkpoint import kokoro_config
    from mlprogram.examine.profile import open_program, profile_program
    from vocoder.engine.options import EngineOptions

    options = None if FORMS[form] is None else EngineOptions.of(*FORMS[form])
    with tempfile.TemporaryDirectory() as folder:
        program = open_program(build_vocoder(kokoro_config(), (seconds * FRAMES_PER_SECOND,), Path(folder), options))
        profile = profile_program(program, program.all_shapes()[0])
    held = (profile.inputs[0].shape[-1] - 1) / FRAMES_PER_SECOND
    moved: Counter[str] = Counter()
    for op in profile.ops:
        moved[op.op_type] += op.activation_bytes
    return {
        "form": form,
        "seconds": held,
        "operations": len(profile.ops),
        "gmac_per_s": sum(op.macs for op in profile.ops) / held / 1e9,
        "mb_per_s": sum(moved.values()) / held / 1e6,
        "mb_per_s_by_type": {name: value / held / 1e6 for name, value in moved.most_common() if value},
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """One column a form."""
    names = list(dict.fromkeys(name for row in rows for name in row["mb_per_s_by_type"]))
    lines = [("operations", *(str(row["operations"]) for row in rows)), ("GMAC a second", *(f"{row['gmac_per_s']:.1f}" for row in rows))]
    lines.append(("MB a second", *(f"{row['mb_per_s']:,.0f}" for row in rows)))
    lines.append(("of the literal", *(f"{row['mb_per_s'] / rows[0]['mb_per_s']:.1%}" for row in rows)))
    lines += [(f"MB, {name}", *(f"{row['mb_per_s_by_type'].get(name, 0.0):,.1f}" for row in rows)) for name in names]
    print_markdown(("", *(f"{row['form']}, {row['seconds']:.1f} s" for row in rows)), lines)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.engine_passes", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30, help="length of audio, 1 to 30")
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.seconds <= 30:
        raise InputError(f"--seconds is {arguments.seconds}: 1 to 30")
    rows = [passes(form, arguments.seconds) for form in FORMS]
    print_table(rows)
    print(json.dumps(rows))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    sys.exit(main())
