"""coremltools' own quantizers make packages that are judged as levels."""

import shutil

from bench.plain_levels import main
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.runtimes.genuine import require_genuine


def test_both_are_what_their_names_say_and_are_judged(
    tiny_checkpoint, tiny_build, tmp_path, monkeypatch
):
    judged = []
    monkeypatch.setattr("kokoro_ane.eval.quality.main", lambda flags: judged.append(flags) or 3)
    build = shutil.copytree(tiny_build, tmp_path / "build")
    flags = ["--checkpoint", str(tiny_checkpoint.folder), "--build", str(build)]
    assert main(flags) == 3
    assert judged == [["--method", name, "--layout", "padded", *flags] for name in ("w8", "p6")]
    Manifest.load(build / "KokoroVocoder-tiny-padded-fp16.json").verify()
    for name in ("w8", "p6"):
        manifest = Manifest.load(build / f"KokoroVocoder-tiny-padded-{name}.json")
        manifest.verify()
        require_genuine(manifest, f"padded-{name}")
