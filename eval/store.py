"""What has been measured already, on disk: a level that was judged is not judged again, an
interrupted one goes on where it stopped.

    store = Store.open(Path("build/release/cache"), checkpoint, seed=0)
    result = store.clip_result(package_sha256, execution, clip)          # None: not measured yet
    store.keep_clip(package_sha256, execution, clip, result)

One key names the folder: checkpoint, seed, sources and texts, lock file, libraries, threads. Below
it a figure is known by the package's hash and its clip. Verdicts are not kept: they are made anew
from figures each time.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.data_files import read_json
from kokoro_ane.core.identity import sha256_of_json
from kokoro_ane.core.manifest import tool_versions
from kokoro_ane.core.staging import recover, write_json
from kokoro_ane.eval import VOCODER
from kokoro_ane.eval.execution import Execution
from kokoro_ane.eval.judge import ClipResult
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.quantize.sources import source_sha256

MEASURING = ("core", "g2p", "encoder", "vocoder", "quantize", "runtimes", "eval")  # rooms
MISSING, AGAIN = "it was there a moment ago", "; delete it and it is measured again"


def store_key(checkpoint: Checkpoint, seed: int) -> dict[str, Any]:
    """All that figures hang on but the package and the clip, as this process has it."""
    return {
        "checkpoint_sha256": checkpoint.content_sha256,
        "weights_sha256": checkpoint.sha256,
        "seed": seed,
        "source_sha256": source_sha256(*MEASURING),
        "libraries": tool_versions(),
        "threads": torch.get_num_threads(),
    }


@dataclass(frozen=True)
class Store:
    """Responsibilities: 1. the key of everything measured; 2. figures by package and clip. It
    measures nothing.
    """

    folder: Path
    key: dict[str, Any]

    @classmethod
    def open(cls, cache: Path, checkpoint: Checkpoint, seed: int) -> "Store":
        """The store of this key under `cache`."""
        key = store_key(checkpoint, seed)
        store = cls(cache / sha256_of_json(key)[:16], key)
        for folder in (store.folder, *store.folder.glob("[!.]*/")):
            # a killed run may have left a figure half-written where this one has nothing to write
            recover(folder)
        return store

    @property
    def renders(self) -> Path:
        """Folder of the fp32 renders."""
        return self.folder / "renders"

    def figures(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Plain data by name, measured once."""
        figures = self.find(name)
        return self.keep(name, measure()) if figures is None else figures

    def find(self, name: str) -> dict[str, Any] | None:
        """What was kept under that name; None where nothing was."""
        path = self.folder / f"{name}.json"
        return read_json(path, MISSING, AGAIN) if path.is_file() else None

    def keep(self, name: str, data: dict[str, Any]) -> dict[str, Any]:
        """Write by rename; returns the data as it will be read."""
        path = self.folder / f"{name}.json"
        write_json(path, data)
        kept: dict[str, Any] = read_json(path, MISSING, AGAIN)
        return kept

    def clip_result(
        self, package_sha256: str, execution: Execution, clip: Utterance
    ) -> ClipResult | None:
        """A clip's figures for a package, where they were measured."""
        figures = self.find(_clip_name(package_sha256, execution, clip))
        return None if figures is None else ClipResult(**figures)

    def keep_clip(
        self, package_sha256: str, execution: Execution, clip: Utterance, result: ClipResult
    ) -> ClipResult:
        """Keep a clip's figures."""
        name = _clip_name(package_sha256, execution, clip)
        return ClipResult(**self.keep(name, asdict(result)))

    def variation(self, clip: Utterance, stage: str = VOCODER) -> dict[str, float] | None:
        """The natural variation of the fp32 model in a clip, where it was measured."""
        return self.find(f"{stage}-variation/{clip.id}")

    def keep_variation(
        self, clip: Utterance, figures: dict[str, float], stage: str = VOCODER
    ) -> dict[str, float]:
        """Keep it: it is the same for every package."""
        return self.keep(f"{stage}-variation/{clip.id}", figures)


def _clip_name(package_sha256: str, execution: Execution, clip: Utterance) -> str:
    return f"{package_sha256[:16]}-{execution.name}/{clip.id}"
