"""The chain in ONNX Runtime, on any machine, with or without PyTorch: NumPy arrays over three files that belong together.

opened = open_chain(Request(checkpoint, Path("build"), method="fp32"))
"""

import numpy as np

from core.commands import build_command
from core.contract import DURATION, ENCODER_NAME, FEATURES, PROSODY, STYLE, VOCODER_NAME, WAVEFORM
from core.errors import InputError, UtteranceTooLong
from core.manifest import Manifest, described, package_name
from core.onnx_file import NAME, TARGET, OnnxProgram
from encoder.alignment import AlignmentLimits
from encoder.arrays import array_functions
from encoder.steps import EncoderBackend
from pipeline.packages import source_name
from pipeline.runtimes import Opened, Request
from vocoder.harmonics import Merge
from vocoder.inputs import VocoderInputs, packed

PARTS = {DURATION: ENCODER_NAME + DURATION.capitalize(), PROSODY: ENCODER_NAME + PROSODY.capitalize(), WAVEFORM: VOCODER_NAME}


class OnnxBackend:
    """A VocoderBackend of NumPy arrays at exact length."""

    arrays = True
    buckets: tuple[int, ...] | None = None

    def __init__(self, program: OnnxProgram, manifest: Manifest) -> None:
        self.program, self.longest = program, manifest.buckets[-1]
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


def manifests_of(request: Request) -> dict[str, Manifest]:
    """By function, each verified. InputError: not built, of another checkpoint, for another version of the runtime."""
    checkpoint, found = request.checkpoint, {}
    for function, stage in PARTS.items():
        path = request.build / f"{package_name(stage, checkpoint.name, checkpoint.releasable, f'{NAME}-{request.method}')}.json"
        maker = build_command(
            "vocoder" if function == WAVEFORM else "encoder", checkpoint=source_name(checkpoint), out=request.build, runtime=NAME
        )
        if not path.is_file():
            raise InputError(f"{path} does not exist: run `{maker}`")
        manifest = Manifest.load(path)
        manifest.require_made_from(checkpoint, maker)
        if manifest.target != TARGET:
            raise InputError(f"{path} is for {manifest.target[:60]}, this version reads {TARGET}: run `{maker}`")
        manifest.verify()
        found[function] = manifest
    return found


def open_chain(request: Request) -> Opened:
    """See pipeline.runtimes: three files, opened."""
    manifests = manifests_of(request)
    programs: dict[str, OnnxProgram] = {}
    for function, manifest in manifests.items():
        outputs = manifest.outputs if function == WAVEFORM else manifest.outputs[function]
        programs[function] = OnnxProgram(manifest.package_path, outputs)
    duration = manifests[DURATION]
    with described(duration.path):
        limits = AlignmentLimits(**duration.alignment)
    encoder = EncoderBackend(array_functions(programs), limits, None, arrays=True)
    hashes = {manifest.path.stem: manifest.package_sha256 for manifest in manifests.values()}
    return Opened(encoder, OnnxBackend(programs[WAVEFORM], manifests[WAVEFORM]), hashes)
