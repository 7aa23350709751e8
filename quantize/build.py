"""Build the package of a compression method from its parent's: aside, counted, executed, renamed, the manifest last.

parent, manifest = build_compressed(METHODS["w8"], checkpoint, Path("build"))
"""

import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from core.checkpoint import Checkpoint
from core.contract import FEATURES, bucket_for
from core.corpus import calibration
from core.errors import CheckFailed, InputError
from core.export import save_package
from core.figures import Figure, snr_db
from core.manifest import Manifest, describe_package, tool_versions
from core.staging import staged
from mlprogram import Program
from quantize.activations import calibration_inputs, input_peaks
from quantize.coverage import Coverage
from quantize.equalize import channel_peaks, equalized
from quantize.features import excerpt, text_encoder, vocoder_inputs
from quantize.layers import program_layers
from quantize.methods import Method, method_named
from quantize.packages import find_package, level_of, manifest_path
from quantize.plan import LayerPlan, plan_for
from quantize.recipe import Recipe
from quantize.weights import compressed
from vocoder.check import CHECK_FRAMES
from vocoder.decoder import Vocoder
from vocoder.export import export_model
from vocoder.package import render_reference, run_program
from vocoder.packing import VocoderInputs
from vocoder.windowed.model import EngineVocoder
from vocoder.windowed.options import EngineOptions

EXACT_DB = 100.0  # equalization changes nothing but the rounding of fp32


@dataclass(frozen=True, eq=False)
class Source:
    """What is compressed: an uncompressed package, the vocoder it came from, and figures of how that differs from the checkpoint's."""

    package: Path
    vocoder: Vocoder
    figures: tuple[Figure, ...] = ()


def build_compressed(
    method: Method, checkpoint: Checkpoint, build: Path, recipe: Recipe | None = None, variant: str | None = None
) -> tuple[Manifest, Manifest]:
    """Compress aside, count, execute one clip, rename, write the manifest last: the parent's manifest and the new one.

    Raises CheckFailed when a limit is missed or a layer skipped; nothing new is left then.
    """
    if method.parent is None:
        raise InputError(f"method {method.name!r} compresses nothing: `{method.command}` builds it")
    parent = find_package(build, checkpoint, method_named(method.parent), variant)
    if method.by_recipe and recipe is not None:
        recipe.require_fits(checkpoint)
    path = manifest_path(build, checkpoint, method, variant)
    package = path.with_suffix(".mlpackage")
    with tempfile.TemporaryDirectory() as work, staged(package) as aside:
        clip = check_clip(checkpoint, parent.buckets)
        source = source_of(method, checkpoint, parent, clip, Path(work))
        before = Program(source.package)
        layers = program_layers(before, exported(method, source.vocoder, parent))
        plan = plan_for(method, layers, recipe.levels if recipe else None)
        save_package(compressed(source.package, plan, ranges(method, checkpoint, before, plan, source, parent.buckets)), aside)
        after = Program(aside)
        coverage = Coverage.of(plan, layers, after)
        coverage.require()
        figures = checked(method, clip, Program(parent.package_path), after, parent.buckets)
        path.unlink(missing_ok=True)  # from here until it is written again there is no package
    compression = describe(method, coverage, recipe)
    checks = {"figures": [asdict(figure) for figure in (*source.figures, figures)]}
    return parent, child_manifest(parent, method, level_of(method, variant), package, after, compression, checks).save(path)


def check_clip(checkpoint: Checkpoint, buckets: tuple[int, ...]) -> VocoderInputs:
    """One second of a calibration sentence."""
    inputs = vocoder_inputs(checkpoint, Vocoder.of(checkpoint), text_encoder(checkpoint), calibration()[0], seed=0)
    return excerpt(inputs, start=20, frames=min(CHECK_FRAMES, buckets[-1]))


def source_of(method: Method, checkpoint: Checkpoint, parent: Manifest, clip: VocoderInputs, work: Path) -> Source:
    """The parent's package, or one converted anew into `work`: balanced channels, or a newer target."""
    vocoder = Vocoder.of(checkpoint)
    if not method.reconverts:
        return Source(parent.package_path, vocoder)
    figures = ()
    if method.balances:
        vocoder, figure = balanced(method, checkpoint, vocoder, clip)
        figures = (figure,)
    config, target = checkpoint.config, method.target or parent.target
    options = options_of(method, parent)
    model = export_model(vocoder, parent.buckets, "fp16", target, config.hidden_dim, config.style_dim, options)
    save_package(model, work / "source.mlpackage")
    return Source(work / "source.mlpackage", vocoder, figures)


def options_of(method: Method, parent: Manifest) -> EngineOptions | None:
    """The parent's options, its Snakes' scales apart where channels are balanced."""
    options = EngineOptions.recorded(parent.inputs[FEATURES])
    return options and replace(options, apart=method.balances)


def exported(method: Method, vocoder: Vocoder, parent: Manifest) -> nn.Module:
    """The module whose layers the source's program has."""
    options = options_of(method, parent)
    return vocoder if options is None else EngineVocoder(vocoder, parent.hidden_dim, options.form(), options.apart)


def balanced(method: Method, checkpoint: Checkpoint, vocoder: Vocoder, clip: VocoderInputs) -> tuple[Vocoder, Figure]:
    """The equalized vocoder and the proof that it renders the same. Raises CheckFailed when it does not."""
    peaks = channel_peaks(vocoder, calibration_inputs(checkpoint, vocoder, method.activations.clips))
    copy = equalized(vocoder, peaks, method.activations.exponent)
    value = snr_db(render_reference(vocoder, clip), render_reference(copy, clip))
    return copy, held(Figure("SNR of the balanced vocoder against the checkpoint's, PyTorch fp32", value, EXACT_DB, True, "dB"))


def ranges(
    method: Method, checkpoint: Checkpoint, program: Program, plan: tuple[LayerPlan, ...], source: Source, buckets: tuple[int, ...]
) -> dict[str, float]:
    """Peaks of the values that become int8, measured on the executed source package; none when no input does."""
    chosen = [entry.layer for entry in plan if entry.int8_input]
    if not chosen or method.activations is None:
        return {}
    clips = calibration_inputs(checkpoint, source.vocoder, method.activations.clips)
    return input_peaks(program, chosen, clips, buckets)


def checked(method: Method, clip: VocoderInputs, before: Program, after: Program, buckets: tuple[int, ...]) -> Figure:
    """SNR of the clip, compressed against parent. Raises CheckFailed below the method's limit."""
    bucket = bucket_for(clip.frames, buckets)
    value = snr_db(run_program(before, clip, bucket), run_program(after, clip, bucket))
    name = f"SNR against {method.parent}, {clip.frames} frames of a calibration sentence"
    return held(Figure(name, value, method.check_snr_db, True, "dB"))


def held(figure: Figure) -> Figure:
    """The figure, or CheckFailed when it misses its limit."""
    if not figure.holds:
        value, limit = figure.text()
        raise CheckFailed(f"{figure.name} is {value}, limit {limit}; the package was not kept")
    return figure


def describe(method: Method, coverage: Coverage, recipe: Recipe | None) -> dict[str, Any]:
    """What was done, for the manifest."""
    configured = {
        "weights": asdict(method.weights) if method.weights else None,
        "activations": asdict(method.activations) if method.activations else None,
        "recipe": recipe.as_dict() if method.by_recipe and recipe else None,
        "unfit_for_engine": method.unfit_for_engine,
    }
    return configured | coverage.as_dict()


def child_manifest(
    parent: Manifest,
    method: Method,
    level: str,
    package: Path,
    program: Program,
    compression: dict[str, Any],
    checks: dict[str, Any],
) -> Manifest:
    """The parent's contract with this method's provenance, counts and figures."""
    counts = Counter(op.op_type for op in program.operations if op.op_type != "const")
    own = {"method": level, "parent_sha256": parent.package_sha256, "checks": checks, "tools": tool_versions()}
    shape = {"operations": dict(sorted(counts.items())), "target": method.target or parent.target}
    return replace(parent, **own, compression=compression, **shape, **describe_package(package))
