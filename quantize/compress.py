"""Build the package of a compression level: the level's integers in the modules of a layout, and
one conversion. Nothing is executed to be built; what was built is read back and executed.

parent, manifest = build_compressed(METHODS["w8"], checkpoint, Path("build"))
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from kokoro_ane.core import builder
from kokoro_ane.core.builder import Part
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import INT8_STORAGE, Check, ProgramFacts, snr_db
from kokoro_ane.core.commands import BuildOptions
from kokoro_ane.core.contract import (
    DECODER,
    FEATURES,
    PADDED,
    STREAMED,
    STYLE,
    UTTERANCE,
    VOCODER_NAME,
    WINDOW,
)
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.export import Function
from kokoro_ane.core.manifest import Manifest, described, level_name
from kokoro_ane.quantize.level import Level, level_of, load_level, made_from, save_level
from kokoro_ane.quantize.locator import find_package, manifest_path, options_for
from kokoro_ane.quantize.methods import Method, method_named
from kokoro_ane.quantize.recipe import Recipe
from kokoro_ane.quantize.speech import check_speech
from kokoro_ane.quantize.stored_forms import Integers, RoundedInput, StoredWeight
from kokoro_ane.quantize.streaming_level import streaming_stage
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
# of the package against the module that it was converted from, with float inputs and with int8
# inputs: a value that lies between two steps goes either way
MODULE_DB, ROUNDED_MODULE_DB = 40.0, 10.0
TABLES = "constexpr_lut_to_dense"
HALF, ENTRIES = "_cast_fp16", "_table"  # in the names of stored constants
Staged = VocoderStage | StreamingStage


def build_compressed(
    method: Method,
    checkpoint: Checkpoint,
    build: Path,
    recipe: Recipe | None = None,
    layout: str = PADDED,
) -> tuple[Manifest, Manifest]:
    """Compress the vocoder in the layout of its uncompressed package, the parent; returns the
    parent's manifest and the new one. The padded layout makes the level anew and leaves its file
    beside the package, the others take it from there.

    Raises CheckFailed when a limit is missed or the package is not as planned. No package is left
    then.
    """
    if method.parent is None:
        command = options_for(method, layout).command
        raise InputError(f"method {method.name!r} compresses nothing: `{command}` builds it")
    parent = find_package(build, checkpoint, method_named(method.parent), layout)
    level = level_for(method, checkpoint, build, recipe, anew=layout == PADDED)
    (child,) = builder.build(CompressedStage.of(level, stage_of(checkpoint, parent), parent), build)
    return parent, child


def level_path(method: Method, checkpoint: Checkpoint, build: Path) -> Path:
    """Where the level's file stands."""
    return manifest_path(build, checkpoint, method).with_suffix(".safetensors")


def level_for(
    method: Method,
    checkpoint: Checkpoint,
    build: Path,
    recipe: Recipe | None = None,
    anew: bool = False,
) -> Level:
    """The level from its file, or made and saved where there is none or it was made by other code.
    Raises InputError for a file that is damaged or of something else.
    """
    path = level_path(method, checkpoint, build)
    if path.exists() and not anew:
        level = load_level(path, checkpoint, method, recipe)
        if level is not None:
            return level
        print(f"{path} was made by other code: making it again", file=sys.stderr)
    level = level_of(checkpoint, method, recipe)
    save_level(level, path, made_from(checkpoint, method, recipe))
    return level


@dataclass(frozen=True, eq=False)
class CompressedStage:
    """A core.builder.PackageStage. Responsibilities: 1. the stage of a layout with a level's
    integers in its modules; 2. the one assertion on its package; 3. the figures of a level.
    """

    inside: Staged
    plain: Staged  # the same uncompressed
    level: Level
    parent: Manifest

    @classmethod
    def of(cls, level: Level, plain: Staged, parent: Manifest) -> "CompressedStage":
        """`plain` is the parent's stage."""
        if isinstance(plain, StreamingStage):
            return cls(streaming_stage(plain, level), plain, level, parent)
        target = level.method.target or plain.target
        inside = replace(plain, balanced=level.applied(plain.vocoder), target=target)
        return cls(inside, plain, level, parent)

    @property
    def precision(self) -> str:
        """That of the parent."""
        return self.inside.precision

    @property
    def target(self) -> str:
        """The parent's deployment target, or a newer one that the level needs."""
        return self.inside.target

    def parts(self) -> tuple[Part, ...]:
        """One package."""
        (part,) = self.inside.parts()
        level = level_name(self.level.method.name, self.parent.layout)
        return (self.inside.part(VOCODER_NAME, level, part.functions),)

    def function(self, name: str) -> Function:
        """The contract function of that name."""
        return self.inside.function(name)

    def finish(self, model: Any) -> Any:
        """Nothing is done to a converted model."""
        return self.inside.finish(model)

    def facts(self, name: str, program: Program) -> ProgramFacts:
        """The program's counts. Raises CheckFailed where it breaks a promise of its layout, or
        stores anything else than the level.
        """
        facts = self.inside.facts(name, program)
        require_stored(self.function(name).module, program)
        # the same arithmetic as before, where inputs stay in float
        if isinstance(self.inside, VocoderStage) and not self.level.ranges:
            before = self.parent.operations
            differing = Counter(facts.operations)
            differing.subtract(before)
            changed = {kind: count for kind, count in differing.items() if count}
            if changed:
                raise CheckFailed(f"operations beside the uncompressed package's: {changed}")
        return facts

    def figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """The package against its module, the module against the uncompressed one."""
        method, speech = self.level.method, self.inside.speech
        figures = self._figures_of_preparation() if self.level.ranges else []
        rendered = self.inside.rendered(programs)
        limit = ROUNDED_MODULE_DB if self.level.ranges else MODULE_DB
        value = snr_db(rendered_in_torch(self.inside), rendered)
        figures.append(Check("SNR against the level in PyTorch", value, limit, True, "dB"))
        name = f"SNR against {method.parent} in PyTorch, {speech.frames} frames of a tuning voice"
        value = snr_db(rendered_in_torch(self.plain), rendered)
        return [*figures, Check(name, value, method.check_snr_db, True, "dB")]

    def _figures_of_preparation(self) -> list[Check]:
        """That the vocoder renders the same when it is prepared for int8 inputs."""
        plain, level, speech = self.plain.vocoder, self.level, self.inside.speech
        reference = render_reference(plain, speech)
        steps = {"balanced channels": (replace(level, caps={}), EXACT_DB)}
        if level.caps:
            steps["a scale that varies over time too"] = (level, RIPPLE_DB)
        return [
            Check(
                f"SNR of the vocoder with {name} against the checkpoint's, PyTorch fp32",
                snr_db(reference, render_reference(step.prepared(plain), speech)),
                limit_db,
                True,
                "dB",
            )
            for name, (step, limit_db) in steps.items()
        ]

    def contract(self, part: Part) -> dict[str, Any]:
        """The parent's contract with this level's provenance."""
        return self.inside.contract(part) | {
            "method": self.level.method.name,
            "parent_sha256": self.parent.package_sha256,
            "inputs": self.parent.inputs,
            "outputs": self.parent.outputs,
            "compression": self.level.as_dict(),
        }


def rendered_in_torch(stage: Staged) -> np.ndarray:
    """The stage's speech by its modules."""
    if isinstance(stage, StreamingStage):
        return stage.in_torch().render(stage.speech)
    return render_reference(stage.vocoder, stage.speech)


def require_stored(module: nn.Module, program: Program) -> None:
    """Raise CheckFailed where a package's function stores other constants than its module holds,
    or stores them otherwise. mlprogram reads them, which shares no code with what wrote them.
    """
    forms = {part.label: part for part in module.modules() if isinstance(part, StoredWeight)}
    stored = {
        op.outputs[0].name.removesuffix(HALF): op
        for op in program.operations
        if op.op_type.startswith("constexpr_") and ENTRIES not in op.outputs[0].name
    }
    missing = sorted(set(forms) ^ set(stored))
    if missing:
        raise CheckFailed(f"{program.path} does not store as planned: {missing[0]}")
    for label, form in forms.items():
        op = stored[label]
        kinds = INT8_STORAGE if isinstance(form, Integers) else (TABLES,)
        unpacked = program.constant(op.outputs[0].name)
        if op.op_type not in kinds or not np.array_equal(unpacked, form.array()):
            raise CheckFailed(f"{program.path} unpacks {label} to other values than were stored")
    steps = sorted(
        np.asarray(program.constant(op.inputs["scale"][0]), np.float16).tobytes()
        for op in program.operations
        if op.op_type == "quantize"
    )
    planned = sorted(
        part.step.numpy().tobytes() for part in module.modules() if isinstance(part, RoundedInput)
    )
    if steps != planned:
        raise CheckFailed(f"{program.path} rounds other inputs than planned, or in other steps")


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
