"""Build the package of a compression method from its parent's: aside, counted, executed, renamed, the manifest last.

    parent, manifest = build_compressed(METHODS["w8"], checkpoint, Path("build"))
"""

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mlprogram import Program
from pipeline.checkpoint import Checkpoint
from pipeline.contract import bucket_for
from pipeline.demo.data import calibration
from pipeline.errors import CheckFailed, InputError
from pipeline.export import save_package
from pipeline.features import excerpt, text_encoder, vocoder_inputs
from pipeline.manifest import Manifest, describe_package, tool_versions
from pipeline.staging import staged
from quantize.methods import Method, method_named
from quantize.packages import find_package, manifest_path
from quantize.weights import Coverage, compressed
from vocoder.check import CHECK_FRAMES, Figure, snr_db
from vocoder.package import run_program


def build_compressed(method: Method, checkpoint: Checkpoint, build: Path) -> tuple[Manifest, Manifest]:
    """Compress aside, count, execute one clip, rename, write the manifest last: the parent's manifest and the new one.

    Raises CheckFailed when a limit is missed or a layer skipped; nothing new is left then.
    """
    if method.parent is None or method.weights is None:
        raise InputError(f"method {method.name!r} compresses nothing: `{method.command}` builds it")
    parent = find_package(build, checkpoint, method_named(method.parent))
    path = manifest_path(build, checkpoint, method)
    package = path.with_suffix(".mlpackage")
    with staged(package) as aside:
        save_package(compressed(parent.package_path, method.weights), aside)
        before, after = Program(parent.package_path), Program(aside)
        coverage = Coverage.of(before, after, method.weights.keep_up_to)
        coverage.require()
        checks = checked(method, checkpoint, before, after, parent.buckets)
        path.unlink(missing_ok=True)  # from here until it is written again there is no package
    return parent, child_manifest(parent, method, package, after, coverage, checks).save(path)


def checked(method: Method, checkpoint: Checkpoint, before: Program, after: Program, buckets: tuple[int, ...]) -> dict[str, Any]:
    """SNR of one second of a calibration sentence, compressed against parent. Raises CheckFailed below the method's limit."""
    inputs = vocoder_inputs(checkpoint, checkpoint.vocoder(), text_encoder(checkpoint), calibration()[0], seed=0)
    inputs = excerpt(inputs, start=20, frames=min(CHECK_FRAMES, buckets[-1]))
    bucket = bucket_for(inputs.frames, buckets)
    value = snr_db(run_program(before, inputs, bucket), run_program(after, inputs, bucket))
    name = f"SNR against {method.parent}, {inputs.frames} frames of a calibration sentence"
    figure = Figure(name, value, method.check_snr_db, at_least=True)
    if not figure.holds:
        raise CheckFailed(f"{figure.name} is {value:.1f} dB, limit {figure.limit:g} dB; the package was not kept")
    return {"figures": [asdict(figure)]}


def child_manifest(parent: Manifest, method: Method, package: Path, program: Program, coverage: Coverage,
                   checks: dict[str, Any]) -> Manifest:
    """The parent's contract with this method's provenance, counts and figures."""
    counts = Counter(op.op_type for op in program.operations if op.op_type != "const")
    own = {"method": method.name, "parent_sha256": parent.package_sha256, "checks": checks, "tools": tool_versions()}
    compression = asdict(method.weights) | asdict(coverage)
    return replace(parent, **own, compression=compression, operations=dict(sorted(counts.items())), **describe_package(package))
