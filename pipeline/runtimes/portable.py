"""What runtimes with files of their own share: where these stand, that they belong together, and the chain of NumPy arrays over them.

opened = open_portable(request, core.onnx_file)
"""

import numpy as np

from core.commands import build_command
from core.contract import DURATION, ENCODER_NAME, FEATURES, PROSODY, STYLE, VOCODER_NAME, WAVEFORM
from core.errors import InputError, UtteranceTooLong
from core.manifest import Manifest, described, package_name
from core.portable import PortableFormat, PortableProgram
from encoder.alignment import AlignmentLimits
from encoder.arrays import array_functions
from encoder.steps import EncoderBackend
from pipeline.packages import source_name
from pipeline.runtimes import Opened, Request
from vocoder.harmonics import Merge
from vocoder.inputs import VocoderInputs, packed

PARTS = {DURATION: ENCODER_NAME + DURATION.capitalize(), PROSODY: ENCODER_NAME + PROSODY.capitalize(), WAVEFORM: VOCODER_NAME}


class PortableBackend:
    """A VocoderBackend of NumPy arrays at exact length."""

    arrays = True
    buckets: tuple[int, ...] | None = None

    def __init__(self, program: PortableProgram, manifest: Manifest) -> None:
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


def manifests_of(request: Request, form: PortableFormat) -> dict[str, Manifest]:
    """By function, each verified. InputError: not built, of another checkpoint, for another version of the runtime."""
    checkpoint, found = request.checkpoint, {}
    for function, stage in PARTS.items():
        path = request.build / f"{package_name(stage, checkpoint.name, checkpoint.releasable, f'{form.NAME}-{request.method}')}.json"
        maker = build_command(
            "vocoder" if function == WAVEFORM else "encoder", checkpoint=source_name(checkpoint), out=request.build, runtime=form.NAME
        )
        if not path.is_file():
            raise InputError(f"{path} does not exist: run `{maker}`")
        manifest = Manifest.load(path)
        manifest.require_made_from(checkpoint, maker)
        if manifest.target != form.TARGET:
            raise InputError(f"{path} is for {manifest.target[:60]}, this version reads {form.TARGET}: run `{maker}`")
        manifest.verify()
        found[function] = manifest
    return found


def open_portable(request: Request, form: PortableFormat) -> Opened:
    """See pipeline.runtimes: three files, opened."""
    manifests = manifests_of(request, form)
    programs: dict[str, PortableProgram] = {}
    for function, manifest in manifests.items():
        outputs = manifest.outputs if function == WAVEFORM else manifest.outputs[function]
        programs[function] = form.open_program(manifest.package_path, tuple(outputs))
    duration = manifests[DURATION]
    with described(duration.path):
        limits = AlignmentLimits(**duration.alignment)
    encoder = EncoderBackend(array_functions(programs), limits, None, arrays=True)
    hashes = {manifest.path.stem: manifest.package_sha256 for manifest in manifests.values()}
    return Opened(encoder, PortableBackend(programs[WAVEFORM], manifests[WAVEFORM]), hashes)
