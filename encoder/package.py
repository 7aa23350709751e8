"""Use the artifact: a checked encoder package (or the two of an iOS 17 build), executed on any machine.

package = EncoderPackage((Path("build/KokoroEncoder-fp16.json"),))
encoded = encode(package.backend, ids, style, speed=1.0)
"""

from pathlib import Path

from core.contract import DURATION, PROSODY
from core.errors import InputError
from core.manifest import Manifest, described
from encoder.alignment import AlignmentLimits
from encoder.functions import Buckets, package_functions
from encoder.steps import EncoderBackend
from mlprogram import Program


class EncoderPackage:
    """Responsibilities: 1. refuse packages that are not what their manifests describe; 2. its functions, lengths and limits."""

    def __init__(self, manifest_paths: tuple[Path, ...], precision: str = "declared") -> None:
        self.manifests = tuple(Manifest.load(path) for path in manifest_paths)
        programs: dict[str, Program] = {}
        for manifest in self.manifests:
            manifest.verify()
            with described(manifest.path):  # a ProgramError is a ValueError
                for name, inside in manifest.functions.items():
                    programs[name] = Program(manifest.package_path, function=inside, precision=precision)
        missing = {DURATION, PROSODY} - set(programs)
        if missing:
            raise InputError(f"{manifest_paths[0]} holds no function {sorted(missing)[0]!r}: an iOS 17 encoder is two packages, name both")
        with described(self.manifests[0].path):
            self.functions = package_functions(programs)
            self.buckets = Buckets(self.manifests[0].token_buckets, self.manifests[0].buckets)
            self.limits = AlignmentLimits(**self.manifests[0].alignment)

    @property
    def backend(self) -> EncoderBackend:
        """For the steps."""
        return EncoderBackend(self.functions, self.limits, self.buckets)
