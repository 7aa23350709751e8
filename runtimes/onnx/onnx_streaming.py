"""The streaming layout's three functions as .onnx files in a folder: float32, at any length, under
no mask, checked against PyTorch.

    stage = OnnxStreamingStage.from_checkpoint(checkpoint)
    (manifest,) = build_packages(stage, Path("build"), FOLDER)
    # KokoroVocoder-onnx-streaming-fp32.onnx/, a folder

The modules are those of the package (vocoder/streaming), but their statistics are of all columns of
the input.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import (
    DECODER,
    DEFAULT_BUCKETS,
    ENTERING,
    FEATURES,
    LIMIT_SNR_DB,
    NORM_EPSILON,
    STREAMING,
    UTTERANCE,
    VOCODER_NAME,
    WAVEFORM,
    WINDOW,
    Artifact,
    Check,
    Checkpoint,
    Kind,
    Mask,
    package_of_ours,
    snr_db,
)
from kokoro_ane.runtimes.exported import EXAMPLE_FRAMES, PortableStage, bake_taps
from kokoro_ane.runtimes.files import FileRuntime
from kokoro_ane.runtimes.onnx import onnx_file
from kokoro_ane.runtimes.onnx.onnx_file import (
    SUFFIX,
    TOOLS,
    OnnxProgram,
    name_function_file,
    write_together,
)
from kokoro_ane.runtimes.portable import PRECISION, PortableFunction, PortableProgram
from kokoro_ane.speech import check_speech
from kokoro_ane.vocoder import (
    CHECK_FRAMES,
    MEASURED,
    SHORT_FRAMES,
    SIGNATURES,
    SIZES,
    AffineConv,
    DecoderFunction,
    GivenNorms,
    Lengths,
    StreamingStage,
    UtteranceFunction,
    Vocoder,
    count_window_rows,
    cut_excerpt,
    render_exact,
    require_predictor,
    unpack_window,
)


class MeasuringConv(AffineConv):
    """AffineConv that normalizes its input by the statistics of all columns; the style's gain and
    shift are inputs.
    """

    def forward(self, x: Tensor, affines: GivenNorms) -> Tensor:
        """See AffineConv."""
        # First to mean 0 and variance 1, then AffineConv's gain and shift.
        return super().forward(F.instance_norm(x, eps=NORM_EPSILON), affines)


class WholeDecoder(DecoderFunction):
    """DecoderFunction of an utterance without padding."""

    def run_first_stage(self, frames: Tensor, steps: Tensor, affine: Tensor, mask: Mask) -> Tensor:
        """See DecoderFunction."""
        return self.generator(frames, steps, GivenNorms(affine, self.generator.sizes))


class WholeUtterance(UtteranceFunction):
    """UtteranceFunction of an utterance without padding. The mask in its features is not read."""

    def forward(self, features: Tensor, style_affine: Tensor) -> Tensor:
        """See UtteranceFunction."""
        # rows of the stage's input, of the spectrum, and the mask's one
        entering, spectrum, _ = features.split(
            (*count_window_rows(self.generator.channels), 1), dim=1
        )
        affines = GivenNorms(style_affine, self.generator.sizes)
        return self.generator(*unpack_window(entering, spectrum), affines)


def make_measuring(function: nn.Module, kind: type[nn.Module]) -> nn.Module:
    """A copy of a function as `kind`, whose norms measure all columns."""
    function = bake_taps(function)
    # bake_taps has made a copy, so the package's own module keeps its class.
    function.__class__ = kind
    for module in function.modules():
        if isinstance(module, AffineConv):
            module.__class__ = MeasuringConv
    return function


def _write_folder(stage: Any, artifact: Artifact, path: Path) -> dict[str, PortableProgram]:
    """Write a folder of functions and open what was written."""
    functions = {name: stage.make_function(name) for name in artifact.functions}
    write_together(functions, path)
    return {
        name: OnnxProgram(name_function_file(path, name), function.outputs)
        for name, function in functions.items()
    }


FOLDER = Kind(SUFFIX, TOOLS, _write_folder, package_of_ours)


def allow_any_length() -> Lengths:
    """The lengths of these functions."""
    return Lengths.from_longest(DEFAULT_BUCKETS[-1], MEASURED, SIZES)


@dataclass(frozen=True, eq=False)
class OnnxStreamingStage(PortableStage):
    """See core.builder.Stage. `twin`: the package's stage, for its modules, its contract and its
    windows in PyTorch.
    """

    twin: StreamingStage

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, balanced: Vocoder | None = None
    ) -> "OnnxStreamingStage":
        """Checked with 4.5 s of a calibration sentence. `balanced`: prepared for integers.
        InputError where no statistics are fitted.
        """
        twin = StreamingStage(
            checkpoint,
            require_predictor(checkpoint),
            allow_any_length(),
            PRECISION,
            check_speech(checkpoint, CHECK_FRAMES),
            balanced=balanced,
            apart=balanced is not None,
        )
        return cls(checkpoint, FileRuntime(onnx_file), twin)

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """See Stage."""
        file = self.file_of(VOCODER_NAME, STREAMING)
        return (Artifact(VOCODER_NAME, file, {function: function for function in SIGNATURES}),)

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """The exported modules by function."""
        modules = self.twin.modules
        return {
            DECODER: make_measuring(modules[DECODER], WholeDecoder),
            UTTERANCE: make_measuring(modules[UTTERANCE], WholeUtterance),
            WINDOW: bake_taps(modules[WINDOW]),
        }

    def make_function(self, name: str) -> PortableFunction:
        """A function to export."""
        inputs, outputs = SIGNATURES[name]
        # The first number counts the rows of what grows, the others are columns of one value.
        rows, *columns = self.twin.count_channels(name)
        example = (
            torch.ones(1, rows, 1, EXAMPLE_FRAMES + 1),
            # [1, size, 1, 1], which does not grow
            *(torch.zeros(1, size, 1, 1) for size in columns),
        )
        grows = {ENTERING: {3: "steps"}} if name == DECODER else {WAVEFORM: {3: "samples"}}
        return PortableFunction(
            self.modules[name],
            example,
            inputs,
            outputs,
            {FEATURES: {3: "columns"}} | grows,
            {"columns": self.twin.list_buckets(name)[-1] + 1},
        )

    def measure_figures(self, programs: Mapping[str, PortableProgram]) -> list[Check]:
        """The SNR of a short utterance against the vocoder, and of a long one in two cuts against
        the windows in PyTorch. The references are in float64.
        """
        speech = self.twin.speech
        short = cut_excerpt(speech, 0, SHORT_FRAMES)
        chain = self.twin.chain(programs, allow_any_length())
        # The same programs, forced to cut: windows have to give what the whole gives.
        windows = self.twin.chain(programs, allow_any_length().in_windows())
        exact = render_exact(Vocoder.from_checkpoint(self.checkpoint), short)
        reference = self.twin.make_torch_chain(torch.float64).render(speech)
        figures = {
            f"{SHORT_FRAMES} frames, its float64": snr_db(exact, chain.render(short)),
            f"{speech.frames} frames in windows": snr_db(reference, windows.render(speech)),
            f"{speech.frames} frames in windows, short ones first": snr_db(
                reference, windows.render(speech, early=True)
            ),
        }
        return [
            Check(f"SNR against PyTorch, {name}", value, LIMIT_SNR_DB[PRECISION], at_least=True)
            for name, value in figures.items()
        ]

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """See Stage. Where a function takes any length, `frames` is the longest."""
        contract = self.twin.describe_artifact(artifact) | self.describe_head()
        for name in (DECODER, UTTERANCE):
            contract["inputs"][name][FEATURES]["frames"] = self.twin.list_buckets(name)[-1:]
        return contract
