"""Step validator: one utterance through upstream, our PyTorch and a runtime, each
intermediate compared.

    kokoro-ane validate --text "Hello world." [--voice af_heart:0.7,am_adam:0.3] \\
        [--checkpoint FOLDER]
    kokoro-ane validate --phonemes "həlˈO wˈɜɹld" [--runtime mlprogram] [--method w8a8] \\
        [--save-dir out]

Exit 0: every intermediate keeps its limit. Exit 1: one does not; the first bad stage is named. Exit
2: bad input. A pipe's last line is one JSON object; --save-dir keeps the tensors (.npz), the
figures (.json) and a plot (.png).
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.commands import (
    build_argument,
    checkpoint_argument,
    conclude,
    layout_argument,
    seed_argument,
)
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, command

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.pipeline.intermediates import Intermediates, UtteranceInputs
    from kokoro_ane.pipeline.step_comparison import StepRow

PICTURE, FIGURES = "intermediates.png", "intermediates.json"


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane validate", __doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", help="English, through g2p; one utterance: at most 510 phonemes")
    what.add_argument("--phonemes", help="in the checkpoint's vocabulary, 1 to 510 symbols")
    parser.add_argument("--dialect", choices=("us", "gb"), default="us", help="of g2p, with --text")
    parser.add_argument(
        "--voice",
        help=(
            "a voice, or a blend such as af_heart:0.7,am_adam:0.3 (default: af_heart where the"
            " checkpoint has it, else its first)"
        ),
    )
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument(
        "--seed", type=seed_argument, default=0, help="of the source noise, the same in every run"
    )
    checkpoint_argument(parser)
    parser.add_argument(
        "--arithmetic",
        choices=("float32", "float64"),
        default="float32",
        help="of upstream and of our PyTorch",
    )
    parser.add_argument("--runtime", help="also this runtime: mlprogram, onnx ...")
    parser.add_argument("--method", default="", help="level of its vocoder (default: its own)")
    layout_argument(parser)
    build_argument(parser, "folder with its files")
    parser.add_argument(
        "--save-dir",
        type=Path,
        help="folder for tensors, figures and plot, which is replaced whole",
    )
    return parser.parse_args(argv)


def spoken_of(checkpoint: "Checkpoint", arguments: argparse.Namespace) -> "UtteranceInputs":
    """Vocabulary, voice, row and speed, each checked."""
    import torch

    from kokoro_ane.core.voices import VoiceLibrary, style_row
    from kokoro_ane.encoder.encoder_steps import check_speed, input_ids
    from kokoro_ane.pipeline.intermediates import UtteranceInputs

    phonemes = arguments.phonemes
    if arguments.text is not None:
        from kokoro_ane.g2p.phonemizer import G2P

        phonemes = G2P.load(arguments.dialect).phonemize(arguments.text).phonemes
        if not phonemes:
            raise InputError(f"nothing to say: g2p finds no word in {arguments.text!r}")
    ids = input_ids(phonemes, checkpoint.config.vocab)
    pack = torch.from_numpy(VoiceLibrary(checkpoint.folder / "voices").chosen(arguments.voice)[1])
    return UtteranceInputs(
        ids, style_row(pack, len(phonemes)), check_speed(arguments.speed), arguments.seed
    )


def all_runs(
    checkpoint: "Checkpoint", spoken: "UtteranceInputs", arguments: argparse.Namespace
) -> "dict[str, Intermediates]":
    """Intermediates of upstream, of our PyTorch, and of a runtime where one is named."""
    import torch

    from kokoro_ane.pipeline.intermediates import chain_run, torch_run, upstream_run
    from kokoro_ane.quantize.locator import Request
    from kokoro_ane.runtimes.registry import open_runtime

    # the runtime is opened first: a missing package is refused before upstream runs for seconds
    opened = None
    if arguments.runtime:
        request = Request(checkpoint, arguments.build, arguments.method, arguments.layout)
        opened = open_runtime(arguments.runtime, request)
    dtype = getattr(torch, arguments.arithmetic)
    reference = upstream_run(checkpoint, spoken, dtype)
    runs = {"upstream": reference, "torch": torch_run(checkpoint, spoken, dtype, reference)}
    if opened:
        runs[arguments.runtime] = chain_run(
            opened.encoder, opened.vocoder, spoken, torch.float32, reference
        )
    return runs


def judged(runs: "dict[str, Intermediates]", arithmetic: str) -> "dict[str, list[StepRow]]":
    """Rows of every run but upstream's."""
    from kokoro_ane.pipeline.intermediates import FLOAT32, FLOAT64, PACKAGE, compared_runs

    # a package computes in fp16 where its precision plan says so
    limits = {"torch": FLOAT64 if arithmetic == "float64" else FLOAT32}
    limits |= dict.fromkeys(("mlprogram", "coreml"), PACKAGE)
    return {
        name: compared_runs(runs["upstream"], tensors, limits.get(name, FLOAT32))
        for name, tensors in runs.items()
        if name != "upstream"
    }


def save(folder: Path, runs: "dict[str, Intermediates]", report: dict) -> None:
    """Tensors of every run, the report, and a plot of durations, pitch, energy and waveform."""
    import numpy as np

    from kokoro_ane.core.staging import json_text, staged

    with staged(folder, intermediates_of_ours) as aside:
        aside.mkdir()
        for name, tensors in runs.items():
            np.savez(aside / f"{name}.npz", allow_pickle=False, **tensors)
        plot(aside / PICTURE, runs)
        (aside / FIGURES).write_text(json_text(report), encoding="utf-8")


def intermediates_of_ours(folder: Path) -> str | None:
    """Why a folder is not one that `save` wrote, or None."""
    from kokoro_ane.core.data_files import read_json
    from kokoro_ane.core.staging import strangers

    try:
        figures = read_json(folder / FIGURES, "no folder of this command is without it")
        tensors = {f"{name}.npz" for name in ("upstream", *figures["intermediates"])}
        return strangers(folder, {PICTURE, FIGURES, *tensors})
    except (InputError, KeyError, TypeError):
        return f"it has no {FIGURES} of this command"


def plot(path: Path, runs: "dict[str, dict[str, np.ndarray]]") -> None:
    """Four curves, upstream's first and the others over it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "--save-dir plots with matplotlib: pip install matplotlib (the extra `plot`)"
        ) from None
    picture = Figure(figsize=(12, 9), layout="constrained")
    curves = (
        ("durations", "frames", "token"),
        ("f0_hz", "Hz", "1/80 s"),
        ("energy", "log mel norm", "1/80 s"),
        ("chain", "waveform", "1/24000 s"),
    )
    for place, (name, unit, step) in enumerate(curves):
        axis = picture.add_subplot(4, 1, place + 1)
        # upstream's wide line lies below the others
        for run in sorted(runs, key=lambda name: (name != "upstream", name)):
            if name in runs[run]:
                width = 2.5 if run == "upstream" else 0.8
                axis.plot(runs[run][name].reshape(-1), label=run, linewidth=width)
        axis.set(title=name, ylabel=unit, xlabel=step)
        if axis.lines:
            axis.legend(loc="upper right")
    picture.savefig(path, dpi=110)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.staging import check_output
    from kokoro_ane.pipeline.step_comparison import first_bad, print_rows

    if arguments.save_dir:
        arguments.save_dir = check_output(arguments.save_dir, intermediates_of_ours)
    checkpoint = open_checkpoint(arguments.checkpoint)
    spoken = spoken_of(checkpoint, arguments)
    runs = all_runs(checkpoint, spoken, arguments)
    rows = judged(runs, arguments.arithmetic)
    bad, figures = {}, {}
    for name, compared in rows.items():
        bad[name], figures[name] = first_bad(compared), [asdict(row) for row in compared]
        print_rows(f"{name} against upstream", compared)
        outcome = "every compared intermediate keeps its limit"
        print(f"{name}: {f'the first bad stage is {bad[name]}' if bad[name] else outcome}")
    report = {
        "text": arguments.text,
        "tokens": len(spoken.ids),
        "first_bad": bad,
        "intermediates": figures,
    }
    if arguments.save_dir:
        save(arguments.save_dir, runs, report)
    missing = [name for name in bad if bad[name]]
    code = EXIT_REJECTED if missing else EXIT_GOOD
    return conclude(arguments, report, code, f"{len(missing)} of {len(bad)} miss a limit")


if __name__ == "__main__":
    raise SystemExit(main())
