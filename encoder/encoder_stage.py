"""The encoder as a Stage: functions `duration` and `prosody`, the modules that stay in fp32, the
promises of its programs, its checks and its contract.

    stage = EncoderStage(checkpoint, Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS))
    manifests = build(stage, Path("build"))

iOS 18: one package with two functions. iOS 17: two packages, because functions came with iOS 18.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_ane.core import (
    BOUNDARY_ID,
    DURATION,
    DURATIONS,
    ENCODER_NAME,
    ENERGY,
    F0_HZ,
    FRAMES,
    HIDDEN,
    INPUT_IDS,
    LIMIT_SNR_DB,
    MAIN,
    MAX_SPEED,
    MIN_SPEED,
    PADDING_ID,
    PROSODY,
    SPEED,
    STYLE,
    TEXT,
    Artifact,
    Check,
    Checkpoint,
    CheckpointStage,
    FunctionSpec,
    InputError,
    Manifest,
    ProgramFacts,
    TensorType,
    described,
    require,
    rmse,
    snr_db,
    style_row,
    units_for,
)
from kokoro_ane.encoder.encoder_steps import (
    AlignmentLimits,
    Buckets,
    Encoded,
    EncoderBackend,
    encode,
    join_programs,
)
from kokoro_ane.encoder.functions import (
    DurationFunction,
    Encoder,
    ProsodyFunction,
    make_exact_functions,
)
from kokoro_ane.encoder.lstm import OneLSTM
from kokoro_g2p import MAX_PHONEMES
from mlprogram import Program

# a quarter of a percent of 200 Hz, which no ear tells
LIMIT_F0_HZ = 0.5
# Before rounding, where one token of 500 lies as near to a half: it lasts a frame more or less, and
# neither is wrong. float32 errs by a tenth of it.
LIMIT_FRAMES = 0.001
# shortest, a sentence, a paragraph, the longest; as far as the buckets go
CHECK_TOKENS = (3, 60, 200, MAX_PHONEMES + 2)
SPEEDS = (1.0, 0.8, 1.3)
# by measurement: docs/models.md
KEEP_FP32 = {DURATION: ("duration_predictor",), PROSODY: ("f0_predictor",)}
FORBIDDEN = (
    "random_normal",
    "random_uniform",
    "random_bernoulli",
    "random_categorical",
    "while_loop",
    "cond",
    "scatter",
    "scatter_nd",
    "scatter_along_axis",
    "gather_along_axis",
    "non_zero",
    "shape",
    "reverse",
    "reverse_sequence",
)
MAX_OPERATIONS = 1500  # a masked unrolled LSTM was 134,397 and compiled for ten minutes
COMPUTE_UNITS = {"default": units_for("encoder", "macOS", [15, 0], "")}


@dataclass(frozen=True)
class EncoderInputs:
    """Inputs of the encoder: ids with boundary tokens, style [1, 128] (the prosody half), speed."""

    ids: tuple[int, ...]
    style: torch.Tensor
    speed: float


def choose_fills(buckets: Buckets, tokens: int, frames: int) -> tuple[Buckets, ...]:
    """The tightest buckets for one utterance, and those about three times as long, as far as they
    exist.
    """
    pairs = []
    for factor in (1, 3):
        # Where no bucket is that long, the longest stands for it.
        wide = next((b for b in buckets.tokens if b >= tokens * factor), buckets.tokens[-1])
        long = next((b for b in buckets.frames if b >= frames * factor), buckets.frames[-1])
        pairs.append(Buckets((wide,), (long,)))
    # Both factors may choose the same buckets.
    return tuple(dict.fromkeys(pairs))


def check_utterances(checkpoint: Checkpoint, buckets: Buckets) -> list[EncoderInputs]:
    """Random symbols of several lengths in the checkpoint's voices, which are harder than speech
    and need no corpus.
    """
    library = checkpoint.library
    symbol_ids = sorted(checkpoint.config.vocab.values())
    if not library.names:
        raise InputError(f"{library.folder} holds no voice: the check needs at least one")
    utterances = []
    generator = torch.Generator().manual_seed(0)
    for index, tokens in enumerate(n for n in CHECK_TOKENS if n <= buckets.tokens[-1]):
        # Boundary tokens are not drawn: they stand at both ends.
        symbols = torch.randint(len(symbol_ids), (tokens - 2,), generator=generator).tolist()
        pack = torch.from_numpy(library.pack(library.names[index % len(library.names)]))
        # The second half of a style row is the encoder's.
        style = style_row(pack, tokens - 2)[:, checkpoint.config.style_dim :]
        ids = (BOUNDARY_ID, *(symbol_ids[symbol] for symbol in symbols), BOUNDARY_ID)
        utterances.append(EncoderInputs(ids, style, SPEEDS[index % len(SPEEDS)]))
    return utterances


def compare_outputs(pairs: list[tuple[Encoded, Encoded]], precision: str) -> list[Check]:
    """The worst figure of each tensor over all pairs (reference, other), which are aligned by the
    same durations.
    """
    off = max(float((reference.raw - got.raw).abs().max()) for reference, got in pairs)
    tokens = sum(len(reference.durations) for reference, _ in pairs)
    name = f"durations against PyTorch, largest difference of {tokens}"
    figures = [Check(name, off, LIMIT_FRAMES, at_least=False, unit="frames")]
    for name in ("text", "asr", "hidden", "energy", "f0_hz"):
        # The worst fill, because a mean would hide the one that breaks.
        worst = min(
            snr_db(getattr(reference, name).numpy(), getattr(got, name).numpy())
            for reference, got in pairs
        )
        title = f"{name} against PyTorch, worst fill"
        figures.append(Check(title, worst, LIMIT_SNR_DB[precision], at_least=True))
    worst_hz = max(rmse(reference.f0_hz.numpy(), got.f0_hz.numpy()) for reference, got in pairs)
    title = "F0 against PyTorch, RMS difference, worst fill"
    return [*figures, Check(title, worst_hz, LIMIT_F0_HZ, at_least=False, unit="Hz")]


@dataclass(frozen=True, eq=False)
class EncoderStage(CheckpointStage):
    """A core.builder.PackageStage of two functions."""

    checkpoint: Checkpoint
    buckets: Buckets
    precision: str = "fp16"
    target: str = "iOS18"
    # the checkpoint's encoder, computing with a level's integers
    compressed: Encoder | None = None

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder that is converted, in PyTorch."""
        return self.compressed or Encoder.from_checkpoint(self.checkpoint)

    @property
    def limits(self) -> AlignmentLimits:
        """The limits of the alignment between the two functions."""
        return AlignmentLimits.from_config(self.checkpoint.config, self.buckets.frames[-1])

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """One package, or one for each function where a package knows no functions."""
        if self.target == "iOS17":
            return tuple(
                self.make_artifact(ENCODER_NAME + name.capitalize(), self.precision, {name: MAIN})
                for name in (DURATION, PROSODY)
            )
        functions = {DURATION: DURATION, PROSODY: PROSODY}
        return (self.make_artifact(ENCODER_NAME, self.precision, functions),)

    def make_function(self, name: str) -> FunctionSpec:
        """Inputs and outputs are float32 and int32 in every precision."""
        config = self.checkpoint.config
        style = (1, config.style_dim)
        style_type = TensorType(STYLE, np.float32, (style,))
        if name == PROSODY:
            # hidden's rows, and the mask as one more
            shapes = tuple((1, config.hidden_dim + 1, 1, frames) for frames in self.buckets.frames)
            return FunctionSpec(
                ProsodyFunction(self.encoder),
                (torch.ones(shapes[0]), torch.zeros(style)),
                (TensorType(FRAMES, np.float32, shapes), style_type),
                tuple(TensorType(output, np.float32) for output in (F0_HZ, ENERGY)),
                KEEP_FP32[PROSODY],
            )
        # The last token is padding, so that a trace sees both kinds.
        ids = torch.zeros(1, self.buckets.tokens[0], dtype=torch.int32)
        ids[:, -1] = PADDING_ID
        token_shapes = tuple((1, tokens) for tokens in self.buckets.tokens)
        return FunctionSpec(
            DurationFunction(self.encoder),
            (ids, torch.zeros(style), torch.ones(1)),
            (
                TensorType(INPUT_IDS, np.int32, token_shapes),
                style_type,
                TensorType(SPEED, np.float32, ((1,),)),
            ),
            tuple(TensorType(output, np.float32) for output in (DURATIONS, HIDDEN, TEXT)),
            KEEP_FP32[DURATION],
        )

    def check_program(self, name: str, program: Program) -> ProgramFacts:
        """The program's counts. Raises CheckFailed where it has another number of LSTMs than the
        module, an operation whose shape depends on data, or far too many operations.
        """
        facts = ProgramFacts.from_program(
            program, INPUT_IDS if name == DURATION else FRAMES, FORBIDDEN
        )
        lengths = len(self.buckets.tokens if name == DURATION else self.buckets.frames)
        expected_lstms = sum(
            isinstance(module, OneLSTM) for module in self.make_function(name).module.modules()
        )
        lstms = facts.operations.get("lstm", 0)
        # A masked LSTM that is unrolled has a hundred times the operations.
        lstm_promise = {
            f"{facts.count} operations, limit {MAX_OPERATIONS}": facts.count < MAX_OPERATIONS,
            f"{lstms} LSTMs, expected {expected_lstms}": lstms == expected_lstms,
        }
        require(facts.promises(self.precision, lengths) | lstm_promise, f"function {name}")
        return facts

    def measure_figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """Every tensor that leaves the package against PyTorch at exact length, at several
        fills.
        """
        package = join_programs(programs)
        # Random symbols may last longer than any bucket: both are cut at the longest.
        unbounded = replace(self.limits, total_frames=sys.maxsize)
        longest = self.buckets.frames[-1]
        twin = EncoderBackend(make_exact_functions(self.encoder), unbounded, None, longest)
        pairs = []
        for utterance in check_utterances(self.checkpoint, self.buckets):
            # The twin computes in float64, and its style does, too.
            exact = encode(twin, utterance.ids, utterance.style.double(), utterance.speed)
            for fill in choose_fills(self.buckets, len(utterance.ids), exact.asr.shape[-1]):
                backend = EncoderBackend(package, unbounded, fill, longest)
                arguments = utterance.ids, utterance.style, utterance.speed
                # Aligned by the same durations, so that every later tensor can be compared.
                got = encode(backend, *arguments, durations=exact.durations.numpy())
                pairs.append((exact, got))
        return compare_outputs(pairs, self.precision)

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """The manifest's fields that only this stage knows."""
        config = self.checkpoint.config
        words = describe_contract(config.hidden_dim, config.style_dim)
        fp32_modules = {name: list(KEEP_FP32[name]) for name in artifact.functions}
        return self.describe_provenance() | {
            "buckets": self.buckets.frames,
            "inputs": {name: words[name]["inputs"] for name in artifact.functions},
            "outputs": {name: words[name]["outputs"] for name in artifact.functions},
            "source": {"kept_fp32": fp32_modules} if self.precision == "fp16" else {},
            "token_buckets": self.buckets.tokens,
            "compute_units": COMPUTE_UNITS,
            "alignment": asdict(self.limits),
        }


def describe_contract(hidden: int, style_dim: int) -> dict[str, dict[str, Any]]:
    """Inputs and outputs of both functions, for the manifest."""
    style = {
        "shape": [1, style_dim],
        "dtype": "float32",
        "row": "voice pack [510, 1, 256], phoneme count - 1, columns 128:256",
    }
    column = {"shape": [1, hidden, 1, "tokens"], "dtype": "float32"}
    use = "repeat each column for its token's frames, then"
    rate = {
        "shape": [1, "2 * bucket"],
        "dtype": "float32",
        "rate_hz": 80,
        "valid": "first 2 * frames values",
    }
    ids = {
        "shape": [1, "tokens"],
        "dtype": "int32",
        "padding": PADDING_ID,
        "boundary": "0 before and after the symbols",
    }
    return {
        DURATION: {
            "inputs": {
                INPUT_IDS: ids,
                STYLE: style,
                SPEED: {"shape": [1], "dtype": "float32", "range": [MIN_SPEED, MAX_SPEED]},
            },
            "outputs": {
                DURATIONS: {
                    "shape": [1, "tokens"],
                    "dtype": "float32",
                    "unit": "frames",
                    "rounding": "half to even, at least 1",
                },
                HIDDEN: column | {"use": f"{use} `frames` of prosody"},
                TEXT: column | {"use": f"{use} asr of the vocoder"},
            },
        },
        PROSODY: {
            "inputs": {
                FRAMES: {
                    "shape": [1, hidden + 1, 1, "bucket"],
                    "dtype": "float32",
                    "rows": {"hidden": hidden, "mask": 1},
                    "padding": 0,
                },
                STYLE: style,
            },
            "outputs": {F0_HZ: rate | {"unit": "Hz"}, ENERGY: rate},
        },
    }


class EncoderPackage:
    """Responsibilities: 1. refuse packages that differ from their manifests; 2. hold their
    functions, lengths and limits.
    """

    def __init__(self, manifest_paths: tuple[Path, ...], precision: str = "declared") -> None:
        self.manifests = tuple(Manifest.load(path) for path in manifest_paths)
        programs: dict[str, Program] = {}
        for manifest in self.manifests:
            manifest.verify()
            with described(manifest.path):  # a ProgramError is a ValueError
                for name, inside in manifest.functions.items():
                    programs[name] = Program(
                        manifest.package_path, function=inside, precision=precision
                    )
        missing = {DURATION, PROSODY} - set(programs)
        if missing:
            raise InputError(
                f"{manifest_paths[0]} holds no function {sorted(missing)[0]!r}: an iOS 17 encoder"
                " is two packages, name both"
            )
        with described(self.manifests[0].path):
            self.functions = join_programs(programs)
            self.buckets = Buckets(self.manifests[0].token_buckets, self.manifests[0].buckets)
            self.limits = AlignmentLimits(**self.manifests[0].alignment)

    @property
    def backend(self) -> EncoderBackend:
        """For the steps."""
        return EncoderBackend(self.functions, self.limits, self.buckets)
