"""Keep the figures of judged levels in one file, and write the pages' tables from it.

    python docs/figures.py build/quality/KokoroVocoder-kokoro-int8-fp16.json ...
    python docs/figures.py                         # the tables of the pages alone

docs/figures.json has a record for each level on each set of weights, in each layout and set of
sentences, with the commit that measured it. A page marks where a table stands by a comment,
`<!-- levels: WEIGHTS LAYOUT -->` or `<!-- grounds: WEIGHTS WEIGHTS -->`; what stands below it up to
an empty line is replaced. A test holds that the pages show what the file has. A pipe's last line is
one JSON object.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kokoro_ane.core import (
    EXIT_GOOD,
    REQUIRED,
    CommandOptions,
    InputError,
    command,
    conclude,
    option,
    parse,
    write_json,
)

DOCS = Path(__file__).resolve().parent
FIGURES = DOCS / "figures.json"
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")))
MARK = re.compile(r"(<!-- (levels|grounds): ([^>]*) -->\n)((?:.+\n)*)")
# as tables name the weights
WEIGHTS = MappingProxyType({"kokoro-shaken0": "shaken, seed 0"})


@dataclass(frozen=True)
class Figures:
    """What a level measured. pesq: mean and worst. increase_db: of MCD over that of 32-bit numbers;
    long_increase_db: over the clips longer than 4.5 s; voice_increase_db: over those of the worst
    voice.
    """

    weights: str
    layout: str
    set: str
    method: str
    megabytes: float
    clips: int
    pesq: tuple[float, float]
    mcd_db: float
    seed_mcd_db: float
    increase_db: float
    long_increase_db: float
    voice: str
    voice_increase_db: float
    verdict: str
    reasons: tuple[str, ...]
    commit: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What is replaced by a later measurement."""
        return self.weights, self.layout, self.set, self.method


def read_record(path: Path) -> Figures:
    """The figures of a file that `kokoro-ane quality` wrote. Raises InputError for another."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        summary, origin = record["summary"], record["provenance"]
        means = {
            name.removeprefix("voice "): values["mcd_increase_db"]
            for name, values in record["means_of"].items()
        }
        (long,) = (means.pop(name) for name in list(means) if name.startswith("clips longer"))
        voice = max(means, key=lambda name: means[name])
        layout = "padded" if "-padded-" in origin["package"] else "streaming"
        pesq = summary["pesq"]
        return Figures(
            origin["checkpoint"]["name"],
            layout,
            origin["set"],
            record["method"],
            round(record["bytes"] / 1e6, 1),
            len(record["clips"]),
            (round(pesq["mean"], 2), round(pesq["worst"], 2)),
            round(summary["mcd_db"]["mean"], 2),
            round(summary["mcd_db"]["variation_mean"], 2),
            round(summary["mcd_increase_db"]["mean"], 3),
            round(long, 3),
            voice,
            round(means[voice], 3),
            record["verdict"],
            tuple(record["reasons"]),
            origin["commit"],
        )
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InputError(f"{path} is no file of `kokoro-ane quality`: {problem!r}") from None


def kept() -> dict[tuple[str, str, str, str], Figures]:
    """Every record of docs/figures.json by its key."""
    records = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else []
    found = (
        Figures(**each | {"pesq": tuple(each["pesq"]), "reasons": tuple(each["reasons"])})
        for each in records
    )
    return {one.key: one for one in found}


def keep(paths: Sequence[Path]) -> int:
    """Add what files of `kokoro-ane quality` hold to docs/figures.json; return how many."""
    records = kept() | {one.key: one for one in map(read_record, paths)}
    write_json(FIGURES, [asdict(records[key]) for key in sorted(records)])
    return len(paths)


def chosen(weights: str, layout: str) -> list[Figures]:
    """The levels of some weights on all sets, by falling size. Raises InputError where none is
    kept.
    """
    found = [one for one in kept().values() if one.key[:3] == (weights, layout, "both")]
    if not found:
        raise InputError(f"docs/figures.json has no level of {weights}, {layout}")
    return sorted(found, key=lambda one: -one.megabytes)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def level_table(weights: str, layout: str) -> str:
    """A row a level, and one of another noise seed."""
    heads = "level", "size, MB", "PESQ mean / worst", "MCD, dB", "its increase, dB"
    heads += "in clips over 4.5 s", "in the worst voice", "verdict"
    levels = chosen(weights, layout)
    rows = [
        (
            f"`{one.method}`",
            f"{one.megabytes:.1f}",
            f"{one.pesq[0]:.2f} / {one.pesq[1]:.2f}",
            f"{one.mcd_db:.2f}",
            f"{one.increase_db:.3f}",
            f"{one.long_increase_db:.3f}",
            f"{one.voice_increase_db:.3f} ({one.voice})",
            one.verdict,
        )
        for one in levels
    ]
    seed = f"*{levels[0].seed_mcd_db:.2f}*"
    return table(heads, [*rows, ("*another noise seed*", "", "", seed, "", "", "", "")])


def ground_table(*grounds: str) -> str:
    """A row a level: its verdict and its increase of MCD on each set of weights."""
    levels = {
        ground: {one.method: one for one in chosen(ground, "streaming")} for ground in grounds
    }
    heads = ["level", *(WEIGHTS.get(ground, ground) for ground in grounds)]
    names = list(levels[grounds[0]])
    rows = [
        [f"`{name}`", *(told(levels[ground].get(name)) for ground in grounds)] for name in names
    ]
    return table(heads, rows)


def told(one: Figures | None) -> str:
    """A cell: verdict, increase, and that of long clips."""
    if one is None:
        return "not judged"
    return f"{one.verdict}, {one.increase_db:.3f} dB ({one.long_increase_db:.3f} in long clips)"


TABLES: MappingProxyType[str, Callable[..., str]] = MappingProxyType(
    {"levels": level_table, "grounds": ground_table}
)


def with_tables(page: str) -> str:
    """The page with every marked table written anew."""
    return MARK.sub(lambda found: found[1] + TABLES[found[2]](*found[3].split()), page)


@dataclass(frozen=True)
class FigureOptions(CommandOptions):
    """What is kept."""

    files: list[str] = option("of `kokoro-ane quality`", REQUIRED, "files", nargs="*")


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(FigureOptions, "figures.py", __doc__, argv)
    report: dict[str, Any] = {"kept": keep([Path(name) for name in options.files])}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (written := with_tables(text)) != text:
            page.write_text(written, encoding="utf-8")
            report[page.name] = "written"
    return conclude(options, report, EXIT_GOOD, "docs/figures.json and the pages agree")


if __name__ == "__main__":
    raise SystemExit(main())
