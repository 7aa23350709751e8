"""Judge the plain quantizers of coremltools.optimize as levels w8 and p6 by the same gates, as a
baseline of this project's levels.

    kokoro-ane build vocoder --layout padded --checkpoint kokoro-int8 --out build/plain
    python -m bench.plain_levels --build build/plain --checkpoint kokoro-int8

Exit 0: both ship; else the exit code of `kokoro-ane quality` for the worse one.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from kokoro_ane.core import PADDED, CommandOptions, build_option, checkpoint_option, command, parse


@dataclass(frozen=True)
class PlainOptions(CommandOptions):
    """Where the parent package stands."""

    build: Path = build_option()
    checkpoint: str | None = checkpoint_option()


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(PlainOptions, "bench.plain_levels", __doc__, argv)
    import coremltools as ct
    from coremltools.optimize import coreml as cto

    from kokoro_ane.core import describe_package, open_checkpoint, save_package
    from kokoro_ane.eval import main as quality
    from kokoro_ane.quantize import HALF, Request
    from mlprogram import open_package

    checkpoint, code = open_checkpoint(options.checkpoint), 0
    parent = Request(checkpoint, options.build, HALF, PADDED).verified()
    exact = open_package(parent.package_path)
    for name, quantizer, config in (
        ("w8", cto.linear_quantize_weights, cto.OpLinearQuantizerConfig()),
        ("p6", cto.palettize_weights, cto.OpPalettizerConfig(nbits=6)),
    ):
        path = Request(checkpoint, options.build, name, PADDED).vocoder
        package = path.with_suffix(".mlpackage")
        model = ct.models.MLModel(
            exact.spec, skip_model_load=True, weights_dir=str(exact.weights_dir)
        )
        save_package(quantizer(model, cto.OptimizationConfig(config)), package)
        replace(parent, method=name, **describe_package(package)).save(path)
        flags = f"--checkpoint {options.checkpoint} --build {options.build}"
        flags = f"--method {name} --layout {PADDED} {flags}"
        code = max(code, quality(flags.split()))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
