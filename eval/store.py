"""What has been measured already, on disk: a level that was judged is not judged again, an
interrupted one goes on where it stopped.

    store = Store.open(Path("build/release/cache"), checkpoint, seed=0)
    found = store.clip_result(package_sha256, execution, clip)          # None: not measured yet
    store.keep_clip(package_sha256, execution, clip, result)

A figure is found again only under the same checkpoint content, seed, texts, code, libraries (their
bytes) and thread count, the same package bytes and the same features of the clip. Every file
carries its digest (core/checksummed.py); an edited one is an InputError. Verdicts are not kept:
they are made anew from figures each time, and `limits.json` remembers under which limits these were
judged.
"""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from kokoro_ane.core import STARTED_NS
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checksummed import checksummed, read_checksummed
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.identity import sha256_of_json
from kokoro_ane.core.staging import read_json, recover, write_json
from kokoro_ane.eval.execution import SEEDS, Execution
from kokoro_ane.eval.judge import ClipResult
from kokoro_ane.eval.provenance import code_files, code_sha256, libraries, library_versions, limits
from kokoro_ane.quantize.corpus import DATA, Utterance
from kokoro_ane.quantize.sources import changed_since

MISSING, AGAIN = "it was there a moment ago", "; delete it and it is measured again"
TEXTS = "speech/*.tsv"  # under core/data
ARRAYS = ("input_ids", "durations", "f0_hz", "energy")


def corpus_sha256() -> str:
    """Hash of the frozen texts, names and bytes; what the checkpoint makes of them follows from it
    and from the code.
    """
    digest = hashlib.sha256()
    for path in sorted(DATA.glob(TEXTS)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def utterance_sha256(utterance: Utterance) -> str:
    """Hash of what the vocoder is told of a clip."""
    digest = hashlib.sha256(
        "\0".join((utterance.id, utterance.voice, utterance.text, utterance.phonemes)).encode()
    )
    for name in ARRAYS:
        digest.update(getattr(utterance, name).tobytes())
    return digest.hexdigest()


def store_key(checkpoint: Checkpoint, seed: int) -> dict[str, Any]:
    """All that figures hang on but the package and the clip, as this process has it."""
    key = {
        "checkpoint_sha256": checkpoint.content_sha256,
        "weights_sha256": checkpoint.sha256,
        "seed": seed,
    }
    key |= {"corpus_sha256": corpus_sha256(), "code_sha256": code_sha256()}
    return key | {
        "libraries": library_versions(),
        "libraries_sha256": libraries().sha256,
        "threads": torch.get_num_threads(),
    }


@dataclass(frozen=True)
class Store:
    """Responsibilities: 1. the key of everything measured; 2. figures by package and clip, kept and
    found. It measures nothing.
    """

    folder: Path
    key: dict[str, Any]

    @classmethod
    def open(cls, cache: Path, checkpoint: Checkpoint, seed: int) -> "Store":
        """The store of this checkpoint, seed, texts, code and libraries under `cache`."""
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

    def figures(
        self, name: str, measure: Callable[[], dict[str, Any]], about: str = ""
    ) -> dict[str, Any]:
        """Plain data by name, measured once. `about`: a hash of what it was measured of, where the
        name does not say it.
        """
        found = self.find(name, about)
        return self.keep(name, measure(), about) if found is None else found

    def find(self, name: str, about: str = "") -> dict[str, Any] | None:
        """What was kept under that name; None where nothing was. Raises InputError for a file that
        was edited.
        """
        path = self.folder / f"{name}.json"
        return (
            read_checksummed(path, self._about(name, about), MISSING, AGAIN)["data"]
            if path.is_file()
            else None
        )

    def keep(self, name: str, data: dict[str, Any], about: str = "") -> dict[str, Any]:
        """Write by rename, with the time; returns the data as it will be read. InputError where
        other code than the key's may have run.
        """
        if changed_since(code_files(), STARTED_NS) or code_sha256() != self.key["code_sha256"]:
            raise InputError(
                "the code has changed since this run began: its figures are not kept; run it again"
            )
        path = self.folder / f"{name}.json"
        write_json(
            path,
            checksummed(
                {"measured": datetime.now(UTC).isoformat(timespec="seconds"), "data": data},
                self._about(name, about),
            ),
        )
        return read_checksummed(path, self._about(name, about), MISSING, AGAIN)["data"]

    def clip_result(
        self, package_sha256: str, execution: Execution, clip: Utterance
    ) -> ClipResult | None:
        """A clip's figures for a package, where they were measured."""
        name = _clip_name(package_sha256, execution, clip)
        found = self.find(name, utterance_sha256(clip))
        if found is not None and set(found) != {field.name for field in fields(ClipResult)}:
            raise InputError(f"{self.folder / name}.json is no result of clip {clip.id}{AGAIN}")
        return None if found is None else ClipResult(**found)

    def keep_clip(
        self, package_sha256: str, execution: Execution, clip: Utterance, result: ClipResult
    ) -> ClipResult:
        """Keep a clip's figures."""
        return ClipResult(
            **self.keep(
                _clip_name(package_sha256, execution, clip), asdict(result), utterance_sha256(clip)
            )
        )

    def seed_variation(self, clip: Utterance, scale: str = SEEDS) -> dict[str, float] | None:
        """Figures of the fp32 model under another noise seed, or of another `scale`, where they
        were measured.
        """
        return self.find(f"{scale}/{clip.id}", utterance_sha256(clip))

    def keep_seed_variation(
        self, clip: Utterance, figures: dict[str, float], scale: str = SEEDS
    ) -> dict[str, float]:
        """Keep them: they are the same for every package."""
        return self.keep(f"{scale}/{clip.id}", figures, utterance_sha256(clip))

    def limits_history(self) -> list[dict[str, str]]:
        """The limits under which these figures have been judged, oldest first, those in force last;
        remembered.
        """
        now = limits()
        history: list[dict[str, str]] = (self.find("limits") or {"judged_under": []})[
            "judged_under"
        ]
        if not history or history[-1]["sha256"] != now["sha256"]:
            history = [
                *history,
                now | {"first_used": datetime.now(UTC).isoformat(timespec="seconds")},
            ]
            self.keep("limits", {"judged_under": history})
        return [*history[:-1], history[-1] | now]  # the same limits may have been committed since

    def oldest(self) -> str:
        """When the first figure of this store was measured, "" for none."""
        kept = (path for path in self.folder.rglob("*.json") if path.name != "limits.json")
        return min((str(read_json(path, MISSING, AGAIN)["measured"]) for path in kept), default="")

    def _about(self, name: str, about: str) -> dict[str, Any]:
        return {"key": self.key, "name": name, "about": about}


def _clip_name(package_sha256: str, execution: Execution, clip: Utterance) -> str:
    return f"{package_sha256[:16]}-{execution.name}/{clip.id}"
