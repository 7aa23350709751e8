"""The chain in a runtime of files at any length: NumPy arrays over three files that belong together. No PyTorch is imported here.

runtime = FileRuntime("onnx", "ONNX opset 17", OnnxProgram)         # pipeline/runtimes/onnx.py, executorch.py, tvm.py
opened = runtime.open_chain(Request(checkpoint, Path("build"), method="fp32"))
samples = runtime.open_vocoder(Path("build/KokoroVocoder-onnx-fp32.json")).render(inputs)      # [600F]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.commands import build_command, quantize_command
from core.contract import DURATION, ENCODER_NAME, FEATURES, PROSODY, STYLE, VOCODER_NAME, WAVEFORM
from core.errors import InputError, UtteranceTooLong
from core.manifest import Manifest, described, package_name
from core.portable import PRECISION, PortableProgram
from encoder.alignment import AlignmentLimits
from encoder.arrays import array_functions
from encoder.steps import EncoderBackend
from pipeline.packages import source_name
from pipeline.runtimes import Opened, Request
from vocoder.harmonics import Merge
from vocoder.inputs import VocoderInputs, packed

PARTS = {DURATION: ENCODER_NAME + DURATION.capitalize(), PROSODY: ENCODER_NAME + PROSODY.capitalize(), WAVEFORM: VOCODER_NAME}


class FileBackend:
    """A VocoderBackend of NumPy arrays at exact length."""

    arrays = True
    buckets: tuple[int, ...] | None = None

    def __init__(self, program: PortableProgram, manifest: Manifest) -> None:
        self.program, self.manifest, self.longest = program, manifest, manifest.buckets[-1]
        with described(manifest.path):
            self.source = Merge.recorded(manifest.source)

    def pack(self, inputs: VocoderInputs) -> np.ndarray:
        """features [1, channels, 1, F + 1]. Raises InputError beyond the longest utterance."""
        if inputs.frames > self.longest:
            raise UtteranceTooLong(f"features hold {inputs.frames} frames, the runtime takes at most {self.longest}: split the text")
        return packed(inputs, inputs.frames)

    def run(self, features: np.ndarray, style: np.ndarray, frames: int) -> np.ndarray:
        """Waveform [600F]."""
        return self.program({FEATURES: features, STYLE: style})[WAVEFORM].reshape(-1)

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600F] of tensors or arrays."""
        style = np.asarray(inputs.style, np.float32)[:, :, None, None]  # [1, style_dim, 1, 1]
        return self.run(self.pack(inputs), style, inputs.frames)


@dataclass(frozen=True)
class FileRuntime:
    """`name`: in the files' names; `target`: what this version reads; `open`: path, inputs and outputs to a program."""

    name: str
    target: str
    open: Callable[[Path, Mapping[str, Any], Mapping[str, Any]], PortableProgram]

    def manifest_paths(self, request: Request) -> tuple[tuple[Path, ...], Path]:
        """Of the encoder's functions and of the vocoder. InputError: not built, of another checkpoint, for another version of it."""
        duration, prosody, vocoder = (self._checked(request, function, stage) for function, stage in PARTS.items())
        return (duration, prosody), vocoder

    def vocoder_path(self, request: Request) -> Path:
        """The vocoder's manifest alone. InputError as manifest_paths."""
        return self._checked(request, WAVEFORM, VOCODER_NAME)

    def vocoder_is_built(self, request: Request) -> bool:
        """Whether its manifest is there, of whatever."""
        return self._path(request, WAVEFORM, VOCODER_NAME).is_file()

    def _path(self, request: Request, function: str, stage: str) -> Path:
        checkpoint, level = request.checkpoint, request.method if function == WAVEFORM else PRECISION  # the encoder is never compressed
        return request.build / f"{package_name(stage, checkpoint.name, checkpoint.releasable, f'{self.name}-{level}')}.json"

    def _checked(self, request: Request, function: str, stage: str) -> Path:
        checkpoint, path = request.checkpoint, self._path(request, function, stage)
        maker = self._maker(request, function)
        if not path.is_file():
            raise InputError(f"{path} does not exist: run `{maker}`")
        manifest = Manifest.load(path)
        manifest.require_made_from(checkpoint, maker)
        if manifest.target != self.target:
            raise InputError(f"{path} is for {manifest.target[:60]}, this version reads {self.target}: run `{maker}`")
        manifest.verify()
        return path

    def _maker(self, request: Request, function: str) -> str:
        """The command that writes the file, for the user to type."""
        source = source_name(request.checkpoint)
        if function == WAVEFORM and request.method != PRECISION:
            return f"{quantize_command(request.method, checkpoint=source, build=request.build)} --runtime {self.name}"
        stage = "vocoder" if function == WAVEFORM else "encoder"
        return build_command(stage, checkpoint=source, out=request.build, runtime=self.name)

    def open_manifests(self, encoders: tuple[Path, ...], path: Path) -> Opened:
        """Three files that belong together, wherever they lie."""
        manifests = [Manifest.load(encoder) for encoder in encoders]
        programs: dict[str, PortableProgram] = {}
        for manifest in manifests:
            (function,) = manifest.functions
            programs[function] = self.open(manifest.package_path, manifest.inputs[function], manifest.outputs[function])
        with described(manifests[0].path):
            limits = AlignmentLimits(**manifests[0].alignment)
        vocoder = self.open_vocoder(path)
        encoder = EncoderBackend(array_functions(programs), limits, None, arrays=True)
        hashes = {manifest.path.stem: manifest.package_sha256 for manifest in (*manifests, vocoder.manifest)}
        return Opened(encoder, vocoder, hashes)

    def open_vocoder(self, path: Path) -> FileBackend:
        """The vocoder alone, its file verified."""
        manifest = Manifest.load(path)
        manifest.verify()
        return FileBackend(self.open(manifest.package_path, manifest.inputs, manifest.outputs), manifest)

    def open_chain(self, request: Request) -> Opened:
        """See pipeline.runtimes: three files, opened."""
        return self.open_manifests(*self.manifest_paths(request))
