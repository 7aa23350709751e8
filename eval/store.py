"""What has been measured already, on disk, and the commit that it was measured by: a level that was
judged is not judged again, an interrupted one goes on where it stopped.

    store = Store.open(Path("build/release/cache"), checkpoint, seed=0)
    name = clip_name(package_sha256, execution, clip)
    figures = store.find(name)  # None: not measured yet
    store.keep(name, asdict(result))
    explain_withheld(checkpoint)  # why nothing may be released, or None

One key names the folder: checkpoint, seed, sources and texts, libraries, threads. In it the
package's hash and the clip name a figure. Verdicts are not stored: they are made from the figures
each time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kokoro_ane.core import (
    KOKORO_INT8,
    Checkpoint,
    changed_files,
    commit,
    not_releasable,
    read_json,
    recover,
    sha256_of_json,
    source_sha256,
    tool_versions,
    write_json,
)
from kokoro_ane.eval.execution import Execution
from kokoro_ane.speech import Clip

MEASURING = ("core", "g2p", "encoder", "vocoder", "quantize", "runtimes", "eval")  # rooms


@dataclass(frozen=True)
class Store:
    """Figures by package and clip, in the folder of one key. It measures nothing."""

    folder: Path
    key: dict[str, Any]

    @classmethod
    def open(cls, cache: Path, checkpoint: Checkpoint, seed: int, variation: str = "") -> "Store":
        """Open the store under `cache` of all that figures depend on but the package and the clip.
        `variation`: the SHA-256 of the stored one, where one is used.
        """
        key = {
            "checkpoint_sha256": checkpoint.content_sha256,
            "weights_sha256": checkpoint.sha256,
            "seed": seed,
            "source_sha256": source_sha256(*MEASURING),
            "libraries": tool_versions(),
            # the last bits of a sum depend on how many threads share it
            "threads": torch.get_num_threads(),
            "variation_sha256": variation,
        }
        store = cls(cache / sha256_of_json(key)[:16], key)
        for folder in (store.folder, *store.folder.glob("[!.]*/")):
            # a killed run may have left a figure half-written where this one has nothing to write
            recover(folder)
        return store

    def load_or_measure(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return plain data by name; it is measured once."""
        figures = self.find(name)
        return self.keep(name, measure()) if figures is None else figures

    def find(self, name: str) -> dict[str, Any] | None:
        """Return the data of that name; None where it was not measured yet."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            return None
        data: dict[str, Any] = read_json(path, "", "; delete it and it is measured again")
        return data

    def keep(self, name: str, data: dict[str, Any]) -> dict[str, Any]:
        """Write the data by rename, and return it."""
        write_json(self.folder / f"{name}.json", data)
        return data


def clip_name(package_sha256: str, execution: Execution, clip: Clip) -> str:
    """Name the figures of a clip for a package."""
    return f"{package_sha256[:16]}-{execution.name}/{clip.id}"


def explain_withheld(checkpoint: Checkpoint) -> str | None:
    """Why nothing of the checkpoint may be released, in words; None where it may."""
    if checkpoint.withheld is not None:
        if checkpoint.name == KOKORO_INT8:
            return not_releasable(checkpoint.name)
        return f"{checkpoint.name} is not releasable: {checkpoint.withheld}"
    made_by = commit()
    if made_by == "none":
        return (
            "not releasable from here: no git checkout says which commit decides (an installed"
            " wheel, or no git)"
        )
    if made_by.endswith("+"):
        first, *more = changed_files()
        others = f" and {len(more)} more are" if more else " is"
        return f"not releasable from here: {first}{others} not as commit {made_by[:10]} holds it"
    return None
