"""Test vectors of the chain: inputs and outputs of every step, for a port to check itself step by
step.

    kokoro-ane vectors --out build/vectors [--checkpoint FOLDER] [--build build] [--method fp16]
    kokoro-ane vectors --check build/vectors [--checkpoint FOLDER] [--build build] [--method fp16]
        [--runtime coreml]

OUT/index.json holds the steps (what each reads and writes, and how near a port has to come), the
bucket lists, hashes of the packages, and for every tensor its file, shape, dtype and SHA-256.
OUT/UTTERANCE/NAME.npy are the tensors, OUT/voice.npy the voice they speak with, OUT/text.wav the
joined chunks of `text`. --check replays each step on the stored tensors. Exit 0: written, or every
step agrees. Exit 1: a step does not. Exit 2: bad input. A pipe's last line is one JSON object.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.commands import build_argument, checkpoint_argument, conclude, layout_argument
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, command
from kokoro_ane.runtimes.registry import DEFAULT_RUNTIME, open_runtime

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.pipeline.synthesis import Chain


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane vectors", __doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--out",
        type=Path,
        default=Path("build/vectors"),
        help="folder to write (default: %(default)s)",
    )
    what.add_argument(
        "--check", type=Path, metavar="FOLDER", help="replay the vectors of this folder instead"
    )
    checkpoint_argument(parser)
    build_argument(parser)
    parser.add_argument(
        "--method", default="fp16", help="level of the vocoder package (default: %(default)s)"
    )
    layout_argument(parser)
    parser.add_argument(
        "--runtime",
        choices=(DEFAULT_RUNTIME, "coreml"),
        default=DEFAULT_RUNTIME,
        help="--check: who replays them; coreml is Core ML itself, on a Mac (default: %(default)s)",
    )
    parser.add_argument("--voice", help="a voice or a blend (default: as `kokoro-ane speak`)")
    return parser.parse_args(argv)


def chain_of(
    checkpoint: "Checkpoint", arguments: argparse.Namespace
) -> "tuple[Chain, dict[str, str]]":
    """Packages and voice, and the hashes of the packages."""
    from kokoro_ane.core.voices import VoiceLibrary
    from kokoro_ane.pipeline.synthesis import Chain
    from kokoro_ane.quantize.locator import Request

    _, voice = VoiceLibrary(checkpoint.folder / "voices").chosen(arguments.voice)
    request = Request(checkpoint, arguments.build, arguments.method, arguments.layout)
    opened = open_runtime(arguments.runtime, request)
    return Chain(checkpoint.config.vocab, voice, opened.encoder, opened.vocoder), opened.made_of


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.staging import check_output, recover
    from kokoro_ane.pipeline.step_comparison import GOOD, print_rows
    from kokoro_ane.pipeline.vector_files import (
        check_vectors,
        load_index,
        vectors_of_ours,
        write_vectors,
    )

    if arguments.check is None:
        if arguments.runtime != DEFAULT_RUNTIME:
            raise InputError(f"--runtime {arguments.runtime} replays vectors: name them by --check")
        # before seconds are spent on packages
        arguments.out = check_output(arguments.out, vectors_of_ours)
    else:
        recover(arguments.check.parent)  # a run that wrote it may have been killed
        load_index(arguments.check)
    checkpoint = open_checkpoint(arguments.checkpoint)
    chain, packages = chain_of(checkpoint, arguments)
    folder, more = arguments.check, {}
    if folder is None:
        folder = arguments.out
        write_vectors(folder, chain, checkpoint.as_source, packages)
        more = {
            "out": str(folder),
            "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        }
    rows = check_vectors(folder, chain, packages)
    print_rows(f"{folder}, every step replayed on its stored inputs", rows)
    missed = [asdict(row) for row in rows if row.verdict != GOOD]
    more |= {"tensors": len(rows), "missed": missed}
    meaning = f"{len(missed)} of {len(rows)} tensors differ"
    return conclude(arguments, more, EXIT_REJECTED if missed else EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
