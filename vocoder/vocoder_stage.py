"""The vocoder as a Stage, in a layout of one function: one flexible input, fp32 tail, its program's
promises, checks, contract.

    stage = VocoderStage(checkpoint, layout_named("padded"), (180, 240), "fp16", "iOS17", speech)
    (manifest,) = build(stage, Path("build"))

A package is held to three figures: its samples are PyTorch's; in exact arithmetic padding changes
nothing; fp16's noise does not grow with the bucket.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kokoro_ane.core.builder import CheckpointStage, Part
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check, ProgramFacts, computing, require, snr_db
from kokoro_ane.core.contract import (
    FEATURES,
    FRAME_SAMPLES,
    HOP_SAMPLES,
    MAIN,
    SAMPLE_RATE_HZ,
    STYLE,
    VOCODER_NAME,
    WAVEFORM,
    bucket_for,
)
from kokoro_ane.core.export import Function, TensorType
from kokoro_ane.core.manifest import level_name
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference, run_program
from kokoro_ane.vocoder.source import SINE_AMPLITUDE, VOICED_ABOVE_HZ, VOICED_NOISE
from mlprogram import Program
from mlprogram.graph import Operation

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


def fill_figures(
    rendered_in: Callable[[int], np.ndarray],
    exact_in: Callable[[int], np.ndarray],
    reference: np.ndarray,
    buckets: tuple[int, ...],
    precision: str,
) -> list[Check]:
    """The module's three figures of an utterance in `buckets`, the tightest first. `exact_in`
    renders in exact arithmetic.
    """
    figures, frames = [], len(reference) // FRAME_SAMPLES
    tight = tight_noise = np.zeros(0)
    for bucket in buckets:
        where = f"{frames} frames in bucket {bucket} ({frames / bucket:.0%} full)"
        rendered, plain = rendered_in(bucket), exact_in(bucket)
        noise = noise_levels_db(rendered - plain)
        value = snr_db(reference, rendered)
        figures.append(
            Check(f"SNR against PyTorch, {where}", value, LIMIT_SNR_DB[precision], at_least=True)
        )
        # The tightest bucket is what the longer ones are compared with.
        if not len(tight):
            tight, tight_noise = plain, noise
            continue
        name = f"padding, exact arithmetic, bucket {bucket} against {buckets[0]}"
        value = min(snr_db(tight, plain), EQUAL_DB)
        figures.append(Check(name, value, LIMIT_PADDING_DB, at_least=True))
        if precision == "fp16":
            name = f"fp16's noise, bucket {bucket} over {buckets[0]}"
            value = float((noise - tight_noise).mean())
            figures.append(Check(name, value, LIMIT_FLAT_DB, at_least=False))
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
    # the last one: scales that vary over time have exponentials, too
    conv_post = next((op for op in reversed(operations) if op.op_type == "exp"), None)
    if conv_post is None:
        return set()
    # Back from exp to the convolution that feeds it.
    while conv_post.op_type != "conv":
        conv_post = next(producer[name] for name in _sources(conv_post) if name in producer)
    tail = {conv_post.name}
    # Forward: all that is computed from it.
    for op in operations:
        if any(name in producer and producer[name].name in tail for name in _sources(op)):
            tail.add(op.name)
    read_by: dict[str, list[Operation]] = {}
    for op in operations:
        for name in _sources(op):
            read_by.setdefault(name, []).append(op)
    # Backward: casts and the envelope, which nothing else reads.
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


class CheckedVocoder(CheckpointStage):
    """What the vocoder's stages have in common, whatever the layout."""

    balanced: Vocoder | None

    @cached_property
    def vocoder(self) -> Vocoder:
        """The checkpoint's in PyTorch, or one that renders the same."""
        return self.balanced or Vocoder.of(self.checkpoint)

    @property
    def dtype(self) -> str:
        """The type of a package's inputs."""
        return "float16" if self.precision == "fp16" else "float32"

    def provenance(self) -> dict[str, Any]:
        """What a package was made from, and the harmonic source, which runs on the host."""
        return super().provenance() | {"source": source_contract(self.vocoder)}

    def style_contract(self) -> dict[str, Any]:
        """The style in words, for the manifest."""
        return {
            "shape": [1, self.checkpoint.config.style_dim, 1, 1],
            "dtype": self.dtype,
            "row": "voice pack [510, 1, 256], phoneme count - 1, columns 0:128",
        }


@dataclass(frozen=True, eq=False)
class VocoderStage(CheckedVocoder):
    """A core.builder.PackageStage of one function. `speech` is what the package is checked with."""

    checkpoint: Checkpoint
    layout: PaddedLayout
    buckets: tuple[int, ...]
    precision: str
    target: str
    speech: VocoderInputs
    # the checkpoint's vocoder with its channels balanced, ready for int8 inputs
    balanced: Vocoder | None = None

    @cached_property
    def module(self) -> torch.nn.Module:
        """What is traced."""
        return self.layout.module(self.vocoder, self.checkpoint.config.hidden_dim).eval()

    def rendered(self, programs: Mapping[str, Program]) -> np.ndarray:
        """The speech by a package's functions."""
        return run_program(
            programs[MAIN], self.layout, self.speech, bucket_for(self.speech.frames, self.buckets)
        )

    def parts(self) -> tuple[Part, ...]:
        """One package of one function."""
        level = level_name(self.precision, self.layout.name)
        return (self.part(VOCODER_NAME, level, {MAIN: MAIN}),)

    def function(self, name: str = MAIN) -> Function:
        """Features [1, channels, 1, bucket + 1] and style [1, style_dim, 1, 1] to the output."""
        config, dtype = self.checkpoint.config, np.dtype(self.dtype).type
        shapes = self.layout.shapes(self.buckets, config.hidden_dim)
        style = (1, config.style_dim, 1, 1)
        output_dtype = np.dtype(self.layout.output_dtype(self.precision)).type
        return Function(
            self.module,
            (torch.ones(shapes[0]), torch.zeros(style)),
            (TensorType(FEATURES, dtype, shapes), TensorType(STYLE, dtype, (style,))),
            (TensorType(self.layout.output, output_dtype),),
            TAIL_MODULES,
        )

    def facts(self, name: str, program: Program) -> VocoderFacts:
        """The program's counts. Raises CheckFailed where it breaks a promise."""
        facts = VocoderFacts.of(program)
        facts.require(self.precision, len(self.buckets))
        return facts

    def figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """The waveform of the speech at several fills of the buckets that hold it."""
        layout, program = self.layout.with_tail_of(self.vocoder), programs[MAIN]
        exact = Program(program.path, precision="exact")
        holding = tuple(bucket for bucket in self.buckets if bucket >= self.speech.frames)
        return fill_figures(
            lambda bucket: run_program(program, layout, self.speech, bucket),
            lambda bucket: run_program(exact, layout, self.speech, bucket),
            render_reference(self.vocoder, self.speech),
            check_buckets_of(self.speech.frames, holding),
            self.precision,
        )

    def contract(self, part: Part) -> dict[str, Any]:
        """The manifest's fields that only this stage knows."""
        features = self.layout.features_contract(self.checkpoint.config.hidden_dim)
        output = self.layout.with_tail_of(self.vocoder).output_contract()
        hop = 1 if self.layout.output == WAVEFORM else HOP_SAMPLES
        output |= {
            "dtype": self.layout.output_dtype(self.precision),
            "rate_hz": SAMPLE_RATE_HZ // hop,
        }
        return self.provenance() | {
            "layout": self.layout.name,
            "buckets": self.buckets,
            "inputs": {FEATURES: features | {"dtype": self.dtype}, STYLE: self.style_contract()},
            "outputs": {self.layout.output: output},
        }


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
