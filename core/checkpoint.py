"""One loader for three homes of a checkpoint: the hub, a local folder with the same files, the bundled demo voice.

    checkpoint = open_checkpoint("hexgrad/Kokoro-82M")   # or a folder, "demo", or None for the default
    vocoder = Vocoder.of(checkpoint)                     # vocoder.decoder

Strict: a missing, extra or mis-shaped tensor is an InputError that names it. Pickles are read with weights_only, the SHA-256 is recorded.
"""

import hashlib
import os
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.config import KokoroConfig
from core.errors import InputError
from core.tensor_files import read_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from core.voices import VoiceLibrary

HUB_REPOSITORY = "hexgrad/Kokoro-82M"
HUB_REVISION = "f3ff3571791e39611d31c381e3a41a3af07b4987"
HUB_SHA256 = "496dba118d1a58f5f3db2efc88dbdc216e0483fc89fe6e47ee1f2c53f18ad1e4"  # of kokoro-v1_0.pth at that revision
HUB_FILES = ("config.json", "kokoro-v1_0.pth", "voices/*.pt")
HUB_TIMEOUT_S = 10
DEMO_FOLDER = Path(__file__).resolve().parents[1] / "demo" / "checkpoint"
PARTS = ("bert", "bert_encoder", "predictor", "text_encoder", "decoder")
DEMO_NOTICE = """
  +----------------------------------------------------------------------+
  |  DEMO VOICE. Kokoro-82M is neither cached nor did the hub answer.     |
  |  Everything below is built from the small bundled voice: good for     |
  |  trying the tools, never for a release. For the real model:           |
  |  make vocoder CHECKPOINT=hexgrad/Kokoro-82M  (or a folder)            |
  +----------------------------------------------------------------------+
"""


def open_checkpoint(source: str | None = None) -> "Checkpoint":
    """Open `source`: a folder, "demo", HUB_REPOSITORY, or None (Kokoro if cached or the hub answers, else the demo voice with a notice).

    Raises InputError when the folder or hub cannot give a complete checkpoint.
    """
    if source is None:
        return _default()
    if source == "demo":
        return Checkpoint.from_folder(DEMO_FOLDER)
    if source == HUB_REPOSITORY:
        return Checkpoint.from_folder(_download(HUB_TIMEOUT_S), expected_sha256=HUB_SHA256)
    folder = Path(source)
    if not folder.exists():
        raise InputError(f"checkpoint {source!r} is neither a folder nor {HUB_REPOSITORY!r} nor 'demo'")
    return Checkpoint.from_folder(folder)


def _default() -> "Checkpoint":
    try:
        folder = _download(HUB_TIMEOUT_S)
    except InputError as problem:
        print(f"{DEMO_NOTICE}\n  ({problem})\n", file=sys.stderr)
        return Checkpoint.from_folder(DEMO_FOLDER)
    return Checkpoint.from_folder(folder, expected_sha256=HUB_SHA256)


def _download(timeout_s: int) -> Path:
    """The snapshot's folder: from the cache when complete, else from the hub; InputError when the hub does not answer."""
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", str(timeout_s))  # read when huggingface_hub is imported
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import get_session, hf_hub_url, snapshot_download

    wanted: dict[str, Any] = {"repo_id": HUB_REPOSITORY, "revision": HUB_REVISION, "allow_patterns": list(HUB_FILES)}
    try:
        folder = Path(snapshot_download(**wanted, local_files_only=True))
        if all((folder / name).exists() for name in HUB_FILES[:2]) and any(folder.glob(HUB_FILES[2])):
            return folder
    except Exception as problem:  # noqa: BLE001  the hub's many error classes all mean "not in the cache"
        print(f"{HUB_REPOSITORY} is not cached ({type(problem).__name__}); asking the hub", file=sys.stderr)
    try:
        # One plain request first: the library itself retries for 23 s before it says that there is no network.
        get_session().head(hf_hub_url(HUB_REPOSITORY, HUB_FILES[0], revision=HUB_REVISION), timeout=timeout_s)
        return Path(snapshot_download(**wanted, etag_timeout=timeout_s))
    except Exception as problem:  # noqa: BLE001  no common base class; each is reported by name
        reason = str(problem).strip().splitlines() or [""]
        raise InputError(
            f"the hub did not give {HUB_REPOSITORY} at {HUB_REVISION[:7]}: {type(problem).__name__}: {reason[0][:160]}"
        ) from None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """Responsibilities: 1. the config; 2. state dicts by part, in float32, under upstream's keys; 3. voices. It builds no encoder."""

    folder: Path
    weights: Path
    config: KokoroConfig
    sha256: str

    @classmethod
    def from_folder(cls, folder: Path, expected_sha256: str | None = None) -> "Checkpoint":
        """Find config.json and the one .pth file in `folder`."""
        config = KokoroConfig.load(folder / "config.json")
        found = sorted(folder.glob("*.pth"))
        if len(found) != 1:
            names = ", ".join(p.name for p in found) or "none"
            raise InputError(f"{folder} must hold exactly one .pth file beside config.json; found: {names}")
        digest = sha256_of(found[0])
        if expected_sha256 is not None and digest != expected_sha256:
            raise InputError(f"{found[0]} has SHA-256 {digest}, expected {expected_sha256}: delete it and download again")
        return cls(folder, found[0], config, digest)

    @property
    def name(self) -> str:
        """kokoro-82m, demo, or what config.json says."""
        return self.config.name

    @property
    def releasable(self) -> bool:
        """False for the demo voice: its packages carry "demo" in their names and no decision may release them."""
        return self.config.releasable

    @cached_property
    def _parts(self) -> "dict[str, dict[str, Tensor]]":
        data = read_tensors(self.weights)
        if not isinstance(data, dict) or not all(isinstance(part, dict) for part in data.values()):
            raise InputError(f"{self.weights} is not a dict of state dicts: expected the parts {', '.join(PARTS)}")
        unknown = [name for name in data if name not in PARTS]
        if unknown:
            raise InputError(f"{self.weights} holds unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
        return {name: _plain(part, f"{self.weights}: {name}") for name, part in data.items()}

    @property
    def part_names(self) -> tuple[str, ...]:
        """The parts that the weights hold."""
        return tuple(self._parts)

    def part(self, name: str) -> "dict[str, Tensor]":
        """State dict of one part (`decoder`, `text_encoder`, ...) in float32, without the `module.` prefix."""
        if name not in self._parts:
            raise InputError(f"{self.weights} has no part {name!r}; it holds {', '.join(self._parts)}")
        return self._parts[name]

    def load_part(self, module: "nn.Module", name: str) -> "nn.Module":
        """Load part `name` into `module`, strictly, and return it in eval mode."""
        try:
            missing, extra = module.load_state_dict(self.part(name), strict=False)
        except RuntimeError as problem:
            lines = [line.strip() for line in str(problem).splitlines()[1:] if line.strip()] or [str(problem)]
            raise InputError(
                f"{self.weights}: {name}: {lines[0]} ({len(lines)} tensors do not fit {self.folder / 'config.json'})"
            ) from None
        for kind, keys in (("is missing tensor", missing), ("has an extra tensor", extra)):
            if keys:
                raise InputError(f"{self.weights}: {name} {kind} {keys[0]} ({len(keys)} in all)")
        return module.eval()

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voice packs in voices/."""
        return self._library.names

    def voice(self, name: str) -> "Tensor":
        """Style pack [510, 1, 256] in float32; InputError lists the names when there is no such voice."""
        return self._library.pack(name)

    @property
    def _library(self) -> "VoiceLibrary":
        from core.voices import VoiceLibrary

        return VoiceLibrary(self.folder / "voices")


def _plain(part: "dict[str, Tensor]", where: str) -> "dict[str, Tensor]":
    """Drop the `module.` prefix and widen to float32."""
    import torch

    plain = {}
    for key, value in part.items():
        if not isinstance(value, torch.Tensor):
            raise InputError(f"{where}.{key} is a {type(value).__name__}, not a tensor")
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise InputError(f"{where}.{key} holds NaN or infinity")
        plain[key.removeprefix("module.")] = value.float() if value.is_floating_point() else value
    return plain
