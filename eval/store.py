"""What has been measured already, on disk: a level that was judged is not judged again, an interrupted one goes on where it stopped.

    store = Store.open(Path("build/release/cache"), checkpoint, seed=0)
    result = store.result(package_sha256, "declared", clip, measure=lambda: judge_clip(...))

A figure is found again only under the same checkpoint, seed, corpus, code, tools and thread count, and the same package bytes. Files are
written by rename.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from core.checkpoint import Checkpoint
from core.corpus import DATA, Utterance
from core.errors import InputError
from core.manifest import tool_versions
from core.staging import read_json, write_json
from eval.judge import ClipResult

AGAIN = "; delete it and it is measured again"
ROOT = Path(__file__).resolve().parents[1]
CODE = (
    "eval/metrics",
    "eval/corpus.py",
    "eval/judge.py",
    "eval/probe.py",
    "vocoder",
    "encoder",
    "pipeline",
    "mlprogram",
)  # what makes figures
NOT_CODE = ("mlprogram/examine", "demo")


def code_sha256() -> str:
    """Hash of every source file that a figure depends on."""
    sources = [path for part in CODE for path in ([ROOT / part] if part.endswith(".py") else (ROOT / part).rglob("*.py"))]
    kept = [path for path in sources if not path.relative_to(ROOT).as_posix().startswith(NOT_CODE)]
    return sha256_of_files(sorted(kept))


def corpus_sha256() -> str:
    """Hash of the frozen texts; what the checkpoint makes of them follows from it and from the code."""
    return sha256_of_files(sorted((DATA / "speech").glob("*.tsv")))


def sha256_of_files(paths: list[Path]) -> str:
    """One hash over names and bytes."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Store:
    """Responsibilities: 1. the key of everything measured; 2. figures by package and clip, kept and found. It measures nothing."""

    folder: Path
    key: dict[str, Any]

    @classmethod
    def open(cls, cache: Path, checkpoint: Checkpoint, seed: int) -> "Store":
        """The store of this checkpoint, seed, corpus and code under `cache`."""
        key = {"checkpoint_sha256": checkpoint.sha256, "seed": seed, "corpus_sha256": corpus_sha256(), "code_sha256": code_sha256()}
        key |= {"tools": tool_versions(), "threads": torch.get_num_threads()}
        name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        return cls(cache / name, key)

    @property
    def renders(self) -> Path:
        """Folder of the fp32 renders."""
        return self.folder / "renders"

    def figures(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Plain data by name, measured once."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            write_json(path, measure())
        found = read_json(path, "it was there a moment ago", AGAIN)
        if not isinstance(found, dict):
            raise InputError(f"{path} is no object{AGAIN}")
        return found

    def result(self, package_sha256: str, precision: str, clip: Utterance, measure: Callable[[], ClipResult]) -> ClipResult:
        """A clip's figures for a package, measured once."""
        name = f"{package_sha256[:16]}-{precision}/{clip.id}"
        found = self.figures(name, lambda: asdict(measure()))
        if set(found) != {field.name for field in fields(ClipResult)} or found.get("id", clip.id) != clip.id:
            raise InputError(f"{self.folder / name}.json is no result of clip {clip.id}{AGAIN}")
        return ClipResult(**found)
