"""Compare one utterance step by step: upstream with our PyTorch and with a runtime.

    kokoro-ane validate --text "Hello world." [--voice af_heart:0.7,am_adam:0.3] \\
        [--checkpoint FOLDER]
    kokoro-ane validate --phonemes "həlˈO wˈɜɹld" [--runtime mlprogram] [--method w8a8] \\
        [--save-dir out]

Exit 0: every intermediate keeps its limit. Exit 1: one does not; the first bad stage is named. Exit
2: bad input. A pipe's last line is one JSON object; --save-dir keeps the tensors (.npz), the
figures (.json) and a plot (.png).
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core import (
    EXIT_GOOD,
    EXIT_REJECTED,
    CommandOptions,
    InputError,
    build_option,
    checkpoint_option,
    command,
    conclude,
    layout_option,
    option,
    parse,
    require_installed,
    seed_argument,
    voice_option,
)

if TYPE_CHECKING:
    from kokoro_ane.pipeline.intermediates import Intermediates

PICTURE, FIGURES = "intermediates.png", "intermediates.json"


@dataclass(frozen=True)
class ValidateOptions(CommandOptions):
    """One utterance, and what computes it."""

    text: str | None = option(
        "English, through g2p; one utterance: at most 510 phonemes", exclusive="utterance"
    )
    phonemes: str | None = option(
        "in the checkpoint's vocabulary, 1 to 510 symbols", exclusive="utterance"
    )
    dialect: str = option("of g2p, with --text", "us", choices=("us", "gb"))
    voice: str | None = voice_option()
    speed: float = option("0.25 to 4; 2 is twice as fast", 1.0)
    seed: int = option("of the source noise, the same in every run", 0, type=seed_argument)
    checkpoint: str | None = checkpoint_option()
    arithmetic: str = option(
        "of upstream and of our PyTorch", "float32", choices=("float32", "float64")
    )
    runtime: str | None = option("also this runtime: mlprogram, onnx ...")
    method: str = option("level of its vocoder (default: its own)", "")
    layout: str = layout_option()
    build: Path = build_option("folder with its files")
    save_dir: Path | None = option("folder for tensors, figures and plot, which is replaced whole")


def phonemes_of(options: ValidateOptions) -> str:
    """Return the phonemes that were given, or those of the text. Raises InputError."""
    if options.text is None:
        return options.phonemes or ""
    from kokoro_g2p import G2P

    phonemes = G2P.load(options.dialect).phonemize(options.text).phonemes
    if not phonemes:
        raise InputError(f"nothing to say: g2p finds no word in {options.text!r}")
    return phonemes


def save(folder: Path, runs: "dict[str, Intermediates]", report: dict) -> None:
    """Write the tensors of every run, the report, and a plot of durations, pitch, energy and
    waveform.
    """
    import numpy as np

    from kokoro_ane.core import json_text, staged

    with staged(folder, intermediates_of_ours) as aside:
        aside.mkdir()
        for name, tensors in runs.items():
            np.savez(aside / f"{name}.npz", allow_pickle=False, **tensors)
        plot(aside / PICTURE, runs)
        (aside / FIGURES).write_text(json_text(report), encoding="utf-8")


def intermediates_of_ours(folder: Path) -> str | None:
    """Return why `save` did not write a folder, or None."""
    from kokoro_ane.core import read_json, strangers

    try:
        figures = read_json(folder / FIGURES, "no folder of this command is without it")
        tensors = {f"{name}.npz" for name in ("upstream", *figures["intermediates"])}
        return strangers(folder, {PICTURE, FIGURES, *tensors})
    except (InputError, KeyError, TypeError):
        return f"it has no {FIGURES} of this command"


def plot(path: Path, runs: "dict[str, Intermediates]") -> None:
    """Draw four curves, upstream's first and the others over it."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(12, 9), layout="constrained")
    curves = (
        ("durations", "frames", "token"),
        ("f0_hz", "Hz", "1/80 s"),
        ("energy", "log mel norm", "1/80 s"),
        ("chain", "waveform", "1/24000 s"),
    )
    for place, (name, unit, step) in enumerate(curves):
        axis = picture.add_subplot(4, 1, place + 1)
        # upstream comes first: its wide line lies below the others
        for run, tensors in runs.items():
            if name in tensors:
                width = 2.5 if run == "upstream" else 0.8
                axis.plot(tensors[name].reshape(-1), label=run, linewidth=width)
        axis.set(title=name, ylabel=unit, xlabel=step)
        if axis.lines:
            axis.legend(loc="upper right")
    picture.savefig(path, dpi=110)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(ValidateOptions, "kokoro-ane validate", __doc__, argv)
    if options.text is None and options.phonemes is None:
        raise InputError("give --text or --phonemes")
    if options.save_dir:
        require_installed("--save-dir", "plot")
    import torch

    from kokoro_ane.core import check_output, open_checkpoint
    from kokoro_ane.pipeline.intermediates import (
        FLOAT32,
        FLOAT64,
        PACKAGE,
        UtteranceInputs,
        chain_run,
        compared_levels,
        compared_runs,
        is_predicted,
        torch_run,
        upstream_run,
    )
    from kokoro_ane.pipeline.step_comparison import first_bad, print_rows
    from kokoro_ane.quantize import Request
    from kokoro_ane.runtimes import RUNTIMES, open_runtime, open_voice

    folder = options.save_dir and check_output(options.save_dir, intermediates_of_ours)
    checkpoint, runtime = open_checkpoint(options.checkpoint), options.runtime or ""
    voice, pack = checkpoint.library.chosen(options.voice)
    spoken = UtteranceInputs.from_phonemes(
        checkpoint,
        phonemes_of(options),
        torch.from_numpy(pack),
        options.speed,
        options.seed,
    )
    # the runtime is opened first: a missing package is refused before upstream runs for seconds
    opened = None
    if runtime:
        request = Request(checkpoint, options.build, options.method, options.layout)
        opened = open_runtime(runtime, request)
    dtype = getattr(torch, options.arithmetic)
    reference = upstream_run(checkpoint, spoken, dtype)
    runs = {"upstream": reference, "torch": torch_run(checkpoint, spoken, dtype, reference)}
    limits = {"torch": FLOAT64 if dtype == torch.float64 else FLOAT32}
    if opened:
        encoder, vocoder = opened.encoder, opened.vocoder
        speaker = open_voice(checkpoint, voice, vocoder.predictor)
        runs[runtime] = chain_run(encoder, vocoder, spoken, torch.float32, reference, speaker)
        # a package computes in fp16 where its precision plan says so
        limits[runtime] = PACKAGE if RUNTIMES[runtime].packages else FLOAT32
    predicted = (
        opened
        and "waveform" in reference
        and is_predicted(opened.vocoder, sum(reference["durations"]))
    )
    bad, figures = {}, {}
    for name, limits_db in limits.items():
        rows = compared_runs(reference, runs[name], limits_db)
        # what is predicted is not upstream's, sample by sample: another seed is the measure
        if name == runtime and predicted:
            another_seed = upstream_run(checkpoint, replace(spoken, seed=spoken.seed + 1), dtype)
            rows = compared_runs(reference, runs[name], limits_db, ("chain", "waveform"))
            rows.append(compared_levels(reference, runs[name], another_seed))
        bad[name], figures[name] = first_bad(rows), [asdict(row) for row in rows]
        print_rows(f"{name} against upstream", rows)
        outcome = "every compared intermediate keeps its limit"
        print(f"{name}: {f'the first bad stage is {bad[name]}' if bad[name] else outcome}")
    report = {
        "text": options.text,
        "tokens": len(spoken.ids),
        "first_bad": bad,
        "intermediates": figures,
    }
    if folder:
        save(folder, runs, report)
    missing = [name for name in bad if bad[name]]
    code = EXIT_REJECTED if missing else EXIT_GOOD
    return conclude(options, report, code, f"{len(missing)} of {len(bad)} miss a limit")


if __name__ == "__main__":
    raise SystemExit(main())
