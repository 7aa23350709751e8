"""The two harnesses of `make fuzz`, for two minutes (slow): bad invocations and kills; and the
controls that they must catch.

main(["FILE", "in place" | "careful"]) is a writer with every fault that tests.attacks.kill looks
for, or with none.
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from kokoro_ane.cli import COMMANDS
from kokoro_ane.core.staging import write_json
from tests.attacks.kill import FAULTS as KILL_FAULTS
from tests.attacks.kill import Writer, run_writer
from tests.attacks.sweep import FAULTS, judged
from tests.attacks.sweep_calls import CALLS, Case, actions_of, drawn
from tests.attacks.sweep_world import HANG, TRACEBACK, Ended, World
from tests.commands import ROOT, ran


def counted(place: Path, command: str) -> dict[str, int]:
    """The harness in a process of its own, since it puts stand-ins in place for good; its JSON
    line.
    """
    environment = os.environ | {"TMPDIR": str(place)}
    done = ran(sys.executable, "-m", *command.split(), env=environment)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_bad_invocations(tmp_path: Path) -> None:
    counts = counted(tmp_path, "tests.attacks.sweep --count 120 --seed 1")
    assert counts["cases"] == 120
    assert not any(counts[fault] for fault in FAULTS)


@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    writers = "--command ane --command speak"
    counts = counted(tmp_path, f"tests.attacks.kill {writers} --others 2 --signals 2")
    assert counts["renames"] >= 12
    assert counts["kills"] >= 20
    assert counts["signals"] >= 4
    assert not any(counts[fault] for fault in KILL_FAULTS)


def test_every_command_is_drawn(tmp_path: Path) -> None:
    """From a few hundred numbers: every command, with one to three things wrong, the same again for
    the same number.
    """
    flags = {name: actions_of(Case(0, name, ()).module) for name in CALLS}
    cases = [drawn(0, number, flags, tmp_path) for number in range(600)]
    assert {case.command for case in cases} == set(CALLS) >= set(COMMANDS)
    assert sum(case.damage != () for case in cases) > 150
    assert cases[::50] == [drawn(0, number, flags, tmp_path) for number in range(0, 600, 50)]


def test_security_names_tests_that_exist() -> None:
    """Of every row of its table: `FILE `test_name``, more than one of a file after each other."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("Which test holds")[2]
    rows, seen = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")][2:], 0
    for row in rows:
        for part in row.split(";"):
            text = (
                ROOT / "tests" / "attacks" / f"test_{part.split()[0].rstrip(',')}.py"
            ).read_text(encoding="utf-8")
            for name in re.findall(r"`(test_\w+)`", part):
                assert f"def {name}(" in text, (part.split()[0], name)
                seen += 1
    assert len(rows) == 13
    assert seen > 30


CASE = Case(1, "quality", ("--out", "user/new.json"))
FILE, OTHER = ("file", 1, 1, ""), ("file", 2, 2, "")
CONTROLS = [
    ("traceback", Ended(TRACEBACK, "ValueError: x"), {}, {}),
    ("traceback", Ended(7), {}, {}),
    ("traceback", Ended(-11), {}, {}),
    ("hang", Ended(HANG), {}, {}),
    ("unclear", Ended(2, "oh\n"), {}, {}),
    ("lost", Ended(2, "error: x"), {"user/thesis/chapter.tex": FILE}, {}),
    ("lost", Ended(0), {"user/thesis/chapter.tex": FILE}, {"user/thesis/chapter.tex": OTHER}),
    ("lost", Ended(2, "error: x"), {"user/build/a.json": FILE}, {"user/build/a.json": OTHER}),
    ("outside", Ended(0), {}, {"escaped": FILE}),
    ("leftover", Ended(0), {}, {"user/.staged-abc": FILE}),
    ("direct", Ended(0, events=("user/new.json",)), {}, {}),
    ("leftover", Ended(0), {}, {"tmp/tmpabcdefgh": FILE}),
    ("leftover", Ended(2, "error: x"), {}, {"user/new.json": FILE}),
]


@pytest.mark.parametrize("fault, ended, before, after", CONTROLS)
def test_the_sweep_sees_each_fault(
    fault: str, ended: Ended, before: dict, after: dict, tmp_path: Path
) -> None:
    assert list(judged(CASE, ended, before, after, tmp_path).faults) == [fault]


def test_the_sweep_sees_no_fault_where_there_is_none(tmp_path: Path) -> None:
    case = Case(1, "quality", ("--out", str(tmp_path / "user" / "new.json")))
    assert not judged(
        case, Ended(0), {"user/new.json": FILE}, {"user/new.json": OTHER, "cache/x": FILE}, tmp_path
    ).faults
    assert not judged(
        case, Ended(2, "error: x"), {"user/file": FILE}, {"user/file": FILE}, tmp_path
    ).faults


def main(argv: list[str]) -> int:
    """Write FILE: in place it loses the old one, shows half of the new one and leaves a file
    behind.
    """
    target, text = Path(argv[0]), json.dumps({"a": [1] * 1000})
    if argv[1] == "careful":
        write_json(target, {"a": [1] * 1000})
        return 0
    left = target.with_name(f".staged-{os.getpid()}")
    left.write_text("x")
    target.unlink(missing_ok=True)
    with target.open("w", encoding="utf-8") as stream:
        stream.write(text[:50])
        stream.flush()
        target.with_name("other").open("w").close()
        stream.write(text[50:])
    left.rename(target.with_name("gone"))
    return 0


@pytest.mark.parametrize("how, wrong", [("careful", False), ("in place", True)])
def test_the_kills_see_each_fault(how: str, wrong: bool, tmp_path: Path) -> None:
    world = World(tmp_path / "w")
    for name in ("user", "tmp", "cwd", "cache", "template/user", "template/cache"):
        (world.root / name).mkdir(parents=True)
    counts = run_writer(
        world,
        Writer("control", "tests.attacks.test_sweep", f"{{user}}/x.json '{how}'", "x.json"),
        others=9,
        signals=0,
    )
    assert counts.kills > 2
    assert (
        bool(counts.faults["lost"] or counts.faults["half"]) == bool(counts.faults["left"]) == wrong
    )
