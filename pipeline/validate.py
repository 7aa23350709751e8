"""Step validator: one utterance through upstream, our PyTorch and the executed packages, compared seam by seam.

    python -m pipeline.validate --text "Hello world." [--voice af_heart:0.7,am_adam:0.3] [--checkpoint FOLDER]
    python -m pipeline.validate --phonemes "həlˈO wˈɜɹld" [--encoder-package build/KokoroEncoder-fp16.json]
        [--vocoder-package build/KokoroVocoder-fp16.json] [--runtime onnx] [--save-dir out]

Exit 0: every seam keeps its limit. Exit 1: one does not; the first bad stage is named. Exit 2: bad input. The last line of stdout is one
JSON object; --save-dir keeps the tensors (.npz), the figures (.json) and a plot (.png).
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not pipeline/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument, seed_argument
from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    import numpy as np

    from core.checkpoint import Checkpoint
    from g2p.result import Dialect
    from pipeline.runs import Seams, Spoken
    from pipeline.seams import SeamRow


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="pipeline.validate", description=__doc__.splitlines()[0])
    said = parser.add_mutually_exclusive_group(required=True)
    said.add_argument("--text", help="English, through g2p; one utterance: at most 510 phonemes")
    said.add_argument("--phonemes", help="in the checkpoint's vocabulary, 1 to 510 symbols")
    parser.add_argument("--dialect", choices=("us", "gb"), default="us", help="of g2p, with --text")
    parser.add_argument("--voice", help="a voice, or a blend such as af_heart:0.7,am_adam:0.3 (default: the checkpoint's first)")
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--seed", type=seed_argument, default=0, help="of the source noise, the same in every run")
    checkpoint_argument(parser)
    parser.add_argument("--arithmetic", choices=("float32", "float64"), default="float32", help="of upstream and of our PyTorch")
    parser.add_argument("--encoder-package", type=Path, nargs="+", default=[], help="manifest of the encoder package (iOS 17: both)")
    parser.add_argument("--vocoder-package", type=Path, help="manifest of the vocoder package")
    parser.add_argument("--runtime", help="also this runtime, opened from --build: onnx, mlprogram ...")
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with its files (default: %(default)s)")
    parser.add_argument("--save-dir", type=Path, help="folder for tensors, figures and plot")
    return parser.parse_args(argv)


def spoken_of(checkpoint: "Checkpoint", arguments: argparse.Namespace) -> "Spoken":
    """Vocabulary, voice, row and speed, each checked."""
    from core.voices import VoiceLibrary, style_row
    from encoder.vocab import check_speed, input_ids
    from pipeline.runs import Spoken

    phonemes = arguments.phonemes if arguments.text is None else phonemes_of(arguments.text, arguments.dialect)
    ids, library = input_ids(phonemes, checkpoint.config.vocab), VoiceLibrary(checkpoint.folder / "voices")
    if not library.names:
        raise InputError(f"{library.folder} holds no voice")
    pack = library.blend(arguments.voice or library.names[0])
    return Spoken(ids, style_row(pack, len(phonemes)), check_speed(arguments.speed), arguments.seed)


def phonemes_of(text: str, dialect: "Dialect") -> str:
    """What g2p makes of `text`. InputError when that is nothing."""
    from g2p import G2P

    phonemes = G2P.load(dialect).phonemize(text).phonemes
    if not phonemes:
        raise InputError(f"nothing to say: g2p finds no word in {text!r}")
    return phonemes


def all_runs(checkpoint: "Checkpoint", spoken: "Spoken", arguments: argparse.Namespace) -> "dict[str, Seams]":
    """Seams of upstream, of our PyTorch, and of the packages where manifests are given."""
    import torch

    from encoder.package import EncoderPackage
    from pipeline.runs import package_run, torch_run, upstream_run
    from vocoder.package import VocoderPackage

    if arguments.vocoder_package and not arguments.encoder_package:
        raise InputError("--vocoder-package needs --encoder-package: its features come from there")
    encoder = EncoderPackage(tuple(arguments.encoder_package)) if arguments.encoder_package else None
    vocoder = VocoderPackage(arguments.vocoder_package) if arguments.vocoder_package else None
    dtype = getattr(torch, arguments.arithmetic)
    reference = upstream_run(checkpoint, spoken, dtype)
    runs = {"upstream": reference, "torch": torch_run(checkpoint, spoken, dtype, reference)}
    if encoder is not None:
        runs["package"] = package_run(checkpoint, spoken, encoder, vocoder, reference)
    if arguments.runtime:
        runs[arguments.runtime] = named_run(checkpoint, spoken, arguments, reference)
    return runs


def named_run(checkpoint: "Checkpoint", spoken: "Spoken", arguments: argparse.Namespace, reference: "Seams") -> "Seams":
    """The runtime of --runtime at its own level."""
    from pipeline.runs import runtime_run
    from pipeline.runtimes import Request, open_runtime

    opened = open_runtime(arguments.runtime, Request(checkpoint, arguments.build))
    return runtime_run(spoken, opened.encoder, opened.vocoder, reference)


def judged(runs: "dict[str, Seams]", arithmetic: str) -> "dict[str, list[SeamRow]]":
    """Rows of every run but upstream's."""
    from pipeline.seams import FLOAT32, FLOAT64, PACKAGE, compared

    limits = {"torch": FLOAT64 if arithmetic == "float64" else FLOAT32, "package": PACKAGE}
    limits |= dict.fromkeys(("mlprogram", "coreml"), PACKAGE)
    return {name: compared(runs["upstream"], seams, limits.get(name, FLOAT32)) for name, seams in runs.items() if name != "upstream"}


def print_rows(name: str, rows: "list[SeamRow]", bad: str | None) -> None:
    """One table a run, and the one stage to look at."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{name} against upstream", title_justify="left")
    for heading in ("seam", "max abs", "SNR", "correlation", "parts at", ""):
        table.add_column(heading)
    for row in rows:
        table.add_row(*row.cells())
    console = Console()
    console.print(table)
    console.print(f"{name}: every compared seam keeps its limit" if bad is None else f"{name}: the first bad stage is {bad}")


def save(folder: Path, runs: "dict[str, Seams]", report: dict) -> None:
    """Tensors of every run, the report, and a plot of durations, pitch, energy and waveform."""
    import numpy as np

    from core.staging import staged_together, write_json

    places = [folder / f"{name}.npz" for name in runs] + [folder / "seams.png", folder / "seams.json"]
    with staged_together(*((place, None) for place in places)) as (*arrays, picture, described):
        for aside, seams in zip(arrays, runs.values(), strict=True):
            with aside.open("wb") as stream:
                np.savez(stream, allow_pickle=False, **seams)
        plot(picture, runs)
        write_json(described, report)


def plot(path: Path, runs: "dict[str, dict[str, np.ndarray]]") -> None:
    """Four curves, upstream's first and the others over it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("--save-dir plots with matplotlib: pip install matplotlib (the extra `plot`)") from None
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
                axis.plot(runs[run][name].reshape(-1), label=run, linewidth=2.5 if run == "upstream" else 0.8)
        axis.set_title(name)
        axis.set_ylabel(unit)
        axis.set_xlabel(step)
        if axis.lines:
            axis.legend(loc="upper right")
    picture.savefig(path, dpi=110)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint
    from core.output import check_output
    from pipeline.seams import first_bad

    if arguments.save_dir:
        check_output(arguments.save_dir / "seams.json")
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
        "seams": {name: [asdict(row) for row in found] for name, found in rows.items()},
    }
    if arguments.save_dir:
        save(arguments.save_dir, runs, report)
    print(json.dumps(report))
    return EXIT_REJECTED if any(bad.values()) else EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from pipeline.validate import main  # one module identity, however it was started

    raise SystemExit(main())
