"""A bundle's manifest.json: the packages, vocabulary, voices and vectors that belong together, tied
by hash. Written and read here.

    Assembly.of(folder, parts, checkpoint.as_source, withheld=None).save()
    Assembly.load(folder / "manifest.json").verify()

One checkpoint for all of it: voices and vocabulary of another checkpoint, packages of another, or
vectors of other packages are refused.
"""

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
from kokoro_ane.runtimes.registry import PACKAGE

FORMAT, NAME = 3, "manifest.json"
# what was reported of the systems that run packages, by range and route, with sources
ADVISORIES = Path(__file__).resolve().parents[1] / "core" / "data" / "advisories.json"
VOCABULARY, VOICES = "vocabulary.json", "voices"
LEXICON, TEXT, VECTORS = "lexicon", "text", "vectors"
G2P_IN_TEXT = f"no package: {TEXT}/ holds its network"
G2P_ABSENT = (
    f"no package: `{command_for(G2P_NAME)}` builds one for Core ML; without it unknown words are"
    " spelled"
)


class File(TypedDict):
    """A file and its hash.

    file: its path, relative to the bundle. sha256: of its bytes. bytes: its size.
    """

    file: str
    sha256: str
    bytes: int


class PackageFile(File):
    """A manifest (`file`), and the package that it describes. Written beside these: the package's
    `inputs`, `outputs` and `buckets` (lengths in frames); of an encoder `functions`,
    `token_buckets`, `compute_units` and `alignment`; of a vocoder `source`, the ten weights and the
    bias of its harmonic source.

    package: path of the .mlpackage or .onnx. package_sha256: over its files. package_bytes: its
    size. target: the least system, such as iOS17.
    """

    package: str
    package_sha256: str
    package_bytes: int
    target: str


class Voices(TypedDict):
    """The style tables. Written beside them: their `shape`, and which `row` serves a text.

    files: one .style file for each voice.
    """

    files: list[File]


class CheckpointNamed(TypedDict):
    """Where the weights are from.

    name: of the checkpoint. sha256: over its weights, configuration and voices.
    """

    name: str
    sha256: str


class Together(TypedDict):
    """What is read again of a bundle's manifest.json. Written beside it: `format`, a number that a
    reader compares; `layout` of the vocoder; `advisories`, what was reported of Core ML on Apple's
    systems; `audio`, sample rate and frames.

    checkpoint: of every package, voice and vector. releasable: whether it may be released.
    withheld: why not, or null. method: the vocoder's level. encoder: one package, or two of iOS 17.
    vocoder: its package. g2p: its package, or why there is none. vocabulary: phoneme symbol to id.
    voices: the style tables. lexicon: by dialect, where words alone are bundled. text: what reads
    text, by language. vectors: inputs and outputs of every step, or null.
    """

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
        encoders = tuple(folder / path.name for path in self.encoders)
        return Parts(encoders, folder / self.vocoder.name, self.g2p and folder / self.g2p.name)


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
        decision_file.withheld_for.

        Raises InputError: one part was made from another checkpoint.
        """
        encoders, vocoder = list(map(Manifest.load, parts.encoders)), Manifest.load(parts.vocoder)
        manifests = (*encoders, vocoder)
        for manifest in manifests:
            _require_same(manifest.path, manifest.checkpoint_sha256, checkpoint["sha256"])
        # one package that may not be released withholds the whole bundle
        if not all(manifest.releasable for manifest in manifests):
            withheld = not_releasable(checkpoint["name"])
        if parts.g2p is None:
            g2p: dict[str, Any] = {"absent": G2P_IN_TEXT if (root / TEXT).is_dir() else G2P_ABSENT}
        else:
            # its weights are its own: they follow from the lexicon, not from the voice's checkpoint
            manifest = Manifest.load(parts.g2p)
            g2p = _package(manifest, root) | {"weights": manifest.checkpoint}
        # vectors are replayed on the packages beside them, so they must be of these very packages
        index = load_index(root / VECTORS)
        _require_same(root / VECTORS / INDEX, index["checkpoint"]["sha256"], checkpoint["sha256"])
        hashes = {manifest.path.stem: manifest.package_sha256 for manifest in manifests}
        if index["packages"] != hashes:
            raise InputError(
                f"{root / VECTORS} was written with other packages: run `kokoro-ane vectors --out"
                f" {root / VECTORS}` again"
            )
        # what an app needs to call an encoder, copied so that it reads one file
        contract = ("functions", "token_buckets", "compute_units", "alignment")
        advisories = []
        if vocoder.package.endswith(PACKAGE):
            advisories = read_json(ADVISORIES, "a part of kokoro-ane is missing")["advisories"]
        data = {
            "format": FORMAT,
            "checkpoint": checkpoint,
            "releasable": withheld is None,
            "withheld": withheld,
            "method": vocoder.method,
            "layout": vocoder.layout,
            "advisories": advisories,
            "audio": {
                "rate_hz": SAMPLE_RATE_HZ,
                "frame_samples": FRAME_SAMPLES,
                "frames_per_second": FRAMES_PER_SECOND,
            },
            "encoder": [
                _package(manifest, root) | {name: getattr(manifest, name) for name in contract}
                for manifest in encoders
            ],
            "vocoder": _package(vocoder, root) | {"source": vocoder.source},
            "g2p": g2p,
            "vocabulary": _file(root / VOCABULARY, root),
            "voices": {
                "shape": VOICE_SHAPE,
                "row": f"phonemes - 1, at most {MAX_PHONEMES}",
                "files": [_file(path, root) for path in sorted((root / VOICES).iterdir())],
            },
            "lexicon": {
                path.stem: _file(path, root)
                for path in sorted((root / LEXICON).glob("*.tsv"), reverse=True)
            },
            "text": [_file(path, root) for path in sorted((root / TEXT).glob("*.*"))],
            "vectors": _file(root / VECTORS / INDEX, root),
        }
        return cls(data, root / NAME)

    def save(self) -> None:
        """Write into a bundle that is still aside."""
        self.path.write_text(json_text(self.data), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Assembly":
        """InputError when it is missing or of another format."""
        data = read_json(path, "`kokoro-ane bundle` writes it")
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"{path} is no assembly of format {FORMAT}: bundle again")
        conform(data, Together, str(path))
        return cls(data, path)

    def verify(self) -> None:
        """Check every file and package against its hash and all packages against one checkpoint."""
        root, data = self.path.parent, self.data
        # the G2P package has weights of its own: it is verified, but not of the voices' checkpoint
        packages = [*data["encoder"], data["vocoder"]]
        if "file" in data["g2p"]:
            conform(data["g2p"], PackageFile, f"{self.path}.g2p")
            packages.append(data["g2p"])
        files = [data["vocabulary"], *data["voices"]["files"], *data["lexicon"].values()]
        files += [*data["text"], *([data["vectors"]] if data["vectors"] else []), *packages]
        for entry in files:
            path, sha256 = root / entry["file"], entry["sha256"]
            if not path.is_file():
                raise InputError(f"{path} is missing")
            if sha256_of(path) != sha256:
                raise InputError(
                    f"{path} has hash {sha256_of(path)[:12]}, the assembly says {sha256[:12]}: it"
                    " was changed; bundle again"
                )
        # a manifest that is as it was written may still stand beside another package
        for entry in packages:
            manifest = Manifest.load(root / entry["file"])
            manifest.verify()
            if manifest.package_sha256 != entry["package_sha256"]:
                raise InputError(
                    f"{manifest.path} is of another package than {self.path} says: bundle again"
                )
            if entry is not data["g2p"]:
                _require_same(
                    manifest.path, manifest.checkpoint_sha256, data["checkpoint"]["sha256"]
                )


def _require_same(path: Path, sha256: str, expected: str) -> None:
    if sha256 != expected:
        raise InputError(
            f"{path} was made from checkpoint {sha256[:12]}, the rest from {expected[:12]}: build"
            " both from one checkpoint"
        )


def _file(path: Path, root: Path) -> dict[str, Any]:
    """A file and its hash, by its path in the bundle."""
    return {
        "file": path.relative_to(root).as_posix(),
        "sha256": sha256_of(path),
        "bytes": path.stat().st_size,
    }


def _package(manifest: Manifest, root: Path) -> dict[str, Any]:
    manifest.verify()
    fields = ("package_sha256", "package_bytes", "target", "inputs", "outputs", "buckets")
    package = manifest.package_path.relative_to(root).as_posix()
    return (
        _file(manifest.path, root)
        | {"package": package}
        | {name: getattr(manifest, name) for name in fields}
    )
