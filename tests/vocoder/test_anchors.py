"""Anchors: three sentences settle a bundled voice on weights that lie near the bundled ones, and
eight do where the three disagree.

python -m pytest tests/vocoder/test_anchors.py [--slow]
"""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import open_checkpoint, voice_sha256
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.kokoro_int8.cache import (
    CONFIG,
    DATA,
    PACKED,
    WEIGHTS_SHA256,
    list_bundled_voices,
    unpack_voice,
)
from kokoro_ane.core.kokoro_int8.shaken import write_shaken
from kokoro_ane.core.voices import style_path
from kokoro_ane.speech import settling
from kokoro_ane.speech.corpus import read_speech_lines
from kokoro_ane.speech.settling import AGREEMENT, Settling, fit_line, move_line, settle
from kokoro_ane.vocoder.streaming import anchors
from kokoro_ane.vocoder.streaming.anchors import (
    ANCHORED,
    Anchor,
    find_anchor,
    locate_anchors,
    write_anchors,
)
from kokoro_ane.vocoder.streaming.norm_statistics import require_predictor
from tests.commands import refused
from tests.demo_voice import DEMO_VOICE

DEMO = open_checkpoint(str(DEMO_VOICE))
PREDICTOR = require_predictor(DEMO)
ROWS = len(PREDICTOR.bias)
PHONEMES = [80, 90, 200]


@pytest.fixture
def pack():
    """A pack whose style moves along a line with the length, as Kokoro's do."""
    pack = DEMO.library.pack("slt").copy()
    pack[:, 0, 3] += np.sqrt(np.arange(510, dtype=np.float32)) / 10
    return pack


@pytest.fixture
def anchor():
    draw = np.random.default_rng(0)
    line = draw.normal(size=(2, ROWS)).astype(np.float32)
    return Anchor(line, draw.normal(scale=0.01, size=(3, ROWS)).astype(np.float32))


def move(anchor, pack, start, change, spread):
    """The residuals of weights that add a line to every sentence, and to each by chance."""
    along = style_path(pack)[np.array(PHONEMES) - 1]
    chance = np.random.default_rng(1).normal(scale=spread, size=(3, ROWS))
    return anchor.compute_residuals(along) + start + change * along[:, None] + chance


def test_sentences_that_move_along_a_line_move_the_anchors_line(anchor, pack):
    line = move_line(pack, PHONEMES, move(anchor, pack, 0.3, -0.1, 0.0), anchor)
    assert np.allclose(line - anchor.line, [[0.3], [-0.1]], atol=1e-5)


@pytest.mark.parametrize("spread, agree", [(0.8 * AGREEMENT, True), (1.2 * AGREEMENT, False)])
def test_sentences_agree_to_half_of_the_predictors_error(anchor, pack, spread, agree):
    line = move_line(pack, PHONEMES, move(anchor, pack, 0.3, -0.1, spread), anchor)
    assert (line is not None) == agree


def test_a_pack_of_one_style_is_moved_by_one_vector(anchor):
    pack = DEMO.library.pack("slt")
    line = move_line(pack, PHONEMES, move(anchor, pack, 0.3, 0.0, 0.0), anchor)
    assert np.allclose(line[0] - anchor.line[0], 0.3, atol=1e-5)


@pytest.mark.parametrize(
    "spread, spoken", [(0.0, [*ANCHORED]), (0.1, [*ANCHORED, 1, 3, 5, 6, 7])], ids=["near", "far"]
)
def test_three_sentences_are_spoken_and_the_others_where_they_disagree(
    spread, spoken, anchor, pack, monkeypatch, tmp_path
):
    asked = []

    def told(self, name, pack, lines):
        asked.extend(lines)
        few = PHONEMES if tuple(lines) == ANCHORED else [100, 120, 140, 300, 380]
        residuals = move(anchor, pack, 0.3, 0.0, spread)
        return few, np.resize(residuals, (len(few), ROWS))

    monkeypatch.setenv("KOKORO_ANE_CACHE", str(tmp_path))
    monkeypatch.setattr(Settling, "measure_residuals", told)
    monkeypatch.setattr(settling, "find_anchor", lambda *_: anchor)
    settle(DEMO, {"slt": pack})
    assert asked == spoken


def test_what_is_written_is_found_by_the_voices_hash(anchor, monkeypatch, tmp_path):
    monkeypatch.setattr(anchors, "DATA", tmp_path)
    monkeypatch.setattr(anchors, "read_bundled", lambda *_: {"ours": anchor.line})
    write_anchors(locate_anchors(PREDICTOR), PREDICTOR, DEMO.sha256, {"ours": anchor})
    found = find_anchor(PREDICTOR, "ours")
    # half a step of a log variance
    assert np.abs(found.deviations - anchor.deviations).max() <= 1 / 1024 + 1e-6
    assert find_anchor(PREDICTOR, "another's") is None


def test_a_damaged_file_is_one_line_that_names_it(anchor, monkeypatch, tmp_path):
    monkeypatch.setattr(anchors, "DATA", tmp_path)
    path = locate_anchors(PREDICTOR)
    write_anchors(path, PREDICTOR, DEMO.sha256, {"ours": anchor})
    path.write_bytes(path.read_bytes()[:-40])
    refused(f"{path.name} cannot be read", find_anchor, PREDICTOR, "ours")


def test_every_bundled_voice_has_an_anchor():
    kokoro = replace(DEMO, config=KokoroConfig.load(DATA / CONFIG), sha256=WEIGHTS_SHA256)
    predictor = require_predictor(kokoro)
    for name in list_bundled_voices():
        packed = (DATA / "voices" / f"{name}{PACKED}").read_bytes()
        voice = hashlib.sha256(unpack_voice(packed)).hexdigest()
        assert find_anchor(predictor, voice) is not None, name


@pytest.mark.slow
def test_three_sentences_settle_shaken_weights_as_eight_do(tmp_path):
    """Their line is nearer to that of all eight sentences than four of the eight are."""
    write_shaken(tmp_path / "shaken", 2)
    checkpoint = open_checkpoint(str(tmp_path / "shaken"))
    predictor = require_predictor(checkpoint)
    pack = checkpoint.library.pack("am_michael")
    lines = dict(enumerate(read_speech_lines("settling")))
    phonemes, residuals = Settling(checkpoint, predictor).measure_residuals(
        "am_michael", pack, lines
    )
    along = style_path(pack)[np.array(phonemes) - 1]

    def compare(line):
        start, change = line - fit_line(pack, phonemes, residuals)
        return np.sqrt(np.square(start + along[:, None] * change)[:, ROWS // 2 :].mean())

    three = [phonemes[number] for number in ANCHORED]
    anchor = find_anchor(predictor, voice_sha256(pack))
    moved = move_line(pack, three, residuals[[*ANCHORED]], anchor)
    four = fit_line(pack, phonemes[::2], residuals[::2])
    assert compare(moved) < compare(four)
