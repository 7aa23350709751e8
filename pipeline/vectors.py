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

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    voice_option,
)
from kokoro_ane.runtimes import DEFAULT_RUNTIME, open_runtime, open_voice

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint
    from kokoro_ane.pipeline.synthesis import Chain


@dataclass(frozen=True)
class VectorOptions(CommandOptions):
    """A folder of test vectors, and the packages that write or replay it."""

    out: Path = option("folder to write", Path("build/vectors"), exclusive="folder")
    check: Path | None = option(
        "replay the vectors of this folder instead", metavar="FOLDER", exclusive="folder"
    )
    checkpoint: str | None = checkpoint_option()
    build: Path = build_option()
    method: str = option("level of the vocoder package", "fp16")
    layout: str = layout_option()
    runtime: str = option(
        "--check: who replays them; coreml is Core ML itself, on a Mac",
        DEFAULT_RUNTIME,
        choices=(DEFAULT_RUNTIME, "coreml"),
    )
    voice: str | None = voice_option()


def open_chain(checkpoint: "Checkpoint", options: VectorOptions) -> "tuple[Chain, dict[str, str]]":
    """Open the packages and the voice; return the chain and the hashes of the packages."""
    from kokoro_ane.pipeline.synthesis import Chain
    from kokoro_ane.quantize import PackageRequest

    name, _ = checkpoint.library.chosen(options.voice)
    request = PackageRequest(checkpoint, options.build, options.method, options.layout)
    opened = open_runtime(options.runtime, request)
    voice = open_voice(checkpoint, name, opened.vocoder.predictor)
    return Chain(checkpoint.config.vocab, voice, opened.encoder, opened.vocoder), opened.made_of


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(VectorOptions, "kokoro-ane vectors", __doc__, argv)
    from kokoro_ane.core import check_output, open_checkpoint, recover
    from kokoro_ane.pipeline.step_comparison import GOOD, print_rows
    from kokoro_ane.pipeline.vector_files import (
        check_vectors,
        load_index,
        vectors_of_ours,
        write_vectors,
    )

    if options.check is None:
        if options.runtime != DEFAULT_RUNTIME:
            raise InputError(f"--runtime {options.runtime} replays vectors: name them by --check")
        # before seconds are spent on packages
        folder = check_output(options.out, vectors_of_ours)
    else:
        recover(options.check.parent)  # a run that wrote it may have been killed
        load_index(options.check)
        folder = options.check
    checkpoint = open_checkpoint(options.checkpoint)
    chain, packages = open_chain(checkpoint, options)
    report: dict[str, Any] = {}
    if options.check is None:
        write_vectors(folder, chain, checkpoint.as_source, packages)
        report = {
            "out": str(folder),
            "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        }
    # What was just written is replayed, too: nothing is handed out unchecked.
    rows = check_vectors(folder, chain, packages)
    print_rows(f"{folder}, every step replayed on its stored inputs", rows)
    missed = [asdict(row) for row in rows if row.verdict != GOOD]
    report |= {"tensors": len(rows), "missed": missed}
    meaning = f"{len(missed)} of {len(rows)} tensors differ"
    return conclude(options, report, EXIT_REJECTED if missed else EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
