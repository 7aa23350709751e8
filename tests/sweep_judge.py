"""Whether an invocation hurt: a traceback, a hang, a file lost, one where nobody asked, one left behind, words that say nothing.

verdict = judged(case, ended, before, after, root, seconds)      # before, after: scans of World
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from mlprogram.errors import LONGEST_LINE
from tests.sweep_calls import Case
from tests.sweep_child import CRASH, HANG, KILLED, TRACEBACK, WORK, Ended
from tests.sweep_world import USERS, Stat

FAULTS = ("traceback", "hang", "lost", "outside", "leftover", "direct", "unclear")
ASIDE = re.compile(r"(^|/)(\.staged-|\.aside-)|\.part$")


@dataclass(frozen=True)
class Verdict:
    """One case: how it ended and what was wrong with it."""

    number: int
    command: str
    code: int | str
    seconds: float
    faults: dict[str, str] = field(default_factory=dict)
    said: str = ""


def judged(case: Case, ended: Ended, before: dict[str, Stat], after: dict[str, Stat], root: Path, seconds: float) -> Verdict:
    """Every fault by name, with words that are the same for the same cause."""
    faults: dict[str, str] = {}
    if ended.code in (TRACEBACK, CRASH) or "Traceback (most recent" in ended.error or ended.code not in (0, 1, 2, 3, WORK, HANG):
        faults["traceback"] = _cause(ended)
    if ended.code == HANG:
        faults["hang"] = case.command
    places = _places(case, root)
    lost = [name for name in before if after.get(name) != before[name] and _is_lost(name, before, after, places, ended)]
    if lost:
        faults["lost"] = _kind_of(sorted(lost)[0])
    new = [name for name in after if name not in before and not name.startswith("cache")]
    files = [name for name in new if after[name][0] != "folder"]
    left = [name for name in new if ASIDE.search(name) or (name.startswith("tmp/") and name != "tmp/.ses")]
    left += [name for name in files if ended.code == 2 and not _kept(name)]
    if left and ended.trace != KILLED:
        faults["leftover"] = _kind_of(sorted(left)[0])
    outside = [name for name in files if name not in left and not _within(name, places)]
    if outside:
        faults["outside"] = _kind_of(sorted(outside)[0])
    if ended.direct:
        faults["direct"] = _kind_of(ended.direct)
    line = next((told for told in reversed(ended.error.splitlines()) if "error: " in told), "")
    if ended.code == 2 and (not line or (line.startswith("error: ") and len(line) > LONGEST_LINE + len("error: "))):
        faults["unclear"] = line[:80] or ended.error[-80:]
    said = f"{[argument[:300] for argument in case.argv]} {case.damage} -> {ended.code}: {line[:300]}" if faults else ""
    return Verdict(case.number, case.command, ended.code, round(seconds, 3), faults, f"{said}\n{ended.trace[-1500:]}" if faults else "")


def _cause(ended: Ended) -> str:
    """Exception and the last line of ours on its way."""
    text = ended.trace or ended.error
    rooms = "core|g2p|encoder|vocoder|runtimes|pipeline|mlprogram|quantize|eval|bench"
    frames = re.findall(rf'File "[^"]*?/((?:{rooms})/[^"]*)", line (\d+)', text)
    last = (text.strip().splitlines() or [str(ended.code)])[-1]
    return f"{last.split(':')[0][:60]} in {':'.join(frames[-1]) if frames else '?'}"


def _places(case: Case, root: Path) -> list[str]:
    """Where it was asked to write, as names below ROOT."""
    found = []
    for text in case.outputs():
        try:
            place = os.path.realpath(root / "cwd" / Path(text).expanduser())
        except (ValueError, OSError, RuntimeError):
            continue
        found.append(os.path.relpath(place, root))
    return found


def _within(name: str, places: list[str]) -> bool:
    parts = (name, name.partition(".parts/")[0])
    return any(part == place or part.startswith(f"{place}/") for part in parts for place in places if place not in (".", ".."))


def _is_lost(name: str, before: dict[str, Stat], after: dict[str, Stat], places: list[str], ended: Ended) -> bool:
    """Whether this change is a loss: nobody's work changes but a file that was named as output; ours only where it was asked for."""
    if before[name][0] == "folder" and after.get(name, ("",))[0] == "folder":
        return False
    if name.startswith("cache") or "/cache/" in name:
        return False
    users = name.removeprefix("user/") in USERS or name.endswith(("thesis.tex", "notes.txt", ".hidden"))
    if users or not name.startswith("user/"):
        return not (name in places and ended.code in (0, 1, 3))
    if ended.code in (0, 1, 3) and _within(name, places):
        return name not in after and name.endswith("Manifest.json")
    return ".parts/" not in name


def _kept(name: str) -> bool:
    """Figures that an interrupted judge has measured, and finished chunks, are kept on purpose."""
    return "/cache/" in name or ".parts/" in name


def _kind_of(name: str) -> str:
    """The same for the same cause: without random parts."""
    return re.sub(r"\.staged-\w+|tmp\w{8}|[0-9a-f]{12,}", "*", name)
