"""kokoro-ane g2p: what it prints, how it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kokoro_ane.g2p.__main__ import main

ROOT = Path(__file__).resolve().parents[1]


def spoken(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], dict]:
    assert main(list(arguments)) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    return lines, json.loads(last)


def piped(content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "g2p", *arguments], input=content, cwd=ROOT, capture_output=True, check=False)


def refused(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 2
    lines = done.stderr.decode().strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    return lines[0]


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    lines, summary = spoken(capsys, "Hello, world. The end.")
    assert lines == ["həlˈO, wˈɜɹld.", "ði ˈɛnd."]
    assert summary["phonemes"] == "həlˈO, wˈɜɹld. ði ˈɛnd."
    assert summary["words"] == 7
    assert summary["sources"] == {"gold": 3, "punctuation": 3, "rule": 1}
    assert summary["dropped"] == {}


def test_dialect_and_lexicon(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert spoken(capsys, "Water.", "--dialect", "gb")[0] == ["wˈɔːtə."]
    mine = tmp_path / "my.tsv"
    mine.write_text("Kokoro\tkˈOkəɹO\n", encoding="utf-8")
    assert spoken(capsys, "Kokoro's", "--lexicon", str(mine))[0] == ["kˈOkəɹOz"]


def test_explain_has_a_row_for_every_word(capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = spoken(capsys, "The [Kokoro](/kˈOkəɹO/) 20", "--explain")
    rows = [line.split() for line in lines[2:]]
    assert lines[1].split() == ["text", "spoken", "phonemes", "source", "confidence", "place"]
    assert rows == [
        ["The", "ðə", "rule", "1.00", "0:3"],
        ["Kokoro", "kˈOkəɹO", "override", "1.00", "5:11"],
        ["20", "twenty", "twˈɛnti", "gold", "1.00", "24:26"],
    ]


def test_explain_takes_brackets_for_text(capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = spoken(capsys, "a [bold] word", "--explain")
    assert any("bold" in line for line in lines)


def test_file_stdin_and_argument_say_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "Dr. Smith left. He is back!\n\nThe end\n\n" * 300
    path = tmp_path / "text.txt"
    path.write_text("\ufeff" + text, encoding="utf-8")
    lines, summary = spoken(capsys, text)
    assert spoken(capsys, "--file", str(path))[0] == lines
    done = piped(text.encode(), "-")
    assert done.returncode == 0
    assert done.stdout.decode().splitlines()[:-1] == lines
    assert summary["sentences"] == len(lines) == 900


def test_other_scripts_and_surrogates_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines, summary = spoken(capsys, "Hi привет \udc80 ☃ there")
    assert lines == ["hˈI ðˈɛɹ"]
    assert {"script Cyrillic": 6, "emoji": 1}.items() <= summary["dropped"].items()
    assert sum(summary["dropped"].values()) == 8


def test_long_text_is_not_repeated_in_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, summary = spoken(capsys, "Hello there. " * 10_000)
    assert summary["phonemes"] is None
    assert summary["sentences"] == 10_000


def test_text_and_file_together(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["a", "--file", "b"])
    assert stop.value.code == 2
    assert "not both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "wanted"),
    [
        (b"", [], "the text is empty"), (b" \n ", [], "the text is empty"), ("привет".encode(), [], "only 6 script Cyrillic"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", [], "not UTF-8"), (b"caf\xe9 au lait", [], "not UTF-8"),
        ("héllo".encode("utf-16"), [], "not UTF-8"), (b"ELF\x00\x01", [], "binary"),
        (b"", ["--file", "missing.txt"], "missing.txt"), (b"", ["--file", "docs"], "docs is no file"),
        (b"", ["a", "--lexicon", "missing.tsv"], "cannot read the lexicon"), (b"", [""], "the text is empty"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(content: bytes, arguments: list[str], wanted: str) -> None:
    assert wanted in refused(piped(content, *arguments))
