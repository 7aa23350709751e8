"""Use the artifact: a checked encoder package (or the two of an iOS 17 build), executed on any machine.

package = EncoderPackage((Path("build/KokoroEncoder-fp16.json"),))
encoded = package.encode(ids, style, speed=1.0)
"""

from pathlib import Path

from torch import Tensor

from core.contract import DURATION, PROSODY
from core.errors import InputError
from encoder.alignment import AlignmentLimits
from encoder.describe import EncoderManifest
from encoder.functions import Encoded, encode, package_functions
from mlprogram import Program


class EncoderPackage:
    """Responsibilities: 1. refuse packages that are not what their manifests describe; 2. bucket, pad, execute, align, cut."""

    def __init__(self, manifest_paths: tuple[Path, ...], precision: str = "declared") -> None:
        self.manifests = tuple(EncoderManifest.load(path) for path in manifest_paths)
        programs: dict[str, Program] = {}
        for manifest in self.manifests:
            manifest.verify()
            for name, inside in manifest.functions.items():
                programs[name] = Program(manifest.package_path, function=inside, precision=precision)
        missing = {DURATION, PROSODY} - set(programs)
        if missing:
            raise InputError(f"{manifest_paths[0]} holds no function {sorted(missing)[0]!r}: an iOS 17 encoder is two packages, name both")
        self.functions = package_functions(programs)
        self.buckets = self.manifests[0].lengths
        self.limits = AlignmentLimits(**self.manifests[0].alignment)

    def encode(self, ids: tuple[int, ...], style: Tensor, speed: float) -> Encoded:
        """ids with boundary tokens, style [1, 128], speed; InputError when a length or the speed is out of range."""
        return encode(self.functions, ids, style, speed, self.buckets, self.limits)
