"""What the sweep's invocations meet: a user's work, a tiny checkpoint, its packages, what every command reads; put back after each.

    world = World.made(Path("/tmp/sweep"))
    before = world.scan(); ...; world.put_back()

ROOT/user is what a case may spoil, ROOT/tmp the TMPDIR, ROOT/cache the cache, ROOT/cwd where commands run.
"""

import contextlib
import io
import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
WORK = "years of work"
USERS = (
    "thesis/chapter.tex", "thesis-tiny/notes.txt", "build/mine/notes.txt", "build/KokoroVocoder-other-fp16.mlpackage/notes.txt",
    "hello.wav.parts/take1.wav", "music.wav", "clip.flac", "words.srt", "words.json", "log.jsonl", "picture.png", "page.html", "file",
)  # fmt: skip
LEXICON, TEXT = "kokoro\tkˈOkəɹO\nane\tˈAn\n", "Hello there. The year was 1984, and it cost $5.\n"
Stat = tuple[str, int, int, str]


@dataclass(frozen=True)
class World:
    """Responsibilities: 1. places; 2. a scan of everything; 3. all as it was."""

    root: Path

    @property
    def user(self) -> Path:
        """What a case sees as its home."""
        return self.root / "user"

    @classmethod
    def made(cls, root: Path) -> "World":
        """Build the tiny packages and lay everything out: about twenty seconds."""
        world = cls(root)
        for name in ("user", "tmp", "cwd", "cache"):
            (root / name).mkdir(parents=True)
        os.environ |= {"TMPDIR": str(root / "tmp"), "KOKORO_ANE_CACHE": str(root / "cache"), "HOME": str(root / "user")}
        os.environ |= {"HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(root / "cache")}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            packages(world)
        users_own(world.user)
        for part in ("user", "cache"):
            shutil.copytree(root / part, root / "template" / part, symlinks=True, copy_function=_copied)
        return world

    def scan(self) -> dict[str, Stat]:
        """Every path below ROOT but the template: kind, size, time, where a link leads or its rights."""
        found: dict[str, Stat] = {}
        open_ends = [entry.name for entry in os.scandir(self.root) if entry.name != "template"]
        while open_ends:
            name = open_ends.pop()
            try:
                status = (self.root / name).lstat()
            except FileNotFoundError:
                continue
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                found[name] = ("folder", 0, 0, "")
                open_ends += [f"{name}/{entry.name}" for entry in os.scandir(self.root / name)]
            elif stat.S_ISLNK(mode):
                found[name] = ("link", 0, 0, str((self.root / name).readlink()))
            else:
                found[name] = ("file" if stat.S_ISREG(mode) else "pipe", status.st_size, status.st_mtime_ns, oct(mode))
        return found

    def put_back(self, whole: dict[str, Stat], now: dict[str, Stat]) -> None:
        """Remove what is new, copy what is gone or changed."""
        changed = {name for name, status in now.items() if status != whole.get(name)}
        for name in sorted(changed, reverse=True):
            path = self.root / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        for name in sorted((changed | (whole.keys() - now.keys())) & whole.keys()):
            path = self.root / name
            if not os.path.lexists(path):
                _restored(path, self.root / "template" / name)


def _restored(path: Path, source: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        path.mkdir()
    elif not source.exists() and not source.is_symlink():
        path.mkdir()  # of the layout itself
    else:
        _copied(source, path)


def _copied(source: str | Path, target: str | Path) -> object:
    """A file, a link or a pipe."""
    mode = Path(source).lstat().st_mode
    if stat.S_ISLNK(mode):
        return Path(target).symlink_to(Path(source).readlink())
    return os.mkfifo(target) if stat.S_ISFIFO(mode) else shutil.copy2(source, target)


def packages(world: World) -> None:
    """A tiny checkpoint in user/checkpoint, all that is built from it in user/build, its speech in the cache."""
    import pytest

    from bench.random_checkpoint import write_checkpoint
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.eval import release
    from kokoro_ane.pipeline import apply, build, bundle, vectors
    from kokoro_ane.quantize.speech import own_speech
    from tests.builds import small_config, without_self_checks

    checkpoint = write_checkpoint(world.user / "checkpoint", small_config(), 0, encoder=True)
    own, out = ["--checkpoint", str(checkpoint)], str(world.user / "build")
    with pytest.MonkeyPatch.context() as patch:
        without_self_checks(patch)
        done = [
            build.main(["vocoder", *own, "--out", out, "--buckets", "40,240"]),
            build.main(["encoder", *own, "--out", out, "--buckets", "40,240", "--token-buckets", "16,64"]),
            build.main(["g2p", "--out", out]),
            apply.main(["--method", "w8", *own, "--build", out]),
        ]
    done += [vectors.main([*own, "--build", out, "--out", f"{out}/vectors", "--voice", "slt:0.6,rms:0.4"])]
    assert not any(done) and bundle.main([*own, "--build", out]) == 3, done
    for name in ("judged", "tuning"):
        own_speech(open_checkpoint(str(checkpoint)), name)
    with pytest.MonkeyPatch.context() as patch:
        unmeasured(patch)
        assert release.main([*own, "--build", out, "--methods", "fp16,w8", "--no-build", "--workers", "1"]) == 3


def unmeasured(patch: "pytest.MonkeyPatch") -> None:
    """Clips are found perfect without being rendered."""
    from types import SimpleNamespace

    import numpy as np

    from kokoro_ane.eval import execution
    from kokoro_ane.eval.judge import ClipResult
    from tests.release_build import PERFECT

    def judge_clip(_truth: object, _package: object, utterance: Any, seed_variation: dict[str, float] | None, **_: object) -> ClipResult:
        return ClipResult(utterance.id, utterance.voice, 5.0, utterance.text, PERFECT, seed_variation or PERFECT)

    patch.setattr(execution, "judge_clip", judge_clip)
    patch.setattr(
        "kokoro_ane.eval.reference.Reference.of", lambda *_: SimpleNamespace(seed_variation=lambda: PERFECT, reference=np.zeros(24_000))
    )
    patch.setattr("kokoro_ane.eval.decision.thread_variation", lambda *_: PERFECT)


def users_own(user: Path) -> None:
    """What the user has beside that: work of years, a lexicon, a text, a recipe, and files that are none."""
    for name in USERS:
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text(f"{WORK}: {name}")
    (user / "lexicon.tsv").write_text(LEXICON, encoding="utf-8")
    (user / "text.txt").write_text(TEXT, encoding="utf-8")
    (user / "deep.json").write_text("[" * 200_000)
    (user / "empty").touch()
    (user / "binary").write_bytes(bytes(range(256)) * 64)
    (user / "dangling").symlink_to(user / "nothing")
    (user / "loop").symlink_to(user / "loop")
    os.mkfifo(user / "fifo")
    shutil.copy2(REPOSITORY / "mlprogram" / "data" / "ane_rules.json", user / "ane_rules.json")
    shutil.copy2(REPOSITORY / "docs" / "neural-engine.md", user / "page.md")
    recipe = {"checkpoint": "tiny", "checkpoint_sha256": "0" * 64, "format": 1}
    recipe |= {"budget": {"size": 0.5}, "forecast": {"size": 0.4}, "levels": {"a": "w8"}}
    (user / "recipe.json").write_text(json.dumps(recipe))
