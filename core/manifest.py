"""The manifest beside each package: what it was made from, its contract, what was checked. Written
last, by rename.

    manifest = Manifest.load(Path("build/KokoroVocoder-kokoro-int8-fp16.json"))
    manifest.verify()          # the package on disk is the one that was checked

A package without a manifest is not a package: every reader starts here.
"""

import dataclasses
import hashlib
import json
import platform
import shutil
import uuid
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import command_for
from kokoro_ane.core.contract import DEFAULT_LAYOUT, LAYOUTS
from kokoro_ane.core.data_files import check_name, fill_defaults, read_json, readable, sha256_of
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.staging import OwnFile, is_of_finder, is_there, json_of, json_text, strangers

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint

PACKAGE_TOOLS = ("torch", "coremltools", "numpy")
# identifiers inside a package that this project wrote are made from it (core/export.py)
PACKAGE_NAMESPACE = uuid.UUID("6f6d9a52-5d3c-4a55-9d5e-6b6f6b6f726f")
MAX_LENGTH = 1 << 20  # frames or tokens
ITEMS = "Manifest.json"  # of a Core ML package: which file in it is what
FORMAT = 2  # 2: layout, functions, token lengths, compute units and alignment in every manifest


def package_name(stage: str, checkpoint_name: str, releasable: bool, method: str) -> str:
    """KokoroVocoder-fp16, or KokoroVocoder-kokoro-int8-fp16 for a checkpoint that may never be
    released.
    """
    name = f"{stage}-{method}" if releasable else f"{stage}-{checkpoint_name}-{method}"
    return check_name(
        name,
        f"the package's name, of checkpoint {checkpoint_name[:64]!r} and method {method[:64]!r}",
    )


def level_name(method: str, layout: str) -> str:
    """w8a8, or padded-w8a8: the layout stands before the method unless it is the default one."""
    return method if layout in ("", DEFAULT_LAYOUT) else f"{layout}-{method}"


def tool_versions(tools: tuple[str, ...] = PACKAGE_TOOLS) -> dict[str, str]:
    """Return the versions of the tools that shape a package's bytes."""
    return {"python": platform.python_version()} | {name: version(name) for name in tools}


def described(path: Path) -> AbstractContextManager[None]:
    """Turn a missing key or a wrong type into an InputError while a stage reads the fields that
    only it knows.
    """
    return readable(path, f"run `{command_for(path.name)}` again")


@dataclass(frozen=True)
class Manifest:
    """Responsibilities: 1. provenance (checkpoint, parent, tools); 2. contract (I/O, buckets,
    source weights); 3. check figures.
    """

    stage: str
    method: str
    precision: str
    checkpoint: dict[str, Any]  # Checkpoint.as_source: name, sha256 of the network, weights_sha256
    releasable: bool
    package: str  # file name beside the manifest
    package_sha256: str
    package_bytes: int
    target: str
    buckets: tuple[int, ...]  # frames
    hidden_dim: int
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    source: dict[str, Any]
    operations: dict[str, int]
    checks: dict[str, Any]
    tools: dict[str, str]
    layout: str = ""  # of the vocoder: one of LAYOUTS
    # contract name -> name in the package
    functions: dict[str, str] = dataclasses.field(default_factory=dict)
    token_buckets: tuple[int, ...] = ()
    compute_units: dict[str, str] = dataclasses.field(default_factory=dict)
    alignment: dict[str, int] = dataclasses.field(default_factory=dict)
    parent_sha256: str | None = None
    compression: dict[str, Any] = dataclasses.field(default_factory=dict)
    format: int = FORMAT
    path: Path = dataclasses.field(default=Path(), compare=False)

    @property
    def level(self) -> str:
        """Method and layout, as they stand in the package's name."""
        return level_name(self.method, self.layout)

    @property
    def package_path(self) -> Path:
        """Where the .mlpackage stands, or the .onnx file."""
        return self.path.parent / self.package

    @property
    def checkpoint_sha256(self) -> str:
        """Hash of the network that the package was built from: weights and config."""
        return self.checkpoint["sha256"]

    def require_made_from(self, checkpoint: "Checkpoint", command: str) -> None:
        """Raise InputError for a package of other weights or another config."""
        if self.checkpoint_sha256 != checkpoint.network_sha256:
            # Told apart for the message: another config is mended otherwise than other weights.
            same = self.checkpoint.get("weights_sha256") == checkpoint.sha256
            built = self.checkpoint_sha256[:12]
            current = checkpoint.network_sha256[:12]
            what = "the same weights with another config" if same else "other weights"
            message = (
                f"was built from checkpoint {built}, but {checkpoint.folder} is {current}, {what}"
            )
            raise InputError(
                f"{self.path} {message}: packages of different checkpoints do not fit together; run"
                f" `{command}`"
            )

    def verify(self) -> None:
        """Raise InputError unless the package on disk is the one this manifest was written for."""
        # A file may not stand where a folder is described, nor the other way round.
        folder = self.package.endswith(".mlpackage") or len(self.functions) > 1
        if not (self.package_path.is_dir() if folder else self.package_path.is_file()):
            raise InputError(
                f"{self.package_path} is missing though {self.path} describes it: run"
                f" `{command_for(self.stage)}` again"
            )
        sha256 = hash_package(self.package_path)
        if sha256 != self.package_sha256:
            raise InputError(
                f"{self.package_path} has hash {sha256[:12]}, its manifest says"
                f" {self.package_sha256[:12]}: run `{command_for(self.stage)}` again"
            )

    def save(self, path: Path) -> "Manifest":
        """Write as `path`, which is still aside; returns the manifest that knows its place."""
        data = dataclasses.asdict(self)
        # Where it lies is no part of it: a manifest may be moved.
        del data["path"]
        path.write_text(json_text(data), encoding="utf-8")
        return dataclasses.replace(self, path=path)

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read a manifest; InputError when it is missing, not JSON, of another format, or has other
        keys.
        """
        is_there(path)  # a build may have been killed while it took its names
        data = read_json(path, f"no package was built there; `{command_for(path.name)}` builds it")
        # Before its fields are read, because another format has other ones.
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(
                f"{path} is not a manifest of format {FORMAT}: run `{command_for(path.name)}` again"
            )
        manifest = fill_defaults(cls, data, str(path))
        _require_sound(data, str(path))
        return dataclasses.replace(manifest, path=path)


def _require_sound(data: dict[str, Any], where: str) -> None:
    """Raise InputError for what types alone do not show: names that leave their folder, missing
    hashes, lengths that do not rise.
    """
    check_name(data["package"], f"{where}.package")
    for name in (*data["functions"], *data["functions"].values()):
        check_name(name, f"{where}.functions")
    if not isinstance(data["checkpoint"].get("sha256"), str) or not isinstance(
        data["checkpoint"].get("name"), str
    ):
        raise InputError(f"{where}.checkpoint has no name and sha256")
    check_name(data["checkpoint"]["name"], f"{where}.checkpoint.name")
    if data["layout"] not in ("", *LAYOUTS):
        message = f"no longer one of {', '.join(LAYOUTS)}; run `{command_for(data['stage'])}` again"
        raise InputError(f"{where} says layout {data['layout'][:20]!r}, {message}")
    for key in ("buckets", "token_buckets"):
        lengths = data[key]
        # Equal to its sorted set: rising, and none twice.
        if any(not 0 < length <= MAX_LENGTH for length in lengths) or lengths != sorted(
            set(lengths)
        ):
            raise InputError(
                f"{where}.{key} is {str(lengths)[:60]}, not lengths that rise, {MAX_LENGTH} at most"
            )
    if not data["buckets"]:
        raise InputError(f"{where}.buckets is empty")


def _manifest_of_ours(path: Path) -> str | None:
    """Return why a manifest is not the project's, or None. A damaged one is, where a package of the
    project stands beside it.
    """
    package = path.with_suffix(".mlpackage")
    return (
        None
        if package.is_dir() and package_of_ours(package) is None
        else json_of("package_sha256").reason(path)
    )


def package_of_ours(folder: Path) -> str | None:
    """Return why a package, or a folder of another runtime's functions, is not one that this
    project wrote, or None: for core.staging.staged.
    """
    if not (_is_named_beside(folder) or _has_own_identifiers(folder)):
        return "it is not a package that this command wrote"
    suffixes = (".mlmodel", ".bin", folder.suffix)
    # Weights may have any name, so whatever ends like a part of a package is one.
    parts = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return strangers(folder, {ITEMS, *(name for name in parts if name.endswith(suffixes))})


def _is_named_beside(path: Path) -> bool:
    """Return whether the manifest beside a package names it."""
    with suppress(InputError, KeyError, TypeError):
        return bool(read_json(path.with_suffix(".json"), "")["package"] == path.name)
    return False


def _has_own_identifiers(package: Path) -> bool:
    """Return whether make_reproducible (core/export.py) made a package's identifiers; Core ML gives
    others to a package that it opens.
    """
    with suppress(InputError, KeyError, TypeError, AttributeError):
        manifest = read_json(package / ITEMS, "")
        paths = [entry["path"] for entry in manifest["itemInfoEntries"].values()]
        identifiers = [str(uuid.uuid5(PACKAGE_NAMESPACE, path)) for path in paths]
        return manifest["rootModelIdentifier"] in identifiers
    return False


def hash_package(package: Path) -> str:
    """One hash over every file of an .mlpackage: names and contents, in sorted order; of a plain
    file its SHA-256.
    """
    if package.is_file():
        return sha256_of(package)
    digest = hashlib.sha256()
    for path in _list_parts(package):
        name = path.relative_to(package).as_posix()
        # The zero byte ends the name, so that no name can run into the hash behind it.
        digest.update(name.encode() + b"\0" + bytes.fromhex(hash_content(path)))
    return digest.hexdigest()


def hash_content(path: Path) -> str:
    """Return the SHA-256 of a file by what it means: its bytes, but of a package's Manifest.json
    those that format_items makes of it. coremltools adds a line break to it when it opens a
    package.
    """
    if path.name == ITEMS and path.parent.suffix == ".mlpackage":
        with suppress(InputError):  # damaged: its bytes
            return hashlib.sha256(format_items(read_json(path, "")).encode()).hexdigest()
    return sha256_of(path)


def format_items(items: Any) -> str:
    """Return the content of a package's Manifest.json as this project writes it."""
    return json.dumps(items, indent=4, sort_keys=True)


def copy_package(package: Path, target: Path) -> None:
    """Copy a package as it was written, whatever Finder or coremltools have put there since."""
    if package.is_file():
        shutil.copy(package, target)
        return
    shutil.copytree(package, target, ignore=lambda _, names: [*filter(is_of_finder, names)])
    if (target / ITEMS).is_file():
        text = format_items(read_json(target / ITEMS, ""))
        (target / ITEMS).write_text(text, encoding="utf-8")


def _list_parts(package: Path) -> list[Path]:
    """Return the files of a package, in sorted order."""
    files = (path for path in package.rglob("*") if path.is_file())
    return sorted(path for path in files if not is_of_finder(path.name))


def count_package_bytes(package: Path) -> int:
    """Return the size on disk of all files of a package."""
    if package.is_file():
        return package.stat().st_size
    return sum(path.stat().st_size for path in _list_parts(package))


# an old one that a build replaces
MANIFEST_FILE = OwnFile(_manifest_of_ours)
PACKAGE_FILE = OwnFile(
    lambda path: None if _is_named_beside(path) else "no manifest beside it names it"
)


def describe_package(package: Path) -> dict[str, Any]:
    """Return name, hash and size of a package, as its manifest holds them."""
    return {
        "package": package.name,
        "package_sha256": hash_package(package),
        "package_bytes": count_package_bytes(package),
    }
