"""Prove that the gates reject and pass: models with a known error, and harmless changes, judged as
if each were a compression level.

    python -m tests.eval.controls [--checkpoint FOLDER|kokoro-int8] [--clips 6] [--only hum]
    # a dropped block, tokens swapped, another style row, speed, embeddings: docs/models.md
    python -m tests.eval.controls --stage encoder
    # of the whole chain, on the tuning set: docs/metrics.md
    python -m tests.eval.controls --stage product

Exit 0: all errors rejected, all that is harmless passed. Exit 1: not so. Exit 2: bad input. A
pipe's last line is one JSON object.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core import (
    BOTH,
    EXIT_GOOD,
    EXIT_REJECTED,
    JUDGED,
    TUNING,
    CommandOptions,
    InputError,
    build_option,
    checkpoint_option,
    command,
    conclude,
    option,
    parse,
    require_installed,
    seed_argument,
)
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, STAGES, VOCODER

if TYPE_CHECKING:
    from tests.eval.controls.negative_controls import Control, Outcome

# the texts that a stage's controls are judged on, and how many (None: all)
TEXTS = {VOCODER: (JUDGED, 6), ENCODER: (BOTH, None), PRODUCT: (TUNING, 6)}


@dataclass(frozen=True)
class ControlOptions(CommandOptions):
    """Which controls are judged, and on what."""

    checkpoint: str | None = checkpoint_option()
    stage: str = option("whose gates", VOCODER, choices=STAGES)
    clips: int | None = option(
        "how many clips each is judged on (default: 6; of the encoder all 48)"
    )
    build: Path = build_option()
    seed: int = option("of the noise; other seeds are seed + 1 and on", 0, type=seed_argument)
    only: str | None = option("these controls, by name, with commas (default: all)")
    renders: Path | None = option(
        "folder that keeps the fp32 renders (default: they are made anew)"
    )


def controls_of(stage: str, names: str | None = None) -> "list[Control]":
    """The stage's controls of these names, by comma, or all. InputError for an unknown name."""
    from kokoro_ane.core import quiet_coremltools

    with quiet_coremltools():
        from tests.eval.controls.negative_controls import CONTROLS

    controls = CONTROLS[stage]
    chosen = set(names.split(",")) if names else set(controls)
    unknown = sorted(chosen - set(controls))
    if unknown:
        raise InputError(
            f"--only {', '.join(unknown)}: no control is called so; there are {', '.join(controls)}"
        )
    return [control for name, control in controls.items() if name in chosen]


def print_outcomes(title: str, outcomes: "Sequence[Outcome]", shown: Sequence[str]) -> None:
    """One row a control: rejected or not, the means of the metrics `shown`, the broken gates."""
    from kokoro_ane.eval.metrics.catalog import METRICS
    from kokoro_ane.eval.report_figures import format_figure
    from kokoro_ane.eval.terminal import WIDTH, make_compact_table, open_console

    table = make_compact_table(title)
    headings = (f"{METRICS[name].title}, {METRICS[name].unit}" for name in shown)
    for heading in ("control", "", *headings, "broken gates"):
        table.add_column(heading)
    for outcome in outcomes:
        word, summary = (
            "rejected" if outcome.broken else "passed",
            outcome.judgement.compute_summary(),
        )
        table.add_row(
            outcome.control.name,
            f"[green]{word}[/]" if outcome.right else f"[bold red]{word.upper()}[/]",
            *(format_figure(summary[name]["mean"]) for name in shown),
            ", ".join(outcome.broken) or "-",
        )
    open_console(WIDTH).print(table)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(ControlOptions, "python -m tests.eval.controls", __doc__, argv)
    require_installed("the judge", "judge")
    stage, controls = options.stage, controls_of(options.stage, options.only)
    from rich.console import Console
    from rich.progress import track

    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.eval.comparisons import COMPARISONS
    from kokoro_ane.eval.natural import Variations
    from kokoro_ane.eval.reference import Reference, list_judged_clips
    from kokoro_ane.speech import load_own_speech
    from tests.eval.controls.negative_controls import ControlTrials, Setting

    checkpoint, (texts, count) = open_checkpoint(options.checkpoint), TEXTS[stage]
    if options.clips is not None:
        count = options.clips
    if texts == TUNING:
        clips = load_own_speech(checkpoint, TUNING)[:count]
    else:
        clips = list_judged_clips(checkpoint, texts, count)
    variations = Variations.for_checkpoint(checkpoint, options.seed)
    reference = Reference(checkpoint, options.seed, options.renders, variations)
    trials = ControlTrials(Setting(reference, clips, options.build), stage)
    progress = track(controls, "controls", console=Console(stderr=True), transient=True)
    outcomes = [outcome for control in progress if (outcome := trials.outcome(control))]
    errors = [outcome for outcome in outcomes if outcome.control.rejected]
    harmless = [outcome for outcome in outcomes if not outcome.control.rejected]
    shown = COMPARISONS[stage].shown
    print_outcomes(f"negative controls of the {stage}", errors, shown)
    print_outcomes("harmless changes", harmless, shown)
    rejected, passed = (sum(each.right for each in part) for part in (errors, harmless))
    print(
        f"{rejected} of {len(errors)} errors rejected, {passed} of {len(harmless)} harmless changes"
        f" passed, on {len(clips)} clips of {checkpoint.name}"
    )
    record = {
        "stage": stage,
        "rejected": rejected,
        "passed": passed,
        "controls": [outcome.record() for outcome in errors],
        "harmless": [outcome.record() for outcome in harmless],
        "clips": len(clips),
        "seed": options.seed,
    }
    if rejected + passed == len(outcomes):
        return conclude(options, record, EXIT_GOOD, "the gates tell every error from no harm")
    return conclude(options, record, EXIT_REJECTED, "a gate is blind to an error, or too strict")


if __name__ == "__main__":
    raise SystemExit(main())
