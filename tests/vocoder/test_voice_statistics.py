"""A voice's own statistics: found by values, settled where nobody has, kept, refused where they do
not fit; and what they are worth.

python -m pytest tests/vocoder/test_voice_statistics.py
"""

import hashlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import open_checkpoint, voice_sha256
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8.cache import (
    CONFIG,
    DATA,
    PACKED,
    WEIGHTS_SHA256,
    list_bundled_voices,
    unpack_voice,
)
from kokoro_ane.core.voices import Voice, style_path
from kokoro_ane.pipeline.settle import main as settle_command
from kokoro_ane.pipeline.speak import main as speak
from kokoro_ane.runtimes.opened_voice import open_voice
from kokoro_ane.speech import settling
from kokoro_ane.speech.settling import Settling, settle
from kokoro_ane.vocoder.streaming import voice_statistics as stored
from kokoro_ane.vocoder.streaming.norm_statistics import require_predictor
from kokoro_ane.vocoder.streaming.voice_statistics import (
    find_statistics,
    name_settled_file,
    read_settled,
    write_settled,
)
from tests.commands import printed, refused
from tests.demo_voice import DEMO_VOICE


@pytest.fixture(scope="module")
def demo():
    return open_checkpoint(str(DEMO_VOICE))


@pytest.fixture(scope="module")
def predictor(demo):
    return require_predictor(demo)


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A user's cache without vectors, and a copy of the demo voice without its own."""
    monkeypatch.setenv("KOKORO_ANE_CACHE", str(tmp_path / "cache"))
    folder = shutil.copytree(DEMO_VOICE, tmp_path / "demo")
    (folder / name_settled_file(open_checkpoint(str(folder)).sha256)).unlink()
    return open_checkpoint(str(folder))


@pytest.fixture
def curved(demo):
    """A pack whose style moves along a line with the length, as Kokoro's do; the demo voice's have
    one style.
    """
    pack = demo.library.pack("slt").copy()
    pack[:, 0, 3] += np.sqrt(np.arange(510, dtype=np.float32)) / 10
    return pack


@pytest.fixture
def spoken(monkeypatch, predictor):
    """What the sentences measure is not measured but told; who was asked to speak them."""
    asked = []

    def told(self, name, pack, lines):
        asked.append(name)
        # residuals that rise from 1 along the style's line
        phonemes = [80 + 30 * number for number in lines]
        along = style_path(pack)[np.array(phonemes) - 1]
        return phonemes, np.repeat(1.0 + 2.5 * along[:, None], len(predictor.bias), axis=1)

    monkeypatch.setattr(Settling, "measure_residuals", told)
    return asked


def test_a_voice_is_settled_once_and_kept_whatever_it_is_called(empty, spoken, curved):
    pack = curved
    first = settle(empty, {"slt": pack})["slt"]
    base, slope = first
    assert np.allclose(base, 1.0, atol=1e-3)
    assert np.allclose(slope, 2.5, atol=1e-3)
    assert np.array_equal(settle(empty, {"another name": pack})["another name"], first)
    assert spoken == ["slt"]
    # a blend is a voice of its own
    settle(empty, {"slt,rms": empty.library.blend("slt,rms")})["slt,rms"]
    assert spoken == ["slt", "slt,rms"]


def test_what_a_voice_adds_follows_its_style_along_a_line(demo, curved):
    pack = curved
    along = style_path(pack)
    assert along[79] == 0
    assert along[299] == pytest.approx(1)
    voice = Voice(pack, np.array([[1.0], [10.0]], np.float32))
    assert voice.statistics_for(300) == pytest.approx([11.0])
    assert voice.statistics_for(50) == pytest.approx([1.0 + 10 * along[49]], rel=1e-5)
    # one style for every length: no line, and no division by its length
    assert not style_path(demo.library.pack("slt")).any()


def test_nothing_of_the_users_but_the_cache_is_written_to(empty, spoken):
    before = sorted(path for path in empty.folder.rglob("*") if path.is_file())
    settle(empty, {"slt": empty.library.pack("slt")})["slt"]
    assert sorted(path for path in empty.folder.rglob("*") if path.is_file()) == before


def test_a_cache_that_cannot_be_written_costs_the_next_call_its_time(
    empty, spoken, monkeypatch, tmp_path, capsys
):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("KOKORO_ANE_CACHE", str(tmp_path / "file"))
    assert settle(empty, {"slt": empty.library.pack("slt")})["slt"].size
    assert "statistics are not kept" in capsys.readouterr().err


def test_other_weights_have_vectors_of_their_own(empty, spoken, predictor):
    """What kokoro-int8's voices add says little of another checkpoint's."""
    voice = voice_sha256(empty.library.pack("slt"))
    settle(empty, {"slt": empty.library.pack("slt")})
    assert find_statistics(empty, predictor, voice) is not None
    assert find_statistics(replace(empty, sha256="0" * 64), predictor, voice) is None


def test_a_voice_of_kokoro_int8_is_bundled_with_its_statistics():
    kokoro = replace(DEMO, config=KokoroConfig.load(DATA / CONFIG), sha256=WEIGHTS_SHA256)
    for name in list_bundled_voices():
        packed = (DATA / "voices" / f"{name}{PACKED}").read_bytes()
        voice = hashlib.sha256(unpack_voice(packed)).hexdigest()
        assert find_statistics(kokoro, require_predictor(kokoro), voice) is not None, name


def damaged(path):
    path.write_bytes(path.read_bytes()[:-40])


def of_nan(path):
    voices = read_settled(path, PREDICTOR, WEIGHTS)
    write_settled(path, replace(voices, vectors={"a": np.full((2, ROWS), np.nan)}))


def of_another_shape(path):
    voices = read_settled(path, PREDICTOR, WEIGHTS)
    write_settled(path, replace(voices, vectors={"a": np.zeros((2, ROWS + 2))}))


def of_another_predictor(path):
    voices = read_settled(path, PREDICTOR, WEIGHTS)
    write_settled(path, replace(voices, predictor="0" * 64))


def of_other_weights(path):
    voices = read_settled(path, PREDICTOR, WEIGHTS)
    write_settled(path, replace(voices, weights="0" * 64))


DEMO = open_checkpoint(str(DEMO_VOICE))
PREDICTOR, WEIGHTS = require_predictor(DEMO), DEMO.sha256
ROWS = len(PREDICTOR.bias)
SPOILT = {
    damaged: "cannot be read",
    of_nan: "holds NaN or infinity",
    of_another_shape: rf"vectors of shape \[2, {ROWS + 2}\], not \[2, {ROWS}\]",
    of_another_predictor: "belongs to the predictor 000000000000",
    of_other_weights: "belongs to the weights 000000000000",
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_file_that_does_not_fit_is_one_line_that_names_it(spoil, tmp_path, predictor):
    folder = shutil.copytree(DEMO_VOICE, tmp_path / "demo")
    path = folder / name_settled_file(WEIGHTS)
    spoil(path)
    checkpoint = open_checkpoint(str(folder))
    words = rf"{path.name} .*{SPOILT[spoil]}.*; delete {path.name}"
    refused(words, settle, checkpoint, {"slt": checkpoint.library.pack("slt")})


def test_a_vocoder_of_another_predictor_is_refused(demo):
    with pytest.raises(InputError, match="was built with the predictor 000000000000"):
        open_voice(demo, "slt", "0" * 64)


def test_a_layout_that_measures_settles_nothing(demo, spoken):
    assert open_voice(demo, "slt", "").statistics.size == 0
    assert not spoken


def test_the_residual_of_the_demo_voice_is_what_its_own_sentences_measure(demo, predictor):
    """Three of eight sentences, measured: their residuals are alike, and nearer to their mean than
    to zero for a voice that the predictor was never told, a blend beyond both of its ends.
    """
    pack = 1.6 * demo.library.pack("slt") - 0.6 * demo.library.pack("rms")
    lines = dict(enumerate(settling.read_speech_lines("settling")[:3]))
    measured = Settling(demo, predictor).measure_residuals("slt", pack, lines)[1]
    *fit, held = measured
    before, after = (np.square(held - told).mean() for told in (0.0, np.mean(fit, axis=0)))
    assert after < 0.5 * before


def test_the_sentences_are_nobody_elses():
    own = {stored_line.text for stored_line in settling.read_speech_lines("settling")}
    assert len(own) == 8
    for name in ("tuning", "judged", "second"):
        assert own.isdisjoint(line.text for line in settling.read_speech_lines(name))


def test_what_a_voice_adds_reaches_the_sound(demo, tmp_path, monkeypatch, capsys):
    """And a resumed run takes no chunk that another vector made: the settings hold it."""
    written = []
    # longer than what is measured
    said = (
        "The boat left before sunrise, and nobody saw it until the winter storms had passed over."
    )
    for shift in (0.0, 0.5):
        monkeypatch.setattr(
            "kokoro_ane.runtimes.opened_voice.find_statistics",
            lambda *_, shift=shift: np.full((2, ROWS), shift, np.float32),
        )
        out = tmp_path / f"{shift}.wav"
        text = [said, "--checkpoint", str(DEMO_VOICE), "--runtime", "torch"]
        assert speak([*text, "--voice", "slt", "-o", str(out), "--quiet"]) == 0
        written.append(out.read_bytes())
    assert written[0] != written[1]


def test_the_command_writes_one_file_that_a_checkpoints_folder_may_hold(empty, spoken, capsys):
    folder = str(empty.folder)
    assert settle_command(["slt", "rms", "--checkpoint", folder, "--out", folder]) == 0
    assert printed(capsys)["voices"] == ["slt", "rms"]
    path = empty.folder / name_settled_file(empty.sha256)
    assert len(read_settled(path, PREDICTOR, WEIGHTS).vectors) == 2
    shutil.rmtree(stored.locate_cached(empty, PREDICTOR, "x").parent)
    assert settle(empty, {"rms": empty.library.pack("rms")})["rms"].size
    assert len(spoken) == 2
