"""Every command line that README.md and docs/*.md show in a code block parses as it stands, and
those that take seconds are run.

python -m pytest tests/house/test_docs_commands.py -q [-m slow]

A block without a language, or of a shell, that shows a command of this project is a block of
commands: all its lines are tested. Parsed: the command's main with the line's arguments, up to the
end of argument parsing; `make -n` for targets. Run in the fast suite: speaking and describing, in a
scratch folder, with a tiny checkpoint instead of the default and its voice `slt` instead of
Kokoro's. Run in the slow suite: README's blocks to the letter, in a copy of the tree, with the
checkpoint that is available.
"""

import argparse
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kokoro_ane.cli import COMMANDS
from kokoro_ane.cli import main as kokoro_ane
from tests.commands import ROOT, ran, tracked

PAGES = [
    ROOT / "README.md",
    ROOT / "mlprogram" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
# all: the end of one is no beginning
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELLS = ("", "sh", "bash", "shell", "console")
OWN = re.compile(r"(?:.*/)?(?:kokoro-ane|kokoro-g2p|mlprogram|python3?)|make")
JOINTS = {"&&", "||", "|", ";", "&"}
# commands of others; they are not checked, except for a command of this project that they start
FOREIGN = {
    ".": "the environment's activation",
    "aplay": "plays its input",
    "dask": "starts a scheduler and workers: tests/eval/test_cluster.py does, with the same flags",
    "echo": "prints the text to speak",
    "pip": "installs: .ci/stranger does, from a folder of wheels and from an address",
}
NOT_HERE = {  # parsed, not run: part of a line, and why
    "--runtime coreml": "Core ML itself is on a Mac",
    "--runtime onnx": "its files are built and spoken with in tests/runtimes/test_onnx.py",
    "--voice ef_dora": "the demo voice has none of that name",
    "--voices all": "needs npm's registry",
    "Model.mlpackage": "a reader's own model: run in mlprogram/tests/test_programs.py",
    "KokoroVocoder.mlpackage": "a package of the reader's own",
    "--chip": "forecasts of every shape take a minute: mlprogram/tests/test_examine.py",
}
# on these pages
RUN = {"kokoro_ane.pipeline.speak", "mlprogram.__main__", "kokoro_g2p.__main__"}
RUN_PAGES = ("docs/walk.md", "docs/speaking.md", "docs/devices.md", "docs/g2p.md")
VOICE = re.compile(r"(?<=--voice )\S+")


class Parsed(BaseException):
    """The command took its arguments."""


def lines_of(page):
    """Command lines as a reader would type them: without comments, prompts, and the brackets of
    optional parts.
    """
    commands = []
    for block in (
        block
        for language, block in BLOCK.findall(page.read_text(encoding="utf-8"))
        if language in SHELLS
    ):
        lines = [
            line.removeprefix("$ ")
            for line in block.replace("\\\n", " ").splitlines()
            if line.strip() and line.strip()[0] != "#"
        ]
        if any(own_command(part) for line in lines for part in parts_of(line)):
            commands += [
                re.sub(r"(?<=\s)\[(.*?)\]", r"\1", line).split(" #")[0].strip() for line in lines
            ]
    return commands


def parts_of(line):
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # prose with an apostrophe
        return []
    parts = [[]]
    for word in words:
        parts.append([]) if word in JOINTS else parts[-1].append(word)
    return [part for part in parts if part]


# the words from a command of this project on; None where another command stands alone
def own_command(part):
    start = next((place for place, word in enumerate(part) if OWN.fullmatch(word)), None)
    return (
        None
        if start is None or (start and part[0] not in FOREIGN)
        else [Path(part[start]).name, *part[start + 1 :]]
    )


# the module that a command runs, and its arguments
def module_of(words):
    if words[0] == "kokoro-ane":
        return COMMANDS[words[1]][0] if words[1:] and words[1] in COMMANDS else "kokoro_ane", words[
            1:
        ]
    scripts = {"mlprogram": "mlprogram.__main__", "kokoro-g2p": "kokoro_g2p.__main__"}
    if words[0] in scripts:
        return scripts[words[0]], words[1:]
    _, name, *arguments = words[1:] if words[1] == "-m" else ["", *words[1:]]
    name = name.removesuffix(".py").replace("/", ".")
    # the rooms stand in kokoro_ane only where they are installed
    homes = (ROOT, ROOT / "g2p" / "src", ROOT / "mlprogram" / "src")
    tail = name.removeprefix("kokoro_ane.").replace(".", "/")
    places = [home / tail for home in homes]
    if any(place.with_suffix(".py").is_file() for place in places):
        return name, arguments
    assert any(place.is_dir() for place in places), f"there is no {name}"
    return f"{name}.__main__", arguments


LINES = {page.relative_to(ROOT).as_posix(): list(dict.fromkeys(lines_of(page))) for page in PAGES}
SHOWN = list(dict.fromkeys(line for lines in LINES.values() for line in lines))
TO_RUN = [
    line
    for page in RUN_PAGES
    for line in LINES.get(page, [])
    if not any(part in line for part in NOT_HERE)
    and any(
        (words := own_command(part)) and words[0] != "make" and module_of(words)[0] in RUN
        for part in parts_of(line)
    )
]


@pytest.mark.parametrize("line", SHOWN)
def test_a_shown_command_parses(line, monkeypatch, capsys):
    parse = argparse.ArgumentParser.parse_args

    def parsed(self, *arguments):
        parse(self, *arguments)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    assert parts_of(line), line
    for part in parts_of(line):
        words = own_command(part)
        if words is None:
            assert part[0] in FOREIGN, (
                f"{part[0]}: neither a command of this project nor in FOREIGN"
            )
        elif words[0] == "make":
            done = ran("make", "-n", *words[1:])
            assert done.returncode == 0, done.stderr
        else:
            module, arguments = module_of(words)
            with pytest.raises(Parsed):
                code = (
                    kokoro_ane(arguments)
                    if words[0] == "kokoro-ane"
                    else importlib.import_module(module).main(arguments)
                )
                pytest.fail(f"exit {code}: {capsys.readouterr().err}")


@pytest.mark.parametrize(
    "line",
    [
        "kokoro-ane spek Hi",
        "kokoro-ane bundle --methd p6",
        "make vocodr",
        "python eval/qualty.py",
        "cargo x",
    ],
)
def test_a_command_that_does_not_parse_is_found(line, monkeypatch, capsys):
    with pytest.raises((AssertionError, pytest.fail.Exception, SystemExit)):
        test_a_shown_command_parses(line, monkeypatch, capsys)


def test_the_tables_name_only_what_is_shown():
    first = {part[0] for line in SHOWN for part in parts_of(line)}
    assert not set(FOREIGN) - first
    assert not [part for part in NOT_HERE if not any(part in line for line in SHOWN)]
    assert len(SHOWN) > 10
    assert TO_RUN
    assert len(LINES["README.md"]) > 2


@pytest.fixture(scope="module")
def scratch(tiny_checkpoint, tiny_build, tmp_path_factory):
    """A folder with packages, a text, and this project's commands; nothing plays aloud."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "build").mkdir()
    for path in tiny_build.glob("*fp16*"):
        (folder / "build" / path.name).symlink_to(path)
    (folder / "book.txt").write_text("Hello there.")
    (folder / "my.tsv").write_text("kokoro\tkˈOkəɹO\n", encoding="utf-8")
    for name, does in {
        "python": f'{sys.executable} "$@"',
        "kokoro-ane": f'{sys.executable} -m kokoro_ane "$@"',
        "aplay": "cat >/dev/null",
    }.items():
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nexec {does}\n", encoding="utf-8")
        path.chmod(0o755)
    return folder


@pytest.mark.parametrize("line", TO_RUN)
def test_a_quick_command_runs(line, scratch, tiny_checkpoint, monkeypatch, capsys):
    """One command runs in this process, which has its libraries, several in a shell."""
    stands_in = f" --checkpoint {tiny_checkpoint.folder}"
    line = VOICE.sub(
        "slt",
        re.sub(
            r"(kokoro-ane speak|pipeline\.synthesize)\b", lambda match: match[0] + stands_in, line
        ),
    )
    (words, *others) = parts_of(line)
    if not others and words[0] == "kokoro-ane":
        monkeypatch.chdir(scratch)
        assert kokoro_ane(words[1:]) == 0, f"{line}\n{capsys.readouterr().err}"
        return
    environment = os.environ | {
        "PATH": f"{scratch / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    command = [*"bash -o pipefail -c".split(), line]
    done = ran(*command, cwd=scratch, env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.slow
def test_readme_runs_to_the_letter(tmp_path):
    """Its blocks run one after the other in a copy of the tree with this environment, with or
    without the hub; a command on what is never releasable exits 3.
    """
    for name in tracked():
        # the rooms are links in kokoro_ane/
        if not name.startswith(".venv") and ((ROOT / name).is_file() or (ROOT / name).is_symlink()):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name, follow_symlinks=False)
            # older than the environment: make does not renew it
            os.utime(tmp_path / name, (0, 0), follow_symlinks=False)
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"} | {
        "PYTHONPATH": str(tmp_path)
    }
    # the environment has what pip would bring
    for line in (line for line in LINES["README.md"] if not line.startswith("pip ")):
        command = (
            f". .venv/bin/activate 2>/dev/null || PATH={Path(sys.executable).parent}:$PATH; {line}"
        )
        done = ran("bash", "-c", command, cwd=tmp_path, env=environment)
        allowed = (0, 3) if re.search(r"release|bundle", line) else (0,)
        assert done.returncode in allowed, f"{line}: exit {done.returncode}\n{done.stderr[-2000:]}"
