"""Assembly and bundle: everything of one checkpoint, every hash checked, what may not be released says so."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench.random_checkpoint import tiny_config, write_checkpoint
from core.checkpoint import Checkpoint
from core.manifest import Manifest
from core.sealed import sealed
from g2p.lists import CMUDICT, OURS, ListFile
from g2p.misaki_data import Entry, read
from pipeline.assemble import main as assemble
from pipeline.assembly import Assembly
from pipeline.bundle import main
from pipeline.decision_file import ABOUT, FORMAT
from pipeline.vectors import main as write_vectors

NAME = "bundle-tiny-fp16"


@pytest.fixture(scope="module")
def build(tiny_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: other tests read the packages while this one writes beside them."""
    return Path(shutil.copytree(tiny_build, tmp_path_factory.mktemp("bundle") / "build"))


@pytest.fixture(scope="module")
def bundled(tiny_checkpoint: Checkpoint, build: Path) -> Path:
    assert main(["--checkpoint", str(tiny_checkpoint.folder), "--build", str(build)]) == 0
    return build / NAME


def test_a_bundle_holds_everything_and_verifies(bundled: Path, tiny_checkpoint: Checkpoint, capsys: pytest.CaptureFixture) -> None:
    assert main(["--verify", str(bundled)]) == 0
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert report["voices"] == 3 and report["tensors"] > 40 and not report["releasable"]
    files, folders = "LICENSES.md MODEL_CARD.md SHA256SUMS manifest.json vocabulary.json", "lexicon licenses packages vectors voices"
    assert {path.name for path in bundled.iterdir()} == {*files.split(), *folders.split()}
    assert json.loads((bundled / "vocabulary.json").read_text(encoding="utf-8")) == tiny_checkpoint.config.vocab
    raw = np.fromfile(bundled / "voices" / "slt.bin", "<f4").reshape(510, 1, 256)
    assert np.array_equal(raw, tiny_checkpoint.voice("slt").numpy())
    card = (bundled / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "**NOT RELEASABLE.**" in card and "Not judged" in card
    data = json.loads((bundled / "manifest.json").read_text(encoding="utf-8"))
    assert all(not Path(entry["file"]).is_absolute() and ".." not in entry["file"] for entry in data["voices"]["files"])
    assert subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=bundled, check=False).returncode == 0


def read_lexicon(path: Path) -> dict[str, Entry]:
    """The file that write_lexicon wrote, read back as an app would."""
    entries: dict[str, Entry] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            word, _, *found = line.split("\t")
            tagged = "=" in found[0]
            entries[word] = {part.split("=")[0]: part.split("=")[1] or None for part in found} if tagged else found[0]
    return entries


def test_the_lexicon_is_what_g2p_looks_up_and_sorted_by_bytes(bundled: Path) -> None:
    """Ours before gold before CMUdict before silver."""
    found, gold, silver = read_lexicon(bundled / "lexicon" / "us.tsv"), read("us_gold"), read("us_silver")
    merged = silver | dict(ListFile(CMUDICT)) | gold | dict(ListFile(OURS["us"]))
    assert found == merged and found["beth"] == "bˈɛθ"
    words = [line.split(b"\t")[0] for line in (bundled / "lexicon" / "us.tsv").read_bytes().splitlines() if not line.startswith(b"#")]
    assert words == sorted(words) and len(words) == len(merged)


@pytest.mark.parametrize("name", ["voices/slt.bin", "vocabulary.json", "lexicon/us.tsv", "MODEL_CARD.md", "vectors/short/ids.npy"])
def test_a_changed_file_is_found(bundled: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    copy = Path(shutil.copytree(bundled, tmp_path / NAME))
    data = bytearray((copy / name).read_bytes())
    data[-1] ^= 1
    (copy / name).write_bytes(data)
    assert main(["--verify", str(copy)]) == 2
    assert f"{copy / name} was changed" in capsys.readouterr().err


def test_a_missing_and_an_added_file_are_found(bundled: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    copy = Path(shutil.copytree(bundled, tmp_path / NAME))
    (copy / "extra.txt").write_text("x", encoding="utf-8")
    assert main(["--verify", str(copy)]) == 2
    assert "extra.txt is not part of the bundle" in capsys.readouterr().err
    (copy / "extra.txt").unlink()
    (copy / "voices" / "awb.pt").unlink()
    assert main(["--verify", str(copy)]) == 2
    assert "awb.pt is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--out", "{build}/release-1.0"], 2, "tiny is not releasable and its bundle has to say so: --out"),
        (["--dialects", "us,fr"], 2, "'fr' is neither us nor gb"),
        (["--method", "w8"], 2, "run `kokoro-ane quantize --method w8"),
        (["--method", "w9"], 2, "w9"),
        (["--form", "windowed"], 2, "--form windowed"),  # asked for, it was the literal one that was bundled
        (["--verify", "{build}/nothing"], 2, "does not exist"),
    ],
)
def test_refusals(
    tiny_checkpoint: Checkpoint, build: Path, more: list[str], code: int, message: str, capsys: pytest.CaptureFixture
) -> None:
    flags = ["--checkpoint", str(tiny_checkpoint.folder), "--build", str(build), *(word.format(build=build) for word in more)]
    assert main(flags) == code
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (build / "release-1.0").exists()


@pytest.mark.parametrize(("verdict", "code"), [("SHIP", 0), ("REJECT", 1)])
def test_the_decision_is_for_this_very_package(
    tiny_checkpoint: Checkpoint, tiny_build: Path, verdict: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    build = Path(shutil.copytree(tiny_build, tmp_path / "build"))
    summary = {"pesq": {"mean": 4.5, "worst": 4.25}, "mcd_db": {"mean": 0.125}}
    made = {"package_sha256": Manifest.load(build / "KokoroVocoder-tiny-fp16.json").package_sha256}
    level = {"method": "fp16", "verdict": verdict, "reasons": ["because"], "broken": [], "bytes": 1_230_000, "clips": [{}] * 24,
             "summary": summary, "provenance": made}  # fmt: skip
    (build / "release").mkdir()
    decision = {"format": FORMAT, "verdict": verdict, "level": "fp16" if verdict == "SHIP" else None, "levels": [level]}
    decision["provenance"] = {"precision": "declared", "commit": "abc"}
    (build / "release" / "decision.json").write_text(json.dumps(sealed(decision, ABOUT)), encoding="utf-8")
    assert main(["--checkpoint", str(tiny_checkpoint.folder), "--build", str(build)]) == code
    if code:
        assert "fp16 was judged and rejected: because; nothing was bundled" in capsys.readouterr().err
        assert not (build / NAME).exists()
    else:
        assert "| **fp16** | 1.23 | 4.50 / 4.25 | 0.12 | SHIP |" in (build / NAME / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_assembly_ties_a_build_together(tiny_checkpoint: Checkpoint, build: Path, capsys: pytest.CaptureFixture) -> None:
    flags = ["--checkpoint", str(tiny_checkpoint.folder), "--build", str(build)]
    assert write_vectors([*flags, "--out", str(build / "vectors")]) == 0
    assert assemble(flags) == 0
    data = Assembly.load(build / "manifest.json").data
    assert data["vectors"]["file"] == "vectors/index.json" and data["vocoder"]["buckets"] == [40, 160, 640]
    assert data["encoder"][0]["inputs"]["duration"]["input_ids"]["padding"] == -1
    assert assemble(["--check", str(build / "manifest.json")]) == 0
    manifest = build / "KokoroVocoder-tiny-fp16.json"
    before = manifest.read_text(encoding="utf-8")
    manifest.write_text(before.replace("iOS17", "iOS18"), encoding="utf-8")
    capsys.readouterr()
    assert assemble(["--check", str(build / "manifest.json")]) == 2
    assert "it was changed; assemble again" in capsys.readouterr().err
    manifest.write_text(before, encoding="utf-8")


def test_the_g2p_package_comes_along_with_weights_of_its_own(tiny_checkpoint: Checkpoint, tiny_build: Path, tmp_path: Path) -> None:
    """A stand-in of G2P.mlpackage: another package under its name, of another checkpoint."""
    build = Path(shutil.copytree(tiny_build, tmp_path / "build"))
    data = json.loads((build / "KokoroVocoder-tiny-fp32.json").read_text(encoding="utf-8"))
    shutil.copytree(build / data["package"], build / "G2P.mlpackage")
    own = {"stage": "G2P", "package": "G2P.mlpackage", "checkpoint": {"name": "g2p", "sha256": "1" * 64}}
    (build / "G2P.json").write_text(json.dumps(data | own), encoding="utf-8")
    assert main(["--checkpoint", str(tiny_checkpoint.folder), "--build", str(build)]) == 0
    found = Assembly.load(build / NAME / "manifest.json").data["g2p"]
    assert found["package"] == "packages/G2P.mlpackage" and found["weights"]["sha256"] == "1" * 64
    assert "packages/G2P.mlpackage" in (build / NAME / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_a_mix_of_checkpoints_is_refused(build: Path, tiny_checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    other = write_checkpoint(tmp_path / "other", tiny_config() | {"vocab": tiny_checkpoint.config.vocab}, seed=5, encoder=True)
    assert assemble(["--checkpoint", str(other), "--build", str(build)]) == 2
    assert "packages of different checkpoints do not fit together" in capsys.readouterr().err
    mixed = Path(shutil.copytree(build, tmp_path / "build"))
    path = mixed / "KokoroVocoder-tiny-fp16.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(data | {"checkpoint": data["checkpoint"] | {"sha256": "0" * 64}}), encoding="utf-8")
    assert main(["--checkpoint", str(tiny_checkpoint.folder), "--build", str(mixed)]) == 2
    assert "was built from checkpoint 000000000000" in capsys.readouterr().err
