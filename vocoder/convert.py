"""Build the vocoder package: checkpoint to .mlpackage, executed and compared before it gets its name.

    python -m vocoder.convert [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--precision fp16|fp32] [--buckets 40,80,160] [--out build]

Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit 2: bad input. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not vocoder/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.contract import DEFAULT_BUCKETS, FEATURES, STYLE, VOCODER_NAME, WAVEFORM, PackedLayout, check_buckets
from pipeline.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    import coremltools as ct

    from pipeline.checkpoint import Checkpoint
    from pipeline.manifest import Manifest
    from vocoder.decoder import Vocoder
    from vocoder.packing import VocoderInputs

TAIL_MODULES = ("conv_post", "stft")  # kept in fp32: the ear hears exp and phase errors first


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="vocoder.convert", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--checkpoint",
        help="folder with config.json, one .pth and voices/; 'demo'; 'hexgrad/Kokoro-82M'. Default: Kokoro if it can be had, else demo",
    )
    parser.add_argument(
        "--precision", choices=("fp16", "fp32"), default="fp16", help="fp16: fp16 trunk and fp32 tail; fp32: a reference package"
    )
    parser.add_argument(
        "--buckets",
        type=buckets_argument,
        default=DEFAULT_BUCKETS,
        help="enumerated lengths in frames (40 a second), comma-separated and rising",
    )
    parser.add_argument("--target", choices=("iOS17", "iOS18"), default="iOS17", help="minimum deployment target")
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the package and its manifest")
    return parser.parse_args(argv)


def buckets_argument(text: str) -> tuple[int, ...]:
    """'20,40' -> (20, 40)."""
    try:
        return check_buckets(tuple(int(part) for part in text.split(",") if part.strip()))
    except InputError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 20,40,80") from None


def export_model(
    vocoder: "Vocoder", buckets: tuple[int, ...], precision: str, target: str, hidden_dim: int, style_dim: int
) -> "ct.models.MLModel":
    """Trace the packed vocoder and convert it with one enumerated input."""
    import numpy as np
    import torch

    from pipeline.export import TensorType, convert
    from vocoder.packing import PackedVocoder

    layout = PackedLayout(hidden_dim)
    shapes = tuple((1, layout.channels, 1, bucket + 1) for bucket in buckets)
    dtype = np.float16 if precision == "fp16" else np.float32
    features = TensorType(FEATURES, dtype, shapes=shapes) if len(shapes) > 1 else TensorType(FEATURES, dtype, shape=shapes[0])
    return convert(
        PackedVocoder(vocoder, layout).eval(),
        (torch.ones(shapes[0]), torch.zeros(1, style_dim, 1, 1)),
        inputs=[features, TensorType(STYLE, dtype, shape=(1, style_dim, 1, 1))],
        outputs=[TensorType(WAVEFORM, np.float32)],
        precision=precision,
        keep_fp32=TAIL_MODULES,
        target=target,
    )


def check_inputs(checkpoint: "Checkpoint", vocoder: "Vocoder", buckets: tuple[int, ...]) -> "VocoderInputs":
    """A second of a held-out sentence (less when every bucket is shorter), spoken by this checkpoint."""
    from pipeline.demo.data import heldout
    from pipeline.features import excerpt, text_encoder, vocoder_inputs
    from vocoder.check import CHECK_FRAMES

    inputs = vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0)
    return excerpt(inputs, start=20, frames=min(CHECK_FRAMES, buckets[-1]))


def build(checkpoint: "Checkpoint", buckets: tuple[int, ...], precision: str, target: str, out: Path) -> "Manifest":
    """Export aside, execute, compare, rename, write the manifest. Raises CheckFailed when a limit is missed; nothing is left then."""
    from pipeline.export import save_package
    from pipeline.manifest import package_name
    from pipeline.staging import staged
    from vocoder.check import check_package

    vocoder, config = checkpoint.vocoder(), checkpoint.config
    inputs = check_inputs(checkpoint, vocoder, buckets)
    name = package_name(VOCODER_NAME, checkpoint.name, checkpoint.releasable, precision)
    package, manifest_path = out / f"{name}.mlpackage", out / f"{name}.json"
    model = export_model(vocoder, buckets, precision, target, config.hidden_dim, config.style_dim)
    with staged(package) as aside:
        save_package(model, aside)
        figures, facts = check_package(aside, vocoder, inputs, buckets, precision)
        manifest_path.unlink(missing_ok=True)  # from here until it is written again there is no package
    from vocoder.describe import vocoder_manifest

    return vocoder_manifest(checkpoint, vocoder, package, buckets, precision, target, figures, facts).save(manifest_path)


def print_report(manifest: "Manifest") -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"{manifest.package}  {manifest.package_bytes / 1e6:.1f} MB, {len(manifest.buckets)} lengths, {manifest.target}",
        title_justify="left",
    )
    for heading in ("check on the executed package", "figure", "limit", ""):
        table.add_column(heading)
    for figure in manifest.checks["figures"]:
        relation = ">=" if figure["at_least"] else "<="
        table.add_row(figure["name"], f"{figure['value']:.1f} dB", f"{relation} {figure['limit']:g} dB", "holds")
    structure = manifest.checks["structure"]
    table.add_row(
        "matmul, transpose, gather, random, crop ...; tensors not of rank 4",
        f"{sum(structure['forbidden'].values())}, {structure['not_rank_4']}",
        "0, 0",
        "holds",
    )
    Console().print(table)
    if not manifest.releasable:
        print("demo voice: not releasable")
    print(
        json.dumps(
            {
                "manifest": str(manifest.path),
                "package_bytes": manifest.package_bytes,
                "releasable": manifest.releasable,
                "checks": manifest.checks,
            }
        )
    )


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from pipeline.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(arguments.checkpoint)
    print_report(build(checkpoint, arguments.buckets, arguments.precision, arguments.target, arguments.out))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from vocoder.convert import main  # one module identity, however it was started

    raise SystemExit(main())
