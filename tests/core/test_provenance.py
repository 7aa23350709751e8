"""Who a checkpoint is, what may be released, the key of what is kept; a checkpoint's own speech,
kept by content.
"""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core import hub as the_hub
from kokoro_ane.core import sources
from kokoro_ane.core.checkpoint import (
    HUB_SHA256,
    Checkpoint,
    Identity,
    config_sha256,
    open_checkpoint,
    voice_sha256,
    withheld,
)
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import (
    BOTH,
    DEFAULT_BUCKETS,
    JUDGED,
    SECOND,
    THIRD,
    TUNING,
    VOICES,
    bucket_for,
)
from kokoro_ane.core.hub import HUB_REPOSITORY, HUB_REVISION, read_released
from kokoro_ane.core.kokoro_int8 import cache
from kokoro_ane.core.manifest import ITEMS, Manifest, copy_package
from kokoro_ane.core.voices import read_pack
from kokoro_ane.eval.reference import list_judged_clips
from kokoro_ane.eval.store import MEASURING
from kokoro_ane.speech import list_spoken_lines, speech
from kokoro_ane.speech.corpus import SETTLING, letters, read_speech_lines, require_disjoint
from kokoro_ane.speech.speech import list_speakers, load_own_speech
from tests.commands import everything, parsed, refused, table
from tests.demo_voice import DEMO_VOICE
from tests.random_checkpoint import tiny_config, write_checkpoint

PACKAGE = "KokoroVocoder-tiny-padded-fp16"
DATA = Path(the_hub.__file__).parent / "kokoro_int8" / "data"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("good"), tiny_config())


@pytest.fixture
def folder(good, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(good, tmp_path / "copy")


def changed_config(folder, change):
    """The checkpoint in `folder` after a change of its config.json."""
    config = parsed(folder / "config.json")
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return open_checkpoint(str(folder))


class TestContent:
    def test_another_voice_under_an_old_name_is_another_checkpoint(self, folder):
        before = open_checkpoint(str(folder))
        content_sha256 = before.content_sha256  # read now: voices are read when it is asked for
        shutil.copy(folder / "voices" / "awb.pt", folder / "voices" / "slt.pt")
        after = open_checkpoint(str(folder))
        assert after.sha256 == before.sha256
        assert after.content_sha256 != content_sha256
        # packages read it as an input
        assert after.network_sha256 == before.network_sha256

    def test_another_config_is_another_checkpoint_and_other_spaces_are_not(self, folder):
        before = open_checkpoint(str(folder)).network_sha256
        renamed = changed_config(folder, lambda config: config.update({"name": "mine"}))
        assert renamed.network_sha256 == before
        other = changed_config(folder, lambda config: config["vocab"].update({"a": 44}))
        assert other.network_sha256 != before

    def test_a_voice_has_one_hash_in_every_format(self, good, tmp_path):
        pack = read_pack(good / "voices" / "slt.pt")
        (tmp_path / "slt.bin").write_bytes(pack.astype("<f4").tobytes())
        np.save(tmp_path / "slt.npy", pack)
        paths = [good / "voices" / "slt.pt", *tmp_path.iterdir()]
        assert len({voice_sha256(read_pack(path)) for path in paths}) == 1


def opened_elsewhere(package):
    """What coremltools and the Finder do to a package that they open."""
    import coremltools

    coremltools.utils.load_spec(str(package))
    (package / "Data" / ".DS_Store").write_bytes(b"Bud1")
    (package / "Data" / "._com.apple.CoreML").write_bytes(b"Mac OS X")


def with_another_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class TestPackage:
    @pytest.fixture
    def manifest(self, tiny_build, tmp_path):
        """Of a copy, to be changed."""
        path = shutil.copytree(tiny_build, tmp_path / "build") / f"{PACKAGE}.json"
        return Manifest.load(path)

    def test_what_others_do_to_it_changes_nothing(self, manifest):
        """coremltools adds a line break to Manifest.json, and the package was refused."""
        package, copy = manifest.package_path, manifest.path.with_name("copy.mlpackage")
        written = everything(package)
        opened_elsewhere(package)
        assert (package / ITEMS).read_bytes() != written[ITEMS]
        manifest.verify()
        copy_package(package, copy)
        assert everything(copy) == written

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("Data/com.apple.CoreML/model.mlmodel", with_another_byte),
            ("Data/com.apple.CoreML/weights/weight.bin", with_another_byte),
            ("Data/com.apple.CoreML/weights/more.bin", Path.touch),
            (ITEMS, lambda path: path.write_text(path.read_text().replace("weights", "x"))),
            (ITEMS, lambda path: path.write_text(path.read_text()[:-1])),
        ],
        ids=["operations", "weights", "one more file", "another path", "cut"],
    )
    def test_control_what_it_computes_is_in_its_hash(self, name, change, manifest):
        change(manifest.package_path / name)
        with refused("has hash .* its manifest says"):
            manifest.verify()


class TestReleasable:
    """Way 1: `releasable` was what config.json said of itself."""

    def test_the_list_is_the_hubs_at_the_pinned_revision(self):
        (hub,) = read_released()
        assert (hub["repository"], hub["revision"], hub["weights"]) == (
            HUB_REPOSITORY,
            HUB_REVISION,
            HUB_SHA256,
        )
        assert hub["config"] == config_sha256(KokoroConfig.load(DATA / "config.json"))
        assert len(hub["voices"]) == 54
        assert cache.list_bundled_voices()
        for name in cache.list_bundled_voices():
            packed = (DATA / "voices" / f"{name}{cache.PACKED}").read_bytes()
            assert hub["voices"][name] == hashlib.sha256(cache.unpack_voice(packed)).hexdigest()

    def test_weights_config_and_each_voice_must_be_on_it(self):
        (hub,) = read_released()
        some = {name: hub["voices"][name] for name in ("af_heart", "am_adam")}
        good = Identity(hub["weights"], hub["config"], some)
        assert withheld(good) is None
        other = {"af_heart": hub["voices"]["am_adam"]}
        refused = {
            "its weights": replace(good, weights="0" * 64),
            "its config.json is not that of hexgrad/Kokoro-82M": replace(good, config="0" * 64),
            "its voice af_heart is not": replace(good, voices=some | other),
            "its voice my_own is not": replace(good, voices=some | {"my_own": "0" * 64}),
            "it has no voices": replace(good, voices={}),
        }
        for reason, who in refused.items():
            assert (withheld(who) or "").startswith(reason)

    def test_a_checkpoint_on_the_list_is_releasable_until_a_voice_changes(
        self, good, folder, monkeypatch
    ):
        listed = changed_config(folder, lambda config: config.pop("releasable")).identity
        entry = {
            "repository": "a/b",
            "weights": listed.weights,
            "config": listed.config,
            "voices": dict(listed.voices),
        }
        monkeypatch.setattr(the_hub, "read_released", lambda: (entry,))
        assert open_checkpoint(str(folder)).releasable
        assert open_checkpoint(str(good)).withheld == "its config.json says releasable: false"
        torch.save(torch.randn(510, 1, 256), folder / "voices" / "slt.pt")
        assert open_checkpoint(str(folder)).withheld == "its voice slt is not that of a/b"

    def test_a_config_that_calls_itself_releasable_is_not_believed(self, tmp_path):
        folder = shutil.copytree(DEMO_VOICE, tmp_path / "copy")
        named = changed_config(folder, lambda config: config.update({"releasable": True}))
        assert not named.releasable
        assert "not on the list" in str(named.withheld)

    @pytest.mark.parametrize("name", ["kokoro-82m", "kokoro-int8"])
    def test_other_weights_under_a_known_name_are_refused(self, folder, name):
        with refused(f'does not hold the weights of {name}.*give it a "name" of its own'):
            changed_config(folder, lambda config: config.update({"name": name}))

    def test_kokoro_int8_under_another_name_is_refused(self, folder, monkeypatch):
        monkeypatch.setattr(cache, "WEIGHTS_SHA256", open_checkpoint(str(folder)).sha256)
        with refused("holds the weights of kokoro-int8, but its config.json gives the name tiny"):
            open_checkpoint(str(folder))


class TestKey:
    @pytest.fixture
    def rooms(self, tmp_path, monkeypatch):
        """Sources of this test's own, a lock file and a frozen text."""
        monkeypatch.setattr(sources, "ROOT", tmp_path)
        for name in ("core/a.py", "eval/gates.py", "constraints.txt", "core/data/speech/x.tsv"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("x")
        return tmp_path

    @table(
        "name another",
        """
        core/a.py | true
        constraints.txt | true
        core/data/speech/x.tsv | true
        eval/gates.py | false
        eval/judge.py | false
        eval/execution.py | true
        g2p/b.py | false
    """,
    )
    def test_another_source_text_or_lock_file_is_another_key(self, name, another, rooms):
        key = sources.source_sha256.__wrapped__("core", "eval")
        (rooms / name).parent.mkdir(exist_ok=True)
        (rooms / name).write_text("y")
        assert (sources.source_sha256.__wrapped__("core", "eval") != key) == another

    def test_the_same_in_a_checkout_of_another_name(self, rooms, monkeypatch):
        key = sources.source_sha256.__wrapped__("core", "eval")
        monkeypatch.setattr(sources, "ROOT", rooms.rename(rooms.with_name("elsewhere")))
        assert sources.source_sha256.__wrapped__("core", "eval") == key

    def test_what_they_name_is_there(self):
        assert all(any(sources.ROOT.glob(name)) for name in (*sources.TEXTS, sources.LOCK_FILE))
        rooms = [room for room in MEASURING if room != "g2p"]  # a distribution of its own
        assert all(any((sources.ROOT / room).glob("*.py")) for room in rooms)
        judging = [name for name in sources.NOT_MEASURING if "/" not in name]
        assert all(any((sources.ROOT / "eval").glob(name)) for name in judging)


@pytest.fixture(scope="module")
def spoken_once(tmp_path_factory):
    """A cache for the tests that only read what the demo voice says."""
    return tmp_path_factory.mktemp("spoken")


@pytest.fixture
def demo(monkeypatch, spoken_once):
    monkeypatch.setenv("KOKORO_ANE_CACHE", str(spoken_once))
    return Checkpoint.from_folder(DEMO_VOICE)


@pytest.fixture
def own_cache(demo, monkeypatch, tmp_path):
    """A cache that a test may spoil."""
    monkeypatch.setenv("KOKORO_ANE_CACHE", str(tmp_path))
    return tmp_path


class TestOwnSpeech:
    def test_no_text_is_in_two_sets(self):
        texts = [
            letters(line.text)
            for name in (SETTLING, TUNING, JUDGED, SECOND, VOICES, THIRD)
            for line in read_speech_lines(name)
        ]
        assert len(texts) == len(set(texts)) == 8 + 3 * 24 + 12 + 24

    def test_a_line_of_a_voice_is_judged_where_that_voice_is_at_hand(self, demo, tmp_path):
        assert load_own_speech(demo, VOICES) == []
        folder = shutil.copytree(demo.folder, tmp_path / "demo")
        for name in ("am_onyx", "bf_lily"):
            shutil.copy(folder / "voices" / "slt.pt", folder / "voices" / f"{name}.pt")
        spoken = load_own_speech(open_checkpoint(str(folder)), VOICES)
        assert [clip.id for clip in spoken] == ["voices-00", "voices-02", "voices-03"]
        assert spoken[2].voice == "bf_lily,am_onyx"

    def test_the_judged_and_the_second_set(self, demo):
        spoken = load_own_speech(demo, JUDGED)
        assert len({bucket_for(utterance.frames, DEFAULT_BUCKETS) for utterance in spoken}) >= 12
        assert {line.speed for line in read_speech_lines(JUDGED)} >= {0.6, 2.0}
        assert {utterance.voice for utterance in spoken} == set(demo.voices)
        assert all(
            len(u.f0_hz) == len(u.energy) == 2 * u.frames and np.isfinite(u.f0_hz).all()
            for u in spoken
        )
        assert not set(list_speakers(demo, SECOND)) & set(list_speakers(demo, JUDGED))

    def test_features_are_kept_and_a_damaged_file_is_refused(self, demo, own_cache):
        first = load_own_speech(demo, JUDGED)
        (file,) = (own_cache / "speech").glob("judged-*.npz")
        written, again = file.stat().st_mtime_ns, load_own_speech(demo, JUDGED)
        assert file.stat().st_mtime_ns == written
        assert all(
            np.array_equal(a.energy, b.energy) and np.array_equal(a.durations, b.durations)
            for a, b in zip(first, again, strict=True)
        )
        file.write_bytes(b"PK")
        refused("cannot be read as arrays", load_own_speech, demo, JUDGED)

    def test_what_is_judged_is_never_tuned_on(self, demo, monkeypatch):
        """The judge refuses a tuning set with a judged text."""
        shared = list_spoken_lines(demo, JUDGED)
        monkeypatch.setattr("kokoro_ane.eval.reference.list_spoken_lines", lambda *_: shared)
        refused("tune on other text", list_judged_clips, demo)

    def test_the_bundled_sets_pass(self, demo):
        require_disjoint(
            load_own_speech(demo, TUNING),
            [*load_own_speech(demo, JUDGED), *load_own_speech(demo, SECOND)],
        )
        assert len(list_judged_clips(demo, count=5)) == 5
        both = list_judged_clips(demo, BOTH)
        assert [clip.id for clip in both] == [
            clip.id for name in (JUDGED, SECOND) for clip in load_own_speech(demo, name)
        ]
        assert len(both) == 48

    def test_other_code_has_another_file(self, demo, own_cache, monkeypatch):
        """Six worktrees share the cache: what one's code wrote is not read by another's."""
        monkeypatch.setattr(speech, "_speak_lines", lambda *_: stand_in())
        load_own_speech(demo, JUDGED)
        monkeypatch.setattr(speech, "source_sha256", lambda *_: "another")
        load_own_speech(demo, JUDGED)
        assert len(list((own_cache / "speech").glob("judged-*.npz"))) == 2


def stand_in():
    fields = {
        "input_ids": np.zeros(3, np.int32),
        "durations": np.ones(3, np.int32),
        "f0_hz": np.zeros(6, np.float32),
    }
    fields |= {"energy": np.full(6, 0.5, np.float32), "speed": np.asarray(1.25)}
    return {f"{line}/{name}": value for line in range(24) for name, value in fields.items()}
