"""What has been measured already, on disk: a level that was judged is not judged again, an
interrupted one goes on where it stopped.

    store = Store.open(Path("build/release/cache"), checkpoint, seed=0)
    name = clip_name(package_sha256, execution, clip)
    figures = store.find(name)  # None: not measured yet
    store.keep(name, asdict(result))

One key names the folder: checkpoint, seed, sources and texts, lock file, libraries, threads. Below
it a figure is known by the package's hash and its clip. Verdicts are not kept: they are made anew
from figures each time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.data_files import read_json, sha256_of_json
from kokoro_ane.core.manifest import tool_versions
from kokoro_ane.core.staging import recover, write_json
from kokoro_ane.eval.execution import Execution
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.quantize.sources import source_sha256

MEASURING = ("core", "g2p", "encoder", "vocoder", "quantize", "runtimes", "eval")  # rooms


def store_key(checkpoint: Checkpoint, seed: int, variation: str = "") -> dict[str, Any]:
    """All that figures hang on but the package and the clip, as this process has it. `variation`:
    the SHA-256 of the stored one, where one is used.
    """
    return {
        "checkpoint_sha256": checkpoint.content_sha256,
        "weights_sha256": checkpoint.sha256,
        "seed": seed,
        "source_sha256": source_sha256(*MEASURING),
        "libraries": tool_versions(),
        "threads": torch.get_num_threads(),
        "variation_sha256": variation,
    }


@dataclass(frozen=True)
class Store:
    """Responsibilities: 1. the key of everything measured; 2. figures by package and clip. It
    measures nothing.
    """

    folder: Path
    key: dict[str, Any]

    @classmethod
    def open(cls, cache: Path, checkpoint: Checkpoint, seed: int, variation: str = "") -> "Store":
        """Open the store of this key under `cache`."""
        key = store_key(checkpoint, seed, variation)
        store = cls(cache / sha256_of_json(key)[:16], key)
        for folder in (store.folder, *store.folder.glob("[!.]*/")):
            # a killed run may have left a figure half-written where this one has nothing to write
            recover(folder)
        return store

    @property
    def renders(self) -> Path:
        """The folder of the fp32 renders."""
        return self.folder / "renders"

    def figures(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return plain data by name; it is measured once."""
        figures = self.find(name)
        return self.keep(name, measure()) if figures is None else figures

    def find(self, name: str) -> dict[str, Any] | None:
        """Return the data of that name; None where it was not measured yet."""
        path = self.folder / f"{name}.json"
        return self._read(path) if path.is_file() else None

    def keep(self, name: str, data: dict[str, Any]) -> dict[str, Any]:
        """Write by rename; returns the data as it will be read."""
        path = self.folder / f"{name}.json"
        write_json(path, data)
        return self._read(path)

    def _read(self, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = read_json(
            path, "it was there a moment ago", "; delete it and it is measured again"
        )
        return data


def clip_name(package_sha256: str, execution: Execution, clip: Utterance) -> str:
    """Name the figures of a clip for a package."""
    return f"{package_sha256[:16]}-{execution.name}/{clip.id}"
