"""Keep every measured figure in one file, write the pages' tables from it, and find figures
without a source.

    python docs/figures.py build/quality/KokoroVocoder-kokoro-int8-fp16.json ...
    python docs/figures.py                         # the tables of the pages alone

docs/figures.json has three lists. `levels` are judged levels, as `kokoro-ane quality` wrote them.
`figures` are all other measurements, with command, commit, layout, set and weights, the table that
they are a row of, and the pages whose prose quotes them. `constants` are numbers with a unit that
nobody measured, such as limits, with the reason.

A page marks a table by a comment above it, and its rows below the head are replaced: `<!--
levels: WEIGHTS LAYOUT [SET] -->`, `<!-- whole: WEIGHTS LAYOUT -->`, `<!-- grounds: WEIGHTS ...
-->` or `<!-- figures: TABLE -->`. A number with a unit or a decimal point that stands elsewhere on
a page, and in no record for that page, is an error (exit 1). A pipe's last line is one JSON object.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kokoro_ane.core import (
    EXIT_GOOD,
    EXIT_REJECTED,
    REQUIRED,
    CommandOptions,
    InputError,
    command,
    conclude,
    option,
    parse,
    write_json,
)
from kokoro_g2p.port.text_tables import TEXT_BYTES

DOCS = Path(__file__).resolve().parent
FIGURES = DOCS / "figures.json"
# The log and the reference, which docs/reference.py makes, are no pages of figures.
PAGES = (
    *(DOCS.parent / folder / "README.md" for folder in (".", "g2p", "mlprogram")),
    *(page for page in sorted(DOCS.glob("*.md")) if page.name not in ("LOG.md", "reference.md")),
)
MARK = re.compile(r"(<!-- (levels|grounds|whole|figures): ([^>]*) -->\n)((?:.+\n)*)")
# as tables and the page that plays describe a level
WORDS = MappingProxyType(
    {
        "fp16": "16-bit numbers",
        "w8": "8-bit integers",
        "p6": "indices into tables of 64 values",
        "mixed18": "indices into tables of 8 to 256 values",
        "w8a8": "8-bit integers; a third of the arithmetic reads 8-bit inputs too",
        "p4": "indices into tables of 16 values",
        "w4": "4-bit integers",
    }
)
VERDICTS = MappingProxyType({"SHIP": "ships", "REJECT": "rejected", "UNDECIDED": "undecided"})
ENCODER = ("encoder", "**`mixed`**")  # table and row of the encoder that whole products have
VOICE_BYTES = 30_000  # a voice of a bundle: NAME.style and NAME.statistics

NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
UNIT = r"(?:[kMG]B|dB|µs|ms|s|h|min|minutes|seconds|hours|%|cents|kHz|Hz|times|words/s)"
# Numbers with one unit behind the last of them, a mean with a worst, or a decimal.
FIGURE = re.compile(
    rf"(?<![\w.,^])(?:{NUMBER}(?:(?:; |, | and | or | to | / ){NUMBER})* ?{UNIT}(?![\w^])"
    rf"|{NUMBER} / {NUMBER}|\d+\.\d+(?!\.?\w))"
)
# What is no prose: blocks of code that other tests run, code, targets of links, comments.
NO_PROSE = re.compile(
    r"^```(?:python|swift|yaml|json)\n.*?^```|^```.*?$|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->",
    re.DOTALL | re.MULTILINE,
)
VERSION = re.compile(
    r"\b(?:Apache|arXiv|BS|BY-SA|ExecuTorch|NumPy(?: below)?|P|Python|SSML|TVM|UniDic|coremltools"
    r"|flite|hexgrad|kokoro|misaki|torch|xcframework,|(?:iOS|macOS)(?: from)?)[ .-]\d+(?:\.\w+)+"
    r"(?:(?:,| to| and)+ \d+\.\d+(?:\.\d+)*)*"
)


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


@dataclass(frozen=True)
class Measurement:
    """What was measured, its figure in the cells of a row, and by what. table: whose row it is;
    pages: whose prose quotes it; layout, set, weights: None where it has none. command: None where
    the commit that first has the figure does not say.
    """

    what: str
    figure: tuple[str, ...]
    table: str | None
    command: str | None
    commit: str
    layout: str | None
    set: str | None
    weights: str | None
    pages: tuple[str, ...]


@dataclass(frozen=True)
class UnmeasuredFigure:
    """Numbers with a unit that nobody measured, and why they stand on these pages."""

    figure: tuple[str, ...]
    reason: str
    pages: tuple[str, ...]
    table: None = None


def read_record(path: Path) -> Figures:
    """The figures of a file that `kokoro-ane quality` wrote. Raises InputError for another."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        summary = record["summary"]
        origin = record["provenance"]
        means = {
            name.removeprefix("voice "): values["mcd_increase_db"]
            for name, values in record["means_of"].items()
        }
        # The mean over long clips is no voice's, and has a field of its own.
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
            origin["commit"][:8],
        )
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InputError(f"{path} is no file of `kokoro-ane quality`: {problem!r}") from None


def read_file() -> dict[str, list[dict[str, Any]]]:
    """docs/figures.json, with tuples for lists."""
    # JSON has lists where records have tuples.
    lists = json.loads(FIGURES.read_text(encoding="utf-8"))
    return {
        name: [
            {key: tuple(value) if isinstance(value, list) else value for key, value in one.items()}
            for one in records
        ]
        for name, records in lists.items()
    }


def read_levels() -> dict[tuple[str, str, str, str], Figures]:
    """Every judged level by its key."""
    levels = (Figures(**each) for each in read_file()["levels"])
    return {one.key: one for one in levels}


def read_measurements() -> list[Measurement]:
    """All that was measured besides judged levels."""
    return [Measurement(**each) for each in read_file()["figures"]]


def read_constants() -> list[UnmeasuredFigure]:
    """The numbers that nobody measured."""
    return [UnmeasuredFigure(**each) for each in read_file()["constants"]]


def keep(paths: Sequence[Path]) -> int:
    """Add what files of `kokoro-ane quality` hold to docs/figures.json; return how many."""
    levels = read_levels() | {one.key: one for one in map(read_record, paths)}
    # Sorted by key, so that the file changes only where a figure does.
    write_json(FIGURES, read_file() | {"levels": [asdict(levels[key]) for key in sorted(levels)]})
    return len(paths)


def choose_levels(weights: str, layout: str, texts: str = "both") -> list[Figures]:
    """The levels of some weights on one set or on those that judge, by falling size. Raises
    InputError where none is kept.
    """
    found = [one for one in read_levels().values() if one.key[:3] == (weights, layout, texts)]
    if not found:
        raise InputError(f"docs/figures.json has no level of {weights}, {layout}, {texts}")
    return sorted(found, key=lambda one: -one.megabytes)


def make_level_rows(weights: str, layout: str, texts: str = "both") -> list[list[str]]:
    """A row a level, and one of another noise seed."""
    levels = choose_levels(weights, layout, texts)
    rows = [
        [
            f"`{one.method}`",
            f"{one.megabytes:.1f}",
            f"{one.pesq[0]:.2f} / {one.pesq[1]:.2f}",
            f"{one.mcd_db:.2f}",
            f"{one.increase_db:.3f}",
            f"{one.long_increase_db:.3f}",
            f"{one.voice_increase_db:.3f} ({one.voice})",
            one.verdict,
            one.commit,
        ]
        for one in levels
    ]
    seed = ["*another noise seed*", "", "", f"*{levels[0].seed_mcd_db:.2f}*"]
    return [*rows, seed + [""] * 5]


def make_whole_rows(weights: str, layout: str) -> list[list[str]]:
    """A row a level: its vocoder, and with the encoder `mixed` all that an app loads."""
    (encoder,) = [one for one in read_measurements() if (one.table, one.what) == ENCODER]
    # Encoder, tables of text and one voice, in MB.
    besides_mb = float(encoder.figure[0]) + (TEXT_BYTES["us"] + VOICE_BYTES) / 1e6
    return [
        [
            f"`{one.method}`",
            WORDS[one.method],
            f"{one.megabytes:.1f}",
            f"{one.megabytes + besides_mb:.1f}",
            f"{one.pesq[0]:.2f} / {one.pesq[1]:.2f}",
            VERDICTS[one.verdict],
        ]
        for one in choose_levels(weights, layout)
    ]


def make_ground_rows(*grounds: str) -> list[list[str]]:
    """A row a level: its verdict and its increase of MCD on each set of weights."""
    levels = {
        ground: {one.method: one for one in choose_levels(ground, "streaming")}
        for ground in grounds
    }
    return [
        [f"`{name}`", *(describe_verdict(levels[ground].get(name)) for ground in grounds)]
        for name in levels[grounds[0]]
    ]


def describe_verdict(one: Figures | None) -> str:
    """A cell: verdict, size, increase in dB, and that of long clips."""
    if one is None:
        return "not judged"
    increase = f"{one.increase_db:.3f} ({one.long_increase_db:.3f})"
    # A broken worst clip ends a verdict early, unless all clips are asked for.
    ended = any(reason.startswith("decided after") for reason in one.reasons)
    verdict = f"{one.verdict} after {one.clips} clips" if ended else one.verdict
    return f"{verdict}, {one.megabytes:.1f} MB, {increase}"


def make_measured_rows(heads: Sequence[str], name: str) -> list[list[str]]:
    """A row a measurement. The first column says what was measured; those named command, commit
    and `made by` have what measured it.
    """
    rows = []
    before = ""
    for one in read_measurements():
        if one.table != name:
            continue
        maker = f"`{one.command}` of {one.commit}"
        made = {"command": f"`{one.command}`", "commit": one.commit}
        # What made the row before is not named again.
        made["made by"] = "the same" if maker == before else maker
        before = maker
        cells = iter(one.figure)
        rows.append(
            # A column of makers takes its maker, any other the next cell.
            [one.what, *(made.get(head.split(",")[0]) or next(cells) for head in heads[1:])]
        )
    return rows


ROWS: MappingProxyType[str, Callable[..., list[list[str]]]] = MappingProxyType(
    {"levels": make_level_rows, "whole": make_whole_rows, "grounds": make_ground_rows}
)


def with_rows(mark: re.Match[str]) -> str:
    """A marked table with its head as it stands and its rows from the file."""
    kind = mark[2]
    words = mark[3].split()
    # Head and rule stay as the page has them.
    lines = mark[4].splitlines(keepends=True)[:2]
    heads = [cell.strip() for cell in lines[0].strip("|\n").split("|")]
    rows = make_measured_rows(heads, *words) if kind == "figures" else ROWS[kind](*words)
    for row in rows:
        if len(row) != len(heads):
            raise InputError(f"{mark[1].strip()}: {len(heads)} columns, and a row of {len(row)}")
        lines.append("|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n")
    return mark[1] + "".join(lines)


def with_tables(page: str) -> str:
    """The page with the rows of every marked table written anew."""
    return MARK.sub(with_rows, page)


def find_numbers(cells: Sequence[str]) -> list[str]:
    """All numbers of some cells, as written."""
    return re.findall(NUMBER, " ".join(cells))


def find_measured_numbers(text: str) -> list[str]:
    """The numbers of a text that have a unit or a decimal point, as written."""
    return [number for found in FIGURE.finditer(text) for number in find_numbers([found[0]])]


def extract_prose(page: str) -> str:
    """A page without the rows that the file writes, code, targets of links, and versions."""
    # Rows below a marked head come from the file, and so have a source.
    heads = MARK.sub(lambda mark: mark[4].split("\n")[0], page)
    return VERSION.sub("", NO_PROSE.sub(" ` ", heads))


def find_without_source(name: str, page: str) -> list[str]:
    """The figures in a page's prose that are in no record for it; and the records for it that the
    prose does not quote, those of a table in a part, all others whole.
    """
    text = extract_prose(page)
    shown = find_measured_numbers(text)
    words = set(find_numbers([text]))
    # Of a judged level, prose may quote the size and the MCD of another seed.
    levels = [(f"{one.megabytes:.1f}", f"{one.seed_mcd_db:.2f}") for one in read_levels().values()]
    known = {number for level in levels for number in level}
    unquoted = []
    for one in (*read_measurements(), *read_constants()):
        if name not in one.pages:
            continue
        figures = find_numbers(one.figure)
        known.update(figures)
        parts = [number in words for number in figures]
        if not (any(parts) if one.table else all(parts)):
            unquoted.append(f"not quoted: {' '.join(one.figure)}")
    return [number for number in shown if number not in known] + unquoted


@dataclass(frozen=True)
class FigureOptions(CommandOptions):
    """What is kept."""

    files: list[str] = option("of `kokoro-ane quality`", REQUIRED, "files", nargs="*")


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(FigureOptions, "figures.py", __doc__, argv)
    report: dict[str, Any] = {"kept": keep([Path(name) for name in options.files])}
    lost: dict[str, list[str]] = {}
    for path in PAGES:
        name = path.relative_to(DOCS.parent).as_posix()
        text = path.read_text(encoding="utf-8")
        if (page := with_tables(text)) != text:
            path.write_text(page, encoding="utf-8")
            report[name] = "written"
        if figures := find_without_source(name, page):
            lost[name] = figures
            print(f"{name}: {'; '.join(figures)}", file=sys.stderr)
    if lost:
        report["without_source"] = lost
        return conclude(options, report, EXIT_REJECTED, "figures have no source")
    return conclude(options, report, EXIT_GOOD, "docs/figures.json and the pages agree")


if __name__ == "__main__":
    raise SystemExit(main())
