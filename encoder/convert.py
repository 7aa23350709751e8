"""Build the encoder package: checkpoint to .mlpackage, executed and compared before it gets its name.

    python -m encoder.convert [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--precision fp16|fp32] [--target iOS18|iOS17] [--out build]

iOS 18: one package with the functions `duration` and `prosody`. iOS 17: two packages, because functions came with iOS 18.
Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit 2: bad input. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not encoder/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.arguments import buckets_argument
from pipeline.contract import (
    DEFAULT_BUCKETS,
    DURATION,
    ENCODER_NAME,
    MAX_PHONEMES,
    PROSODY,
    TOKEN_BUCKETS,
)
from pipeline.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    from encoder.check import Utterance
    from encoder.describe import EncoderManifest
    from encoder.functions import Buckets
    from pipeline.checkpoint import Checkpoint

CHECK_TOKENS = (3, 60, 200, MAX_PHONEMES + 2)  # shortest, a sentence, a paragraph, the longest; as far as the buckets go


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="encoder.convert", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--checkpoint", help="a folder, or by name (default: hexgrad/Kokoro-82M, else kokoro-int8, else demo)"
    )
    parser.add_argument(
        "--precision",
        choices=("fp16", "fp32"),
        default="fp16",
        help="fp16: fp32 wherever a duration hangs on it; fp32: a reference package",
    )
    parser.add_argument(
        "--buckets",
        type=buckets_argument,
        default=DEFAULT_BUCKETS,
        help="enumerated lengths in frames, comma-separated, rising",
    )
    parser.add_argument(
        "--token-buckets", type=token_buckets, default=TOKEN_BUCKETS, help="enumerated lengths in tokens (phonemes + 2), likewise"
    )
    parser.add_argument("--target", choices=("iOS17", "iOS18"), default="iOS18", help="minimum deployment target; iOS17 gives two packages")
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the packages and their manifests")
    return parser.parse_args(argv)


def token_buckets(text: str) -> tuple[int, ...]:
    """The same with the bounds of ALBERT's positions: 3 to 512."""
    buckets = buckets_argument(text)
    if buckets[0] < 3 or buckets[-1] > MAX_PHONEMES + 2:
        raise argparse.ArgumentTypeError(f"token buckets {text!r} are not within 3..{MAX_PHONEMES + 2} (phonemes + 2)")
    return buckets


def check_utterances(checkpoint: "Checkpoint", buckets: "Buckets") -> "list[Utterance]":
    """Random symbols of several lengths in the checkpoint's voices: worse than speech, and free of a corpus."""
    import torch

    from encoder.check import SPEEDS, Utterance
    from pipeline.contract import BOUNDARY_ID
    from pipeline.voices import VoiceLibrary, style_row

    library, known = VoiceLibrary(checkpoint.folder / "voices"), sorted(checkpoint.config.vocab.values())
    if not library.names:
        raise InputError(f"{library.folder} holds no voice: the check needs at least one")
    utterances, generator = [], torch.Generator().manual_seed(0)
    for index, tokens in enumerate(n for n in CHECK_TOKENS if n <= buckets.tokens[-1]):
        symbols = torch.randint(len(known), (tokens - 2,), generator=generator).tolist()
        pack = library.pack(library.names[index % len(library.names)])
        style = style_row(pack, tokens - 2)[:, checkpoint.config.style_dim :]
        ids = (BOUNDARY_ID, *(known[symbol] for symbol in symbols), BOUNDARY_ID)
        utterances.append(Utterance(ids, style, SPEEDS[index % len(SPEEDS)]))
    return utterances


def layout(target: str) -> dict[str, dict[str, str]]:
    """Stage name of each package -> contract function -> its name in the package."""
    if target == "iOS17":
        return {ENCODER_NAME + name.capitalize(): {name: "main"} for name in (DURATION, PROSODY)}
    return {ENCODER_NAME: {DURATION: DURATION, PROSODY: PROSODY}}


def build(checkpoint: "Checkpoint", buckets: "Buckets", precision: str, target: str, out: Path) -> "list[EncoderManifest]":
    """Export aside, execute, compare, rename, write manifests. Raises CheckFailed when a limit is missed; nothing is left then."""
    from encoder.alignment import AlignmentLimits
    from encoder.check import check_functions
    from encoder.describe import encoder_manifest
    from encoder.export import export_function, save_functions
    from encoder.model import Encoder
    from mlprogram import Program
    from pipeline.manifest import package_name
    from pipeline.staging import staged

    encoder = Encoder.of(checkpoint)
    utterances, limits = check_utterances(checkpoint, buckets), AlignmentLimits.of(checkpoint.config, buckets.frames[-1])
    names = {stage: package_name(stage, checkpoint.name, checkpoint.releasable, precision) for stage in layout(target)}
    programs = {}
    with ExitStack() as aside:
        for stage, functions in layout(target).items():
            path = aside.enter_context(staged(out / f"{names[stage]}.mlpackage"))
            save_functions({name: export_function(encoder, name, buckets, precision, target) for name in functions}, path)
            programs |= {name: Program(path, function=inside) for name, inside in functions.items()}
        figures, facts = check_functions(programs, encoder, utterances, buckets, limits, precision)
        for name in names.values():
            (out / f"{name}.json").unlink(missing_ok=True)  # from here until it is written again there is no package
    return [
        encoder_manifest(
            checkpoint, out / f"{names[stage]}.mlpackage", stage, functions, buckets, precision, target, limits, figures, facts
        ).save(out / f"{names[stage]}.json")
        for stage, functions in layout(target).items()
    ]


def print_report(manifests: "list[EncoderManifest]") -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    from pipeline.figures import Figure

    title = ", ".join(f"{manifest.package} {manifest.package_bytes / 1e6:.1f} MB" for manifest in manifests)
    table = Table(title=f"{title}  {manifests[0].target}", title_justify="left")
    for heading in ("check on the executed package", "figure", "limit", ""):
        table.add_column(heading)
    for figure in manifests[0].checks["figures"]:
        table.add_row(figure["name"], *Figure(**figure).text(), "holds")
    for manifest in manifests:
        for name, structure in manifest.checks["structure"].items():
            table.add_row(f"operations in `{name}`", str(structure["count"]), "< 1500", "holds")
    Console().print(table)
    first = manifests[0]
    figures = {"manifests": [str(manifest.path) for manifest in manifests], "checks": first.checks, "releasable": first.releasable}
    print(json.dumps(figures | {"package_bytes": sum(manifest.package_bytes for manifest in manifests)}))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from pipeline.checkpoint import open_checkpoint
    from pipeline.export import quiet_coremltools

    with quiet_coremltools():
        import coremltools  # noqa: F401  its banner of missing macOS libraries, once, unheard
    from encoder.functions import Buckets

    buckets = Buckets(arguments.token_buckets, arguments.buckets)
    print_report(build(open_checkpoint(arguments.checkpoint), buckets, arguments.precision, arguments.target, arguments.out))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from encoder.convert import main  # one module identity, however it was started

    raise SystemExit(main())
