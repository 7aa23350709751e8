"""The packages, executed by mlprogram on any machine. Where only the vocoder's is built (`make
vocoder`), PyTorch encodes.

opened = open_chain(PackageRequest(checkpoint, Path("build"), method="w8a8"))
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from kokoro_ane.core import G2P_NAME, Manifest, described
from kokoro_ane.encoder import EncoderBackend
from kokoro_ane.quantize import PackageRequest
from kokoro_ane.runtimes.opened import ENCODER_BY_PYTORCH, OpenedChain
from kokoro_ane.runtimes.registry import DEFAULT_RUNTIME
from kokoro_ane.vocoder import open_package
from mlprogram import Program

# the vocoder alone
open_vocoder = open_package


def open_chain(request: PackageRequest) -> OpenedChain:
    """See runtimes.registry. Where no encoder stands beside the vocoder, PyTorch encodes, and
    `made_of` says so.
    """
    # both are opened, or the InputError names what is missing
    if any(path.is_file() for path in request.encoders) or not request.vocoder.is_file():
        return open_manifests(*request.check_paths())
    from kokoro_ane.encoder import load_torch_encoder

    # load_manifest has checked that the package belongs to this checkpoint.
    vocoder = open_package(request.load_manifest(request.vocoder).path)
    opened = OpenedChain.from_parts(load_torch_encoder(request.checkpoint), vocoder, ())
    return replace(opened, made_of=opened.made_of | {ENCODER_BY_PYTORCH: request.checkpoint.sha256})


def open_manifests(encoders: tuple[Path, ...], path: Path) -> OpenedChain:
    """Packages that belong together, wherever they lie."""
    # imported late: a judge of the vocoder's package opens no encoder
    from kokoro_ane.encoder import EncoderPackage

    encoder = EncoderPackage(encoders)
    return OpenedChain.from_parts(encoder.backend, open_package(path), encoder.manifests)


def open_encoder(encoders: tuple[Path, ...]) -> EncoderBackend:
    """The encoder alone."""
    from kokoro_ane.encoder import EncoderPackage

    return EncoderPackage(encoders).backend


def open_g2p(runtime: str, build: Path) -> tuple[Any, dict[str, str]]:
    """The G2P package, ready to call, and its hash by name; None where none is built."""
    path = build / f"{G2P_NAME}.json"
    if not path.is_file():
        return None, {}
    # The hash goes into `made_of`, so the file behind it has to be the one that was built.
    manifest = Manifest.load(path)
    manifest.verify()
    made_of = {G2P_NAME: manifest.package_sha256}
    if runtime == DEFAULT_RUNTIME:
        with described(path):
            return Program(manifest.package_path), made_of
    from kokoro_ane.runtimes.coreml import CoreMLProgram

    return CoreMLProgram(manifest.package_path, "main", "CPU_ONLY"), made_of
