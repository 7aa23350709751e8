"""Step validator: one utterance through upstream, our PyTorch and the executed packages, each
intermediate compared.

    kokoro-ane validate --text "Hello world." [--voice af_heart:0.7,am_adam:0.3] [--checkpoint FOLDER]
    kokoro-ane validate --phonemes "həlˈO wˈɜɹld" [--encoder-package build/KokoroEncoder-fp16.json]
        [--vocoder-package build/KokoroVocoder-fp16.json] [--runtime onnx] [--save-dir out]

Exit 0: every intermediate keeps its limit. Exit 1: one does not; the first bad stage is named. Exit
2: bad input. The last line of stdout is one JSON object; --save-dir keeps the tensors (.npz), the
figures (.json) and a plot (.png).
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.commands import checkpoint_argument, print_table, seed_argument
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, command

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.g2p.result import Dialect
    from kokoro_ane.pipeline.intermediates import IntermediateRow, Intermediates, UtteranceInputs

PICTURE, FIGURES = "intermediates.png", "intermediates.json"


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane validate", __doc__)
    said = parser.add_mutually_exclusive_group(required=True)
    said.add_argument("--text", help="English, through g2p; one utterance: at most 510 phonemes")
    said.add_argument("--phonemes", help="in the checkpoint's vocabulary, 1 to 510 symbols")
    parser.add_argument("--dialect", choices=("us", "gb"), default="us", help="of g2p, with --text")
    parser.add_argument(
        "--voice",
        help=(
            "a voice, or a blend such as af_heart:0.7,am_adam:0.3 (default: the checkpoint's first)"
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
    parser.add_argument(
        "--encoder-package",
        type=Path,
        nargs="+",
        default=[],
        help="manifest of the encoder package (iOS 17: both)",
    )
    parser.add_argument("--vocoder-package", type=Path, help="manifest of the vocoder package")
    parser.add_argument(
        "--runtime", help="also this runtime, opened from --build: onnx, mlprogram ..."
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=Path("build"),
        help="folder with its files (default: %(default)s)",
    )
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

    phonemes = (
        arguments.phonemes
        if arguments.text is None
        else phonemes_of(arguments.text, arguments.dialect)
    )
    ids = input_ids(phonemes, checkpoint.config.vocab)
    pack = torch.from_numpy(VoiceLibrary(checkpoint.folder / "voices").chosen(arguments.voice)[1])
    return UtteranceInputs(
        ids, style_row(pack, len(phonemes)), check_speed(arguments.speed), arguments.seed
    )


def phonemes_of(text: str, dialect: "Dialect") -> str:
    """What g2p makes of `text`. InputError when that is nothing."""
    from kokoro_ane.g2p import G2P

    phonemes = G2P.load(dialect).phonemize(text).phonemes
    if not phonemes:
        raise InputError(f"nothing to say: g2p finds no word in {text!r}")
    return phonemes


def all_runs(
    checkpoint: "Checkpoint", spoken: "UtteranceInputs", arguments: argparse.Namespace
) -> "dict[str, Intermediates]":
    """Intermediates of upstream, of our PyTorch, and of the packages where manifests are given."""
    import torch

    from kokoro_ane.encoder.encoder_stage import EncoderPackage
    from kokoro_ane.pipeline.intermediates import executed_run, torch_run, upstream_run
    from kokoro_ane.quantize.locator import Request
    from kokoro_ane.runtimes.registry import open_runtime
    from kokoro_ane.vocoder.render import open_package

    if arguments.vocoder_package and not arguments.encoder_package:
        raise InputError("--vocoder-package needs --encoder-package: its features come from there")
    encoder = (
        EncoderPackage(tuple(arguments.encoder_package)) if arguments.encoder_package else None
    )
    vocoder = open_package(arguments.vocoder_package) if arguments.vocoder_package else None
    dtype = getattr(torch, arguments.arithmetic)
    reference = upstream_run(checkpoint, spoken, dtype)
    runs = {"upstream": reference, "torch": torch_run(checkpoint, spoken, dtype, reference)}
    if encoder is not None:
        runs["package"] = executed_run(spoken, encoder.backend, vocoder, reference)
    if arguments.runtime:
        opened = open_runtime(arguments.runtime, Request(checkpoint, arguments.build))
        runs[arguments.runtime] = executed_run(spoken, opened.encoder, opened.vocoder, reference)
    return runs


def judged(runs: "dict[str, Intermediates]", arithmetic: str) -> "dict[str, list[IntermediateRow]]":
    """Rows of every run but upstream's."""
    from kokoro_ane.pipeline.intermediates import FLOAT32, FLOAT64, PACKAGE, compared

    limits = {"torch": FLOAT64 if arithmetic == "float64" else FLOAT32, "package": PACKAGE}
    limits |= dict.fromkeys(("mlprogram", "coreml"), PACKAGE)
    return {
        name: compared(runs["upstream"], tensors, limits.get(name, FLOAT32))
        for name, tensors in runs.items()
        if name != "upstream"
    }


def print_rows(name: str, rows: "list[IntermediateRow]", bad: str | None) -> None:
    """One table a run, and the one stage to look at."""
    headings = ("intermediate", "max abs", "SNR", "correlation", "parts at", "")
    print_table(f"{name} against upstream", headings, (row.cells() for row in rows))
    print(
        f"{name}: every compared intermediate keeps its limit"
        if bad is None
        else f"{name}: the first bad stage is {bad}"
    )


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
        runs = read_json(folder / FIGURES, "no folder of this command is without it")[
            "intermediates"
        ]
        return strangers(
            folder, {PICTURE, FIGURES, *(f"{name}.npz" for name in ("upstream", *runs))}
        )
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
        for run in sorted(runs, key=lambda name: (name != "upstream", name)):
            if name in runs[run]:
                axis.plot(
                    runs[run][name].reshape(-1),
                    label=run,
                    linewidth=2.5 if run == "upstream" else 0.8,
                )
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
    from kokoro_ane.pipeline.intermediates import first_bad

    if arguments.save_dir:
        arguments.save_dir = check_output(arguments.save_dir, intermediates_of_ours)
    checkpoint = open_checkpoint(arguments.checkpoint)
    spoken = spoken_of(checkpoint, arguments)
    runs = all_runs(checkpoint, spoken, arguments)
    rows = judged(runs, arguments.arithmetic)
    bad = {name: first_bad(found) for name, found in rows.items()}
    for name, found in rows.items():
        print_rows(name, found, bad[name])
    report = {
        "text": arguments.text,
        "tokens": len(spoken.ids),
        "first_bad": bad,
        "intermediates": {name: [asdict(row) for row in found] for name, found in rows.items()},
    }
    if arguments.save_dir:
        save(arguments.save_dir, runs, report)
    print(json.dumps(report))
    return EXIT_REJECTED if any(bad.values()) else EXIT_GOOD


if __name__ == "__main__":
    raise SystemExit(main())
