"""What the windowed form saves: operations, MACs and activation bytes of a second of audio by operation type, beside the literal form.

    python -m bench.form_passes

Full size, random weights, converted here (minutes). Markdown tables, then one JSON object; exit 2 for bad input.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.markdown import print_markdown
from core.contract import FRAMES_PER_SECOND, LITERAL, WHOLE_FORMS
from core.errors import EXIT_GOOD, run_cli

if TYPE_CHECKING:
    from vocoder.form import Form

SECONDS = (1, 3, 7, 15, 30)


def build_vocoder(folder: Path, form: "Form") -> Path:
    """The full-size vocoder with random weights and one enumerated shape for each length, raised to whole rows in the windowed form."""
    from bench.random_checkpoint import kokoro_config, random_vocoder
    from core.build import converted
    from core.config import KokoroConfig
    from core.export import save_package
    from vocoder.stage import vocoder_function
    from vocoder.windowed.geometry import raised

    frames = tuple(seconds * FRAMES_PER_SECOND for seconds in SECONDS)
    if form.name != LITERAL:
        frames = tuple(raised(count) for count in frames)
    config = KokoroConfig.from_dict(kokoro_config(), "bench.form_passes")
    module = form.module(random_vocoder(config, seed=0), config.hidden_dim)
    function = vocoder_function(module, form, frames, "fp16", config.hidden_dim, config.style_dim)
    save_package(converted(function, "fp16", "iOS17"), folder / "Vocoder.mlpackage")
    return folder / "Vocoder.mlpackage"


def passes(name: str) -> list[dict[str, Any]]:
    """Operations, MACs and bytes moved of one form at every length, the last two for a second of the audio that was asked for."""
    from mlprogram.examine.profile import open_program, profile_program
    from vocoder.forms import form_named

    with tempfile.TemporaryDirectory() as folder:
        program = open_program(build_vocoder(Path(folder), form_named(name)))
        profiles = sorted((profile_program(program, shapes) for shapes in program.all_shapes()), key=_held)
    return [_figures(name, seconds, profile) for seconds, profile in zip(SECONDS, profiles, strict=True)]


def _held(profile: Any) -> float:
    """Seconds of audio that a shape of the features holds: one row in the literal vocoder, several in the windowed form."""
    from vocoder.windowed.geometry import bucket_of

    features = profile.inputs[0].shape
    return (features[-1] - 1 if features[2] == 1 else bucket_of(features)) / FRAMES_PER_SECOND


def _figures(form: str, seconds: int, profile: Any) -> dict[str, Any]:
    moved: Counter[str] = Counter()
    for op in profile.ops:
        moved[op.op_type] += op.activation_bytes
    held = _held(profile)
    return {
        "form": form,
        "seconds": seconds,
        "held_s": held,
        "operations": len(profile.ops),
        "gmac_per_s": sum(op.macs for op in profile.ops) / held / 1e9,
        "mb_per_s": sum(moved.values()) / held / 1e6,
        "mb_per_s_by_type": {name: value / held / 1e6 for name, value in moved.most_common() if value},
    }


def print_table(forms: list[list[dict[str, Any]]]) -> None:
    """Bytes of a second at every length, then the longest by operation type."""
    heads = ("MB moved for a second, shape for", *(f"{row['seconds']} s (holds {row['held_s']:.1f})" for row in forms[-1]))
    print_markdown(heads, [_cells(rows, forms[0]) for rows in forms])
    print()
    longest = [rows[-1] for rows in forms]
    names = list(dict.fromkeys(name for row in longest for name in row["mb_per_s_by_type"]))
    lines = [("operations", *(str(row["operations"]) for row in longest)), ("GMAC", *(f"{row['gmac_per_s']:.1f}" for row in longest))]
    lines += [(f"MB, {name}", *(f"{row['mb_per_s_by_type'].get(name, 0.0):,.1f}" for row in longest)) for name in names]
    print_markdown((f"a second of {longest[0]['seconds']}", *(row["form"] for row in longest)), lines)


def _cells(rows: list[dict[str, Any]], literal: list[dict[str, Any]]) -> tuple[str, ...]:
    shares = (f"{row['mb_per_s']:,.0f} ({row['mb_per_s'] / base['mb_per_s']:.1%})" for row, base in zip(rows, literal, strict=True))
    return rows[0]["form"], *shares


def run(argv: list[str] | None) -> int:
    """The command itself."""
    argparse.ArgumentParser(prog="bench.form_passes", description=__doc__.splitlines()[0]).parse_args(argv)
    forms = [passes(form) for form in WHOLE_FORMS]
    print_table(forms)
    print(json.dumps(forms))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    sys.exit(main())
