"""How commands end: a person at a terminal reads the exit code and what it means, a pipe and --json
get one JSON object, and what a judgement shows fits on a screen of 80 by 24.
"""

import argparse
import fcntl
import io
import json
import os
import pty
import re
import struct
import sys
import termios
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console

from kokoro_ane.core.commands import (
    REQUIRED,
    CommandOptions,
    conclude,
    exit_of,
    layout_option,
    option,
    parse,
)
from kokoro_ane.eval import terminal
from kokoro_ane.eval.gates import select_gates
from kokoro_ane.eval.judge import judge_results
from kokoro_ane.eval.terminal import explain_exit, print_judgement, print_release
from tests.commands import ROOT, table, tracked
from tests.eval.release_build import clips, level, made_up

COLUMNS, ROWS = 80, 24


@dataclass(frozen=True)
class Drawn(CommandOptions):
    """Options of every kind."""

    level: str = option("level", REQUIRED, choices=("w8", "p6"))
    text: str | None = option("what to say", None, "text", nargs="?")
    out: Path = option("file", Path("x.json"), "-o", "--out")
    speed: float = option("of speech", 1.0)
    quiet: bool = option("no bar", True)
    trim: bool | None = option("cut silence (default: with --stream)")
    settings: tuple[str, ...] = option("a trial", (), "--set", action="append")
    size: int | None = option("budget", exclusive="budget")
    macs: int | None = option("budget", exclusive="budget")
    layout: str = layout_option()


@table(
    "line changes",
    """
    --level w8 | {}
    --level p6 Hi. | {"level": "p6", "text": "Hi."}
    --level w8 --speed 2 --quiet | {"speed": 2.0, "quiet": true}
    --level w8 --no-trim --json | {"trim": false, "json": true}
    --level w8 --set a=1 --set b=2 | {"settings": ["a=1", "b=2"]}
    --level w8 --size 3 --without-sine | {"size": 3, "layout": "streaming-poly"}
""",
)
def test_fields_are_flags(line, changes):
    usual = Drawn(level="w8", quiet=False)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()}
    assert parse(Drawn, "draw", None, line.split()) == replace(usual, **values)


@table(
    "line message",
    """
    | --level
    --level w9 | invalid choice: 'w9'
    --level w8 --speed fast | invalid float value
    --level w8 --size 1 --macs 2 | not allowed with argument --size
""",
)
def test_other_flags_are_refused(line, message, capsys):
    pytest.raises(SystemExit, parse, Drawn, "draw", None, line.split()).match("2")
    assert message in capsys.readouterr().err


def test_help_names_defaults_once(capsys):
    pytest.raises(SystemExit, parse, Drawn, "draw", None, ["--help"]).match("0")
    text = " ".join(capsys.readouterr().out.split())
    for part in ("of speech (default: 1.0)", "file (default: x.json)", "with --stream) --set"):
        assert part in text
    assert "(default: True)" not in text


def on_a_terminal(*command):
    """The lines that a command shows on a terminal of 80 by 24, and its exit code."""
    child, terminal_end = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "kokoro_ane", *command])
    fcntl.ioctl(terminal_end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    shown = b""
    # A terminal whose last writer has gone is an error of the reader's, not an end of file.
    try:
        while block := os.read(terminal_end, 1 << 16):
            shown += block
    except OSError:
        pass
    os.close(terminal_end)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return shown.decode().replace("\r\n", "\n").splitlines(), code


@pytest.mark.parametrize("flag", ["", "--json"])
def test_a_person_reads_the_code_in_words_and_json_where_it_is_asked_for(flag):
    lines, code = on_a_terminal(*f"g2p Hello. {flag}".split())
    objects = [json.loads(line)["symbols"] for line in lines if line.startswith("{")]
    assert code == 0
    assert "exit 0: 6 phonemes; sentences: 1" in lines[-2:]
    assert objects == ([6] if flag else [])


@pytest.mark.parametrize(("encoding", "phoneme"), [("utf-8", "ə"), ("ascii", "\\u0259")])
def test_a_pipe_gets_one_json_object(encoding, phoneme, monkeypatch):
    pipe = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", pipe)
    assert conclude(argparse.Namespace(), {"phoneme": "ə"}, 1, "rejected") == 1
    pipe.seek(0)
    assert pipe.read() == f'{{"phoneme": "{phoneme}"}}\n'


def test_a_level_that_ships_is_good_and_a_release_of_it_may_be_open():
    """`quality` asks the first, `release` and `bundle` the second."""
    assert [exit_of(verdict) for verdict in ("SHIP", "REJECT", "UNDECIDED")] == [0, 1, 3]
    assert [exit_of(verdict, False) for verdict in ("SHIP", "REJECT", "UNDECIDED")] == [3, 1, 3]


def test_every_command_ends_in_the_one_place():
    """No file prints a report by itself; each distribution has one place that does."""
    names = [name for name in tracked() if name.endswith(".py") and "tests/" not in name]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    printing = [name for name, text in texts.items() if re.search(r"print\(\s*json\.dumps", text)]
    silent = [n for n, text in texts.items() if "\n@command\n" in text and "conclude(" not in text]
    # To a log, and to stderr while a network is trained.
    assert printing == [
        "core/commands.py",
        "g2p/src/kokoro_g2p/commands.py",
        "g2p/src/kokoro_g2p/training/g2p_network.py",
        "g2p/src/kokoro_g2p/training/languages.py",
        "mlprogram/src/mlprogram/errors.py",
    ]
    assert silent == []


def screen(monkeypatch):
    """What the judge's tables are printed on: a terminal of 80 by 24."""
    file = io.StringIO()
    console = Console(file=file, width=COLUMNS, height=ROWS, force_terminal=True, color_system=None)
    monkeypatch.setattr(terminal, "open_console", lambda _: console)
    monkeypatch.setattr("builtins.print", lambda *words: console.print(*words, soft_wrap=True))
    return file


def lines_on(file):
    """How many lines of the terminal that takes."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in file.getvalue().splitlines())


def judged(name, damage):
    """A level of kokoro-int8, judged on clips that lie so many limits from perfect."""
    judgement = judge_results(select_gates(name), clips(damage))
    why = "kokoro-int8 has rounded weights: for trying and testing; release from the hub's"
    made = {"package_bytes": 54_700_000, "precision": "declared", "features": "PyTorch fp32"}
    made |= {"packages": [f"KokoroVocoder-kokoro-int8-{name}.mlpackage"], "set": "judged"}
    record = {"stage": "vocoder", "releasable": False, "withheld": why, "provenance": made}
    return level(name, damage) | judgement.record() | record


@table(
    "name damage",
    """
    p6 | 0.3
    w8a8 | 0.9
    p4 | 3.0
""",
)
def test_a_judgement_fits_on_a_screen(name, damage, monkeypatch):
    """With the exit line and the prompt: the verdict first, then what is nearest to a limit."""
    file, one = screen(monkeypatch), judged(name, damage)
    print_judgement(one, Path(f"build/quality/KokoroVocoder-kokoro-int8-{name}.json"))
    print(f"exit {exit_of(one['verdict'])}: {explain_exit(one)}")
    shown = file.getvalue()
    assert shown.startswith(f"{one['verdict']}  {name}, clips: 24\n")
    assert lines_on(file) < ROWS
    # What decides is shown, what decides nothing is in the file.
    assert "\nroughness" in shown
    assert f"more metrics: build/quality/KokoroVocoder-kokoro-int8-{name}.json" in shown


def test_all_levels_fit_on_a_screen(monkeypatch):
    damages = {"fp16": 0.01, "w8": 0.1, "p8": 0.1, "p6": 0.3, "p4": 3.0}
    damages |= {"w4": 2.0, "w8a8": 0.8, "mixed": 0.7}
    file = screen(monkeypatch)
    print_release(made_up(damages, "kokoro-int8 is not releasable"))
    print(
        "exit 3: p6 ships and may not be released; every figure is in build/release/decision.json"
    )
    shown = file.getvalue()
    assert all(f"\n{name} " in shown for name in damages)
    assert lines_on(file) < ROWS
