"""Build the package of a compression method from its parent's. It is written aside, counted,
executed and renamed; the manifest comes last.

parent, manifest = build_compressed(METHODS["w8"], checkpoint, Path("build"))
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kokoro_ane.core.builder import MAIN, all_held
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check, snr_db
from kokoro_ane.core.commands import BuildOptions
from kokoro_ane.core.contract import DECODER, FEATURES, PADDED, STREAMED, STYLE, UTTERANCE, WINDOW
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.export import convert, package_of_ours, save_functions, save_package
from kokoro_ane.core.manifest import (
    MANIFEST_FILE,
    Manifest,
    describe_package,
    described,
    tool_versions,
)
from kokoro_ane.core.process import temporary_files_in
from kokoro_ane.core.staging import staged_together
from kokoro_ane.quantize.activations import (
    calibration_inputs,
    input_ranges,
    observed,
    observed_function,
)
from kokoro_ane.quantize.balance import (
    balance_channels,
    channel_sizes,
    scale_caps,
    with_time_varying_scales,
)
from kokoro_ane.quantize.layer_plan import (
    COUNTERPARTS,
    Coverage,
    LayerPlan,
    int8_paths,
    is_fitted,
    plan_for,
    program_layers,
)
from kokoro_ane.quantize.locator import find_package, manifest_path, options_for
from kokoro_ane.quantize.methods import Method, method_named
from kokoro_ane.quantize.palettes import Fit, fits_of
from kokoro_ane.quantize.recipe import Recipe
from kokoro_ane.quantize.speech import check_speech
from kokoro_ane.quantize.statistics_shift import corrected
from kokoro_ane.quantize.weights import compressed
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import layout_recorded
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.streaming.norm_statistics import predictor_of
from kokoro_ane.vocoder.streaming.streaming_package import Lengths
from kokoro_ane.vocoder.streaming.streaming_stage import CHECK_FRAMES, StreamingStage
from kokoro_ane.vocoder.vocoder_stage import VocoderStage
from mlprogram import Program

# balanced channels change nothing but the rounding of fp32
EXACT_DB = 100.0
# a scale that moves within a kernel's reach makes a ripple; the noise that it saves is louder
RIPPLE_DB = 20.0


Staged = VocoderStage | StreamingStage


@dataclass(frozen=True, eq=False)
class Source:
    """What is compressed: uncompressed packages of one function each, the stage that they belong
    to, and figures of how they differ from the checkpoint.
    """

    packages: Mapping[str, Path]  # by function
    stage: Staged
    figures: tuple[Check, ...] = ()


def build_compressed(
    method: Method,
    checkpoint: Checkpoint,
    build: Path,
    recipe: Recipe | None = None,
    layout: str = PADDED,
) -> tuple[Manifest, Manifest]:
    """Compress the parent's package; returns the parent's manifest and the new one.

    Raises CheckFailed when a limit is missed or a layer was skipped. Nothing new is left then.
    """
    if method.parent is None:
        command = options_for(method, layout).command
        raise InputError(f"method {method.name!r} compresses nothing: `{command}` builds it")
    parent = find_package(build, checkpoint, method_named(method.parent), layout)
    if method.by_recipe and recipe is not None:
        recipe.require_fits(checkpoint)
    path = manifest_path(build, checkpoint, method, layout)
    targets = (path.with_suffix(".mlpackage"), package_of_ours), (path, MANIFEST_FILE)
    with (
        staged_together(*targets) as (aside, manifest_aside),
        temporary_files_in(aside.parents[1]),
        tempfile.TemporaryDirectory() as work,
    ):
        stage = stage_of(checkpoint, parent)
        # a recipe without int8 inputs needs no balanced channels: the package is not converted anew
        if recipe and method.by_recipe and not recipe.multiplies_integers:
            method = replace(method, activations=None)
        source = source_of(method, stage, parent, Path(work), recipe)
        coverage = write_compressed(method, source, recipe, aside)
        coverage.require()
        before, after = (
            {name: Program(where, function=inside) for name, inside in parent.functions.items()}
            for where in (parent.package_path, aside)
        )
        figures = checked(method, stage, before, after)
        checks = {"figures": [asdict(figure) for figure in (*source.figures, figures)]}
        compression = describe(method, coverage, recipe)
        child = child_manifest(parent, method, aside, after.values(), compression)
        child = replace(child, checks=checks).save(manifest_aside)
    return parent, replace(child, path=path)


def write_compressed(
    method: Method, source: Source, recipe: Recipe | None, aside: Path
) -> Coverage:
    """Compress every function as planned, save them as one package, return the coverage of all.
    Function `window` does the arithmetic of `utterance` and is not counted again.
    """
    stage, streaming = source.stage, len(source.packages) > 1
    programs = {name: Program(path) for name, path in source.packages.items()}
    layers = {
        name: program_layers(program, stage.layers_of(name)) for name, program in programs.items()
    }
    levels = recipe.levels if recipe else None
    plans = {
        name: plan_for(method, function_layers, levels, streaming)
        for name, function_layers in layers.items()
    }
    fitted = fits([entry for plan in plans.values() for entry in plan], stage)
    models: dict[str, Any] = {}
    # the decoder comes last: the statistics that it predicts depend on the others' weights
    for name in sorted(plans, key=lambda name: name == DECODER):
        peaks = ranges(method, programs, name, plans[name], stage)
        package = source.packages[name]
        if name == DECODER:
            package = decoder_with_corrected_statistics(source, programs, models[UTTERANCE])
        models[name] = compressed(package, plans[name], peaks, fitted)
    save_functions({name: models[name] for name in plans}, aside)
    after = {name: Program(aside, function=name) for name in models}
    return Coverage.together(
        [
            Coverage.of(plans[name], layers[name], after[name], counted=name != WINDOW)
            for name in models
        ]
    )


def decoder_with_corrected_statistics(
    source: Source, programs: Mapping[str, Program], utterance: Any
) -> Path:
    """The decoder, converted anew with the statistics of the generator as it is compressed in
    function `utterance`.
    """
    stage, package = source.stage, source.packages[DECODER]
    assert isinstance(stage, StreamingStage)
    measuring = package.with_name(f"measuring{package.suffix}")
    save_package(utterance, measuring)
    stage = replace(stage, predictor=corrected(stage, programs, Program(measuring)))
    reconverted = package.with_name(f"corrected{package.suffix}")
    save_package(convert(stage.function(DECODER), stage.precision, stage.target), reconverted)
    return reconverted


def stage_of(checkpoint: Checkpoint, parent: Manifest) -> Staged:
    """The stage that the parent was built from. Raises InputError where its statistics are those of
    another predictor.
    """
    if parent.layout in STREAMED:
        with described(parent.path):
            lengths = [
                tuple(parent.inputs[name][FEATURES]["frames"]) for name in (UTTERANCE, WINDOW)
            ]
            recorded_sha256 = parent.inputs[DECODER][STYLE]["statistics_sha256"]
        predictor = predictor_of(checkpoint)
        if recorded_sha256 != predictor.sha256:
            again = f"run `{BuildOptions('vocoder', layout=parent.layout).command}` again"
            differ = (
                f"{str(recorded_sha256)[:12]}, {checkpoint.name} now has {predictor.sha256[:12]}"
            )
            raise InputError(f"{parent.path} has predicted statistics {differ}: {again}")
        speech = check_speech(checkpoint, CHECK_FRAMES)
        return StreamingStage(
            checkpoint,
            predictor,
            Lengths(parent.buckets, *lengths),
            parent.precision,
            speech,
            parent.target,
            parent.layout,
        )
    layout = layout_recorded(parent.layout, parent.outputs)
    speech = check_speech(checkpoint, layout.check_frames(parent.buckets))
    return VocoderStage(checkpoint, layout, parent.buckets, parent.precision, parent.target, speech)


def source_of(
    method: Method, stage: Staged, parent: Manifest, work: Path, recipe: Recipe | None
) -> Source:
    """The parent's package, or packages converted anew into `work`: with balanced channels, for a
    newer target, or with one function each.
    """
    several = isinstance(stage, StreamingStage)
    if not method.reconverts and not several:
        return Source({MAIN: parent.package_path}, stage)
    figures: tuple[Check, ...] = ()
    if method.balances:
        vocoder, figures = balanced_vocoder(method, stage, recipe)
        stage = replace(stage, balanced=vocoder)
    if isinstance(stage, StreamingStage):
        # Snake's 1 / alpha stays out of the weights that are rounded: inside them the error of p6
        # is half as large again
        stage = replace(stage, apart=True)
    else:
        stage = replace(stage, target=method.target or parent.target)
    packages = {}
    for name in parent.functions:
        packages[name] = work / f"{name}.mlpackage"
        save_package(convert(stage.function(name), stage.precision, stage.target), packages[name])
    return Source(packages, stage, figures)


def balanced_vocoder(
    method: Method, stage: Staged, recipe: Recipe | None
) -> tuple[Vocoder, tuple[Check, ...]]:
    """The vocoder prepared for int8 inputs, and the checks that it renders the same. Raises
    CheckFailed when it does not.
    """
    settings = method.int8_activations()
    clips = list(calibration_inputs(stage.checkpoint, stage.vocoder, settings.clips))
    sizes = channel_sizes(stage.vocoder, clips)
    chosen = int8_paths(method, sizes, recipe.levels if recipe else None)
    copy = balance_channels(
        stage.vocoder,
        {path: size for path, size in sizes.items() if path in chosen},
        settings.exponent,
    )
    reference = render_reference(stage.vocoder, stage.speech)

    def held(name: str, ready: Vocoder, limit_db: float) -> Check:
        value = snr_db(reference, render_reference(ready, stage.speech))
        return all_held(
            [
                Check(
                    f"SNR of the vocoder {name} against the checkpoint's, PyTorch fp32",
                    value,
                    limit_db,
                    True,
                    "dB",
                )
            ]
        )[0]

    figures = [held("with balanced channels", copy, EXACT_DB)]
    if settings.time_varying_scale:
        caps = scale_caps(copy, clips, settings.per_column_scale)
        copy = with_time_varying_scales(
            copy, {path: cap for path, cap in caps.items() if path in chosen}
        )
        figures.append(held("with a scale that varies over time too", copy, RIPPLE_DB))
    return copy, tuple(figures)


def ranges(
    method: Method,
    programs: Mapping[str, Program],
    name: str,
    plan: tuple[LayerPlan, ...],
    stage: Staged,
) -> dict[str, float]:
    """The range of every value of a function that becomes int8, measured on the executed source;
    none where no input becomes int8.
    """
    chosen, settings = [entry.layer for entry in plan if entry.int8_input], method.activations
    if not chosen or settings is None:
        return {}
    enveloped = stage.enveloped(name)
    # what has been divided by its envelope reaches 1 by construction
    fixed = {layer.input: 1.0 for layer in chosen if layer.name in enveloped}
    clips = calibration_inputs(stage.checkpoint, stage.vocoder, settings.clips)
    others = [layer for layer in chosen if layer.input not in fixed]
    if isinstance(stage, StreamingStage):
        observe = observed_function(programs, name, stage.lengths)
    else:
        observe = observed(programs[name], stage.layout, stage.buckets)
    return input_ranges(observe, others, clips, settings.percentile) | fixed


def fits(plan: Iterable[LayerPlan], stage: Staged) -> Mapping[str, Fit]:
    """The fits of the plan's fitted palettes, by layer name. A layer that the vocoder does not have
    takes those of its counterpart there.
    """
    names = {entry.layer.name for entry in plan if is_fitted(entry.weights)}
    by_path = fits_of(
        stage.checkpoint, stage.vocoder, sorted({COUNTERPARTS.get(name, name) for name in names})
    )
    return {name: by_path[COUNTERPARTS.get(name, name)] for name in names}


def checked(
    method: Method, stage: Staged, before: Mapping[str, Program], after: Mapping[str, Program]
) -> Check:
    """The SNR of a calibration sentence, compressed package against parent. Raises CheckFailed
    below the method's limit.
    """
    value = snr_db(*(stage.rendered(programs) for programs in (before, after)))
    name = f"SNR against {method.parent}, {stage.speech.frames} frames of a calibration sentence"
    return all_held([Check(name, value, method.check_snr_db, True, "dB")])[0]


def describe(method: Method, coverage: Coverage, recipe: Recipe | None) -> dict[str, Any]:
    """What was done to the weights and inputs, for the manifest."""
    configured = {
        "weights": asdict(method.weights) if method.weights else None,
        "parts": {pattern: asdict(weights) for pattern, weights in method.parts},
        "activations": asdict(method.activations) if method.activations else None,
        "recipe": recipe.as_dict() if method.by_recipe and recipe else None,
        "unfit_for_engine": method.unfit_for_engine,
    }
    return configured | coverage.as_dict()


def child_manifest(
    parent: Manifest,
    method: Method,
    package: Path,
    programs: Iterable[Program],
    compression: dict[str, Any],
) -> Manifest:
    """The parent's contract with this method's provenance and counts."""
    counts = Counter(
        op.op_type for program in programs for op in program.operations if op.op_type != "const"
    )
    return replace(
        parent,
        method=method.name,
        parent_sha256=parent.package_sha256,
        tools=tool_versions(),
        operations=dict(sorted(counts.items())),
        target=method.target or parent.target,
        compression=compression,
        **describe_package(package),
    )
