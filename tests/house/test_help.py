"""Help of the commands that most people type fits a terminal of 80 by 24."""

import pytest

from kokoro_ane.cli import main
from kokoro_g2p.alphabet import LANGUAGES_READ


def help_of(verb, flag, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    pytest.raises(SystemExit, main, [verb, flag])
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", ["speak", "quality", "release"])
def test_help_fits_a_terminal_and_help_all_has_the_rest(verb, capsys, monkeypatch):
    short = help_of(verb, "--help", capsys, monkeypatch)
    lines = short.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "--help-all shows all options"
    every = help_of(verb, "--help-all", capsys, monkeypatch)
    assert len(every.splitlines()) > len(lines) + 4
    for flag in ("--seed", "--layout"):
        assert flag in every
        assert flag not in short


def test_dialect_names_every_language(capsys, monkeypatch):
    assert ", ".join(LANGUAGES_READ) in help_of("speak", "--help", capsys, monkeypatch)
