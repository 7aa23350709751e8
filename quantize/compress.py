"""Build the packages of a compression level: the level's integers in the modules of a vocoder's
layout or of the encoder, and one conversion. Nothing is executed to be built; what was built is
read back and executed.

    [(parent, manifest)] = build_compressed(METHODS["w8"], checkpoint, Path("build"))
    method = STAGE_METHODS["encoder"]["w8g"]
    pairs = build_compressed(method, checkpoint, Path("build"), stage=ENCODER_NAME)
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from kokoro_ane.core import (
    DECODER,
    DEFAULT_BUCKETS,
    DEFAULT_LAYOUT,
    ENCODER_NAME,
    FEATURES,
    INT8_STORAGE,
    LIMIT_SNR_DB,
    STATISTICS,
    STREAMED,
    UTTERANCE,
    VOCODER_NAME,
    WINDOW,
    Artifact,
    BuildOptions,
    Check,
    CheckFailed,
    Checkpoint,
    FunctionSpec,
    InputError,
    Manifest,
    ProgramFacts,
    build_packages,
    describe_package,
    described,
    level_name,
    snr_db,
)
from kokoro_ane.encoder import (
    Buckets,
    Encoder,
    EncoderBackend,
    EncoderStage,
    check_utterances,
    encode,
    make_torch_functions,
    round_durations,
)
from kokoro_ane.quantize.level import CompressionLevel, load_level, make_level, save_level
from kokoro_ane.quantize.locator import FLOAT, HALF, PackageRequest, make_options
from kokoro_ane.quantize.methods import Method, find_method
from kokoro_ane.quantize.recipe import QuantizationRecipe, choose_recipe
from kokoro_ane.quantize.stored_forms import Integers, RoundedInput, StoredWeight
from kokoro_ane.quantize.streaming_level import make_streaming_stage
from kokoro_ane.speech import check_speech
from kokoro_ane.vocoder import (
    CHECK_FRAMES,
    Lengths,
    PaddedLayout,
    StreamingStage,
    Vocoder,
    VocoderInputs,
    VocoderStage,
    measure_snr,
    render_reference,
    require_predictor,
)
from mlprogram import Program

# a scale that moves within a kernel's reach makes a ripple; the noise that it saves is louder
RIPPLE_DB = 20.0
# of the package against the module that it was converted from, with float inputs and with int8
# inputs: a value that lies between two steps goes either way
MODULE_DB, ROUNDED_MODULE_DB = 40.0, 10.0
TABLES = "constexpr_lut_to_dense"
CAST, ENTRIES = "_cast_fp16", "_table"  # in the names of stored constants
# of what the encoder computes, whether in fp16; checked are the shortest text and a sentence
ENCODER_TENSORS = {"raw": False, "hidden": False, "text": True, "f0_hz": False, "energy": True}
CHECKED_TEXTS = 2
Staged = VocoderStage | StreamingStage | EncoderStage


def build_compressed(
    method: Method,
    checkpoint: Checkpoint,
    build: Path,
    recipe: QuantizationRecipe | None = None,
    layout: str = DEFAULT_LAYOUT,
    anew: bool = False,
    stage: str = VOCODER_NAME,
) -> list[tuple[Manifest, Manifest]]:
    """Compress the encoder, or the vocoder in the layout of its uncompressed package, the parent;
    pairs of a parent's manifest and a new one, two where each function of the encoder has its own
    package (iOS 17). The level's file is left beside the package, and taken from there by another
    layout; `anew`: not by this one.

    Raises CheckFailed when a limit is missed or the package is not as planned. No package is left
    then.
    """
    if method.parent is None:
        command = make_options(method, layout).command
        raise InputError(f"method {method.name!r} compresses nothing: `{command}` builds it")
    request = PackageRequest(checkpoint, build, method.parent, layout)
    paths = request.encoders if stage == ENCODER_NAME else (request.vocoder,)
    parents = [request.load_manifest(path) for path in paths]
    for parent in parents:
        parent.verify()
    level = load_or_make_level(method, checkpoint, build, recipe, anew, stage)
    compressed = CompressedStage.from_stage(
        level, make_parent_stage(checkpoint, parents[0]), *parents
    )
    children = build_packages(compressed, build)
    return [(compressed.find_parent(*child.functions), child) for child in children]


def locate_level(
    method: Method, checkpoint: Checkpoint, build: Path, stage: str = VOCODER_NAME
) -> Path:
    """Where the level's file stands."""
    request = PackageRequest(checkpoint, build, method.name, encoder=method.name)
    return request.path(stage).with_suffix(".safetensors")


def load_or_make_level(
    method: Method,
    checkpoint: Checkpoint,
    build: Path,
    recipe: QuantizationRecipe | None = None,
    anew: bool = False,
    stage: str = VOCODER_NAME,
) -> CompressionLevel:
    """The level from its file, or made and saved where there is none or it was made by other code.
    Raises InputError for a file that is damaged or of something else.
    """
    path = locate_level(method, checkpoint, build, stage)
    recipe = recipe if method.by_recipe else None
    if path.exists() and not anew:
        level = load_level(path, checkpoint, method, recipe)
        if level is not None:
            return level
        print(f"{path} was made by other code: making it again", file=sys.stderr)
    level = make_level(checkpoint, method, recipe, stage)
    save_level(level, path, checkpoint)
    return level


@dataclass(frozen=True, eq=False)
class LevelFile:
    """A level before it is converted, its file found or made: what a package's manifest would say
    of it, and the network that computes with it in PyTorch.
    """

    level: CompressionLevel
    plain: Any  # the checkpoint's Vocoder or Encoder
    checkpoint: Checkpoint
    path: Path

    @classmethod
    def open(cls, name: str, checkpoint: Checkpoint, build: Path, stage: str) -> "LevelFile":
        """`stage`: of STAGE_METHODS. Raises InputError for a file that is damaged or of something
        else, and CheckFailed for a level that cannot be made.
        """
        method = find_method(name, stage)
        named = f"Kokoro{stage.capitalize()}"
        path = locate_level(method, checkpoint, build, named)
        recipe = choose_recipe(method, checkpoint, build)
        if not path.exists():
            print(f"{path} does not exist: making it", file=sys.stderr)
        level = load_or_make_level(method, checkpoint, build, recipe, stage=named)
        plain = (Encoder if named == ENCODER_NAME else Vocoder).from_checkpoint(checkpoint)
        return cls(level, plain, checkpoint, path)

    @property
    def manifest(self) -> Manifest:
        """With the hash and size of the file."""
        nothing: dict[str, Any] = {}
        return Manifest(
            self.path.stem,
            self.level.method.name,
            FLOAT,
            self.checkpoint.as_source,
            self.checkpoint.releasable,
            target="PyTorch",
            buckets=DEFAULT_BUCKETS,
            hidden_dim=self.checkpoint.config.hidden_dim,
            inputs=nothing,
            outputs=nothing,
            source=nothing,
            operations=nothing,
            checks=nothing,
            tools=nothing,
            compression=self.level.as_dict(),
            path=self.path,
            **describe_package(self.path),
        )

    @cached_property
    def network(self) -> Any:
        """The same with the level's integers, unpacked here once and not whenever a layer reads its
        weight.
        """
        network = self.level.apply(self.plain)
        for path in self.level.forms:
            parametrize.remove_parametrizations(network.get_submodule(path), "weight")
        return network

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600F] float32 of the vocoder at exact length."""
        return render_reference(self.network, inputs)


@dataclass(frozen=True, eq=False)
class CompressedStage:
    """A core.builder.PackageStage. Responsibilities: 1. the encoder's stage, or a layout's, with a
    level's integers in its modules; 2. the one assertion on its package; 3. the figures of a level.
    """

    inside: Staged
    plain: Staged  # the same uncompressed
    level: CompressionLevel
    parents: tuple[Manifest, ...]

    @classmethod
    def from_stage(
        cls, level: CompressionLevel, plain: Staged, *parents: Manifest
    ) -> "CompressedStage":
        """`plain` is the parents' stage."""
        target = level.method.target or plain.target
        inside: Staged
        if isinstance(plain, StreamingStage):
            inside = make_streaming_stage(plain, level)
        elif isinstance(plain, EncoderStage):
            inside = replace(plain, compressed=level.apply(plain.encoder), target=target)
        else:
            inside = replace(plain, balanced=level.apply(plain.vocoder), target=target)
        return cls(inside, plain, level, parents)

    def find_parent(self, name: str, *_: str) -> Manifest:
        """The parent that holds a function."""
        return next(parent for parent in self.parents if name in parent.functions)

    @property
    def precision(self) -> str:
        """That of the parent."""
        return self.inside.precision

    @property
    def target(self) -> str:
        """The parent's deployment target, or a newer one that the level needs."""
        return self.inside.target

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """As many packages as the parents are, by the level's name."""
        level = level_name(self.level.method.name, self.parents[0].layout)
        return tuple(
            self.inside.make_artifact(artifact.stage, level, artifact.functions)
            for artifact in self.plain.list_artifacts()
        )

    def make_function(self, name: str) -> FunctionSpec:
        """The contract function of that name."""
        return self.inside.make_function(name)

    def finish(self, model: Any) -> Any:
        """Nothing is done to a converted model."""
        return self.inside.finish(model)

    def check_program(self, name: str, program: Program) -> ProgramFacts:
        """The program's counts. Raises CheckFailed where it breaks a promise of its layout, or
        stores anything else than the level.
        """
        facts = self.inside.check_program(name, program)
        require_stored(self.make_function(name).module, program)
        # the same arithmetic as before, where inputs stay in float
        if not isinstance(self.inside, StreamingStage) and not self.level.ranges:
            parent = self.find_parent(name)
            with described(parent.path):
                before = parent.checks["structure"][name]["operations"]
            differing = Counter(facts.operations)
            differing.subtract(before)
            changed = {kind: count for kind, count in differing.items() if count}
            if changed:
                raise CheckFailed(f"operations beside the uncompressed package's: {changed}")
        return facts

    def measure_figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """The package against its module, the module against the uncompressed one."""
        method = self.level.method
        inside = self.inside
        plain = self.plain
        if isinstance(inside, EncoderStage):
            assert isinstance(plain, EncoderStage)
            return [*inside.measure_figures(programs), *check_encoder(method, plain, inside)]
        assert not isinstance(plain, EncoderStage)
        figures = check_preparation(self.level, plain.vocoder, inside.speech)
        rendered = inside.render_speech(programs)
        limit_db = ROUNDED_MODULE_DB if self.level.ranges else MODULE_DB
        name = "SNR against the level in PyTorch"
        figures.append(measure_snr(name, render_in_torch(inside), rendered, limit_db))
        frames = inside.speech.frames
        name = f"SNR against {method.parent} in PyTorch, {frames} frames of a tuning voice"
        limit_db = method.check_snr_db
        return [*figures, measure_snr(name, render_in_torch(plain), rendered, limit_db)]

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """The parent's contract with this level's provenance."""
        parent = self.find_parent(*artifact.functions)
        contract = self.inside.describe_artifact(artifact)
        compression = self.level.as_dict()
        if isinstance(self.plain, EncoderStage):
            modules = [self.make_function(name).module for name in artifact.functions]
            labels = {form.label for module in modules for form in list_stored_forms(module)}
            compression["compressed_ops"] = len(labels)  # of two packages each has its own
        else:
            # predicted statistics that a level corrects stay the parent's
            contract |= {"inputs": parent.inputs, "outputs": parent.outputs}
        return contract | {
            "method": self.level.method.name,
            "parent_sha256": parent.package_sha256,
            "compression": compression,
        }


def check_preparation(
    level: CompressionLevel, plain: Vocoder, speech: VocoderInputs
) -> list[Check]:
    """That the vocoder renders the same when it is prepared for int8 inputs."""
    if not level.ranges:
        return []
    reference = render_reference(plain, speech)
    # balanced channels change nothing but the rounding of fp32
    steps = {"balanced channels": (replace(level, caps={}), LIMIT_SNR_DB["fp32"])}
    if level.caps:
        steps["a scale that varies over time too"] = (level, RIPPLE_DB)
    return [
        measure_snr(
            f"SNR of the vocoder with {name} against the checkpoint's, PyTorch fp32",
            reference,
            render_reference(step.prepare(plain), speech),
            limit_db,
        )
        for name, (step, limit_db) in steps.items()
    ]


@torch.no_grad()
def check_encoder(method: Method, plain: EncoderStage, inside: EncoderStage) -> list[Check]:
    """How far a level moves what the encoder computes from random symbols, in PyTorch. F0 and
    energy are computed on the uncompressed encoder's alignment.
    """
    limits = replace(plain.limits, total_frames=sys.maxsize)
    before, after = (
        EncoderBackend(make_torch_functions(stage.encoder), limits) for stage in (plain, inside)
    )
    pairs = []
    moved = 0
    for text in check_utterances(plain.checkpoint, plain.buckets)[:CHECKED_TEXTS]:
        inputs = text.ids, text.style, text.speed
        expected = encode(before, *inputs)
        durations = expected.durations.numpy()
        got = encode(after, *inputs, durations=durations)
        moved += int((round_durations(got.raw.numpy(), limits) != durations).sum())
        pairs.append((expected, got))
    figures = []
    for name, half in ENCODER_TENSORS.items():
        value = min(snr_db(*(getattr(one, name).numpy() for one in pair)) for pair in pairs)
        title = f"{name} against {method.parent} in PyTorch, worst of {CHECKED_TEXTS} texts"
        limit = min(method.check_snr_db, LIMIT_SNR_DB[HALF]) if half else method.check_snr_db
        figures.append(Check(title, value, limit, True, "dB"))
    if method.lossless:
        figures.append(Check("durations changed", moved, 0, False, "tokens"))
    return figures


def list_stored_forms(module: nn.Module) -> list[StoredWeight]:
    """The forms that a module's layers hold."""
    return [part for part in module.modules() if isinstance(part, StoredWeight)]


def render_in_torch(stage: VocoderStage | StreamingStage) -> np.ndarray:
    """The stage's speech by its modules."""
    if isinstance(stage, StreamingStage):
        return stage.make_torch_chain().render(stage.speech)
    return render_reference(stage.vocoder, stage.speech)


def require_stored(module: nn.Module, program: Program) -> None:
    """Raise CheckFailed where a package's function stores other constants than its module holds,
    or stores them otherwise. mlprogram reads them, which shares no code with what wrote them.
    """
    forms = {form.label: form for form in list_stored_forms(module)}
    stored = {
        op.outputs[0].name.removesuffix(CAST): op
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
        if op.op_type not in kinds or not np.array_equal(unpacked, form.to_array()):
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


def make_parent_stage(checkpoint: Checkpoint, parent: Manifest) -> Staged:
    """The stage that the parent was built from. Raises InputError where its statistics are those of
    another predictor.
    """
    if parent.stage.startswith(ENCODER_NAME):
        lengths = Buckets(parent.token_buckets, parent.buckets)
        return EncoderStage(checkpoint, lengths, parent.precision, parent.target)
    if parent.layout in STREAMED:
        with described(parent.path):
            windows = [
                tuple(parent.inputs[name][FEATURES]["frames"]) for name in (UTTERANCE, WINDOW)
            ]
            recorded_sha256 = parent.inputs[DECODER][STATISTICS]["predictor_sha256"]
        predictor = require_predictor(checkpoint)
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
            Lengths(parent.buckets, *windows),
            parent.precision,
            speech,
            parent.target,
            parent.layout,
        )
    layout = PaddedLayout()
    speech = check_speech(checkpoint, layout.check_frames(parent.buckets))
    return VocoderStage(checkpoint, layout, parent.buckets, parent.precision, parent.target, speech)
