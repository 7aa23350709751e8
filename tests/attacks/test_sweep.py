"""`make fuzz`: bad invocations, drawn by hypothesis, and kills (a few of both in `make test-slow`);
and the controls that they must catch.

main(["FILE", "in place" | "careful"]) is a writer with every fault that tests.attacks.kill looks
for, or with none.
"""

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kokoro_ane.cli import COMMANDS
from kokoro_ane.core.staging import write_json
from tests.attacks import world as world_module
from tests.attacks.kill import POLITE, WRITERS, Kills, Writer
from tests.attacks.sweep import CALLS, Case, drawn, faults_of
from tests.attacks.world import HANG, TRACEBACK, Ended, World, converted, going_to_work
from tests.commands import ROOT

COUNT = int(os.environ.get("COUNT", "0"))  # of bad invocations; then every writer is killed, too


@pytest.fixture(scope="module")
def world(tiny_checkpoint, tiny_build, g2p_weights, tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world") / "w")
    return world.fill(tiny_checkpoint.folder, tiny_build, g2p_weights)


@pytest.mark.slow
@settings(
    max_examples=COUNT or 120, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
@given(
    draw=st.randoms(use_true_random=True),
    stdin=st.sampled_from([b"", b"Hello.", b"\xff\xfe", b"\0", os.fsencode("ü" * 50)]),
)
def test_bad_invocations(world, draw, stdin):
    world.put_back()
    case = drawn(draw, world)
    before = world.scan()
    with going_to_work():
        ended = world.forked(case.argv, stdin)
    assert not faults_of(case, ended, before, world.scan(), world.root), (case, ended)


@pytest.mark.slow
@pytest.mark.parametrize("old", [False, True], ids=["nothing there", "an old one there"])
@pytest.mark.parametrize("name", WRITERS if COUNT else ["ane", "speak"])
def test_kills(name, old, world):
    with converted(world):
        kills = Kills(world, WRITERS[name], old)
        points, last = kills.points(), len(kills.writes)
        for number in points + [n for n in range(0, last, last // 6 or 1) if n not in points]:
            kills.strike(number)
        for number in range(8):
            kills.strike(number * last // 8, POLITE[number % 4])
    assert not kills.faults
    assert kills.counts["renames"] >= 2
    assert kills.counts["kills"] >= 4
    assert kills.counts["signals"] >= 1


def test_every_command_is_drawn():
    assert {call.split()[0] for call in CALLS} == {*COMMANDS, "rules"}


def test_security_names_tests_that_exist():
    """Of every row of its table: `FILE `test_name``, more than one of a file after each other."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("Which test holds")[2]
    rows, seen = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")][2:], 0
    for part in (part for row in rows for part in row.split(";")):
        file = ROOT / "tests" / "attacks" / f"test_{part.split()[0].rstrip(',')}.py"
        for name in re.findall(r"`(test_\w+)`", part):
            assert f"def {name}(" in file.read_text(encoding="utf-8"), (file, name)
            seen += 1
    assert len(rows) == 13
    assert seen > 30


CASE = Case(["quality", "--out", "user/new.json"], [])
THESIS = {"user/thesis/chapter.tex": b"1"}
BUILT, REFUSED = {"user/build/a.json": b"1"}, Ended(2, "error: x")
CONTROLS = [
    ("traceback", Ended(TRACEBACK, "ValueError: x"), {}, {}),
    ("traceback", Ended(7), {}, {}),
    ("traceback", Ended(-11), {}, {}),
    ("hang", Ended(HANG), {}, {}),
    ("unclear", Ended(2, "oh\n"), {}, {}),
    ("lost", REFUSED, THESIS, {}),
    ("lost", Ended(0), THESIS, {"user/thesis/chapter.tex": b"2"}),
    ("lost", REFUSED, BUILT, {"user/build/a.json": b"2"}),
    ("outside", Ended(0), {}, {"escaped": b""}),
    ("leftover", Ended(0), {}, {"user/.staged-abc": b""}),
    ("direct", Ended(0, "", ("open new.json",)), {}, {}),
    ("leftover", Ended(0), {}, {"tmp/tmpabcdefgh": b""}),
    ("leftover", REFUSED, {}, {"user/new.json": b""}),
]


@pytest.mark.parametrize("fault, ended, before, after", CONTROLS)
def test_the_sweep_sees_each_fault(fault, ended, before, after, tmp_path):
    assert list(faults_of(CASE, ended, before, after, tmp_path)) == [fault]


def test_the_sweep_sees_no_fault_where_there_is_none(tmp_path):
    case = Case(["quality", "--out", str(tmp_path / "user" / "new.json")], [])
    after = {"user/new.json": b"2", "cache/x": b""}
    assert not faults_of(case, Ended(0), {"user/new.json": b"1"}, after, tmp_path)
    assert not faults_of(case, REFUSED, THESIS, THESIS, tmp_path)


def main(argv):
    """Write FILE: in place it loses the old one, shows half of the new one and leaves a file
    behind.
    """
    target = Path(argv[0])
    if argv[1] == "careful":
        write_json(target, {"a": [1] * 1000})
        return 0
    left = target.with_name(f".staged-{os.getpid()}")
    left.write_text("x")
    target.unlink(missing_ok=True)
    with target.open("w", encoding="utf-8") as stream:
        stream.write('{"a": 1')
        stream.flush()
        target.with_name("other").open("w").close()
        stream.write("}")
    left.rename(target.with_name("gone"))
    return 0


@pytest.mark.parametrize("how, wrong", [("careful", False), ("in place", True)])
def test_the_kills_see_each_fault(how, wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(world_module, "kokoro_ane", main)
    world = World(tmp_path / "w")
    world.root.rename(world.template)
    faults, killed = [], 0
    for old in (False, True):
        kills = Kills(world, Writer(f"{{user}}/x.json '{how}'", "x.json"), old)
        for number in range(len(kills.writes)):
            kills.strike(number)
        killed, faults = killed + kills.counts["kills"], faults + kills.faults
    assert killed > 2
    assert any(fault.startswith(("lost", "half")) for fault in faults) == wrong
    assert any(fault.startswith("left") for fault in faults) == wrong
