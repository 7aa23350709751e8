"""A bundle's manifest.json: the packages, vocabulary, voices and vectors that belong together, tied
by hash. Written and read here.

    assembly = Assembly.of(folder, parts, checkpoint.as_source, withheld=None).save(folder / "manifest.json")
    Assembly.load(folder / "manifest.json").verify()

One checkpoint for all of it: voices and vocabulary of another checkpoint, packages of another, or
vectors of other packages are refused.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from kokoro_ane.core.commands import command_for
from kokoro_ane.core.config import not_releasable
from kokoro_ane.core.contract import (
    FRAME_SAMPLES,
    FRAMES_PER_SECOND,
    G2P_NAME,
    MAX_PHONEMES,
    SAMPLE_RATE_HZ,
    VOICE_SHAPE,
)
from kokoro_ane.core.data_files import conform, read_json, sha256_of
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.staging import json_text
from kokoro_ane.pipeline.vector_files import INDEX, load_index

FORMAT, NAME = 3, "manifest.json"
VOCABULARY, VOICES, LEXICON, TEXT, VECTORS = (
    "vocabulary.json",
    "voices",
    "lexicon",
    "text",
    "vectors",
)
G2P_IN_TEXT = f"no package: {TEXT}/ holds its network"
G2P_ABSENT = (
    f"no package: `{command_for(G2P_NAME)}` builds one for Core ML; without it unknown words are"
    " spelled"
)


class File(TypedDict):
    """A file and its hash; the path is relative to the assembly's."""

    file: str
    sha256: str
    bytes: int


class PackageFile(File):
    """A manifest, and the package that it describes."""

    package: str
    package_sha256: str
    package_bytes: int
    target: str


class Voices(TypedDict):
    """Style packs."""

    files: list[File]


class CheckpointNamed(TypedDict):
    """Where the weights are from."""

    name: str
    sha256: str


class Together(TypedDict):
    """manifest.json, as far as it is read again."""

    checkpoint: CheckpointNamed
    releasable: bool
    withheld: str | None
    method: str
    encoder: list[PackageFile]
    vocoder: PackageFile
    g2p: dict[str, Any]
    vocabulary: File
    voices: Voices
    lexicon: dict[str, File]
    text: list[File]
    vectors: File | None


@dataclass(frozen=True)
class Parts:
    """Manifests of the packages; the rest of a bundle has places of its own."""

    encoders: tuple[Path, ...]
    vocoder: Path
    g2p: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        """Every one."""
        return (*self.encoders, self.vocoder, *([self.g2p] if self.g2p else []))

    def inside(self, folder: Path) -> "Parts":
        """The same names in another folder."""
        return Parts(
            tuple(folder / path.name for path in self.encoders),
            folder / self.vocoder.name,
            self.g2p and folder / self.g2p.name,
        )


@dataclass(frozen=True)
class Assembly:
    """Responsibilities: 1. say what belongs together, with paths relative to itself; 2. prove that
    it still does.
    """

    data: dict[str, Any]
    path: Path = field(default=Path(), compare=False)

    @classmethod
    def of(
        cls, root: Path, parts: Parts, checkpoint: dict[str, str], withheld: str | None
    ) -> "Assembly":
        """Describe what lies in a bundle's folder. checkpoint: name and sha256; withheld:
        decision_file.not_let_out.

        Raises InputError: one part was made from another checkpoint.
        """
        encoders, vocoder = (
            [Manifest.load(path) for path in parts.encoders],
            Manifest.load(parts.vocoder),
        )
        for manifest in (*encoders, vocoder):
            _same(manifest.path, manifest.checkpoint_sha256, checkpoint["sha256"])
        if not all(manifest.releasable for manifest in (*encoders, vocoder)):
            withheld = not_releasable(checkpoint["name"])
        voices = [_file(path, root) for path in sorted((root / VOICES).iterdir())]
        data = {
            "format": FORMAT,
            "checkpoint": checkpoint,
            "releasable": withheld is None,
            "withheld": withheld,
            "method": vocoder.method,
            "layout": vocoder.layout,
            "audio": {
                "rate_hz": SAMPLE_RATE_HZ,
                "frame_samples": FRAME_SAMPLES,
                "frames_per_second": FRAMES_PER_SECOND,
            },
            "encoder": [
                _package(manifest, root) | _encoder_contract(manifest) for manifest in encoders
            ],
            "vocoder": _package(vocoder, root) | {"source": vocoder.source},
            "g2p": (
                {"absent": G2P_IN_TEXT if (root / TEXT).is_dir() else G2P_ABSENT}
                if parts.g2p is None
                else _g2p(Manifest.load(parts.g2p), root)
            ),
            "vocabulary": _file(root / VOCABULARY, root),
            "voices": {
                "shape": VOICE_SHAPE,
                "row": f"phonemes - 1, at most {MAX_PHONEMES}",
                "files": voices,
            },
            "lexicon": {
                path.stem: _file(path, root)
                for path in sorted((root / LEXICON).glob("*.tsv"), reverse=True)
            },
            "text": [_file(path, root) for path in sorted((root / TEXT).glob("*.*"))],
            "vectors": _vectors(root / VECTORS, root, checkpoint, (*encoders, vocoder)),
        }
        return cls(data, root / NAME)

    def save(self, path: Path) -> "Assembly":
        """Write into a bundle that is still aside."""
        path.write_text(json_text(self.data), encoding="utf-8")
        return Assembly(self.data, path)

    @classmethod
    def load(cls, path: Path) -> "Assembly":
        """InputError when it is missing or of another format."""
        data = read_json(path, "`kokoro-ane bundle` writes it")
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"{path} is no assembly of format {FORMAT}: bundle again")
        conform(data, Together, str(path))
        return cls(data, path)

    def verify(self) -> int:
        """Check every file and package against its hash and all packages against one checkpoint;
        the number of things checked.
        """
        root, checked = self.path.parent, 0
        files = [
            self.data["vocabulary"],
            *self.data["voices"]["files"],
            *self.data["lexicon"].values(),
            *self.data["text"],
        ]
        files += [self.data["vectors"]] if self.data["vectors"] else []
        for entry in files:
            _hashed(root / entry["file"], entry["sha256"])
            checked += 1
        for entry in (*self.data["encoder"], self.data["vocoder"]):
            manifest = self._verified(entry)
            _same(manifest.path, manifest.checkpoint_sha256, self.data["checkpoint"]["sha256"])
            checked += 2
        if "file" in self.data["g2p"]:
            conform(self.data["g2p"], PackageFile, f"{self.path}.g2p")
            self._verified(self.data["g2p"])
            checked += 2
        return checked

    def _verified(self, entry: dict[str, Any]) -> Manifest:
        """The manifest of one package, after its own hash and the package's."""
        path = self.path.parent / entry["file"]
        _hashed(path, entry["sha256"])
        manifest = Manifest.load(path)
        manifest.verify()
        if manifest.package_sha256 != entry["package_sha256"]:
            raise InputError(f"{path} is of another package than {self.path} says: bundle again")
        return manifest


def _same(path: Path, found: str, wanted: str) -> None:
    if found != wanted:
        raise InputError(
            f"{path} was made from checkpoint {found[:12]}, the rest from {wanted[:12]}: build both"
            " from one checkpoint"
        )


def _hashed(path: Path, wanted: str) -> None:
    if not path.is_file():
        raise InputError(f"{path} is missing")
    if sha256_of(path) != wanted:
        raise InputError(
            f"{path} has hash {sha256_of(path)[:12]}, the assembly says {wanted[:12]}: it was"
            " changed; bundle again"
        )


def _file(path: Path, root: Path) -> dict[str, Any]:
    return {
        "file": os.path.relpath(path, root),
        "sha256": sha256_of(path),
        "bytes": path.stat().st_size,
    }


def _package(manifest: Manifest, root: Path) -> dict[str, Any]:
    manifest.verify()
    return _file(manifest.path, root) | {
        "package": os.path.relpath(manifest.package_path, root),
        "package_sha256": manifest.package_sha256,
        "package_bytes": manifest.package_bytes,
        "target": manifest.target,
        "inputs": manifest.inputs,
        "outputs": manifest.outputs,
        "buckets": manifest.buckets,
    }


def _g2p(manifest: Manifest, root: Path) -> dict[str, Any]:
    """Its weights are its own: they hang on the lexicon, not on the voice's checkpoint."""
    return _package(manifest, root) | {"weights": manifest.checkpoint}


def _encoder_contract(manifest: Manifest) -> dict[str, Any]:
    names = ("functions", "token_buckets", "compute_units", "alignment")
    return {name: getattr(manifest, name) for name in names}


def _vectors(
    folder: Path, root: Path, checkpoint: dict[str, str], manifests: tuple[Manifest, ...]
) -> dict[str, Any]:
    index = load_index(folder)
    _same(folder / INDEX, index["checkpoint"]["sha256"], checkpoint["sha256"])
    if index["packages"] != {manifest.path.stem: manifest.package_sha256 for manifest in manifests}:
        raise InputError(
            f"{folder} was written with other packages: run `kokoro-ane vectors --out {folder}`"
            " again"
        )
    return _file(folder / INDEX, root)
