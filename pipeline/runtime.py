"""The encoder and vocoder stages by runtime: PyTorch twins, executed packages, or Core ML itself on a Mac.

    stages = open_stages("mlprogram", checkpoint, build=Path("build"), method="fp16")
    stages.encoder.encode(ids, style, 1.0); stages.vocoder.render(inputs)

Same protocol, same results within the tolerances of docs/synthesize.md.
"""

import difflib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from encoder.alignment import AlignmentLimits
from encoder.functions import Encoded, encode, package_functions, torch_functions
from encoder.model import Encoder
from encoder.package import EncoderPackage
from mlprogram import Program
from pipeline.checkpoint import Checkpoint
from pipeline.contract import DEFAULT_BUCKETS, DURATION, ENCODER_NAME, G2P_NAME, HARMONICS, PROSODY, VOCODER_NAME, bucket_for
from pipeline.errors import InputError
from pipeline.manifest import Manifest, command_for, package_name
from pipeline.stages import EncoderStage, VocoderStage
from vocoder.eager import EagerVocoder
from vocoder.package import VocoderPackage, render_reference, run_program
from vocoder.packing import VocoderInputs
from vocoder.source import HarmonicSource

RUNTIMES = ("torch", "mlprogram", "coreml")
ENCODER_BY_PYTORCH = "checkpoint"  # what stands in `made_of` where no encoder package was used
CONVERTED = ("fp16", "fp32")  # made by the converters; every other level is made from fp16
LEVELS = (*CONVERTED, "w8", "p8", "p6", "p4", "w4", "w8a8", "mixed")  # quantize.methods has the same, and a test compares them


@dataclass(frozen=True)
class Stages:
    """Both stages and what they are made of, by name: hashes that change whenever the audio may."""

    encoder: EncoderStage
    vocoder: VocoderStage
    made_of: dict[str, str] = field(default_factory=dict)


class TorchEncoder:
    """The encoder's PyTorch twin at exact length."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.functions = torch_functions(Encoder.of(checkpoint))
        self.limits = AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1])

    def encode(self, ids: tuple[int, ...], style: Tensor, speed: float) -> Encoded:
        """See EncoderStage."""
        return encode(self.functions, ids, style, speed, None, self.limits)


class TorchVocoder:
    """The vocoder's PyTorch twin at exact length, in the form made for a processor (vocoder/eager.py)."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        vocoder = checkpoint.vocoder()
        self.vocoder, self.source = EagerVocoder(vocoder), vocoder.generator.m_source

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """See VocoderStage."""
        return render_reference(self.vocoder, inputs)


class ProgramVocoder(VocoderPackage):
    """The executed vocoder package; the source's weights come from its manifest."""

    def __init__(self, manifest_path: Path) -> None:
        super().__init__(manifest_path)
        self.source = source_of(self.manifest)


class CoreMLEncoder:
    """The same packages, run by Core ML. macOS only."""

    def __init__(self, package: EncoderPackage) -> None:
        from pipeline.coreml import CoreMLProgram, chip, units_for

        units = units_for(package.manifests[0].compute_units, chip())
        paths = {name: (found.package_path, inside) for found in package.manifests for name, inside in found.functions.items()}
        programs = {name: CoreMLProgram(path, inside, units) for name, (path, inside) in paths.items()}
        self.functions, self.buckets, self.limits = package_functions(programs), package.buckets, package.limits

    def encode(self, ids: tuple[int, ...], style: Tensor, speed: float) -> Encoded:
        """See EncoderStage."""
        return encode(self.functions, ids, style, speed, self.buckets, self.limits)


class CoreMLVocoder:
    """The vocoder package, run by Core ML on the Neural Engine where that can take it. macOS only."""

    def __init__(self, manifest: Manifest) -> None:
        from pipeline.coreml import CoreMLProgram

        self.program, self.buckets = CoreMLProgram(manifest.package_path, "main", "CPU_AND_NE"), manifest.buckets
        self.source = source_of(manifest)

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """See VocoderStage."""
        return run_program(self.program, inputs, bucket_for(inputs.frames, self.buckets))


def source_of(manifest: Manifest) -> HarmonicSource:
    """The harmonic source with the ten weights of a vocoder manifest."""
    source = HarmonicSource()
    with torch.no_grad():
        source.l_linear.weight.copy_(torch.tensor(manifest.source["weights"]).reshape(1, HARMONICS))
        source.l_linear.bias.fill_(manifest.source["bias"])
    return source


def open_stages(runtime: str, checkpoint: Checkpoint, build: Path, method: str) -> Stages:
    """Both stages of a runtime. Raises InputError: unknown name, not this machine, no such package, packages of another checkpoint."""
    check_runtime(runtime, method)
    if runtime == "torch":
        return Stages(TorchEncoder(checkpoint), TorchVocoder(checkpoint), {ENCODER_BY_PYTORCH: checkpoint.sha256})
    if runtime == "mlprogram" and (alone := vocoder_alone(checkpoint, build, method)):
        made_of = {alone.stem: Manifest.load(alone).package_sha256, ENCODER_BY_PYTORCH: checkpoint.sha256}
        return Stages(TorchEncoder(checkpoint), ProgramVocoder(alone), made_of)
    encoders, vocoder = package_manifests(checkpoint, build, method)
    hashes = {path.stem: Manifest.load(path).package_sha256 for path in (vocoder,)}
    encoder = EncoderPackage(encoders)
    hashes |= {found.path.stem: found.package_sha256 for found in encoder.manifests}
    if runtime == "mlprogram":
        return Stages(encoder, ProgramVocoder(vocoder), hashes)
    manifest = Manifest.load(vocoder)
    manifest.verify()
    return Stages(CoreMLEncoder(encoder), CoreMLVocoder(manifest), hashes)


def open_g2p(runtime: str, build: Path) -> tuple[Any, dict[str, str]]:
    """The G2P package of a runtime, ready to call, and its hash by name; None where the runtime is PyTorch or no package is built."""
    path = build / f"{G2P_NAME}.json"
    if runtime == "torch" or not path.is_file():
        return None, {}
    manifest = Manifest.load(path)
    manifest.verify()
    if runtime == "mlprogram":
        return Program(manifest.package_path), {G2P_NAME: manifest.package_sha256}
    from pipeline.coreml import CoreMLProgram

    return CoreMLProgram(manifest.package_path, "main", "CPU_ONLY"), {G2P_NAME: manifest.package_sha256}


def check_runtime(runtime: str, method: str, platform: str = sys.platform) -> None:
    """InputError for names that do not exist, for a level that PyTorch has not, and for Core ML where it is not."""
    for what, name, known in (("runtime", runtime, RUNTIMES), ("method", method, LEVELS)):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise InputError(f"unknown {what} {name!r}{hint} There are: {', '.join(known)}")
    if runtime == "torch" and method not in CONVERTED:
        raise InputError(f"--method {method} is a package: PyTorch has only the uncompressed model; use --runtime mlprogram")
    if runtime == "coreml" and platform != "darwin":
        raise InputError(f"runtime coreml needs macOS, here is {platform}: --runtime mlprogram executes the same packages anywhere")


def vocoder_alone(checkpoint: Checkpoint, build: Path, method: str) -> Path | None:
    """The vocoder's manifest where no encoder stands beside it (after `make vocoder`): PyTorch then encodes, and the user is told."""
    encoders, vocoder = _places(checkpoint, build, method)
    if any(path.is_file() for path in encoders) or not vocoder.is_file():
        return None
    check_same_checkpoint(vocoder, checkpoint, build, method)
    return vocoder


def package_manifests(checkpoint: Checkpoint, build: Path, method: str) -> tuple[tuple[Path, ...], Path]:
    """Manifests of the encoder (one, or two of an iOS 17 build) and of the vocoder at `method`, of this checkpoint."""
    encoders, vocoder = _places(checkpoint, build, method)
    for path in (*encoders, vocoder):
        if not path.is_file():
            raise InputError(f"{path} does not exist: run `{maker(path, checkpoint, build, method)}` (or speak with --runtime torch)")
        check_same_checkpoint(path, checkpoint, build, method)
    return encoders, vocoder


def _places(checkpoint: Checkpoint, build: Path, method: str) -> tuple[tuple[Path, ...], Path]:
    """Where the manifests stand, or would."""
    named = {stage: build / f"{_name(checkpoint, stage, method)}.json" for stage in (ENCODER_NAME, VOCODER_NAME)}
    pair = tuple(build / f"{_name(checkpoint, ENCODER_NAME + part.capitalize(), method)}.json" for part in (DURATION, PROSODY))
    encoders = pair if not named[ENCODER_NAME].is_file() and any(path.is_file() for path in pair) else (named[ENCODER_NAME],)
    return encoders, named[VOCODER_NAME]


def _name(checkpoint: Checkpoint, stage: str, method: str) -> str:
    precision = method if stage == VOCODER_NAME or method == "fp32" else "fp16"  # the encoder is converted, never compressed
    return package_name(stage, checkpoint.name, checkpoint.releasable, precision)


def maker(path: Path, checkpoint: Checkpoint, build: Path, method: str) -> str:
    """The command that builds the package of that manifest, for the user to type."""
    source = checkpoint.name if checkpoint.name in ("demo", "kokoro-int8") else str(checkpoint.folder)
    places = f"--checkpoint {source}" + (f" --{{}} {build}" if build != Path("build") else "")
    if path.stem.startswith(VOCODER_NAME) and method not in CONVERTED:
        return f"python -m quantize.apply --method {method} {places.format('build')}"
    if method == "fp32":
        room = "encoder" if path.stem.startswith(ENCODER_NAME) else "vocoder"
        return f"python -m {room}.convert --precision fp32 {places.format('out')}"
    return f"{command_for(path.name)} CHECKPOINT={source}" + (f" OUT={build}" if build != Path("build") else "")


def check_same_checkpoint(path: Path, checkpoint: Checkpoint, build: Path, method: str) -> None:
    """InputError when the package was built from other weights than the voices and the vocabulary come from."""
    from pipeline.staging import read_json

    data: Any = read_json(path, "no package was built there")
    built = data["checkpoint"]["sha256"] if isinstance(data, dict) and isinstance(data.get("checkpoint"), dict) else "unknown"
    if built != checkpoint.sha256:
        raise InputError(
            f"{path} was built from checkpoint {built[:12]}, but {checkpoint.weights} is {checkpoint.sha256[:12]}: packages of different "
            f"checkpoints do not fit together; run `{maker(path, checkpoint, build, method)}`"
        )
