"""The G2P package of a runtime, for the words that the lexicon does not hold.

program, made_of = open_g2p("mlprogram", Path("build"))
"""

from pathlib import Path
from typing import Any

from core.contract import G2P_NAME
from core.manifest import Manifest, described
from pipeline.runtimes import RUNTIMES


def open_g2p(runtime: str, build: Path) -> tuple[Any, dict[str, str]]:
    """The G2P package of a runtime, ready to call, and its hash by name; None where the runtime runs no packages, or none is built."""
    path = build / f"{G2P_NAME}.json"
    if not RUNTIMES[runtime].packages or not path.is_file():
        return None, {}
    manifest = Manifest.load(path)
    manifest.verify()
    if runtime == "mlprogram":
        from mlprogram import Program

        with described(path):
            return Program(manifest.package_path), {G2P_NAME: manifest.package_sha256}
    from pipeline.runtimes.coreml import CoreMLProgram

    return CoreMLProgram(manifest.package_path, "main", "CPU_ONLY"), {G2P_NAME: manifest.package_sha256}
