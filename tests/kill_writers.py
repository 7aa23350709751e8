"""The writing commands for tests.kill: how each is called, what it leaves, and a reader that says whether that is whole.

WRITERS["vectors"].read(Path("user/new"))          # "whole", "refused: ...", or "half: ..."
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.sweep_calls import CK, B
from tests.sweep_world import World, unmeasured


@dataclass(frozen=True)
class Writer:
    """One command, the places it fills below user/, its good exit codes, and what is cleared before it runs."""

    name: str
    module: str
    argv: tuple[str, ...]
    places: tuple[str, ...]
    codes: tuple[int, ...] = (0,)
    clear: tuple[str, ...] = ()

    def things(self, user: Path) -> list[Path]:
        """What it leaves, of which each has to be whole or not there."""
        return [user / place for place in self.places]

    def read(self, path: Path) -> str:
        """What the reader of such a thing says."""
        from kokoro_ane.core.errors import InputError

        try:
            READERS["".join(path.suffixes[-1:]) or path.name](path)
            return "whole"
        except InputError as problem:
            return f"refused: {problem}"
        except Exception as problem:  # noqa: BLE001  whatever a reader trips over is half a thing
            return f"half: {type(problem).__name__} {problem}"


def _json(path: Path) -> None:
    from kokoro_ane.core.manifest import Manifest
    from kokoro_ane.pipeline.assembly import Assembly
    from kokoro_ane.pipeline.decision_file import read_decision

    if path.with_suffix(".mlpackage").exists():
        Manifest.load(path).verify()
    elif path.name == "decision.json":
        read_decision(path)
    elif path.name == "manifest.json":
        Assembly.load(path).verify()
    else:
        assert json.loads(path.read_text(encoding="utf-8"))


def _package(path: Path) -> None:
    """A package without its manifest is taken by nobody; with one it is the one that was checked."""
    from kokoro_ane.core.manifest import Manifest

    if path.with_suffix(".json").exists():
        Manifest.load(path.with_suffix(".json")).verify()


def _audio(path: Path) -> None:
    import soundfile

    samples, _ = soundfile.read(path)
    assert len(samples) and path.stat().st_size == 44 + 2 * len(samples)


def _picture(path: Path) -> None:
    from matplotlib.image import imread

    assert imread(path).size


def _vectors(path: Path) -> None:
    from kokoro_ane.core.staging import sha256_of
    from kokoro_ane.pipeline.vector_files import load_index

    index = load_index(path)
    for utterance in index["utterances"]:
        for tensor in utterance["tensors"].values():
            assert sha256_of(path / tensor["file"]) == tensor["sha256"]


def _bundle(path: Path) -> None:
    from kokoro_ane.pipeline.bundle_files import verify_bundle

    verify_bundle(path)


def _pack(path: Path) -> None:
    assert len(list(path.glob("*.wav"))) and (path / "README.txt").is_file() and (path / "sheet.csv").is_file()


def _ends(end: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        assert path.read_text(encoding="utf-8").rstrip().endswith(end)

    return read


READERS: dict[str, Callable[[Path], None]] = {
    ".json": _json, ".mlpackage": _package, ".wav": _audio, ".png": _picture, "vectors": _vectors,
    "bundle-tiny": _bundle, "listening": _pack,
    ".html": _ends("</html>"), ".srt": lambda path: path.read_text(encoding="utf-8").index("-->"), ".md": _ends(""),
}  # fmt: skip
VOCODER, W8 = "build/KokoroVocoder-tiny-fp16", "build/KokoroVocoder-tiny-w8"
_LIST = (
    Writer("build-vocoder", "pipeline.build", ("vocoder", *CK, "--buckets", "40", "--out", "{user}/new"),
        ("new/KokoroVocoder-tiny-fp16.mlpackage", "new/KokoroVocoder-tiny-fp16.json")),
    Writer("quantize", "pipeline.apply", ("--method", "w8", *CK, *B), (f"{W8}.mlpackage", f"{W8}.json", f"{VOCODER}.json"),
        clear=("user/build/*-w8.*",)),
    Writer("speak", "pipeline.speak", ("Hello there. One more. And one.", "-o", "{user}/new.wav", "--timestamps", "{user}/new.srt",
        *CK, *B, "--runtime", "torch"), ("new.wav", "new.srt")),
    Writer("vectors", "pipeline.vectors", (*CK, *B, "--out", "{user}/new/vectors", "--voice", "slt"), ("new/vectors",)),
    Writer("bundle", "pipeline.bundle", (*CK, *B, "--out", "{user}/new/bundle-tiny"), ("new/bundle-tiny",), (3,)),
    Writer("report", "eval.report", (*CK, *B), ("build/release/report.html", "build/release/listening", "build/release/decision.json")),
    Writer("ane", "mlprogram.__main__", ("ane", "{user}/build/KokoroVocoder-tiny-fp16.mlpackage", "--chip", "m1", "--no-device", "--json",
        "{user}/new.json", "--plot", "{user}/new.png"), ("new.json", "new.png")),
    Writer("rules", "mlprogram.__main__", ("rules", "--write", "{user}/page.md"), ("page.md",)),
)  # fmt: skip
WRITERS = {writer.name: writer for writer in _LIST}
_NOW: list[Any] = ["", 0]


def _once(real: Callable[..., Any], kept: Path) -> Callable[..., Any]:
    """A conversion that is made in a writer's first run and read from disk in the others: by order, which is the same in all."""

    def convert(*given: Any, **more: Any) -> Any:
        import coremltools as ct

        _NOW[1] += 1
        path = kept / f"{_NOW[0]}-{_NOW[1]}.mlpackage"
        if path.is_dir():
            return ct.models.MLModel(str(path), skip_model_load=True)
        model = real(*given, **more)
        shutil.copytree(model.package_path, path.with_suffix(".aside"))
        path.with_suffix(".aside").rename(path)
        return model

    return convert


def primed_for(name: str) -> None:
    """Conversions of this writer are kept from its first run on."""
    _NOW[:] = [name, 0]


def primed(world: World) -> None:
    """Put the stand-ins in place: conversions are read, checks of their own left out. For the rest of this process's life."""
    import pytest

    from tests.builds import without_self_checks

    patch = pytest.MonkeyPatch()
    unmeasured(patch)
    without_self_checks(patch)
    kept = world.root.parent / "primed"
    kept.mkdir(exist_ok=True)
    for place in ("kokoro_ane.core.builder.converted", "kokoro_ane.quantize.compress.converted", "kokoro_ane.quantize.compress.compressed"):
        module = import_module(place.rpartition(".")[0])
        patch.setattr(place, _once(getattr(module, place.rpartition(".")[2]), kept))
