"""A bundle: everything of one checkpoint, every hash checked; what may not be released says so."""

import json
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import yaml

from kokoro_ane.core import HUB_NAME, ITEMS
from kokoro_ane.core.checkpoint import Checkpoint, open_checkpoint
from kokoro_ane.core.data_files import sha256_of
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline import package_builds
from kokoro_ane.pipeline.assembly import ADVISORIES
from kokoro_ane.pipeline.bundle import main, parse_dialects
from kokoro_ane.pipeline.bundle_files import write_sums
from kokoro_ane.pipeline.decision_file import FORMAT, short
from kokoro_ane.pipeline.model_card import write_model_card
from kokoro_ane.pipeline.voice_file import encode_pack, is_near
from kokoro_g2p.lexicon import Lexicon
from kokoro_g2p.neural import load_arrays
from kokoro_g2p.part_of_speech import Tagger
from kokoro_g2p.phonemizer import phonemize
from kokoro_g2p.port.rule_program import write_rules
from kokoro_g2p.port.text_tables import G2P, TEXT_BYTES, list_rule_roots, list_word_rows
from kokoro_g2p.port.word_table import pack_words, read_rows
from kokoro_g2p.splitting import cut_sentences
from kokoro_g2p.user_lexicon import read_user_lexicon
from mlprogram.examine.rules import CONFIDENCES
from tests.commands import ROOT, parsed, printed, ran, refused, table
from tests.random_checkpoint import tiny_config, write_checkpoint

NAME, VOCODER = "bundle-tiny-padded-fp16", "KokoroVocoder-tiny-padded"


def bundle(checkpoint, build, more=""):
    """The exit code of the command for the packages in `build`."""
    return main(f"--checkpoint {checkpoint.folder} --build {build} {more}".split())


def verify(folder):
    return main(["--verify", str(folder)])


def sum_again(folder):
    (folder / "SHA256SUMS").unlink()
    write_sums(folder)


def rewritten(path, **changes):
    """A JSON file with other values for these keys."""
    data = parsed(path) | changes
    path.write_text(json.dumps(data))
    return data


@pytest.fixture
def build(tiny_build, tmp_path):
    """A copy: other tests read the packages while this one writes beside them."""
    return shutil.copytree(tiny_build, tmp_path / "build")


@pytest.fixture(scope="module")
def bundled(tiny_checkpoint, tiny_build, tmp_path_factory):
    build = shutil.copytree(tiny_build, tmp_path_factory.mktemp("bundle") / "build")
    assert bundle(tiny_checkpoint, build) == 3
    return build / NAME


def test_a_voice_that_is_added_changes_no_package(tiny_checkpoint, build, tmp_path):
    folder = Path(shutil.copytree(tiny_checkpoint.folder, tmp_path / "tiny"))
    shutil.copy(folder / "voices" / "slt.pt", folder / "voices" / "new.pt")
    assert bundle(Checkpoint.from_folder(folder), build) == 3
    assert (build / NAME / "voices" / "new.style").is_file()
    assert verify(build / NAME) == 0


@pytest.fixture
def copy(bundled, tmp_path):
    """A bundle to be spoilt."""
    return shutil.copytree(bundled, tmp_path / NAME)


def test_languages_are_named_as_in_speak_and_one_that_reads_latin_letters_brings_english():
    assert parse_dialects("fr, en-GB") == ("fr", "gb")
    assert parse_dialects("zh") == ("us", "zh")


def test_a_bundle_holds_everything_and_verifies(bundled, tiny_checkpoint, capsys):
    assert verify(bundled) == 0
    report = printed(capsys)
    assert report["voices"] == 3
    assert report["tensors"] > 40
    assert not report["releasable"]
    names = "LICENSES.md MODEL_CARD.md SHA256SUMS licenses manifest.json packages text vectors"
    names += " vocabulary.json voices"
    assert {path.name for path in bundled.iterdir()} == {*names.split()}
    assert parsed(bundled / "vocabulary.json") == tiny_checkpoint.config.vocab
    voice = tiny_checkpoint.voice("slt").numpy()
    assert is_near(voice, (bundled / "voices" / "slt.style").read_bytes())
    card = (bundled / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "Not judged" in card
    data = parsed(bundled / "manifest.json")
    voices = {entry["file"] for entry in data["voices"]["files"]}
    assert voices == {f"voices/{name}.style" for name in tiny_checkpoint.voices}
    assert data["vocoder"]["buckets"] == [40, 160, 640]
    assert data["encoder"][0]["inputs"]["duration"]["input_ids"]["padding"] == -1
    check = "sha256sum -c --quiet SHA256SUMS".split()
    assert subprocess.run(check, cwd=bundled, check=False).returncode == 0


def test_the_page_for_the_hub_is_the_card_and_replaces_no_other(copy, capsys):
    page = copy / "README.md"
    assert main(["--card", str(copy)]) == 3
    assert page.read_bytes() == (copy / "MODEL_CARD.md").read_bytes()
    _, head, rest = page.read_text(encoding="utf-8").split("---\n", 2)
    assert yaml.safe_load(head)["license"] == "unknown"
    assert rest.split("\n\n")[1].startswith("**NOT RELEASABLE.** Made to try the tools")
    assert yaml.safe_load((ROOT / "CITATION.cff").read_bytes())["title"] in rest
    assert verify(copy) == 0
    page.write_text("mine")
    assert main(["--card", str(copy)]) == 2
    assert "README.md is not replaced: it is no copy of MODEL_CARD.md" in capsys.readouterr().err


RELEASED = """---
language: [en, fr]
license: apache-2.0
base_model: hexgrad/Kokoro-82M
base_model_relation: quantized
library_name: coreml
pipeline_tag: text-to-speech
tags: [kokoro, text-to-speech, on-device, coreml, apple-neural-engine, ios, swift]
---
# Kokoro text-to-speech for Core ML: kokoro-82m, fp16

Text to speech in stages
...
| American English | af_heart |
| French | ff_siwis |
...
- Needs iOS 18, macOS 15
...
has at most 16.0 s;"""


def test_a_card_of_released_weights_is_complete(bundled):
    data = parsed(bundled / "manifest.json")
    data["checkpoint"]["name"], data["releasable"] = HUB_NAME, True
    data["voices"]["files"] = [{"file": name, "bytes": 1} for name in ("af_heart.x", "ff_siwis.x")]
    card = write_model_card(bundled, data, None, None)
    for part in RELEASED.split("\n...\n"):
        assert part in card
    assert card.split("```")[1] in (ROOT / "docs" / "ios.md").read_text(encoding="utf-8")


def test_the_words_are_in_a_bundle_once(bundled, tmp_path):
    """In the lists that the rules look into; the report page counts what is read as it is."""
    data = parsed(bundled / "manifest.json")
    checks = (".texts.tsv", ".chunks.json")
    read = [entry for entry in data["text"] if not entry["file"].endswith(checks)]
    kinds = {entry["file"].removeprefix("text/us.") for entry in read}
    assert kinds == {"rules", "words", "json", "bin"}
    # as `kokoro-ane bundle` writes them, in a process that has read nothing before
    code = "import sys, pathlib; from kokoro_g2p import write_text_tables as write;"
    code += " write(pathlib.Path(sys.argv[1]), 'us')"
    done = ran(sys.executable, "-c", code, str(tmp_path / "text"))
    assert done.returncode == 0, done.stderr
    names = [Path(entry["file"]).name for entry in read]
    written = sum((tmp_path / "text" / name).stat().st_size for name in names)
    assert written == pytest.approx(TEXT_BYTES["us"], rel=0.01)
    words = dict(read_rows((bundled / "text" / "us.words").read_bytes()))
    # what the lexicon builds just so from the rest is left out
    whole = Lexicon.load("us")
    assert len(whole.find_derived()) > 20_000
    listed = {word for word, row in words.items() if not row.startswith("t=")}
    assert listed == whole.words - whole.find_derived()
    assert words["lead"].startswith("g:DEFAULT=lˈid")
    assert list(words.items()) == list_word_rows("us")
    classes = {word: row.split("t=")[1] for word, row in words.items() if "t=" in row}
    assert classes == Tagger.load().classes.stored


def test_words_that_are_alike_long_or_strange_come_back():
    """More blocks than one; shares beyond fifteen characters; three signs alike, which are two
    pairs or one.
    """
    rows = [
        (f"{'aaa' * (place % 9)}{place:04d}", f"s={'ˈə' * (place % 40)}\tg:DEFAULT=x\tg:NOUN")
        for place in range(500)
    ]
    rows = sorted([*rows, ("zzz", "t="), ("é", "o=ʤ"), ("\U0001f600", "c=eee")])
    content = pack_words(rows)
    assert list(read_rows(content)) == rows
    assert len(content) < sum(len("".join(row).encode()) for row in rows) / 2
    changed = bytearray(content)
    changed[-3] ^= 1
    assert list(read_rows(bytes(changed))) != rows
    changed[4] = 1
    with refused("words of format 1, not 2: bundle again"):
        list(read_rows(bytes(changed)))


def test_a_voice_is_stored_by_the_directions_in_which_its_rows_differ():
    """Two of them here; a row that is moved by half a neighbour's distance, another voice and a cut
    file are found.
    """
    slow = np.linspace(0, 1, 510)[:, None]
    drawn = np.random.default_rng(0).normal(size=(3, 256))
    pack = (drawn[0] + slow * drawn[1] + slow**2 * drawn[2]).astype(np.float32).reshape(510, 1, 256)
    content = encode_pack(pack)
    assert len(content) == 4 * (256 + 2 * 766)
    assert is_near(pack, content)
    assert not is_near(pack[::-1], content)
    moved = pack.copy()
    moved[40] += (pack[41] - pack[40]) / 2
    assert not is_near(moved, content)
    assert len(encode_pack(np.ones_like(pack))) == 1024
    with refused("no voice of a bundle"):
        is_near(pack, content[:-4])


def test_texts_with_pauses_and_paces_come_along(bundled):
    """What the Swift package has to say of them: swift/Tests/KokoroTextTests."""
    stored = parsed(bundled / "text" / "us.chunks.json")["texts"]
    nested, paused, silent, late = (text["chunks"] for text in stored[:4])
    assert [round(chunk["rate"], 6) for chunk in nested] == [1, 0.8, 1.2, 0.8, 0.8, 1, 1.6]
    pauses_s = [None, 1.5, 0.3, pytest.approx(0.4), 0.4]
    assert [chunk["pause_before_s"] for chunk in paused] == pauses_s
    assert paused[-1]["phonemes"] == ""
    assert silent == []
    assert [chunk["pause_before_s"] for chunk in late] == [1.0]


def test_the_raw_tables_hold_the_network_and_the_tagger(bundled):
    """Read as docs/synthesis.md says: int8 times scales; tagger features that rise."""
    content, arrays = (bundled / "text" / "us.bin").read_bytes(), {}
    for name, place in parsed(bundled / "text" / "us.json")["arrays"].items():
        count = int(np.prod(place["shape"]))
        flat = np.frombuffer(content, place["dtype"], count, place["offset"])
        arrays[name] = flat.reshape(place["shape"])
    for name, array in load_arrays()[0].items():
        scale = arrays.get(f"network.{name}.scale", np.float32(1))
        assert np.array_equal(arrays[f"network.{name}"] * scale, array), name
    tagger, features = Tagger.load(), arrays["tagger.features"]
    assert (np.diff(features.astype(np.int64)) > 0).all()
    for row in range(0, 24000, 500):
        weights = tagger.weights[tagger.rows[int(features[row])]]
        assert np.array_equal(arrays["tagger.weights"][row], weights)
    lines = (bundled / "text" / "us.texts.tsv").read_text(encoding="utf-8").splitlines()
    assert "zorbify\tzˈɔɹbəfˌI" in lines
    assert len(lines) > 1000
    assert {line.count("\t") for line in lines} == {1}


@pytest.mark.parametrize("language", ["us", "gb", "es", "it", "fr", "pt", "zh", "hi", "ja"])
def test_a_port_can_run_the_rules(language, tmp_path):
    """Python that has no form there is noticed here, not when an app's bundle is written."""
    write_rules(tmp_path / "rules", *list_rule_roots(G2P.load(language)))
    content = (tmp_path / "rules").read_bytes()
    assert len(content) > 60_000
    # how an index is made stays here: a port has the index
    assert b"node_beginning" not in content


def test_rules_that_a_port_cannot_run_are_named(tmp_path):
    """And the same rules are the same bytes."""
    for name in ("one", "other"):
        write_rules(tmp_path / name, {"cut": cut_sentences}, {})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with refused("read_user_lexicon: Try in line"):
        write_rules(tmp_path / "rules", {"own": read_user_lexicon}, {})
    with refused("a PosixPath"):
        write_rules(tmp_path / "rules", {"path": tmp_path}, {})


def test_a_domain_can_be_left_out(tmp_path):
    """Its one-off forms are no rows in the file, and are read as others are; another domain's
    stay.
    """
    rest = G2P.load("us", without=("chat",))
    write_rules(tmp_path / "rules", *list_rule_roots(rest))
    content = (tmp_path / "rules").read_bytes()
    assert b"kubernetes" not in content
    assert b"doctor Who" in content
    for text, is_alike in (("k8s", False), ("Dr. Who", True), ("5 kg", True)):
        alike = rest.phonemize(text).phonemes == phonemize(text).phonemes
        assert alike is is_alike, text
    with refused("fallback, unk and without are for English"):
        G2P.load("es", without=("chat",))


@pytest.mark.slow
def test_rules_are_the_same_bytes_in_every_process(tmp_path):
    names = "from kokoro_g2p.port.text_tables import G2P, Path, list_rule_roots, write_rules"
    for seed in ("1", "2"):  # the order of sets
        path = str(tmp_path / seed)
        code = f"{names}; write_rules(Path({path!r}), *list_rule_roots(G2P.load('us')))"
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def flip_last_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name, damage, message",
    [
        ("voices/slt.style", flip_last_bit, "was changed after the bundle was written"),
        ("text/us.rules", flip_last_bit, "was changed after the bundle was written"),
        ("extra.txt", lambda path: path.write_text("x"), "is not part of the bundle"),
        ("voices/awb.style", lambda path: path.unlink(), "is missing"),
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_found(copy, name, damage, message, capsys):
    damage(copy / name)
    assert verify(copy) == 2
    assert f"{copy / name} {message}" in capsys.readouterr().err


def test_what_others_put_into_a_bundle_changes_nothing(copy):
    """coremltools adds a line break to Manifest.json, the Finder files of its own."""
    (items,) = copy.glob(f"packages/{VOCODER}*/{ITEMS}")
    items.write_text(items.read_text() + "\n")
    (copy / "voices" / ".DS_Store").write_bytes(b"Bud1")
    assert verify(copy) == 0


def test_the_manifest_ties_a_bundle_together(copy, capsys):
    """Sums may be written again: a package's manifest that says something else is found."""
    rewritten(copy / "packages" / f"{VOCODER}-fp16.json", target="iOS18")
    sum_again(copy)
    assert verify(copy) == 2
    assert "not the file that manifest.json names: bundle again" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, spoil, code",
    [
        ("durations", lambda stored: -stored - 1, 2),
        ("features", lambda stored: stored[:0], 2),
        ("phonemes", lambda stored: -stored - 1, 2),
        ("hidden", lambda stored: stored * np.nan, 1),
    ],
)
def test_a_vector_that_was_altered_and_summed_again(name, spoil, code, copy, capsys):
    """Every hash fits; the chain cannot be replayed, or not to what is stored."""
    index = copy / "vectors" / "index.json"
    utterances = parsed(index)["utterances"]
    entry = utterances[0]["tensors"][name]
    path = copy / "vectors" / entry["file"]
    np.save(path, spoil(np.load(path)))
    entry["sha256"] = sha256_of(path)
    rewritten(index, utterances=utterances)
    vectors = parsed(copy / "manifest.json")["vectors"] | {"sha256": sha256_of(index)}
    rewritten(copy / "manifest.json", vectors=vectors)
    sum_again(copy)
    assert verify(copy) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert "write the vectors again" in line or code == 1


def test_a_level_that_is_missing_is_built_first(tiny_checkpoint, build, monkeypatch, capsys):
    """README's `make all`, then `bundle --method p6`."""
    commands, quantize = [], package_builds.quantize_stage

    def noted(options):
        commands.append(options.command)
        return quantize(options)

    monkeypatch.setattr(package_builds, "quantize_stage", noted)
    assert bundle(tiny_checkpoint, build, "--method w8") == 3
    captured = capsys.readouterr()
    assert f"{VOCODER}-w8 is not built yet: building it\n" in captured.err
    assert json.loads(captured.out.splitlines()[-1])["method"] == "w8"
    assert (build / "bundle-tiny-padded-w8").is_dir()
    assert len(commands) == 1
    assert commands[0].startswith("kokoro-ane quantize --method w8 ")


@table(
    "flags command",
    """
    --layout streaming | kokoro-ane build encoder --c
    --runtime onnx --method fp32 | kokoro-ane build encoder --runtime onnx
""",
)
def test_every_part_of_what_is_asked_for_is_built_first(
    flags, command, tiny_checkpoint, tmp_path, monkeypatch, capsys
):
    commands = []
    monkeypatch.setattr(
        package_builds, "build_stage", lambda options: commands.append(options.command)
    )
    assert bundle(tiny_checkpoint, tmp_path, flags) == 2
    assert commands[0].startswith(command)
    assert "does not exist" in capsys.readouterr().err


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
    tiny_checkpoint, build, verdict, commit, package, code, message, monkeypatch, capsys
):
    """The packages as they would be if the tiny checkpoint were on the list of what may be
    released.
    """
    monkeypatch.setattr(Checkpoint, "withheld", None)
    for path in [*build.iterdir()]:
        path = path.rename(build / path.name.replace("-tiny", ""))
        if path.suffix == ".json":
            text = path.read_text(encoding="utf-8").replace("-tiny-", "-")
            path.write_text(text.replace('"releasable": false', '"releasable": true'))
    judged = Manifest.load(build / "KokoroVocoder-padded-fp16.json")
    level = {
        "method": "fp16",
        "verdict": verdict,
        "reasons": ["because"],
        "broken": [],
        "bytes": 1_230_000,
        "clips": [{}] * 24,
        "summary": {"pesq": {"mean": 4.5, "worst": 4.25}, "mcd_db": {"mean": 0.125}},
        "provenance": {"package_sha256": package or judged.package_sha256},
    }
    decision = {
        "format": FORMAT,
        "levels": [level],
        "provenance": {"precision": "declared", "commit": commit, "date": "2026-11-29"},
        "releasable": commit != ALTERED,
    }
    (build / "release").mkdir()
    (build / "release" / "decision.json").write_text(json.dumps(decision))
    assert bundle(tiny_checkpoint, build) == code
    out, captured = build / "bundle-padded-fp16", capsys.readouterr()
    assert out.exists() == (code != 1)
    if code == 1:
        assert message in captured.err
        return
    card = (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert message in card
    assert json.loads(captured.out.splitlines()[-1])["releasable"] is (code == 0)
    assert (f" 2026-11-29; commit {short(commit)}. " in card) is not bool(package)


@table(
    "method message",
    """
    padded-fp16 | says method 'padded-fp16', expected 'padded-w8a8'
    w8a8 | which is not padded-w8a8: renamed
""",
)
def test_fp16_under_another_name_is_not_bundled(method, message, tiny_checkpoint, build, capsys):
    other = build / f"{VOCODER}-w8a8.json"
    shutil.copy(build / f"{VOCODER}-fp16.json", other)
    if method == "w8a8":
        rewritten(other, method=method)
    assert bundle(tiny_checkpoint, build, "--method w8a8") == 2
    assert message in capsys.readouterr().err
    assert not (build / "bundle-tiny-padded-w8a8").exists()


def test_a_bundle_of_packages_says_what_was_reported_of_the_systems(bundled):
    advisories = parsed(bundled / "manifest.json")["advisories"]
    assert advisories == parsed(ADVISORIES)["advisories"]
    for advisory in advisories:
        assert set(advisory["systems"]) <= {"iOS", "macOS"}
        assert advisory["from"] < (advisory["below"] or [999])
        assert advisory["route"].startswith("Core ML")
        assert all(source.startswith("https://") for source in advisory["sources"])
        assert advisory["sources"]
        assert date.fromisoformat(advisory["date"]).year == 2026
        assert advisory["confidence"] in CONFIDENCES


def test_a_mix_of_checkpoints_is_refused(build, tiny_checkpoint, tmp_path, capsys):
    config = tiny_config() | {"vocab": tiny_checkpoint.config.vocab}
    other = write_checkpoint(tmp_path / "other", config, seed=5, encoder=True)
    assert bundle(open_checkpoint(str(other)), build) == 2
    assert "packages of different checkpoints do not fit together" in capsys.readouterr().err
    path = build / f"{VOCODER}-fp16.json"
    rewritten(path, checkpoint=parsed(path)["checkpoint"] | {"sha256": "0" * 64})
    assert bundle(tiny_checkpoint, build) == 2
    assert "was built from checkpoint 000000000000" in capsys.readouterr().err
