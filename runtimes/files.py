"""The chain in a runtime of files at any length: NumPy arrays over three files that belong
together. No PyTorch is imported here.

    onnx = FileRuntime(onnx_file)
    opened = onnx.open_chain(PackageRequest(checkpoint, Path("build"), method="fp32"))
    # [600F]
    samples = onnx.open_vocoder(Path("build/KokoroVocoder-onnx-fp32.json")).render(inputs)
"""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from kokoro_ane.core import (
    FEATURES,
    STREAMED,
    STYLE,
    WAVEFORM,
    InputError,
    Manifest,
    UtteranceTooLong,
    described,
)
from kokoro_ane.encoder import AlignmentLimits, EncoderBackend, join_programs
from kokoro_ane.quantize import PackageRequest
from kokoro_ane.runtimes.opened import OpenedChain
from kokoro_ane.runtimes.portable import PortableProgram
from kokoro_ane.vocoder import HarmonicSource, StreamingPackage, VocoderInputs, pack


def shape_style(inputs: VocoderInputs) -> np.ndarray:
    """[1, style_dim, 1, 1] float32 of a tensor or an array."""
    # [1, style_dim] -> [1, style_dim, 1, 1]
    return np.asarray(inputs.style, np.float32)[:, :, None, None]


def render(program: PortableProgram, inputs: VocoderInputs) -> np.ndarray:
    """Waveform [600F] of a vocoder's file."""
    arrays = {FEATURES: pack(inputs, inputs.frames), STYLE: shape_style(inputs)}
    # [1, 1, 1, 600F] -> [600F]
    return program(arrays)[WAVEFORM].reshape(-1)


class FileBackend:
    """A VocoderBackend that takes and returns NumPy arrays, at exact length."""

    arrays = True
    buckets: tuple[int, ...] | None = None
    predictor = ""  # statistics are measured

    def __init__(self, program: PortableProgram, manifest: Manifest) -> None:
        self.program = program
        self.manifest = manifest
        self.longest = manifest.buckets[-1]
        with described(manifest.path):
            self.source = HarmonicSource.from_manifest(manifest.source)

    def pack(self, inputs: VocoderInputs) -> np.ndarray:
        """features [1, channels, 1, F + 1]. Raises InputError beyond the longest utterance."""
        # Memory may have been planned for the longest utterance, so a longer one ends here.
        if inputs.frames > self.longest:
            raise UtteranceTooLong(
                f"features hold {inputs.frames} frames, the runtime takes at most {self.longest}:"
                " split the text"
            )
        return pack(inputs, inputs.frames)

    def run(
        self, features: np.ndarray, style: np.ndarray, statistics: np.ndarray, frames: int
    ) -> np.ndarray:
        """Waveform [600F]; `statistics` is not read."""
        return self.program({FEATURES: features, STYLE: style})[WAVEFORM].reshape(-1)

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600F] of tensors or arrays."""
        style = shape_style(inputs)
        # Statistics are measured here, so none are given: [1, 0, 1, 1].
        return self.run(self.pack(inputs), style, style[:, :0], inputs.frames)


@dataclass(frozen=True)
class FileRuntime:
    """A runtime that opens one kind of file.

    module: its NAME, SUFFIX, TARGET (the version of the files that it reads), TOOLS, write,
        open_file and counts_of; encoder_graph and vocoder_network, which give a module in the
        operations that it takes; open_function where its files are folders of functions.
    """

    module: ModuleType

    def paths(self, request: PackageRequest) -> tuple[tuple[Path, ...], Path]:
        """Manifests of the encoder's functions and of the vocoder. InputError: not built, of
        another checkpoint, for another version.
        """
        for path in (*request.encoders, request.vocoder):
            self.check(request.load_manifest(path), request)
        return request.encoders, request.vocoder

    def check(self, manifest: Manifest, request: PackageRequest) -> None:
        """InputError for a file that was changed, or made for another version of what reads it."""
        # Before the hash, because a new version says more about the cause than a mismatch.
        if manifest.target != self.module.TARGET:
            raise InputError(
                f"{manifest.path} is for {manifest.target[:60]}, this version reads"
                f" {self.module.TARGET}: run `{request.command(manifest.path)}`"
            )
        manifest.verify()

    def open_manifests(self, encoders: tuple[Path, ...], path: Path) -> OpenedChain:
        """Three files that belong together, wherever they lie."""
        manifests = map(Manifest.load, encoders)
        return OpenedChain.from_parts(
            self.open_encoder(encoders), self.open_vocoder(path), manifests
        )

    def open_encoder(self, encoders: tuple[Path, ...]) -> EncoderBackend:
        """The encoder alone, from the files of its functions."""
        programs: dict[str, PortableProgram] = {}
        for path in encoders:
            manifest = Manifest.load(path)
            (name,) = manifest.functions
            programs[name] = self.module.open_file(
                manifest.package_path, manifest.inputs[name], manifest.outputs[name]
            )
            with described(path):
                limits = AlignmentLimits(**manifest.alignment)
        return EncoderBackend(join_programs(programs), limits, None, arrays=True)

    def open_vocoder(self, path: Path) -> FileBackend | StreamingPackage:
        """The vocoder alone, its file or folder verified."""
        manifest = Manifest.load(path)
        # Its windows are chosen by StreamingPackage, which opens function by function.
        if manifest.layout in STREAMED:
            return StreamingPackage(
                path,
                opened=lambda folder, name: self.module.open_function(
                    folder, name, manifest.outputs[name]
                ),
                any_length=True,
            )
        manifest.verify()
        program = self.module.open_file(manifest.package_path, manifest.inputs, manifest.outputs)
        return FileBackend(program, manifest)

    def open_chain(self, request: PackageRequest) -> OpenedChain:
        """See runtimes.registry: three files, opened."""
        return self.open_manifests(*self.paths(request))
