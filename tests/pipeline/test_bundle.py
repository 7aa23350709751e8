"""Assembly and bundle: everything of one checkpoint, every hash checked, what may not be released
says so.
"""

import json
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import Checkpoint, open_checkpoint
from kokoro_ane.core.data_files import sha256_of
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.g2p.chunks import segments
from kokoro_ane.g2p.lexicon import Lexicon
from kokoro_ane.g2p.neural import load_arrays
from kokoro_ane.g2p.part_of_speech import Tagger
from kokoro_ane.g2p.phonemizer import phonemize
from kokoro_ane.g2p.user_lexicon import read_user_lexicon
from kokoro_ane.pipeline import package_builds
from kokoro_ane.pipeline.assembly import ADVISORIES, read_assembly
from kokoro_ane.pipeline.bundle import main
from kokoro_ane.pipeline.bundle_files import write_sums
from kokoro_ane.pipeline.decision_file import FORMAT, short
from kokoro_ane.pipeline.rule_program import write_rules
from kokoro_ane.pipeline.text_tables import G2P, TEXT_BYTES, rule_roots, word_rows
from kokoro_ane.pipeline.voice_file import encoded, keeps
from kokoro_ane.pipeline.word_table import packed_words, rows_of
from mlprogram.examine.rules import CONFIDENCES
from tests.commands import parsed, printed, refused, table
from tests.random_checkpoint import tiny_config, write_checkpoint

NAME = "bundle-tiny-padded-fp16"


def bundle(checkpoint, build, more=""):
    """The exit code of the command for the packages in `build`."""
    return main(f"--checkpoint {checkpoint.folder} --build {build} {more}".split())


def verify(folder):
    return main(["--verify", str(folder)])


def sum_again(folder):
    (folder / "SHA256SUMS").unlink()
    write_sums(folder)


@pytest.fixture(scope="module")
def build(tiny_build, tmp_path_factory):
    """A copy: other tests read the packages while this one writes beside them."""
    return shutil.copytree(tiny_build, tmp_path_factory.mktemp("bundle") / "build")


@pytest.fixture(scope="module")
def bundled(tiny_checkpoint, build):
    assert bundle(tiny_checkpoint, build) == 3
    return build / NAME


def test_a_bundle_holds_everything_and_verifies(bundled, tiny_checkpoint, capsys):
    assert verify(bundled) == 0
    report = printed(capsys)
    assert report["voices"] == 3
    assert report["tensors"] > 40
    assert not report["releasable"]
    files, folders = (
        "LICENSES.md MODEL_CARD.md SHA256SUMS manifest.json vocabulary.json",
        "licenses packages text vectors voices",
    )
    assert {path.name for path in bundled.iterdir()} == {*files.split(), *folders.split()}
    assert parsed(bundled / "vocabulary.json") == tiny_checkpoint.config.vocab
    assert keeps(
        tiny_checkpoint.voice("slt").numpy(), (bundled / "voices" / "slt.style").read_bytes()
    )
    card = (bundled / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "**NOT RELEASABLE.**" in card
    assert "Not judged" in card
    data = parsed(bundled / "manifest.json")
    assert all(
        not Path(entry["file"]).is_absolute() and ".." not in entry["file"]
        for entry in data["voices"]["files"]
    )
    assert (
        subprocess.run(
            "sha256sum -c --quiet SHA256SUMS".split(), cwd=bundled, check=False
        ).returncode
        == 0
    )


def test_the_words_are_in_a_bundle_once(bundled):
    """In the lists that the rules look into; the report page counts what is read as it is."""
    listed = parsed(bundled / "manifest.json")
    read = [
        entry
        for entry in listed["text"]
        if not entry["file"].endswith((".texts.tsv", ".chunks.json"))
    ]
    assert {entry["file"] for entry in read} == {
        f"text/us.{kind}" for kind in ("rules", "words", "json", "bin")
    }
    assert listed["lexicon"] == {}
    assert sum(entry["bytes"] for entry in read) == pytest.approx(TEXT_BYTES["us"], rel=0.01)
    words = dict(rows_of((bundled / "text" / "us.words").read_bytes()))
    # what the lexicon builds just so from the rest is left out
    whole = Lexicon.load("us")
    assert len(whole.derived()) > 20_000
    listed_words = {word for word, row in words.items() if not row.startswith("t=")}
    assert listed_words == whole.words - whole.derived()
    assert words["lead"].startswith("g:DEFAULT=lˈid")
    assert list(words.items()) == word_rows("us")
    assert {
        word: row.split("t=")[1] for word, row in words.items() if "t=" in row
    } == Tagger.load().classes.stored


def test_words_that_are_alike_long_or_strange_come_back():
    """More blocks than one; shares beyond fifteen characters; three signs alike, which are two
    pairs or one.
    """
    rows = [
        (f"{'aaa' * (place % 9)}{place:04d}", f"s={'ˈə' * (place % 40)}\tg:DEFAULT=x\tg:NOUN")
        for place in range(500)
    ]
    rows = sorted([*rows, ("zzz", "t="), ("é", "o=ʤ"), ("\U0001f600", "c=eee")])
    content = packed_words(rows)
    assert list(rows_of(content)) == rows
    assert len(content) < sum(len("".join(row).encode()) for row in rows) / 2
    changed = bytearray(content)
    changed[-3] ^= 1
    assert list(rows_of(bytes(changed))) != rows
    changed[4] = 1
    with pytest.raises(InputError, match="words of format 1, not 2: bundle again"):
        list(rows_of(bytes(changed)))


def test_a_voice_is_stored_by_the_directions_in_which_its_rows_differ():
    """Two of them here; a row that is moved by half a neighbour's distance, another voice and a cut
    file are found.
    """
    slow = np.linspace(0, 1, 510)[:, None]
    drawn = np.random.default_rng(0).normal(size=(3, 256))
    pack = (drawn[0] + slow * drawn[1] + slow**2 * drawn[2]).astype(np.float32).reshape(510, 1, 256)
    content = encoded(pack)
    assert len(content) == 4 * (256 + 2 * 766)
    assert keeps(pack, content)
    assert not keeps(pack[::-1], content)
    moved = pack.copy()
    moved[40] += (pack[41] - pack[40]) / 2
    assert not keeps(moved, content)
    assert len(encoded(np.ones_like(pack))) == 1024
    with refused("no voice of a bundle"):
        keeps(pack, content[:-4])


def test_texts_with_pauses_and_paces_come_along(bundled):
    """What the Swift package has to say of them: swift/Tests/KokoroTextTests."""
    stored = parsed(bundled / "text" / "us.chunks.json")["texts"]
    nested, paused, silent, late = (text["chunks"] for text in stored[:4])
    assert [round(chunk["rate"], 6) for chunk in nested] == [1, 0.8, 1.2, 0.8, 0.8, 1, 1.6]
    assert [chunk["pause_before_s"] for chunk in paused] == [
        None,
        1.5,
        0.3,
        pytest.approx(0.4),
        0.4,
    ]
    assert paused[-1]["phonemes"] == ""
    assert silent == []
    assert [chunk["pause_before_s"] for chunk in late] == [1.0]


def test_the_raw_tables_hold_the_network_and_the_tagger(bundled):
    """Read as docs/synthesis.md says: int8 times scales; tagger features that rise."""
    rules, content = (
        parsed(bundled / "text" / "us.json"),
        (bundled / "text" / "us.bin").read_bytes(),
    )
    arrays = {
        name: np.frombuffer(
            content, place["dtype"], int(np.prod(place["shape"])), place["offset"]
        ).reshape(place["shape"])
        for name, place in rules["arrays"].items()
    }
    for name, array in load_arrays()[0].items():
        assert np.array_equal(
            arrays[f"network.{name}"] * arrays.get(f"network.{name}.scale", np.float32(1)), array
        ), name
    tagger, features = Tagger.load(), arrays["tagger.features"]
    assert (np.diff(features.astype(np.int64)) > 0).all()
    for row in range(0, 24000, 500):
        assert np.array_equal(
            arrays["tagger.weights"][row], tagger.weights[tagger.rows[int(features[row])]]
        )
    texts = [
        line.split("\t")
        for line in (bundled / "text" / "us.texts.tsv").read_text(encoding="utf-8").splitlines()
    ]
    assert ["zorbify", "zˈɔɹbəfˌI"] in texts
    assert len(texts) > 1000
    assert all(len(row) == 2 for row in texts)


def test_rules_that_a_port_cannot_run_are_named(tmp_path):
    """And the same rules are the same bytes."""
    for name in ("one", "other"):
        write_rules(tmp_path / name, {"cut": segments}, {})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with refused("read_user_lexicon: Try in line"):
        write_rules(tmp_path / "third", {"own": read_user_lexicon}, {})
    with refused("a PosixPath"):
        write_rules(tmp_path / "third", {"path": tmp_path}, {})


@pytest.mark.parametrize("language", ["us", "gb", "es", "it", "fr", "pt"])
def test_a_port_can_run_the_rules(language, tmp_path):
    """Python that has no form there is noticed here, not when an app's bundle is written."""
    write_rules(tmp_path / "rules", *rule_roots(G2P.load(language)))
    content = (tmp_path / "rules").read_bytes()
    assert len(content) > 100_000
    # how an index is made stays here: a port has the index
    assert b"node_beginning" not in content


def test_a_domain_can_be_left_out(tmp_path):
    """Its one-off forms are no rows in the file, and are read as others are; another domain's
    stay.
    """
    rest = G2P.load("us", without=("chat",))
    write_rules(tmp_path / "rules", *rule_roots(rest))
    content = (tmp_path / "rules").read_bytes()
    assert b"kubernetes" not in content
    assert b"doctor Who" in content
    for text, is_alike in (("k8s", False), ("Dr. Who", True), ("5 kg", True)):
        alike = rest.phonemize(text).phonemes == phonemize(text).phonemes
        assert alike is is_alike, text
    with pytest.raises(InputError, match="fallback, unk and without are for English"):
        G2P.load("es", without=("chat",))


@pytest.mark.slow
def test_rules_are_the_same_bytes_in_every_process(tmp_path):
    names = "from kokoro_ane.pipeline.text_tables import G2P, Path, rule_roots, write_rules"
    for seed in ("1", "2"):  # the order of sets
        code = f"{names}; write_rules(Path({str(tmp_path / seed)!r}), *rule_roots(G2P.load('us')))"
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.parametrize(
    "name",
    (
        "voices/slt.style vocabulary.json text/us.words text/us.rules MODEL_CARD.md "
        "vectors/short/ids.npy"
    ).split(),
)
def test_a_changed_file_is_found(bundled, name, tmp_path, capsys):
    copy = shutil.copytree(bundled, tmp_path / NAME)
    data = bytearray((copy / name).read_bytes())
    data[-1] ^= 1
    (copy / name).write_bytes(data)
    assert verify(copy) == 2
    assert f"{copy / name} was changed" in capsys.readouterr().err


@table(
    "name spoilt",
    """
    durations | negative
    features | empty
    phonemes | negative
    hidden | "NaN"
""",
)
def test_a_vector_that_was_altered_and_summed_again(name, spoilt, bundled, tmp_path, capsys):
    """Every hash fits; the chain cannot be replayed, or not to what is stored."""
    copy = shutil.copytree(bundled, tmp_path / NAME)
    index, manifest = copy / "vectors" / "index.json", copy / "manifest.json"
    vectors, whole = (parsed(index), parsed(manifest))
    entry = vectors["utterances"][0]["tensors"][name]
    path = copy / "vectors" / entry["file"]
    stored = np.load(path)
    np.save(
        path,
        stored[:0]
        if spoilt == "empty"
        else -stored - 1
        if spoilt == "negative"
        else np.full_like(stored, np.nan),
    )
    entry |= {"sha256": sha256_of(path), "shape": list(np.load(path).shape)}
    index.write_text(json.dumps(vectors))
    manifest.write_text(
        json.dumps(whole | {"vectors": whole["vectors"] | {"sha256": sha256_of(index)}})
    )
    sum_again(copy)
    assert verify(copy) == (1 if spoilt == "NaN" else 2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "cannot be replayed" in lines[0] or spoilt == "NaN"


def test_a_missing_and_an_added_file_are_found(bundled, tmp_path, capsys):
    copy = shutil.copytree(bundled, tmp_path / NAME)
    (copy / "extra.txt").write_text("x")
    assert verify(copy) == 2
    assert "extra.txt is not part of the bundle" in capsys.readouterr().err
    (copy / "extra.txt").unlink()
    (copy / "voices" / "awb.style").unlink()
    assert verify(copy) == 2
    assert "awb.style is missing" in capsys.readouterr().err


def test_a_level_that_is_missing_is_built_first(
    tiny_checkpoint, tiny_build, tmp_path, monkeypatch, capsys
):
    """README's `make all`, then `bundle --method p6`."""
    build = shutil.copytree(tiny_build, tmp_path / "build")
    commands = []
    quantize = package_builds.quantize
    monkeypatch.setattr(
        package_builds,
        "quantize",
        lambda options: commands.append(options.command) or quantize(options),
    )
    assert bundle(tiny_checkpoint, build, "--method w8") == 3
    captured = capsys.readouterr()
    assert "KokoroVocoder-tiny-padded-w8 is not built yet: building it\n" in captured.err
    assert json.loads(captured.out.splitlines()[-1])["method"] == "w8"
    assert (build / "bundle-tiny-padded-w8").is_dir()
    assert [command.split()[:4] for command in commands] == [
        "kokoro-ane quantize --method w8".split()
    ]


def test_every_part_of_the_layout_asked_for_is_built_first(
    tiny_checkpoint, tmp_path, monkeypatch, capsys
):
    commands = []
    monkeypatch.setattr(package_builds, "build", lambda options: commands.append(options.command))
    assert bundle(tiny_checkpoint, tmp_path, "--layout streaming") == 2
    assert commands[0].startswith("kokoro-ane build encoder")
    assert "does not exist" in capsys.readouterr().err
    commands.clear()
    assert bundle(tiny_checkpoint, tmp_path, "--runtime onnx --method fp32") == 2
    assert commands[0].startswith("kokoro-ane build encoder --runtime onnx")


@pytest.fixture
def listed(tiny_build, tmp_path, monkeypatch):
    """The packages as they would be if the tiny checkpoint were on the list of what may be
    released.
    """
    monkeypatch.setattr(Checkpoint, "withheld", None)
    build = shutil.copytree(tiny_build, tmp_path / "build", ignore=shutil.ignore_patterns("*fp32*"))
    for path in list(build.iterdir()):
        path.rename(build / path.name.replace("-tiny", ""))
    for path in build.glob("*.json"):
        path.write_text(
            path.read_text(encoding="utf-8")
            .replace('"releasable": false', '"releasable": true')
            .replace("-tiny-", "-")
        )
    return build


CLEAN = "a" * 40
ALTERED = "b" * 40  # of a decision that lets nothing out


@pytest.mark.parametrize(
    "verdict, commit, package, code, message",
    [
        ("SHIP", CLEAN, "", 0, "| **fp16** | 1.23 | 4.50 / 4.25 | 0.12 | SHIP |"),
        ("SHIP", f"{CLEAN}+", "", 3, "sources that no commit holds"),
        ("SHIP", ALTERED, "", 3, "of a checkpoint that may not be released"),
        ("SHIP", CLEAN, "0" * 64, 3, "no release decision has judged this very package"),
        ("UNDECIDED", CLEAN, "", 3, "the release decision says UNDECIDED of this package"),
        ("REJECT", CLEAN, "", 1, "fp16 was judged and rejected: because; nothing was bundled"),
    ],
)
def test_only_a_decision_for_this_very_package_lets_it_out(
    tiny_checkpoint, listed, verdict, commit, package, code, message, capsys
):
    build, out = listed, listed / "bundle-padded-fp16"
    summary = {"pesq": {"mean": 4.5, "worst": 4.25}, "mcd_db": {"mean": 0.125}}
    judged = Manifest.load(build / "KokoroVocoder-padded-fp16.json")
    made = {"package_sha256": package or judged.package_sha256}
    level = {
        "method": "fp16",
        "verdict": verdict,
        "reasons": ["because"],
        "broken": [],
        "bytes": 1_230_000,
        "clips": [{}] * 24,
        "summary": summary,
        "provenance": made,
    }
    (build / "release").mkdir(exist_ok=True)
    decision = {
        "format": FORMAT,
        "verdict": verdict,
        "level": "fp16" if verdict == "SHIP" else None,
        "levels": [level],
    }
    decision |= {
        "provenance": {"precision": "declared", "commit": commit},
        "releasable": commit != ALTERED,
    }
    (build / "release" / "decision.json").write_text(json.dumps(decision))
    assert bundle(tiny_checkpoint, build) == code
    assert out.exists() == (code != 1)
    assert message in (
        capsys.readouterr().err
        if code == 1
        else (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    )
    if out.exists():
        assert printed(capsys)["releasable"] is (code == 0)
        assert package or f"; commit {short(commit)}. " in (out / "MODEL_CARD.md").read_text(
            encoding="utf-8"
        )


def test_fp16_under_another_name_is_not_bundled(tiny_checkpoint, build, tmp_path, capsys):
    copy = shutil.copytree(build, tmp_path / "build")
    for message, change in (
        ("says method 'padded-fp16', expected 'padded-w8a8'", {}),
        ("which is not padded-w8a8: renamed", {"method": "w8a8"}),
    ):
        data = parsed(copy / "KokoroVocoder-tiny-padded-fp16.json")
        (copy / "KokoroVocoder-tiny-padded-w8a8.json").write_text(json.dumps(data | change))
        assert bundle(tiny_checkpoint, copy, "--method w8a8") == 2
        assert message in capsys.readouterr().err
        assert not (copy / "bundle-tiny-padded-w8a8").exists()


def test_the_manifest_ties_a_bundle_together(bundled, tmp_path, capsys):
    data = read_assembly(bundled)
    assert data["vectors"]["file"] == "vectors/index.json"
    assert data["vocoder"]["buckets"] == [40, 160, 640]
    assert data["encoder"][0]["inputs"]["duration"]["input_ids"]["padding"] == -1
    copy = shutil.copytree(bundled, tmp_path / "bundle")
    manifest = copy / "packages" / "KokoroVocoder-tiny-padded-fp16.json"
    manifest.write_text(
        manifest.read_text(encoding="utf-8").replace("iOS17", "iOS18"), encoding="utf-8"
    )
    sum_again(copy)
    assert verify(copy) == 2
    assert "not the file that manifest.json names: bundle again" in capsys.readouterr().err


def test_a_bundle_of_packages_says_what_was_reported_of_the_systems(bundled):
    advisories = read_assembly(bundled)["advisories"]
    assert advisories == parsed(ADVISORIES)["advisories"]
    for advisory in advisories:
        assert set(advisory["systems"]) <= {"iOS", "macOS"}
        assert advisory["from"] < (advisory["below"] or [999])
        assert advisory["route"].startswith("Core ML")
        assert all(source.startswith("https://") for source in advisory["sources"])
        assert advisory["sources"]
        assert date.fromisoformat(advisory["date"]).year == 2026
        assert advisory["confidence"] in CONFIDENCES


def test_words_in_the_place_of_rules_come_with_the_g2p_package(
    tiny_checkpoint, tiny_build, tmp_path, monkeypatch
):
    """A stand-in of G2P.mlpackage: another package under its name. Two words: test_text.py
    has all.
    """
    words = ("a\tr\tɐ", "the\tr\tðə")
    monkeypatch.setattr(
        "kokoro_ane.pipeline.lexicon_file.lexicon_lines",
        lambda dialect: words if dialect == "us" else (),
    )
    build = shutil.copytree(tiny_build, tmp_path / "build")
    data = parsed(build / "KokoroVocoder-tiny-padded-fp32.json")
    shutil.copytree(build / data["package"], build / "G2P.mlpackage")
    g2p = {
        "stage": "G2P",
        "package": "G2P.mlpackage",
        "checkpoint": {"name": "g2p", "sha256": "1" * 64},
    }
    (build / "G2P.json").write_text(json.dumps(data | g2p))
    for text in ("words", "rules"):
        assert bundle(tiny_checkpoint, build, f"--text {text} --out {build}/tiny-{text}") == 3
    network = read_assembly(build / "tiny-words")["g2p"]
    assert network["package"] == "packages/G2P.mlpackage"
    assert network["weights"]["sha256"] == "1" * 64
    assert read_assembly(build / "tiny-rules")["g2p"] == {
        "absent": "no package: text/ holds its network"
    }
    listed = read_assembly(build / "tiny-words")
    # the voices are American
    assert [entry["file"] for entry in listed["lexicon"].values()] == ["lexicon/us.tsv"]
    assert listed["text"] == []
    lines = (build / "tiny-words" / "lexicon" / "us.tsv").read_text(encoding="utf-8").splitlines()
    assert tuple(line for line in lines if line[0] != "#") == words
    assert "packages/G2P.mlpackage" in (build / "tiny-words" / "MODEL_CARD.md").read_text(
        encoding="utf-8"
    )


def test_a_mix_of_checkpoints_is_refused(build, tiny_checkpoint, tmp_path, capsys):
    other = write_checkpoint(
        tmp_path / "other",
        tiny_config() | {"vocab": tiny_checkpoint.config.vocab},
        seed=5,
        encoder=True,
    )
    assert bundle(open_checkpoint(str(other)), build) == 2
    assert "packages of different checkpoints do not fit together" in capsys.readouterr().err
    mixed = shutil.copytree(build, tmp_path / "build")
    path = mixed / "KokoroVocoder-tiny-padded-fp16.json"
    data = parsed(path)
    path.write_text(json.dumps(data | {"checkpoint": data["checkpoint"] | {"sha256": "0" * 64}}))
    assert bundle(tiny_checkpoint, mixed) == 2
    assert "was built from checkpoint 000000000000" in capsys.readouterr().err
