"""Voices can be listed, and a name that there is not is refused before anything is opened."""

import json
import shutil

import pytest

import kokoro_ane
from kokoro_ane.core.hub import HUB_REPOSITORY
from kokoro_ane.pipeline.speak import main as speak
from kokoro_ane.pipeline.voice_table import main as voices
from tests.commands import printed, refused
from tests.demo_voice import DEMO_VOICE

DEMO = str(DEMO_VOICE)


@pytest.fixture
def nothing_opens(monkeypatch):
    def opened(source=None, thorough=False):
        raise AssertionError("a checkpoint was opened")

    monkeypatch.setattr("kokoro_ane.core.open_checkpoint", opened)


def test_every_voice_says_language_sex_and_where_it_is_from(nothing_opens):
    listed = {voice.name: voice for voice in kokoro_ane.voices()}
    assert len(listed) >= 54
    assert (listed["bf_emma"].language, listed["bf_emma"].sex) == ("en-GB", "female")
    assert (listed["jm_kumo"].language, listed["jm_kumo"].sex) == ("ja", "male")
    assert listed["af_heart"].source == HUB_REPOSITORY
    # those of kokoro-int8 come with this package
    bundled = {voice.name for voice in kokoro_ane.voices("kokoro-int8")}
    assert "af_heart" in bundled
    own = kokoro_ane.voices(DEMO)
    assert [(voice.name, voice.sex, voice.source) for voice in own] == [
        (name, "", DEMO) for name in ("awb", "rms", "slt")
    ]
    assert all(voice.at_hand for voice in own)
    with refused("nowhere holds no voice"):
        kokoro_ane.voices("nowhere")


def test_the_command_lists_them_and_those_of_a_language(capsys, nothing_opens):
    assert voices(["--checkpoint", DEMO]) == 0
    assert [voice["name"] for voice in printed(capsys)["voices"]] == ["awb", "rms", "slt"]
    assert voices(["--language", "EN"]) == 0
    assert {voice["language"] for voice in printed(capsys)["voices"]} == {"en-US", "en-GB"}
    assert voices(["--language", "en-GB"]) == 0
    assert {voice["language"] for voice in printed(capsys)["voices"]} == {"en-GB"}
    assert voices(["--language", "e"]) == 2
    assert "no voice speaks 'e'. There are: en-GB, en-US, es" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, voice, message",
    [
        ("Hello.", "slx", "error: no voice 'slx' in "),
        ("Hello.", "slt(2)+nobody(1)", "error: no voice 'nobody' in "),
        ("Hello. [voice:nobody] Hi.", "slt", "error: no voice 'nobody' in "),
        ("Hello.", "", "error: voice '' is not NAME"),
    ],
)
def test_a_wrong_name_is_refused_before_a_checkpoint_is_opened(
    text, voice, message, nothing_opens, tmp_path, capsys
):
    arguments = [text, "--voice", voice, "--checkpoint", DEMO, "-o", str(tmp_path / "a.wav")]
    assert speak(arguments) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(message)
    assert len(error.splitlines()) == 1
    if "nobody" in error:
        assert error.endswith(". There are: awb, rms, slt")
    with refused(message.removeprefix("error: ")):
        kokoro_ane.stream(text, voice, checkpoint=DEMO)


def test_the_default_checkpoints_voices_need_no_opening(nothing_opens):
    with refused("no voice 'af_hart' in the default checkpoint; did you mean af_heart"):
        kokoro_ane.stream("Hello.", "af_hart")


def test_a_language_is_spoken_by_one_of_its_voices_and_missing_ones_are_named(tmp_path, capsys):
    own = shutil.copytree(DEMO_VOICE, tmp_path / "own")
    flags = ["Hola.", "--dialect", "es", "--runtime", "torch", "-o", str(tmp_path / "a.wav")]
    assert speak([*flags, "--checkpoint", str(own)]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out.splitlines()[-1])["voice"] == "awb"
    assert "speaks es; `python -m kokoro_ane.core.kokoro_int8 --voices all` adds" in output.err
    assert "adds ef_dora, em_alex, em_santa to kokoro-int8: awb does" in output.err
    (voice,) = (own / "voices").glob("slt.*")
    shutil.copy(voice, voice.with_stem("ef_own"))
    assert speak([*flags, "--checkpoint", str(own)]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out.splitlines()[-1])["voice"] == "ef_own"
    assert "speaks es" not in output.err
