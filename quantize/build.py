"""Build the package of a compression method from its parent's: aside, counted, executed, renamed, the manifest last.

parent, manifest = build_compressed(METHODS["w8"], checkpoint, Path("build"))
"""

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.build import all_held, converted
from core.checkpoint import Checkpoint
from core.contract import FEATURES, LITERAL, bucket_for
from core.errors import InputError
from core.export import package_of_ours, save_package
from core.figures import Figure, snr_db
from core.manifest import Manifest, describe_package, tool_versions
from core.staging import staged_together
from mlprogram import Program
from mlprogram.scratch import temporary_files_in
from quantize.activations import calibration_inputs, input_ranges
from quantize.coverage import Coverage
from quantize.equalize import channel_sizes, equalized
from quantize.features import check_speech
from quantize.following import envelope_caps, following
from quantize.gptq import Fit, fits_of
from quantize.layers import program_layers
from quantize.learned_folder import Learned, LearnedPalette
from quantize.methods import Method, method_named
from quantize.packages import command_of, find_package, manifest_path
from quantize.plan import LayerPlan, int8_paths, is_fitted, plan_for
from quantize.recipe import Recipe
from quantize.weights import compressed
from vocoder.decoder import Vocoder
from vocoder.forms import form_recorded
from vocoder.package import render_reference, run_program
from vocoder.stage import VocoderStage

EXACT_DB = 100.0  # equalization changes nothing but the rounding of fp32
LEARNED_DB = 10.0  # integers of another vocoder's weights are noise
RIPPLE_DB = 20.0  # a scale that moves within a kernel's reach; the noise that it saves is louder


@dataclass(frozen=True, eq=False)
class Source:
    """What is compressed: an uncompressed package, its stage, and figures of how that differs from the checkpoint's."""

    package: Path
    stage: VocoderStage
    figures: tuple[Figure, ...] = ()


def build_compressed(
    method: Method,
    checkpoint: Checkpoint,
    build: Path,
    recipe: Recipe | None = None,
    form: str = LITERAL,
    learned: Learned | None = None,
) -> tuple[Manifest, Manifest]:
    """Compress aside, count, execute one clip, rename, write the manifest last: the parent's manifest and the new one.

    `learned`: weights, ranges and palettes of a reconstruction, in the place of those rounded to the nearest.
    Raises CheckFailed when a limit is missed or a layer skipped; nothing new is left then.
    """
    if method.parent is None:
        raise InputError(f"method {method.name!r} compresses nothing: `{command_of(method, form)}` builds it")
    parent = find_package(build, checkpoint, method_named(method.parent), form)
    if method.by_recipe and recipe is not None:
        recipe.require_fits(checkpoint)
    path = manifest_path(build, checkpoint, method, form)
    targets = (path.with_suffix(".mlpackage"), package_of_ours), (path, None)
    with staged_together(*targets) as (aside, described), temporary_files_in(aside.parents[1]), tempfile.TemporaryDirectory() as work:
        stage = stage_of(checkpoint, parent)
        method = method.in_form(form)
        method = unbalanced(method) if recipe and method.by_recipe and not recipe.multiplies_integers else method
        source = source_of(method, stage, parent, Path(work), recipe, learned)
        before = Program(source.package)
        layers = program_layers(before, source.stage.layers)
        plan = plan_for(method, layers, recipe.levels if recipe else None)
        peaks = ranges(method, before, plan, source.stage, learned)
        save_package(compressed(source.package, plan, peaks, fits(plan, source.stage, learned)), aside)
        after = Program(aside)
        coverage = Coverage.of(plan, layers, after)
        coverage.require()
        figures = checked(method, stage, Program(parent.package_path), after)
        checks = {"figures": [asdict(figure) for figure in (*source.figures, figures)]}
        child = child_manifest(parent, method, aside, after, describe(method, coverage, recipe, learned), checks).save(described)
    return parent, replace(child, path=path)


def unbalanced(method: Method) -> Method:
    """For a recipe of weights alone, which are compressed as they are."""
    return replace(method, activations=None)


def stage_of(checkpoint: Checkpoint, parent: Manifest) -> VocoderStage:
    """The stage that the parent was built from."""
    form = form_recorded(parent.form, parent.inputs[FEATURES], parent.outputs)
    speech = check_speech(checkpoint, form.check_frames(parent.buckets))
    return VocoderStage(checkpoint, form, parent.buckets, parent.precision, parent.target, speech)


def source_of(
    method: Method, stage: VocoderStage, parent: Manifest, work: Path, recipe: Recipe | None, learned: Learned | None = None
) -> Source:
    """The parent's package, or one converted anew into `work`: balanced channels, or a newer target."""
    if not method.reconverts:
        return Source(parent.package_path, stage)
    figures: tuple[Figure, ...] = ()
    if method.balances:
        vocoder, figures = balanced(method, stage, recipe)
        if learned is not None:
            figures = (*figures, reconstructed(stage, vocoder, learned))
        stage = replace(stage, balanced=vocoder)
    stage = replace(stage, target=method.target or parent.target)
    save_package(converted(stage.function(), stage.precision, stage.target), work / "source.mlpackage")
    return Source(work / "source.mlpackage", stage, figures)


def balanced(method: Method, stage: VocoderStage, recipe: Recipe | None) -> tuple[Vocoder, tuple[Figure, ...]]:
    """The vocoder made ready for int8 inputs, and the proof that it renders the same. Raises CheckFailed when it does not."""
    settings = method.int8_activations()
    clips = list(calibration_inputs(stage.checkpoint, stage.vocoder, settings.clips))
    sizes = channel_sizes(stage.vocoder, clips)
    chosen = int8_paths(method, sizes, recipe.levels if recipe else None)
    copy = equalized(stage.vocoder, {path: size for path, size in sizes.items() if path in chosen}, settings.exponent)
    reference = render_reference(stage.vocoder, stage.speech)

    def held(name: str, ready: Vocoder, limit_db: float) -> Figure:
        value = snr_db(reference, render_reference(ready, stage.speech))
        return all_held([Figure(f"SNR of the vocoder {name} against the checkpoint's, PyTorch fp32", value, limit_db, True, "dB")])[0]

    figures = [held("with balanced channels", copy, EXACT_DB)]
    if settings.follow:
        copy = following(copy, {path: cap for path, cap in envelope_caps(copy, clips, settings.columns).items() if path in chosen})
        figures.append(held("that also follows time", copy, RIPPLE_DB))
    return copy, tuple(figures)


def reconstructed(stage: VocoderStage, vocoder: Vocoder, learned: Learned) -> Figure:
    """Put what was learned into the vocoder, and the proof that it is this vocoder's. Raises CheckFailed when it is not."""
    learned.put(vocoder)
    value = snr_db(render_reference(stage.vocoder, stage.speech), render_reference(vocoder, stage.speech))
    return all_held(
        [Figure("SNR of the vocoder with learned weights against the checkpoint's, PyTorch fp32", value, LEARNED_DB, True, "dB")]
    )[0]


def ranges(
    method: Method, program: Program, plan: tuple[LayerPlan, ...], stage: VocoderStage, learned: Learned | None = None
) -> dict[str, float]:
    """Range of every value that becomes int8, measured on the executed source package; none when no input does.

    What has been divided by its envelope has the range 1, what was learned the learned one.
    """
    chosen, settings = [entry.layer for entry in plan if entry.int8_input], method.activations
    if not chosen or settings is None:
        return {}
    enveloped = {path for path, module in stage.layers.named_modules() if getattr(module, "envelope", None) is not None}
    fixed = {layer.input: 1.0 for layer in chosen if layer.name in enveloped}
    fixed |= {layer.input: learned.ranges[layer.name] for layer in chosen if learned and layer.name in learned.ranges}
    clips = calibration_inputs(stage.checkpoint, stage.vocoder, settings.clips)
    others = [layer for layer in chosen if layer.input not in fixed]
    return input_ranges(program, stage.form, others, clips, stage.buckets, settings.percentile) | fixed


def fits(plan: tuple[LayerPlan, ...], stage: VocoderStage, learned: Learned | None = None) -> Mapping[str, Fit | LearnedPalette]:
    """What the plan's fitted and learned palettes need. InputError where layers are not the vocoder's own convolutions."""
    known = learned.palettes if learned else {}
    paths = [entry.layer.name for entry in plan if is_fitted(entry.weights) and entry.layer.name not in known]
    if (paths or known) and not isinstance(stage.layers, Vocoder):
        raise InputError(f"recipe: palettes are fitted (gptq) or learned in the literal form only, not in {stage.form.name}")
    return fits_of(stage.checkpoint, stage.vocoder, paths) | known


def checked(method: Method, stage: VocoderStage, before: Program, after: Program) -> Figure:
    """SNR of a calibration sentence, compressed against parent. Raises CheckFailed below the method's limit."""
    bucket = bucket_for(stage.speech.frames, stage.buckets)
    value = snr_db(*(run_program(program, stage.form, stage.speech, bucket) for program in (before, after)))
    name = f"SNR against {method.parent}, {stage.speech.frames} frames of a calibration sentence"
    return all_held([Figure(name, value, method.check_snr_db, True, "dB")])[0]


def describe(method: Method, coverage: Coverage, recipe: Recipe | None, learned: Learned | None) -> dict[str, Any]:
    """What was done, for the manifest."""
    configured = {
        "weights": asdict(method.weights) if method.weights else None,
        "activations": asdict(method.activations) if method.activations else None,
        "recipe": recipe.as_dict() if method.by_recipe and recipe else None,
        "reconstruction_sha256": learned.sha256 if learned else None,
        "unfit_for_engine": method.unfit_for_engine,
    }
    return configured | coverage.as_dict()


def child_manifest(
    parent: Manifest,
    method: Method,
    package: Path,
    program: Program,
    compression: dict[str, Any],
    checks: dict[str, Any],
) -> Manifest:
    """The parent's contract with this method's provenance, counts and figures."""
    counts = Counter(op.op_type for op in program.operations if op.op_type != "const")
    own: dict[str, Any] = {"method": method.name, "parent_sha256": parent.package_sha256, "checks": checks, "tools": tool_versions()}
    shape: dict[str, Any] = {"operations": dict(sorted(counts.items())), "target": method.target or parent.target}
    return replace(parent, **own, compression=compression, **shape, **describe_package(package))
