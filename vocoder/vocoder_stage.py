"""The vocoder as a Stage, in a layout of one function: one flexible input, fp32 tail, its program's
promises, checks, contract.

    stage = VocoderStage(checkpoint, layout_named("padded"), (180, 240), "fp16", "iOS17", speech)
    (manifest,) = build(stage, Path("build"))

A package is held to three figures: its samples are PyTorch's; in exact arithmetic padding changes
nothing; fp16's noise does not grow with the bucket.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kokoro_ane.core.builder import MAIN, Function, Part
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check, ProgramFacts, computing, require, snr_db
from kokoro_ane.core.contract import (
    FEATURES,
    FRAME_SAMPLES,
    HOP_SAMPLES,
    SAMPLE_RATE_HZ,
    STYLE,
    VOCODER_NAME,
    WAVEFORM,
    bucket_for,
)
from kokoro_ane.core.export import TensorType, flexible
from kokoro_ane.core.manifest import level_name, package_name
from kokoro_ane.vocoder.decoder import PackedVocoder, Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference, run_program
from kokoro_ane.vocoder.source import SINE_AMPLITUDE, VOICED_ABOVE_HZ, VOICED_NOISE
from mlprogram import Program
from mlprogram.graph import Operation

if TYPE_CHECKING:
    import coremltools as ct

# random weights reach 51 and 122: a package below these is broken, not imprecise
LIMIT_SNR_DB = {"fp16": 40.0, "fp32": 100.0}
LIMIT_PADDING_DB = 90.0  # real Kokoro 114, random weights 130; one mask dropped below 80
LIMIT_FLAT_DB = 1.5  # of the mean over frames; its standard error is 0.4 dB on the 40 frames below
EQUAL_DB = 200.0  # stands for infinite, which JSON does not have
NOISE_FLOOR = 1e-10  # power of a frame's error below which it is silence, -100 dB of full scale
MAX_CHECK_FRAMES = 480
TAIL_MODULES = ("conv_post", "stft")  # kept in fp32: the ear hears exp and phase errors first
FORBIDDEN = (
    "linear",
    "matmul",
    "transpose",
    "gather",
    "gather_nd",
    "gather_along_axis",
    "scatter",
    "scatter_nd",
    "scatter_along_axis",
    "shape",
    "random_normal",
    "random_uniform",
    "random_bernoulli",
    "random_categorical",
    "mod",
    "lstm",
    "crop",
    "cond",
    "while_loop",
)


def check_buckets_of(frames: int, buckets: tuple[int, ...]) -> tuple[int, ...]:
    """The tightest bucket for `frames`, one about three times and one about ten times as long, as
    far as they exist.
    """
    fitting = [b for b in buckets if frames <= b <= max(MAX_CHECK_FRAMES, buckets[0])]
    return tuple(
        sorted({min(fitting, key=lambda b: abs(b - frames * factor)) for factor in (1, 3, 10)})
    )


def check_figures(
    program: Program,
    layout: PaddedLayout,
    vocoder: Vocoder,
    speech: VocoderInputs,
    buckets: tuple[int, ...],
    precision: str,
) -> list[Check]:
    """The figures of the speech at several fills of the buckets that hold it."""
    holding = tuple(bucket for bucket in buckets if bucket >= speech.frames)
    exact = Program(program.path, precision="exact")
    reference = render_reference(vocoder, speech)
    return fill_figures(
        lambda bucket: run_program(program, layout, speech, bucket),
        lambda bucket: run_program(exact, layout, speech, bucket),
        reference,
        check_buckets_of(speech.frames, holding),
        precision,
    )


def fill_figures(
    found_in: Callable[[int], np.ndarray],
    exact_in: Callable[[int], np.ndarray],
    reference: np.ndarray,
    buckets: tuple[int, ...],
    precision: str,
) -> list[Check]:
    """The module's three figures of an utterance in `buckets`, the tightest first. `exact_in`:
    rendered there in exact arithmetic.
    """
    figures, frames = [], len(reference) // FRAME_SAMPLES
    tight = tight_noise = np.zeros(0)
    for bucket in buckets:
        where = f"{frames} frames in bucket {bucket} ({frames / bucket:.0%} full)"
        rendered, plain = found_in(bucket), exact_in(bucket)
        noise = noise_levels_db(rendered - plain)
        figures.append(
            Check(
                f"SNR against PyTorch, {where}",
                snr_db(reference, rendered),
                LIMIT_SNR_DB[precision],
                at_least=True,
            )
        )
        if not len(tight):
            tight, tight_noise = plain, noise
            continue
        same = min(snr_db(tight, plain), EQUAL_DB)
        figures.append(
            Check(
                f"padding, exact arithmetic, bucket {bucket} against {buckets[0]}",
                same,
                LIMIT_PADDING_DB,
                at_least=True,
            )
        )
        if precision == "fp16":
            lost = float((noise - tight_noise).mean())
            figures.append(
                Check(
                    f"fp16's noise, bucket {bucket} over {buckets[0]}",
                    lost,
                    LIMIT_FLAT_DB,
                    at_least=False,
                )
            )
    return figures


def noise_levels_db(error: np.ndarray) -> np.ndarray:
    """Power of every frame of an error [600 F], in dB: [F]."""
    frames = error.astype(np.float64).reshape(-1, FRAME_SAMPLES)  # [F, 600]
    return 10 * np.log10(np.square(frames).mean(axis=1) + NOISE_FLOOR)


@dataclass(frozen=True)
class VocoderFacts(ProgramFacts):
    """Also the ranks, and where fp16 ends and the fp32 tail begins."""

    not_rank_4: int
    fp32_outside_tail: tuple[str, ...]
    fp16_inside_tail: tuple[str, ...]
    tail_operations: int

    @classmethod
    def of(
        cls, program: Program, flexible: str = FEATURES, forbidden: tuple[str, ...] = FORBIDDEN
    ) -> "VocoderFacts":
        """Walk the program. The tail is conv_post (the convolution that feeds exp), all that is
        computed from it, and the envelope.
        """
        operations = computing(program)
        tail = _tail(operations)
        floats = [(op, value) for op in operations for value in op.outputs if value.dtype.is_float]
        return cls(
            **vars(ProgramFacts.of(program, flexible, forbidden)),
            not_rank_4=sum(len(value.shape) != 4 for _, value in floats),
            fp32_outside_tail=tuple(
                op.name
                for op, value in floats
                if value.dtype.name == "fp32" and op.name not in tail
            ),
            fp16_inside_tail=tuple(
                op.name for op, value in floats if value.dtype.name == "fp16" and op.name in tail
            ),
            tail_operations=len(tail),
        )

    def require(self, precision: str, buckets: int) -> None:
        """Raise CheckFailed naming the first promise that is broken."""
        tail_promises = {
            f"{self.not_rank_4} tensors are not of rank 4": not self.not_rank_4,
            f"fp16 inside the fp32 tail: {self.fp16_inside_tail[:3]}": not self.fp16_inside_tail,
            f"fp32 outside the tail: {self.fp32_outside_tail[:3]}": precision == "fp32"
            or not self.fp32_outside_tail,
        }
        require(self.promises(precision, buckets) | tail_promises, "the program")


def _tail(operations: list[Operation]) -> set[str]:
    """Names of tail operations: conv_post, all that is computed from it, and fp32 operations that
    only these read (casts, envelope).
    """
    producer = {value.name: op for op in operations for value in op.outputs}
    conv_post = next((op for op in operations if op.op_type == "exp"), None)
    if conv_post is None:
        return set()
    while conv_post.op_type != "conv":
        conv_post = next(producer[name] for name in _sources(conv_post) if name in producer)
    tail = {conv_post.name}
    for op in operations:
        if any(name in producer and producer[name].name in tail for name in _sources(op)):
            tail.add(op.name)
    read_by: dict[str, list[Operation]] = {}
    for op in operations:
        for name in _sources(op):
            read_by.setdefault(name, []).append(op)
    for op in reversed(operations):
        readers = [reader for value in op.outputs for reader in read_by.get(value.name, ())]
        if (
            readers
            and op.outputs[0].dtype.name == "fp32"
            and all(reader.name in tail for reader in readers)
        ):
            tail.add(op.name)
    return tail


def _sources(op: Operation) -> list[str]:
    return [name for names in op.inputs.values() for name in names]


@dataclass(frozen=True, eq=False)
class VocoderStage:
    """See core.builder.Stage. `speech`: what the package is checked with; `vocoder`: the
    checkpoint's, or one that renders the same.
    """

    checkpoint: Checkpoint
    layout: PaddedLayout
    buckets: tuple[int, ...]
    precision: str
    target: str
    speech: VocoderInputs
    # the checkpoint's vocoder with its channels balanced, ready for int8 inputs
    balanced: Vocoder | None = None

    @cached_property
    def vocoder(self) -> Vocoder:
        """In PyTorch."""
        return self.balanced or Vocoder.of(self.checkpoint)

    @cached_property
    def module(self) -> torch.nn.Module:
        """What is traced."""
        return self.layout.module(self.vocoder, self.checkpoint.config.hidden_dim).eval()

    def rendered(self, programs: Mapping[str, Program]) -> np.ndarray:
        """The speech by a package's functions."""
        return run_program(
            programs[MAIN], self.layout, self.speech, bucket_for(self.speech.frames, self.buckets)
        )

    def enveloped(self, name: str) -> set[str]:
        """Layers that divide their input by an envelope."""
        return {
            path
            for path, module in self.layers_of(name).named_modules()
            if getattr(module, "envelope", None) is not None
        }

    def layers_of(self, _: str) -> torch.nn.Module:
        """The module whose convolutions a function has, under the names that recipes use."""
        layers = self.module.vocoder if isinstance(self.module, PackedVocoder) else self.module
        return layers if self.layout.output == WAVEFORM else without_tail(layers)

    def parts(self) -> tuple[Part, ...]:
        """See Stage."""
        level = level_name(self.precision, self.layout.name)
        return (
            Part(
                VOCODER_NAME,
                package_name(VOCODER_NAME, self.checkpoint.name, self.checkpoint.releasable, level),
            ),
        )

    def function(self, name: str = MAIN) -> Function:
        """See vocoder_function."""
        config = self.checkpoint.config
        return vocoder_function(
            self.module,
            self.layout,
            self.buckets,
            self.precision,
            config.hidden_dim,
            config.style_dim,
        )

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """See Stage."""
        return model

    def facts(self, name: str, program: Program) -> VocoderFacts:
        """See Stage."""
        facts = VocoderFacts.of(program)
        facts.require(self.precision, len(self.buckets))
        return facts

    def figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """The waveform of the speech at several lengths."""
        return check_figures(
            programs[MAIN],
            self.layout.with_tail_of(self.vocoder),
            self.vocoder,
            self.speech,
            self.buckets,
            self.precision,
        )

    def contract(self, part: Part) -> dict[str, Any]:
        """See Stage."""
        config, dtype = self.checkpoint.config, "float16" if self.precision == "fp16" else "float32"
        row = {
            "shape": [1, config.style_dim, 1, 1],
            "dtype": dtype,
            "row": "voice pack [510, 1, 256], phoneme count - 1, columns 0:128",
        }
        features = self.layout.features_contract(config.hidden_dim)
        return {
            "method": self.precision,
            "layout": self.layout.name,
            "checkpoint": self.checkpoint.as_source,
            "releasable": self.checkpoint.releasable and self.precision != "fp32",
            "buckets": self.buckets,
            "hidden_dim": config.hidden_dim,
            "inputs": {FEATURES: features | {"dtype": dtype}, STYLE: row},
            "outputs": {self.layout.output: self._output_contract()},
            "source": source_contract(self.vocoder),
        }

    def _output_contract(self) -> dict[str, Any]:
        rate_hz = (
            SAMPLE_RATE_HZ if self.layout.output == WAVEFORM else SAMPLE_RATE_HZ // HOP_SAMPLES
        )
        output = self.layout.with_tail_of(self.vocoder).output_contract()
        return output | {
            "dtype": self.layout.output_dtype(self.precision),
            "rate_hz": rate_hz,
        }


def without_tail(module: torch.nn.Module) -> torch.nn.Module:
    """The same layers, weights shared, without conv_post: those of a package that leaves the tail
    to the host.
    """
    bare = copy.copy(module)
    bare._modules = {
        name: child for name, child in module._modules.items() if name != TAIL_MODULES[0]
    }
    generator = bare._modules.get("generator")
    if generator is not None:
        bare._modules["generator"] = without_tail(generator)
    return bare


def vocoder_function(
    module: torch.nn.Module,
    layout: PaddedLayout,
    buckets: tuple[int, ...],
    precision: str,
    hidden_dim: int,
    style_dim: int,
) -> Function:
    """What is traced: features [1, channels, rows, columns] and style [1, style_dim, 1, 1] to
    waveform. `module`: layout.module(...).
    """
    dtype = np.float16 if precision == "fp16" else np.float32
    shapes, style = layout.shapes(buckets, hidden_dim), (1, style_dim, 1, 1)
    inputs = (flexible(FEATURES, dtype, shapes), TensorType(STYLE, dtype, shape=style))
    example = (torch.ones(shapes[0]), torch.zeros(style))
    outputs = (TensorType(layout.output, np.dtype(layout.output_dtype(precision)).type),)
    return Function(module.eval(), example, inputs, outputs, TAIL_MODULES)


def source_contract(vocoder: Vocoder) -> dict[str, Any]:
    """The harmonic source's ten weights and constants: it runs on the host."""
    merge = vocoder.generator.m_source.l_linear
    return {
        "weights": merge.weight.detach().flatten().tolist(),
        "bias": float(merge.bias.detach()),
        "sine_amplitude": SINE_AMPLITUDE,
        "voiced_noise": VOICED_NOISE,
        "voiced_above_hz": VOICED_ABOVE_HZ,
    }
