"""The writing commands for tests.kill: how each is called, what it leaves, and a reader that says whether that is whole.

WRITERS["vectors"].read(Path("user/new"))          # "whole", "refused: ...", or "half: ..."
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.sweep_calls import CK, B
from tests.sweep_world import World, unmeasured

CACHED = ("cache/speech",)


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
        """What it leaves, of which each has to be whole or not there; finished things beside it that must stay so."""
        return [*(user / place for place in self.places), *sorted((user.parent / "cache" / "speech").glob("*.npz"))]

    def read(self, path: Path) -> str:
        """What the reader of such a thing says."""
        from core.errors import InputError

        try:
            READERS["".join(path.suffixes[-1:]) or path.name](path)
            return "whole"
        except InputError as problem:
            return f"refused: {problem}"
        except Exception as problem:  # noqa: BLE001  whatever a reader trips over is half a thing
            return f"half: {type(problem).__name__} {problem}"


def _json(path: Path) -> None:
    from core.manifest import Manifest
    from pipeline.assembly import Assembly
    from pipeline.decision_file import read_decision

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
    from core.manifest import Manifest

    if path.with_suffix(".json").exists():
        Manifest.load(path.with_suffix(".json")).verify()


def _audio(path: Path) -> None:
    import soundfile

    samples, _ = soundfile.read(path)
    assert len(samples) and path.stat().st_size == 44 + 2 * len(samples)


def _picture(path: Path) -> None:
    from matplotlib.image import imread

    assert imread(path).size


def _arrays(path: Path) -> None:
    import numpy as np

    with np.load(path, allow_pickle=False) as stored:
        assert all(stored[name] is not None for name in stored.files)


def _vectors(path: Path) -> None:
    from core.staging import sha256_of
    from pipeline.vector_files import load_index

    index = load_index(path)
    for utterance in index["utterances"]:
        for tensor in utterance["tensors"].values():
            assert sha256_of(path / tensor["file"]) == tensor["sha256"]


def _bundle(path: Path) -> None:
    from pipeline.bundle_files import verify_bundle

    verify_bundle(path)


def _pack(path: Path) -> None:
    assert len(list(path.glob("*.wav"))) and (path / "README.txt").is_file() and (path / "sheet.csv").is_file()


def _ends(end: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        assert path.read_text(encoding="utf-8").rstrip().endswith(end)

    return read


READERS: dict[str, Callable[[Path], None]] = {
    ".json": _json, ".mlpackage": _package, ".wav": _audio, ".png": _picture, ".npz": _arrays, "vectors": _vectors,
    "bundle-tiny": _bundle, "listening": _pack,
    ".html": _ends("</html>"), ".srt": lambda path: path.read_text(encoding="utf-8").index("-->"), ".md": _ends(""),
    ".jsonl": lambda path: path.read_text(),
}  # fmt: skip
VOCODER, W8 = "build/KokoroVocoder-tiny-fp16", "build/KokoroVocoder-tiny-w8"
_LIST = (
    Writer("build-vocoder", "pipeline.build", ("vocoder", *CK, "--buckets", "40", "--out", "{user}/new"),
        ("new/KokoroVocoder-tiny-fp16.mlpackage", "new/KokoroVocoder-tiny-fp16.json")),
    Writer("build-encoder", "pipeline.build", ("encoder", *CK, "--buckets", "40", "--token-buckets", "16", "--target", "iOS17", "--out",
        "{user}/new"),
           ("new/KokoroEncoderDuration-tiny-fp16.json", "new/KokoroEncoderProsody-tiny-fp16.json")),
    Writer("build-g2p", "pipeline.build", ("g2p", "--out", "{user}/new"), ("new/G2P.mlpackage", "new/G2P.json")),
    Writer("build-onnx", "pipeline.build", ("encoder", "--runtime", "onnx", *CK, "--out", "{user}/new"), ()),
    Writer("quantize", "quantize.apply", ("--method", "w8", *CK, *B), (f"{W8}.mlpackage", f"{W8}.json", f"{VOCODER}.json"),
        clear=("user/build/*-w8.*",)),
    Writer("speak", "pipeline.synthesize", ("Hello there. One more. And one.", "-o", "{user}/new.wav", "--timestamps", "{user}/new.srt",
        *CK, *B, "--runtime", "torch"), ("new.wav", "new.srt")),
    Writer("vectors", "pipeline.vectors", (*CK, *B, "--out", "{user}/new/vectors", "--voice", "slt"), ("new/vectors",)),
    Writer("bundle", "pipeline.bundle", (*CK, *B, "--out", "{user}/new/bundle-tiny"), ("new/bundle-tiny",)),
    Writer("assemble", "pipeline.assemble", (*CK, *B), ("build/manifest.json",), clear=("user/build/manifest.json",)),
    Writer("quality", "eval.quality", ("--method", "fp16", *CK, *B, "--workers", "1"), ("build/quality/KokoroVocoder-tiny-fp16.json",),
        (0, 1, 3), (*CACHED, "user/build/release/cache")),
    Writer("release", "eval.release", ("--methods", "fp16,w8", "--no-build", *CK, *B, "--workers", "1"), ("build/release/decision.json",),
        (0, 1, 3), ("user/build/release",)),
    Writer("report", "eval.report", (*CK, *B), ("build/release/report.html", "build/release/listening", "build/release/decision.json")),
    Writer("validate", "pipeline.validate", ("--phonemes", "hɛlˈO", *CK, "--save-dir", "{user}/new"), ("new/seams.json", "new/seams.png",
        "new/torch.npz", "new/upstream.npz"), (0, 1)),
    Writer("sensitivity", "quantize.sensitivity", (*CK, *B, "--clips", "1", "--size", "0.8", "--recipe", "{user}/new.json", "--log",
        "{user}/new.jsonl"), ("new.json", "new.png", "new.jsonl")),
    Writer("reconstruct", "quantize.reconstruct", ("--method", "w8a8", *CK, "--out", "{user}/new", "--block-steps", "1",
        "--whole-steps", "1", "--clips", "2", "--set", "clips=2"), ("new/encode.phase.npz", "new/whole.phase.npz"), (0, 1)),
    Writer("controls", "eval.controls", (*CK, "--clips", "1", "--renders", "{user}/renders"), ("renders/judged-00.npz",), (0, 1)),
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
    """Put the stand-ins in place: clips found perfect, conversions read, upstream's model as it is. For the rest of this process's life."""
    import pytest

    from tests.builds import without_self_checks

    patch, truth_of = pytest.MonkeyPatch(), import_module("eval.corpus").Truth.of
    unmeasured(patch)
    without_self_checks(patch)
    kept = world.root.parent / "primed"
    kept.mkdir(exist_ok=True)
    for place in ("core.build.converted", "quantize.build.converted", "quantize.build.compressed"):
        module = import_module(place.rpartition(".")[0])
        patch.setattr(place, _once(getattr(module, place.rpartition(".")[2]), kept))
    page = subprocess.run(["git", "show", "HEAD:docs/neural-engine.md"], cwd=Path(__file__).parent, capture_output=True, check=True).stdout
    (world.user / "page.md").write_bytes(page)
    shutil.copy2(world.user / "page.md", world.root / "template" / "user" / "page.md")
    patch.setattr("quantize.measure.LayerTrials.damage_db2", lambda _self, levels: float(len(levels)))
    from quantize import gptq

    said = gptq.own_speech
    patch.setattr(gptq, "own_speech", lambda *given: said(*given)[:2])  # sentences to measure on: 80 renders were most of a run
    patch.setattr("quantize.measure.drawn", lambda *_: 2)
    _renders_kept(patch, truth_of)
    patch.setattr("eval.known_bad.CONTROLS", {})
    patch.setattr("eval.harmless.HARMLESS", ())


def _renders_kept(patch: Any, truth_of: Callable[..., Any]) -> None:
    """`controls --renders` does write, a second of silence, and hears nothing; the others' clips stay found perfect."""
    from types import SimpleNamespace

    import numpy as np

    from tests.release_build import PERFECT

    stand_in = import_module("eval.corpus").Truth.of

    def of(truth: Any, utterance: Any) -> Any:
        return (truth_of if truth.folder is not None and truth.folder.name == "renders" else stand_in)(truth, utterance)

    patch.setattr("eval.corpus.Truth.of", of)
    one, three = np.zeros(24_000, np.float32), np.zeros((3, 24_000), np.float32)
    silence = {"reference": one, "other_seeds": three, "vowel": one, "vowel_other_seeds": three, "pitch_hz": np.asarray(99.0)}
    patch.setattr("eval.corpus.Truth._rendered", lambda *_: silence)
    patch.setattr("eval.corpus.Heard.of", lambda *_: SimpleNamespace(plain=dict))
    patch.setattr("eval.corpus.Spoken.seed_floor", lambda *_: PERFECT)
