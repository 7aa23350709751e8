"""Test vectors of the conductor: inputs and outputs of every step, for a port to check itself step by step.

    python -m pipeline.vectors --out build/vectors [--checkpoint demo] [--build build] [--method fp16]
    python -m pipeline.vectors --check build/vectors [--checkpoint demo] [--build build] [--method fp16]

OUT/index.json holds the steps (what each reads and writes, and how near a port has to come), the bucket lists, hashes of the packages,
and for every tensor its file, shape, dtype and SHA-256. OUT/UTTERANCE/NAME.npy are the tensors, OUT/voice.npy the voice they speak with,
OUT/text.wav the joined chunks of `text`. --check replays each step on the stored tensors. Exit 0: written, or every step agrees. Exit 1:
a step does not. Exit 2: bad input. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not pipeline/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.arguments import checkpoint_argument, form_argument
from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint
    from pipeline.steps import Chain


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="pipeline.vectors", description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--out", type=Path, default=Path("build/vectors"), help="folder to write (default: %(default)s)")
    what.add_argument("--check", type=Path, metavar="FOLDER", help="replay the vectors of this folder instead")
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the packages (default: %(default)s)")
    parser.add_argument("--method", default="fp16", help="level of the vocoder package (default: %(default)s)")
    form_argument(parser)
    parser.add_argument("--voice", help="a voice or a blend (default: the checkpoint's first)")
    return parser.parse_args(argv)


def chain_of(checkpoint: "Checkpoint", arguments: argparse.Namespace) -> "tuple[Chain, dict[str, str]]":
    """Packages and voice, and the hashes of the packages."""
    from core.voices import VoiceLibrary
    from pipeline.runtimes import Request, open_runtime
    from pipeline.steps import Chain

    library = VoiceLibrary(checkpoint.folder / "voices")
    if not library.names:
        raise InputError(f"{library.folder} holds no voice")
    voice = library.blend(arguments.voice or library.names[0]).numpy()
    opened = open_runtime("mlprogram", Request(checkpoint, arguments.build, arguments.method, arguments.form))
    return Chain(checkpoint.config.vocab, voice, opened.encoder, opened.vocoder), opened.made_of


def print_report(rows: list[dict[str, Any]], title: str, more: dict[str, Any]) -> int:
    """Human table, then one JSON line; the exit code."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in ("utterance", "step", "tensor", "SNR", "to reach", ""):
        table.add_column(heading)
    for row in rows:
        got, limit = ("equal" if value is None else f"{value:.1f} dB" for value in (row["snr_db"], row["limit_db"]))
        table.add_row(row["utterance"], row["step"], row["tensor"], got, limit, "holds" if row["holds"] else "MISSED")
    Console().print(table)
    missed = [row for row in rows if not row["holds"]]
    print(json.dumps(more | {"tensors": len(rows), "missed": missed}))
    return EXIT_REJECTED if missed else EXIT_GOOD


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint
    from core.output import check_output
    from pipeline.vector_files import check_vectors, load_index, vectors_of_ours, write_vectors

    if arguments.check is None:
        check_output(arguments.out, vectors_of_ours)  # before seconds are spent on packages
    else:
        load_index(arguments.check)
    checkpoint = open_checkpoint(arguments.checkpoint)
    chain, packages = chain_of(checkpoint, arguments)
    folder, more = arguments.check, {}
    if folder is None:
        folder = arguments.out
        write_vectors(folder, chain, checkpoint.as_source, packages)
        more = {"out": str(folder), "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())}
    return print_report(check_vectors(folder, chain, packages), f"{folder}, every step replayed on its stored inputs", more)


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from pipeline.vectors import main  # one module identity, however it was started

    raise SystemExit(main())
