"""The vocoder as a Stage, in a layout of one function: one flexible input, an fp32 tail, the
promises of its program, its checks and its contract.

    layout = PaddedLayout()
    stage = VocoderStage(checkpoint, layout, (180, 240), "fp16", "iOS17", speech)
    (manifest,) = build(stage, Path("build"))

A package has to reach three figures: its samples are PyTorch's; in exact arithmetic padding changes
nothing; fp16's noise does not grow with the bucket.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kokoro_ane.core import (
    DECODER,
    FEATURES,
    FRAME_SAMPLES,
    LIMIT_SNR_DB,
    MAIN,
    SAMPLE_RATE_HZ,
    STYLE,
    VOCODER_NAME,
    WINDOW,
    Artifact,
    Check,
    Checkpoint,
    CheckpointStage,
    FunctionSpec,
    PackedLayout,
    ProgramFacts,
    TensorType,
    bucket_for,
    computing,
    level_name,
    require,
    snr_db,
)
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout, describe_features
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_exact, run_program
from kokoro_ane.vocoder.source import SINE_AMPLITUDE, VOICED_ABOVE_HZ, VOICED_NOISE
from mlprogram import Operation, Program

# In float64, whose rounding leaves about 250 dB whatever the processor; a mask that is dropped, or
# a value that is kept in float32, leaves less than 150.
LIMIT_PADDING_DB = 180.0
# One bit of fp16's eleven, of the mean over frames: a sum that keeps its terms' rounding errors
# adds 10 dB in a bucket ten times as long. What is heard of the noise is the SNR's affair.
LIMIT_FLAT_DB = 6.0
EXACT = "exact64"  # mlprogram's arithmetic for what should change nothing
EQUAL_DB = 400.0  # stands for infinite, which JSON does not have
NOISE_FLOOR = 1e-10  # power of a frame's error below which it is silence, -100 dB of full scale
MAX_CHECK_FRAMES = 480
TAIL_MODULES = ("conv_post", "stft")  # kept in fp32: the ear hears exp and phase errors first
FORBIDDEN = (
    *("linear", "matmul", "transpose", "gather", "gather_nd", "gather_along_axis"),
    *("scatter", "scatter_nd", "scatter_along_axis", "shape", "mod", "lstm", "crop"),
    *("random_normal", "random_uniform", "random_bernoulli", "random_categorical"),
    *("cond", "while_loop"),
)
OVER_TIME = (
    *("reduce_mean", "reduce_sum", "reduce_sum_square", "reduce_l2_norm", "reduce_max"),
    *("cumsum", "instance_norm"),
)


def check_buckets_of(frames: int, buckets: tuple[int, ...]) -> tuple[int, ...]:
    """The tightest bucket for `frames`, one about three times and one about ten times as long, as
    far as they exist.
    """
    fitting = [b for b in buckets if frames <= b <= max(MAX_CHECK_FRAMES, buckets[0])]
    # Two factors may choose the same bucket, which is checked once.
    return tuple(
        sorted({min(fitting, key=lambda b: abs(b - frames * factor)) for factor in (1, 3, 10)})
    )


def measure_snr(name: str, reference: np.ndarray, other: np.ndarray, limit_db: float) -> Check:
    """The SNR of `other`, which has to reach `limit_db`."""
    return Check(name, min(snr_db(reference, other), EQUAL_DB), limit_db, at_least=True)


def measure_fills(
    rendered_in: Callable[[int], np.ndarray],
    exact_in: Callable[[int], np.ndarray],
    reference: np.ndarray,
    buckets: tuple[int, ...],
    precision: str,
) -> list[Check]:
    """The module's three figures of an utterance in `buckets`, the tightest first. `exact_in`
    renders in exact arithmetic.
    """
    figures = []
    frames = len(reference) // FRAME_SAMPLES
    tight = tight_noise = np.zeros(0)
    for bucket in buckets:
        where = f"{frames} frames in bucket {bucket} ({frames / bucket:.0%} full)"
        rendered, plain = rendered_in(bucket), exact_in(bucket)
        noise = measure_noise_db(rendered - plain)
        name = f"SNR against PyTorch, {where}"
        figures.append(measure_snr(name, reference, rendered, LIMIT_SNR_DB[precision]))
        # The tightest bucket is what the longer ones are compared with.
        if not len(tight):
            tight, tight_noise = plain, noise
            continue
        name = f"padding, exact arithmetic, bucket {bucket} against {buckets[0]}"
        figures.append(measure_snr(name, tight, plain, LIMIT_PADDING_DB))
        if precision == "fp16":
            name = f"fp16's noise, bucket {bucket} over {buckets[0]}"
            # Frame by frame, so that quiet frames count like loud ones.
            value = float((noise - tight_noise).mean())
            figures.append(Check(name, value, LIMIT_FLAT_DB, at_least=False))
    return figures


def measure_noise_db(error: np.ndarray) -> np.ndarray:
    """Power of every frame of an error [600 F], in dB: [F]."""
    frames = error.astype(np.float64).reshape(-1, FRAME_SAMPLES)  # [F, 600]
    return 10 * np.log10(np.square(frames).mean(axis=1) + NOISE_FLOOR)


@dataclass(frozen=True)
class VocoderFacts(ProgramFacts):
    """Also the ranks, how many operations reduce over time, and where fp32 is."""

    not_rank_4: int
    over_time: int
    fp32_outside_tail: tuple[str, ...]
    fp16_inside_tail: tuple[str, ...]
    tail_operations: int

    @classmethod
    def read(cls, program: Program, name: str = MAIN) -> "VocoderFacts":
        """Walk the function of that name. The tail of the function `decoder` are its fp32 values of
        one column; `find_tail_values` says what it is of any other.
        """
        operations = computing(program)
        # Integers and truths have no precision to keep.
        floats = [(op, value) for op in operations for value in op.outputs if value.dtype.is_float]
        wide = [(op, value) for op, value in floats if value.dtype.name == "fp32"]
        if name == DECODER:
            tail = {value.name for _, value in wide if value.shape[2:] == (1, 1)}
        else:
            tail = find_tail_values(operations)
        inside = [(op, value) for op, value in floats if value.name in tail]
        return cls(
            **vars(ProgramFacts.from_program(program, FEATURES, FORBIDDEN)),
            not_rank_4=sum(len(value.shape) != 4 for _, value in floats),
            over_time=sum(_is_over_time(op, program) for op in operations),
            fp32_outside_tail=tuple(op.name for op, value in wide if value.name not in tail),
            fp16_inside_tail=tuple(op.name for op, value in inside if value.dtype.name == "fp16"),
            tail_operations=len({op.name for op, _ in inside}),
        )

    def require(self, precision: str, buckets: int, name: str = MAIN) -> None:
        """Raise CheckFailed naming the first promise that the function breaks."""
        tail_promises = {
            f"{self.not_rank_4} tensors are not of rank 4": not self.not_rank_4,
            f"fp16 inside the fp32 tail: {self.fp16_inside_tail[:3]}": not self.fp16_inside_tail,
            f"fp32 outside the tail: {self.fp32_outside_tail[:3]}": precision == "fp32"
            or not self.fp32_outside_tail,
            f"{self.over_time} operations reduce over time": name != WINDOW or not self.over_time,
        }
        where = "the program" if name == MAIN else f"function {name}"
        require(self.promises(precision, buckets) | tail_promises, where)


def find_tail_values(operations: list[Operation]) -> set[str]:
    """Names of the tail's values: of conv_post, which is the convolution that feeds exp, of all
    that is computed from it, and fp32 values that only the tail reads (casts, envelope).
    """
    producer = {value.name: op for op in operations for value in op.outputs}
    # the last one: scales that vary over time have exponentials, too
    conv_post = next((op for op in reversed(operations) if op.op_type == "exp"), None)
    if conv_post is None:
        return set()
    # Back from exp to the convolution that feeds it.
    while conv_post.op_type != "conv":
        conv_post = next(producer[name] for name in _list_sources(conv_post) if name in producer)
    tail = {value.name for value in conv_post.outputs}
    # Forward: all that is computed from it.
    for op in operations:
        if tail.intersection(_list_sources(op)):
            tail |= {value.name for value in op.outputs}
    # Backward: casts and the envelope, which nothing else reads.
    read = {name for op in operations for name in _list_sources(op)}
    read_outside: set[str] = set()
    for op in reversed(operations):
        results = {value.name for value in op.outputs}
        if op.outputs[0].dtype.name == "fp32" and results & (read - read_outside):
            tail |= results
        if not results & tail:
            read_outside.update(_list_sources(op))
    return tail


def _list_sources(op: Operation) -> list[str]:
    return [name for names in op.inputs.values() for name in names]


def _is_over_time(op: Operation, program: Program) -> bool:
    """Whether an operation reduces over columns; a scale's maximum over channels does not."""
    if op.op_type not in OVER_TIME or "axes" not in op.inputs:
        return op.op_type in OVER_TIME
    axes = np.ravel(np.asarray(program.constant(op.inputs["axes"][0])))
    # Time is the last axis, by either number.
    return bool({3, -1} & set(axes.tolist()))


class CheckedVocoder(CheckpointStage):
    """What the vocoder's stages have in common, whatever the layout."""

    # a vocoder that renders the same as the checkpoint's, prepared for int8 inputs
    balanced: Vocoder | None

    @cached_property
    def vocoder(self) -> Vocoder:
        """The vocoder that is converted, in PyTorch."""
        return self.balanced or Vocoder.from_checkpoint(self.checkpoint)

    @property
    def dtype(self) -> str:
        """The type of a package's inputs."""
        return "float16" if self.precision == "fp16" else "float32"

    def describe_provenance(self) -> dict[str, Any]:
        """What a package was made from, and the harmonic source, which runs on the host."""
        return super().describe_provenance() | {"source": describe_source(self.vocoder)}

    def describe_style(self) -> dict[str, Any]:
        """The style in words, for the manifest."""
        return {
            "shape": [1, self.checkpoint.config.style_dim, 1, 1],
            "dtype": self.dtype,
            "row": "voice pack [510, 1, 256], phoneme count - 1, columns 0:128",
        }


@dataclass(frozen=True, eq=False)
class VocoderStage(CheckedVocoder):
    """A core.builder.PackageStage of one function. The package is checked with `speech`."""

    checkpoint: Checkpoint
    layout: PaddedLayout
    buckets: tuple[int, ...]
    precision: str
    target: str
    speech: VocoderInputs
    balanced: Vocoder | None = None

    @cached_property
    def module(self) -> torch.nn.Module:
        """What is traced."""
        return self.layout.make_module(self.vocoder, self.checkpoint.config.hidden_dim).eval()

    def render_speech(self, programs: Mapping[str, Program]) -> np.ndarray:
        """The speech by a package's functions."""
        bucket = bucket_for(self.speech.frames, self.buckets)
        return run_program(programs[MAIN], self.layout, self.speech, bucket)

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """One package of one function."""
        level = level_name(self.precision, self.layout.name)
        return (self.make_artifact(VOCODER_NAME, level, {MAIN: MAIN}),)

    def make_function(self, name: str = MAIN) -> FunctionSpec:
        """Features [1, channels, 1, bucket + 1] and style [1, style_dim, 1, 1] to the output."""
        config = self.checkpoint.config
        dtype = np.dtype(self.dtype).type
        rows = PackedLayout(config.hidden_dim).channels
        shapes = tuple((1, rows, 1, bucket + 1) for bucket in self.buckets)
        style = (1, config.style_dim, 1, 1)
        return FunctionSpec(
            self.module,
            (torch.ones(shapes[0]), torch.zeros(style)),
            (TensorType(FEATURES, dtype, shapes), TensorType(STYLE, dtype, (style,))),
            (TensorType(self.layout.output, np.float32),),
            TAIL_MODULES,
        )

    def check_program(self, name: str, program: Program) -> VocoderFacts:
        """The program's counts. Raises CheckFailed where it breaks a promise."""
        facts = VocoderFacts.read(program)
        facts.require(self.precision, len(self.buckets))
        return facts

    def measure_figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """The waveform of the speech at several fills of the buckets that hold it."""
        # The same package in float64, where only a broken mask makes a difference.
        exact = Program(programs[MAIN].path, precision=EXACT)
        holding = tuple(bucket for bucket in self.buckets if bucket >= self.speech.frames)
        return measure_fills(
            lambda bucket: run_program(programs[MAIN], self.layout, self.speech, bucket),
            lambda bucket: run_program(exact, self.layout, self.speech, bucket),
            render_exact(self.vocoder, self.speech),
            check_buckets_of(self.speech.frames, holding),
            self.precision,
        )

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """The manifest's fields that only this stage knows."""
        features = describe_features(self.checkpoint.config.hidden_dim) | {"dtype": self.dtype}
        output = self.layout.describe_output() | {
            "dtype": "float32",
            "rate_hz": SAMPLE_RATE_HZ,
        }
        return self.describe_provenance() | {
            "layout": self.layout.name,
            "buckets": self.buckets,
            "inputs": {FEATURES: features, STYLE: self.describe_style()},
            "outputs": {self.layout.output: output},
        }


def describe_source(vocoder: Vocoder) -> dict[str, Any]:
    """The harmonic source's ten weights and constants, for the manifest."""
    merge = vocoder.generator.m_source.l_linear
    return {
        "weights": merge.weight.detach().flatten().tolist(),
        "bias": float(merge.bias.detach()),
        "sine_amplitude": SINE_AMPLITUDE,
        "voiced_noise": VOICED_NOISE,
        "voiced_above_hz": VOICED_ABOVE_HZ,
    }
