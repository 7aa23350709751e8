"""Nothing is believed that can be read: checkpoints, measurements, packages, limits; a checkpoint's
own speech, kept by content.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.random_checkpoint import tiny_config, write_checkpoint
from kokoro_ane.core import commit, identity
from kokoro_ane.core.checkpoint import (
    HUB_REPOSITORY,
    HUB_REVISION,
    HUB_SHA256,
    Checkpoint,
    open_checkpoint,
)
from kokoro_ane.core.checksummed import (
    checksummed,
    checksummed_arrays,
    read_checksummed,
    read_checksummed_arrays,
)
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import BOTH, DEFAULT_BUCKETS, JUDGED, SECOND, TUNING, bucket_for
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.identity import Identity, config_sha256, released, voice_sha256, withheld
from kokoro_ane.core.kokoro_int8 import cache
from kokoro_ane.core.staging import write_json
from kokoro_ane.core.voices import read_pack
from kokoro_ane.eval import provenance
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.reference import judged_clips
from kokoro_ane.quantize import sources, speech
from kokoro_ane.quantize.activations import calibration_inputs
from kokoro_ane.quantize.corpus import letters, require_disjoint, speech_lines
from kokoro_ane.quantize.sources import changed_since
from kokoro_ane.quantize.speech import own_speech, speakers
from kokoro_ane.vocoder.decoder import Vocoder
from tests.demo_voice import DEMO_VOICE

DATA = Path(identity.__file__).parent / "kokoro_int8" / "data"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("good"), tiny_config())


def changed_config(folder: Path, change: Callable[[dict], object]) -> Checkpoint:
    """The checkpoint in `folder` after a change of its config.json."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change(config)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return open_checkpoint(str(folder))


class TestContent:
    def test_another_voice_under_an_old_name_is_another_checkpoint(
        self, good: Path, tmp_path: Path
    ) -> None:
        before, folder = (
            open_checkpoint(str(good)),
            Path(shutil.copytree(good, tmp_path / "swapped")),
        )
        shutil.copy(folder / "voices" / "awb.pt", folder / "voices" / "slt.pt")
        after = open_checkpoint(str(folder))
        assert after.sha256 == before.sha256
        assert after.content_sha256 != before.content_sha256

    def test_another_config_is_another_checkpoint_and_other_spaces_are_not(
        self, good: Path, tmp_path: Path
    ) -> None:
        before, folder = (
            open_checkpoint(str(good)).content_sha256,
            Path(shutil.copytree(good, tmp_path / "other")),
        )
        assert (
            changed_config(folder, lambda config: config.update({"name": "mine"})).content_sha256
            == before
        )
        assert (
            changed_config(folder, lambda config: config["vocab"].update({"a": 44})).content_sha256
            != before
        )

    def test_a_voice_has_one_hash_in_every_format(self, good: Path, tmp_path: Path) -> None:
        pack = read_pack(good / "voices" / "slt.pt")
        (tmp_path / "slt.bin").write_bytes(pack.numpy().astype("<f4").tobytes())
        np.save(tmp_path / "slt.npy", pack.numpy())
        assert (
            len(
                {
                    voice_sha256(read_pack(path))
                    for path in (good / "voices" / "slt.pt", *tmp_path.iterdir())
                }
            )
            == 1
        )


class TestReleasable:
    """Way 1: `releasable` was what config.json said of itself."""

    def test_the_list_is_the_hubs_at_the_pinned_revision(self) -> None:
        (hub,) = released()
        assert (hub["repository"], hub["revision"], hub["weights"]) == (
            HUB_REPOSITORY,
            HUB_REVISION,
            HUB_SHA256,
        )
        assert hub["config"] == config_sha256(KokoroConfig.load(DATA / "config.json"))
        assert len(hub["voices"]) == 54
        assert cache.bundled_voices()
        for name in cache.bundled_voices():
            packed = (DATA / "voices" / f"{name}{cache.PACKED}").read_bytes()
            assert hub["voices"][name] == hashlib.sha256(cache.unpacked_voice(packed)).hexdigest()

    def test_weights_config_and_each_voice_must_be_on_it(self) -> None:
        (hub,) = released()
        some = {name: hub["voices"][name] for name in ("af_heart", "am_adam")}
        assert withheld(Identity(hub["weights"], hub["config"], some)) is None
        refused = {
            "its weights": Identity("0" * 64, hub["config"], some),
            "its config.json is not that of hexgrad/Kokoro-82M": Identity(
                hub["weights"], "0" * 64, some
            ),
            "its voice af_heart is not": Identity(
                hub["weights"], hub["config"], some | {"af_heart": hub["voices"]["am_adam"]}
            ),
            "its voice my_own is not": Identity(
                hub["weights"], hub["config"], some | {"my_own": "0" * 64}
            ),
            "it has no voices": Identity(hub["weights"], hub["config"], {}),
        }
        for reason, who in refused.items():
            assert (withheld(who) or "").startswith(reason)

    def test_a_checkpoint_on_the_list_is_releasable_until_a_voice_changes(
        self, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = Path(shutil.copytree(good, tmp_path / "listed"))
        listed = changed_config(folder, lambda config: config.pop("releasable")).identity
        entry = {
            "repository": "a/b",
            "weights": listed.weights,
            "config": listed.config,
            "voices": dict(listed.voices),
        }
        monkeypatch.setattr(identity, "released", lambda: (entry,))
        assert open_checkpoint(str(folder)).releasable
        assert open_checkpoint(str(good)).withheld == "its config.json says releasable: false"
        torch.save(torch.randn(510, 1, 256), folder / "voices" / "slt.pt")
        assert open_checkpoint(str(folder)).withheld == "its voice slt is not that of a/b"

    def test_an_edited_list_releases_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (hub,) = released()
        who = Identity(hub["weights"], hub["config"], {"af_heart": hub["voices"]["af_heart"]})
        assert withheld(who) is None
        monkeypatch.setattr(identity, "held", lambda: {identity.LIST: "0" * 40})
        assert (
            withheld(who)
            == "core/data/releasable.json is not as the commit of this checkout holds it"
        )

    def test_a_config_that_calls_itself_releasable_is_not_believed(self, tmp_path: Path) -> None:
        folder = Path(shutil.copytree(DEMO_VOICE, tmp_path / "copy"))
        named = changed_config(folder, lambda config: config.update({"releasable": True}))
        assert not named.releasable
        assert "not on the list" in str(named.withheld)

    @pytest.mark.parametrize("name", ["kokoro-82m", "kokoro-int8"])
    def test_other_weights_under_a_known_name_are_refused(
        self, good: Path, tmp_path: Path, name: str
    ) -> None:
        folder = Path(shutil.copytree(good, tmp_path / "claims"))
        with pytest.raises(
            InputError, match=f'does not hold the weights of {name}.*give it a "name" of its own'
        ):
            changed_config(folder, lambda config: config.update({"name": name}))

    def test_kokoro_int8_under_another_name_is_refused(
        self, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cache, "WEIGHTS_SHA256", open_checkpoint(str(good)).sha256)
        with pytest.raises(
            InputError,
            match="holds the weights of kokoro-int8, but its config.json gives the name tiny",
        ):
            open_checkpoint(str(Path(shutil.copytree(good, tmp_path / "int8"))))


class TestChecksummed:
    ABOUT = {"clip": "a"}

    @pytest.mark.parametrize(
        "edit",
        [
            lambda data: data.update({"pesq": 4.64}),
            lambda data: data.update({"more": 1}),
            lambda data: data.pop("mcd_db"),
            lambda data: data.pop("checksum_sha256"),
        ],
    )
    def test_an_edited_file_is_found(self, tmp_path: Path, edit: Callable[[dict], object]) -> None:
        data, path = checksummed({"pesq": 3.1, "mcd_db": 1.0}, self.ABOUT), tmp_path / "a.json"
        write_json(path, data)
        assert read_checksummed(path, self.ABOUT, "", "; again") == {"pesq": 3.1, "mcd_db": 1.0}
        edit(data)
        write_json(path, data)
        pytest.raises(InputError, read_checksummed, path, self.ABOUT, "", "; again").match(
            "; again"
        )

    def test_a_file_about_something_else_is_found(self, tmp_path: Path) -> None:
        write_json(tmp_path / "b.json", checksummed({"pesq": 3.1}, self.ABOUT))
        pytest.raises(
            InputError, read_checksummed, tmp_path / "b.json", {"clip": "b"}, "", ""
        ).match("edited or copied here")

    def test_arrays(self, tmp_path: Path) -> None:
        arrays, path = {"x": np.arange(4.0), "y": np.float64(3)}, tmp_path / "x.npz"
        np.savez(
            path,
            **checksummed_arrays(
                {name: np.asarray(value) for name, value in arrays.items()}, self.ABOUT
            ),
        )
        kept = read_checksummed_arrays(path, self.ABOUT, "; again")
        assert set(kept) == {"x", "y"}
        assert np.array_equal(kept["x"], arrays["x"])
        with np.load(path) as stored:
            np.savez(
                path, **{name: stored[name] for name in stored.files} | {"x": np.arange(4.0) + 1e-9}
            )
        pytest.raises(InputError, read_checksummed_arrays, path, self.ABOUT, "; again").match(
            "it was edited.*; again"
        )
        path.write_bytes(path.read_bytes()[:100])
        pytest.raises(InputError, read_checksummed_arrays, path, self.ABOUT, "; again").match(
            "cannot be read as arrays.*; again"
        )


class TestKey:
    def test_every_module_and_library_that_measures_is_in_the_key(self) -> None:
        files = {path.relative_to(provenance.ROOT).as_posix() for path in provenance.code_files()}
        # a partial's own
        functions = [
            getattr(metric.function, "func", metric.function) for metric in METRICS.values()
        ]
        modules = {function.__module__ for function in functions}
        assert {
            f"{name.removeprefix('kokoro_ane.').replace('.', '/')}.py" for name in modules
        } <= files
        assert {
            "core/layers.py",
            "core/voices.py",
            "quantize/speech.py",
            "mlprogram/src/mlprogram/ops/conv.py",
            "eval/judge.py",
        } <= files
        assert not files & {"eval/gates.py", "eval/verdict.py", "eval/report.py", "eval/release.py"}
        assert not files & {"quantize/compress.py"}
        assert not any("benches" in name for name in files)
        assert all(any(provenance.ROOT.glob(pattern)) for pattern in provenance.READ)
        versions = provenance.library_versions()
        # where one is installed
        models = {"resemblyzer", "distillmos", "speechmos", "onnxruntime", "pocketsphinx"}
        wanted = {"python", "torch", "numpy", "pesq", "pystoi", "scipy", "protobuf", "soundfile"}
        wanted |= {name for name in models if importlib.util.find_spec(name)}
        assert wanted <= set(versions)
        assert "pytest" not in versions

    def test_what_a_library_compiles_at_its_first_use_is_no_change(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """librosa's numba code is kept in __pycache__: an interrupted first run would have measured
        everything again.
        """
        for name in ("heard.py", "__init__.py", "__pycache__/heard.nbi"):
            (tmp_path / "heard" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "heard" / name).write_text(name, encoding="utf-8")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        kept = provenance.Libraries.of({"heard"})
        (tmp_path / "heard" / "__pycache__" / "heard.nbi").write_text("compiled", encoding="utf-8")
        assert provenance.Libraries.of({"heard"}) == kept
        (tmp_path / "heard" / "heard.py").write_text("altered", encoding="utf-8")
        assert provenance.Libraries.of({"heard"}) != kept

    def test_a_time_that_was_put_back_does_not_hide_a_change(self, tmp_path: Path) -> None:
        path, began = tmp_path / "a.py", time.time_ns()
        path.write_text("x = 1\n", encoding="utf-8")
        os.utime(path, (0, 0))
        assert changed_since((path,), began - 10**9)
        assert not changed_since((path,), began + 10**10)

    def test_another_comment_in_the_limits_is_not_another_limit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(provenance, "ROOT", tmp_path)
        monkeypatch.setattr(commit, "ROOT", tmp_path)
        monkeypatch.setattr(provenance, "LIMITS", ("gates.py",))
        hashes = []
        for text in ("LIMIT = 4.0\n", "LIMIT = 4.0  # why\n", "LIMIT = 3.9\n"):
            (tmp_path / "gates.py").write_text(text, encoding="utf-8")
            hashes.append(provenance.limits()["sha256"])
        assert hashes[0] == hashes[1] != hashes[2]
        assert provenance.limits()["commit"] == "none"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checkpoint:
    monkeypatch.setenv("KOKORO_ANE_CACHE", str(tmp_path))
    return Checkpoint.from_folder(DEMO_VOICE)


class TestOwnSpeech:
    def test_no_text_is_in_two_sets(self) -> None:
        texts = [
            letters(line.text) for name in (TUNING, JUDGED, SECOND) for line in speech_lines(name)
        ]
        assert len(texts) == len(set(texts)) == 72

    def test_the_judged_and_the_second_set(self, demo: Checkpoint) -> None:
        spoken = own_speech(demo, JUDGED)
        assert len({bucket_for(utterance.frames, DEFAULT_BUCKETS) for utterance in spoken}) >= 12
        assert {line.speed for line in speech_lines(JUDGED)} >= {0.6, 2.0}
        assert {utterance.voice for utterance in spoken} == set(demo.voices)
        assert all(
            len(u.f0_hz) == len(u.energy) == 2 * u.frames and np.isfinite(u.f0_hz).all()
            for u in spoken
        )
        assert not set(speakers(demo, SECOND)) & set(speakers(demo, JUDGED))

    def test_features_are_kept_and_an_altered_file_is_refused(
        self, demo: Checkpoint, tmp_path: Path
    ) -> None:
        first = own_speech(demo, JUDGED)
        (kept,) = (tmp_path / "speech").glob("judged-*.npz")
        written, again = kept.stat().st_mtime_ns, own_speech(demo, JUDGED)
        assert kept.stat().st_mtime_ns == written
        assert all(
            np.array_equal(a.energy, b.energy) and np.array_equal(a.durations, b.durations)
            for a, b in zip(first, again, strict=True)
        )
        own_speech(demo, JUDGED)
        (kept,) = (tmp_path / "speech").glob("judged-*.npz")
        with np.load(kept) as stored:
            fields = {name: stored[name] for name in stored.files}
        fields["0/energy"] = fields["0/energy"] + 1
        np.savez(kept, **fields)
        pytest.raises(InputError, own_speech, demo, JUDGED).match("is not as it was written")
        kept.write_bytes(b"PK")
        pytest.raises(InputError, own_speech, demo, JUDGED).match("cannot be read as arrays")

    def test_what_is_judged_is_never_tuned_on(
        self, demo: Checkpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both ways: calibration refuses a tuning set with a judged text, and the judge refuses it
        too.
        """
        shared = own_speech(demo, JUDGED)
        monkeypatch.setattr("kokoro_ane.quantize.activations.own_speech", lambda *_: shared)
        with pytest.raises(InputError, match="tune on other text"):
            next(calibration_inputs(demo, Vocoder.of(demo), 3))
        monkeypatch.setattr("kokoro_ane.eval.reference.own_speech", lambda *_: shared)
        pytest.raises(InputError, judged_clips, demo).match("tune on other text")

    def test_the_bundled_sets_pass(self, demo: Checkpoint) -> None:
        require_disjoint(
            own_speech(demo, TUNING), [*own_speech(demo, JUDGED), *own_speech(demo, SECOND)]
        )
        assert len(judged_clips(demo, count=5)) == 5
        both = judged_clips(demo, BOTH)
        assert [clip.id for clip in both] == [
            clip.id for name in (JUDGED, SECOND) for clip in own_speech(demo, name)
        ]
        assert len(both) == 48

    def test_other_code_has_another_file(
        self, demo: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Six worktrees shared the cache: a file checksummed by one's core/checksummed.py was read
        by another's, under the same name.
        """
        monkeypatch.setattr(speech, "_spoken", lambda *_: stand_in())
        own_speech(demo, JUDGED)
        assert {
            "core/checksummed.py",
            "core/voices.py",
            "encoder/functions.py",
            "quantize/speech.py",
        } <= {
            path.relative_to(sources.ROOT).as_posix()
            for path in sources.files_behind(("quantize/speech.py",))
        }
        monkeypatch.setattr(speech, "sha256_of_files", lambda files: "another")
        own_speech(demo, JUDGED)
        assert len(list((tmp_path / "speech").glob("judged-*.npz"))) == 2

    def test_code_that_changed_under_a_process_keeps_nothing(
        self,
        demo: Checkpoint,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture,
    ) -> None:
        """What runs is older than what stands on disk and names the file."""
        monkeypatch.setattr(speech, "_spoken", lambda *_: stand_in())
        monkeypatch.setattr(speech, "STARTED_NS", 1)
        own_speech(demo, JUDGED)
        assert not (tmp_path / "speech").exists()
        assert "features are neither taken from" in capsys.readouterr().err


def stand_in() -> dict[str, np.ndarray]:
    fields = {
        "input_ids": np.zeros(3, np.int32),
        "durations": np.ones(3, np.int32),
        "f0_hz": np.zeros(6, np.float32),
    }
    fields |= {"energy": np.full(6, 0.5, np.float32), "speed": np.asarray(1.25)}
    return {f"{line}/{name}": value for line in range(24) for name, value in fields.items()}
