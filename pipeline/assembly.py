"""A bundle's manifest.json: the packages, vocabulary, voices and vectors that belong together, tied
by hash. Written and read here.

    data = assemble(folder, encoders, vocoder, checkpoint.as_source, withheld=None)
    data = read_assembly(folder)
    verify_assembly(folder, data, hashes)

All packages are made from one checkpoint.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from kokoro_ane.core import (
    FRAME_SAMPLES,
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    UNITS_TABLE,
    VOICE_SHAPE,
    InputError,
    Manifest,
    conform,
    read_json,
    sha256_of,
)
from kokoro_ane.pipeline.vector_files import INDEX
from kokoro_ane.runtimes import PACKAGE
from kokoro_g2p import MAX_PHONEMES

FORMAT = 3
NAME = "manifest.json"
# what was reported of the systems that run packages, by range and route, with sources
ADVISORIES = Path(__file__).resolve().parents[1] / "core" / "data" / "advisories.json"
VOCABULARY, VOICES = "vocabulary.json", "voices"
TEXT, VECTORS = "text", "vectors"


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
    `token_buckets` and `alignment`; of a vocoder `source`, the nine weights and the
    bias of its harmonic source.

    package: path of the .mlpackage or .onnx. package_sha256: over its files. package_bytes: its
    size. target: the least system, such as iOS17.
    """

    package: str
    package_sha256: str
    package_bytes: int
    target: str


class Voices(TypedDict):
    """The voices. Written beside them: the tables' `shape`, and which `row` serves a text.

    files: one .style file for each voice. statistics: one .statistics file for each, in the same
    order, where the layout predicts; else none.
    """

    files: list[File]
    statistics: list[File]


class CheckpointNamed(TypedDict):
    """Where the weights are from.

    name: of the checkpoint. sha256: over its weights, configuration and voices.
    """

    name: str
    sha256: str


class Together(TypedDict):
    """What is read again of a bundle's manifest.json. Written beside it: `format`, a number that a
    reader compares; `layout` of the vocoder; `advisories`, what was reported of Core ML on Apple's
    systems; `compute_units`, where it computes each stage there; `audio`, sample rate and frames.

    checkpoint: of every package, voice and vector. releasable: whether it may be released.
    withheld: why not, or null. method: the vocoder's level. encoder: one package, or two of iOS 17.
    vocoder: its package. vocabulary: phoneme symbol to id. voices: the style tables. text: what
    reads text, by language. vectors: inputs and outputs of every step, or null.
    """

    checkpoint: CheckpointNamed
    releasable: bool
    withheld: str | None
    method: str
    encoder: list[PackageFile]
    vocoder: PackageFile
    vocabulary: File
    voices: Voices
    text: list[File]
    vectors: File | None


def assemble(
    root: Path,
    encoders: Sequence[Manifest],
    vocoder: Manifest,
    checkpoint: dict[str, str],
    withheld: str | None,
) -> dict[str, Any]:
    """Describe what lies in a bundle's folder. checkpoint: name and sha256. withheld: why the
    bundle may not be released, or None.
    """
    # what an app needs to call an encoder, copied so that it reads one file
    contract = ("functions", "token_buckets", "alignment")
    advisories, compute_units = [], []
    # Both tables are about Core ML alone.
    if vocoder.package.endswith(PACKAGE):
        missing = "a part of kokoro-ane is missing"
        compute_units = read_json(UNITS_TABLE, missing)["rows"]
        advisories = read_json(ADVISORIES, missing)["advisories"]
    return {
        "format": FORMAT,
        "checkpoint": checkpoint,
        "releasable": withheld is None,
        "withheld": withheld,
        "method": vocoder.method,
        "layout": vocoder.layout,
        "advisories": advisories,
        "compute_units": compute_units,
        "audio": {
            "rate_hz": SAMPLE_RATE_HZ,
            "frame_samples": FRAME_SAMPLES,
            "frames_per_second": FRAMES_PER_SECOND,
        },
        "encoder": [_describe_package(encoder, root, *contract) for encoder in encoders],
        "vocoder": _describe_package(vocoder, root, "source"),
        "vocabulary": _describe_file(root / VOCABULARY, root),
        "voices": {
            "shape": VOICE_SHAPE,
            "row": f"phonemes - 1, at most {MAX_PHONEMES}",
            "files": [
                _describe_file(path, root) for path in sorted((root / VOICES).glob("*.style"))
            ],
            "statistics": [
                _describe_file(path, root) for path in sorted((root / VOICES).glob("*.statistics"))
            ],
        },
        "text": [_describe_file(path, root) for path in sorted((root / TEXT).glob("*.*"))],
        "vectors": _describe_file(root / VECTORS / INDEX, root),
    }


def read_assembly(folder: Path) -> dict[str, Any]:
    """The manifest.json of a bundle. InputError when it is missing or of another format."""
    path = folder / NAME
    data = read_json(path, "`kokoro-ane bundle` writes it")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f"{path} is no assembly of format {FORMAT}: bundle again")
    conform(data, Together, str(path))
    return data


def verify_assembly(root: Path, data: dict[str, Any], hashes: Mapping[str, str]) -> None:
    """Compare every entry with the hash of its file, every package with its manifest, and all
    packages with one checkpoint. hashes: of the bundle's files, by name. Raises InputError.
    """
    # Whatever the manifest names has to be in the list of hashes.
    packages = [*data["encoder"], data["vocoder"]]
    voices = [*data["voices"]["files"], *data["voices"]["statistics"]]
    files = [data["vocabulary"], *voices, *data["text"], *packages]
    files += [data["vectors"]] if data["vectors"] else []
    for entry in files:
        if hashes.get(entry["file"]) != entry["sha256"]:
            raise InputError(
                f"{root / entry['file']} is missing, or not the file that {NAME} names: bundle"
                " again"
            )
    # a manifest that is as it was written may still stand beside another package
    for entry in packages:
        manifest = Manifest.load(root / entry["file"])
        manifest.verify()
        if manifest.package_sha256 != entry["package_sha256"]:
            raise InputError(
                f"{manifest.path} is of another package than {root / NAME} says: bundle again"
            )
        # Parts of two checkpoints would speak noise.
        expected = data["checkpoint"]["sha256"]
        if manifest.checkpoint_sha256 != expected:
            raise InputError(
                f"{manifest.path} was made from checkpoint {manifest.checkpoint_sha256[:12]}, the"
                f" rest from {expected[:12]}: build both from one checkpoint"
            )


def _describe_file(path: Path, root: Path) -> dict[str, Any]:
    """A file and its hash, by its path in the bundle."""
    return {
        "file": path.relative_to(root).as_posix(),
        "sha256": sha256_of(path),
        "bytes": path.stat().st_size,
    }


def _describe_package(manifest: Manifest, root: Path, *extra: str) -> dict[str, Any]:
    """The manifest's file, the package, and these fields of the manifest beside the usual ones."""
    fields = ("package_sha256", "package_bytes", "target", "inputs", "outputs", "buckets", *extra)
    return (
        _describe_file(manifest.path, root)
        | {"package": manifest.package_path.relative_to(root).as_posix()}
        | {name: getattr(manifest, name) for name in fields}
    )
