"""Files of a book: compressed ones, one for each chapter, chapter marks; and the endpoint that the
page shows, as an OpenAI client calls it.
"""

import json
import re
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
import soundfile

import kokoro_ane
from kokoro_ane.pipeline.speak import main as speak
from tests.builds import left_behind
from tests.commands import ROOT, parsed, printed
from tests.demo_voice import DEMO_VOICE

BOOK = "Before all.\n\n# One: <b>Rain</b>\n\nIt rained.\n\nCHAPTER TWO\n\nIt stopped."
DEMO = ["--checkpoint", str(DEMO_VOICE), "--runtime", "torch"]


def say(out, *more):
    assert speak([BOOK, *DEMO, "-o", str(out), *more]) == 0


@pytest.mark.parametrize("suffix, coding", [(".mp3", "MPEG_LAYER_III"), (".opus", "OPUS")])
def test_compressed_files_sound_as_the_wav(suffix, coding, tmp_path):
    say(tmp_path / "a.wav")
    say(tmp_path / f"a{suffix}")
    info = soundfile.info(tmp_path / f"a{suffix}")
    assert (info.subtype, info.samplerate, info.channels) == (coding, 24_000, 1)
    one, other = (soundfile.read(tmp_path / name)[0] for name in ("a.wav", f"a{suffix}"))
    length = min(len(one), len(other))
    assert length > 0.98 * len(one)
    assert np.corrcoef(one[:length], other[:length])[0, 1] > 0.97
    assert (tmp_path / f"a{suffix}").stat().st_size < (tmp_path / "a.wav").stat().st_size / 2


def test_a_file_for_each_chapter(tmp_path, capsys):
    say(tmp_path / "book.wav")
    whole = soundfile.read(tmp_path / "book.wav", dtype="int16")[0]
    capsys.readouterr()
    say(tmp_path / "b.wav", "--split", "chapter", "--timestamps", str(tmp_path / "b.json"))
    files = printed(capsys)["files"]
    names = [f"b-{number:02}.wav" for number in range(3)]
    assert [file["file"] for file in files] == [str(tmp_path / name) for name in names]
    assert left_behind(tmp_path) == ["b-00.wav", "b-01.wav", "b-02.wav", "b.json", "book.wav"]
    # one behind the other they are the whole
    parts = [soundfile.read(tmp_path / name, dtype="int16")[0] for name in names]
    assert np.array_equal(np.concatenate(parts), whole)
    chapters = parsed(tmp_path / "b.json")["chapters"]
    assert [chapter["title"] for chapter in chapters] == ["One: Rain", "CHAPTER TWO"]
    begins = np.cumsum([len(part) for part in parts])[:2] / 24_000
    starts = [chapter["start_s"] for chapter in chapters]
    assert starts == pytest.approx(begins, abs=0.06)
    assert speak([BOOK, *DEMO, "--stream", "--split", "chapter"]) == 2


def test_each_chapter_has_the_loudness_that_was_asked_for(tmp_path, capsys):
    say(tmp_path / "b.wav", "--split", "chapter", "--loudness", "-30")
    levels = [file["loudness_lufs"] for file in printed(capsys)["files"]]
    assert levels == pytest.approx([-30.0] * 3, abs=0.5)


@pytest.mark.parametrize(
    "suffix, marks",
    [
        (".srt", ["<b>One: Rain</b>", "<b>CHAPTER TWO</b>"]),
        (".vtt", ["<c.chapter>One: Rain</c>", "<c.chapter>CHAPTER TWO</c>"]),
    ],
)
def test_subtitles_mark_headings(suffix, marks, tmp_path):
    times = tmp_path / f"b{suffix}"
    say(tmp_path / "b.wav", "--timestamps", str(times))
    lines = times.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("<")] == marks


def test_the_page_shows_an_endpoint_that_speaks(monkeypatch):
    page = (ROOT / "docs/speaking.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(import json\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    load = kokoro_ane.load
    monkeypatch.setattr(kokoro_ane, "load", lambda: load(str(DEMO_VOICE), "torch"), raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    served = {}
    code = code.replace("8880", str(port)).replace(
        "ThreadingHTTPServer((", "server = ThreadingHTTPServer(("
    )
    code = code.replace(").serve_forever()", ")")
    exec(code, served)
    threading.Thread(target=served["server"].serve_forever, daemon=True).start()

    def post(**asked):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/audio/speech", json.dumps(asked).encode()
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.read()

    pcm = np.frombuffer(post(model="kokoro", input="Hello there.", voice="slt"), "<i2")
    expected = kokoro_ane.speak("Hello there.", "slt", checkpoint=str(DEMO_VOICE), runtime="torch")[
        0
    ]
    assert np.abs(pcm / 32767 - expected).max() < 1e-4
    with pytest.raises(urllib.error.HTTPError, match="no voice 'nobody'"):
        post(model="kokoro", input="Hello.", voice="nobody")
    served["server"].shutdown()
