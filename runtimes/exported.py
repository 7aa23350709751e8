"""Encoder and vocoder as stages whose files other runtimes open: float32 functions at any length,
without a mask, checked against PyTorch.

    # runtimes/files.py opens them
    stage = PortableVocoderStage(checkpoint, runtime, speeches)
    manifests = build_packages(stage, Path("build"), make_kind(runtime))

The vocoder's graph is vocoder/eager.py's: the style's affine inside the norm, Snake on two
elementwise operations; or, for files that need a plain one, the vocoder's own with norms written
out. Its `features` are those of the padded layout in a bucket of their own length.
"""

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import (
    DEFAULT_BUCKETS,
    DURATION,
    DURATIONS,
    ENCODER_NAME,
    ENERGY,
    F0_HZ,
    FEATURES,
    FRAME_SAMPLES,
    FRAMES,
    HIDDEN,
    INPUT_IDS,
    LIMIT_SNR_DB,
    MAIN,
    NORM_EPSILON,
    PADDED,
    PROSODY,
    SAMPLE_RATE_HZ,
    SPEED,
    STYLE,
    TEXT,
    TOKEN_BUCKETS,
    VOCODER_NAME,
    WAVEFORM,
    Artifact,
    Check,
    Checkpoint,
    Kind,
    KokoroConfig,
    PackedLayout,
    ProgramFacts,
    level_name,
    package_name,
    snr_db,
    with_zero_taps,
)
from kokoro_ane.encoder import (
    AlignmentLimits,
    Buckets,
    DurationFunction,
    Encoder,
    EncoderBackend,
    ProsodyFunction,
    check_utterances,
    compare_outputs,
    describe_contract,
    encode,
    join_programs,
    make_exact_functions,
)
from kokoro_ane.runtimes.files import FileRuntime, render
from kokoro_ane.runtimes.portable import PRECISION, PortableFunction, PortableProgram
from kokoro_ane.vocoder import (
    EagerVocoder,
    Norm,
    Vocoder,
    VocoderInputs,
    describe_source,
    render_exact,
    unpack,
)

EXAMPLE_TOKENS, EXAMPLE_FRAMES = 20, 40
# of each only the last counts: the longest utterance
LENGTHS = Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)
UNBOUNDED = 1 << 40
# frames of the utterances that a build is checked with
CHECKED_FRAMES = (20, 40, 140)


def make_kind(runtime: FileRuntime) -> Kind:
    """The kind for core.builder: a file with one function."""

    def written(stage: Any, artifact: Artifact, path: Path) -> dict[str, PortableProgram]:
        # A file holds one function, so the artifact has one name.
        (name,) = artifact.functions
        function = stage.make_function(name)
        runtime.module.write(function, path)
        # Opened from what was written, so that the file is checked and not the module.
        return {name: runtime.module.open_file(path, function.inputs, function.outputs)}

    return Kind(runtime.module.SUFFIX, runtime.module.TOOLS, written)


@dataclass(frozen=True, eq=False)
class PortableStage:
    """What both stages have in common. See core.builder.Stage."""

    checkpoint: Checkpoint
    runtime: FileRuntime

    @property
    def precision(self) -> str:
        """See Stage."""
        return PRECISION

    @property
    def target(self) -> str:
        """See Stage."""
        return self.runtime.module.TARGET

    def file_of(self, stage: str, layout: str = "") -> str:
        """The name of that stage's file."""
        level = f"{self.runtime.module.NAME}-{level_name(PRECISION, layout)}"
        return package_name(stage, self.checkpoint.name, self.checkpoint.releasable, level)

    def check_program(self, name: str, program: Any) -> ProgramFacts:
        """See Stage."""
        return ProgramFacts(
            self.runtime.module.counts_of(program),
            forbidden={},
            enumerated_shapes=0,
            fp16_operations=0,
            int8_weights=0,
        )

    def describe_head(self) -> dict[str, Any]:
        """The fields of the contract that both stages have."""
        return {
            "method": PRECISION,
            "checkpoint": self.checkpoint.as_source,
            "releasable": self.checkpoint.releasable,
            "buckets": (DEFAULT_BUCKETS[-1],),
            "hidden_dim": self.checkpoint.config.hidden_dim,
        }


def bake_taps(module: nn.Module) -> nn.Module:
    """A copy whose transposed convolutions carry their zero taps in the weight: exporters want
    weights that are constants.
    """
    # A copy, because the checks still compare with the module as it was loaded.
    return with_zero_taps(copy.deepcopy(module).eval()).requires_grad_(False)


@dataclass(frozen=True, eq=False)
class PortableEncoderStage(PortableStage):
    """See core.builder.Stage."""

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder in PyTorch."""
        return Encoder.from_checkpoint(self.checkpoint)

    @property
    def limits(self) -> AlignmentLimits:
        """The limits of the alignment between the two functions."""
        return AlignmentLimits.from_config(self.checkpoint.config, DEFAULT_BUCKETS[-1])

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """See Stage."""
        stages = {
            function: ENCODER_NAME + function.capitalize() for function in (DURATION, PROSODY)
        }
        return tuple(
            Artifact(stage, self.file_of(stage), {function: MAIN})
            for function, stage in stages.items()
        )

    def make_function(self, name: str) -> PortableFunction:
        """The duration or the prosody function."""
        config = self.checkpoint.config
        style = torch.zeros(1, config.style_dim)
        if name == DURATION:
            ids = torch.ones(1, EXAMPLE_TOKENS, dtype=torch.int32)
            # The axis of tokens: 1 in ids and durations [1, T], 3 in [1, C, 1, T].
            across, along = {1: "tokens"}, {3: "tokens"}
            return PortableFunction(
                self.make_module(DurationFunction(self.encoder)),
                # ids [1, T], style [1, style_dim], speed [1]
                (ids, style, torch.ones(1)),
                (INPUT_IDS, STYLE, SPEED),
                (DURATIONS, HIDDEN, TEXT),
                {INPUT_IDS: across, DURATIONS: across, HIDDEN: along, TEXT: along},
                {"tokens": TOKEN_BUCKETS[-1]},
            )
        return PortableFunction(
            self.make_module(ProsodyFunction(self.encoder)),
            (torch.ones(1, config.hidden_dim + 1, 1, EXAMPLE_FRAMES), style),
            (FRAMES, STYLE),
            (F0_HZ, ENERGY),
            # F0 and energy are longer than the frames, so their length has a name of its own.
            {FRAMES: {3: "frames"}, F0_HZ: {1: "values"}, ENERGY: {1: "values"}},
            {"frames": DEFAULT_BUCKETS[-1]},
        )

    def make_module(self, function: nn.Module) -> nn.Module:
        """The function in the operations that this kind of file takes."""
        return bake_taps(self.runtime.module.encoder_graph(function))

    def measure_figures(self, programs: Mapping[str, PortableProgram]) -> list[Check]:
        """Every tensor that leaves the two functions against PyTorch, from the shortest utterance
        to the longest.
        """
        # the texts are longer than any bucket: frames behind the longest are cut off, not refused
        unbounded = replace(self.limits, total_frames=UNBOUNDED)
        longest = DEFAULT_BUCKETS[-1]
        twin = EncoderBackend(make_exact_functions(self.encoder), unbounded, None, longest)
        opened = EncoderBackend(join_programs(programs), unbounded, None, longest, arrays=True)
        pairs = []
        for utterance in check_utterances(self.checkpoint, LENGTHS):
            # The reference in float64: what is measured is the file's own error.
            exact = encode(twin, utterance.ids, utterance.style.double(), utterance.speed)
            inputs = (utterance.ids, utterance.style, utterance.speed)
            # One rounding of a duration would shift all that follows, so both use the same
            # durations.
            durations = exact.durations
            pairs.append((exact, encode(opened, *inputs, durations=durations.numpy())))
        return compare_outputs(pairs, PRECISION)

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """See Stage."""
        config = self.checkpoint.config
        words = describe_contract(config.hidden_dim, config.style_dim)
        return self.describe_head() | {
            "inputs": {name: words[name]["inputs"] for name in artifact.functions},
            "outputs": {name: words[name]["outputs"] for name in artifact.functions},
            "source": {},
            "token_buckets": (TOKEN_BUCKETS[-1],),
            "alignment": asdict(self.limits),
        }


class StyledNorm(Norm):
    """The eager Norm as one operation that every exporter has: an instance norm whose affine is an
    input.
    """

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, C, 1, S], affines [rows] -> [1, C, 1, S]."""
        # [2 C] of this norm's rows -> [C] and [C]
        gain, shift = affines[self.begin : self.begin + 2 * self.channels].chunk(2)
        return F.instance_norm(x, weight=gain, bias=shift, eps=NORM_EPSILON)


def replace_norms(vocoder: Vocoder) -> EagerVocoder:
    """The eager vocoder with such norms."""
    eager = EagerVocoder(vocoder)
    for module in eager.modules():
        if isinstance(module, Norm):
            module.__class__ = StyledNorm
    return eager


class PortableVocoder(nn.Module):
    """A network of the vocoder as a function of packed features."""

    def __init__(self, network: nn.Module, hidden_dim: int) -> None:
        super().__init__()
        # the weights in a file are called after this name: another one would change its bytes
        self.eager = network
        self.sizes = PackedLayout(hidden_dim).sizes

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """features [1, channels, 1, F + 1], style [1, style_dim, 1, 1] -> waveform [1, 1, 1,
        600F].
        """
        # The mask among the rows is not read: nothing is padded.
        asr, f0, energy, _, spectrum = unpack(features, self.sizes)
        waveform: Tensor = self.eager(asr, f0, energy, style, spectrum)
        return waveform


def export_network(network: nn.Module, config: KokoroConfig) -> PortableFunction:
    """A network of the vocoder as a function of (features, style), for a runtime of files."""
    example = (
        torch.ones(1, PackedLayout(config.hidden_dim).channels, 1, EXAMPLE_FRAMES + 1),
        torch.zeros(1, config.style_dim, 1, 1),
    )
    return PortableFunction(
        PortableVocoder(network, config.hidden_dim).eval().requires_grad_(False),
        example,
        (FEATURES, STYLE),
        (WAVEFORM,),
        {FEATURES: {3: "columns"}, WAVEFORM: {3: "samples"}},
        # A packed input has one column more than frames.
        {"columns": DEFAULT_BUCKETS[-1] + 1},
    )


@dataclass(frozen=True, eq=False)
class PortableVocoderStage(PortableStage):
    """See core.builder.Stage. `speeches`: utterances that the file is checked with."""

    speeches: tuple[VocoderInputs, ...]

    @cached_property
    def vocoder(self) -> Vocoder:
        """The vocoder in PyTorch."""
        return Vocoder.from_checkpoint(self.checkpoint)

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """See Stage."""
        return (Artifact(VOCODER_NAME, self.file_of(VOCODER_NAME, PADDED)),)

    def make_function(self, name: str = MAIN) -> PortableFunction:
        """The vocoder's one function."""
        network = self.runtime.module.vocoder_network(self.vocoder)
        return export_network(network, self.checkpoint.config)

    def measure_figures(self, programs: Mapping[str, PortableProgram]) -> list[Check]:
        """The waveform against PyTorch's in float64, for each speech."""
        figures = []
        for speech in self.speeches:
            reference = render_exact(self.vocoder, speech)
            snr = snr_db(reference, render(programs[MAIN], speech))
            name = f"SNR against PyTorch, {speech.frames} frames"
            figures.append(Check(name, snr, LIMIT_SNR_DB[PRECISION], at_least=True))
        return figures

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """See Stage."""
        config = self.checkpoint.config
        layout = PackedLayout(self.checkpoint.config.hidden_dim)
        # The order of the packed rows, for whoever packs them without this project.
        rows = dict(zip(("asr", "f0_hz", "energy", "mask", "spectrum"), layout.sizes, strict=True))
        packing = (
            "each tensor padded with zeros to rows * (frames + 1) values a channel group, row after"
            " row; the mask is not read"
        )
        return self.describe_head() | {
            "layout": PADDED,
            "inputs": {
                FEATURES: {
                    "shape": [1, layout.channels, 1, "frames + 1"],
                    "rows": rows,
                    "packing": packing,
                    "dtype": "float32",
                },
                STYLE: {"shape": [1, config.style_dim, 1, 1], "dtype": "float32"},
            },
            "outputs": {
                WAVEFORM: {
                    "shape": [1, 1, 1, f"{FRAME_SAMPLES} * frames"],
                    "dtype": "float32",
                    "rate_hz": SAMPLE_RATE_HZ,
                }
            },
            "source": describe_source(self.vocoder),
        }
