"""Choose the compression level to release: judge every level on the same clips, print one table,
name one level and say why.

    kokoro-ane release [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] [--build build]
    # a recipe is searched on tuning sentences: docs/quantization.md
    kokoro-ane release --smallest
    kokoro-ane release --at-most 40
    # a level a stage, judged together: docs/metrics.md
    kokoro-ane release --product [--encoders w8g] [--methods p6]
    # the encoder is searched, and then the vocoder in what it leaves of the budget
    kokoro-ane release --product --at-most 65

Packages that are missing are built first. What was measured before is read from
BUILD/release/cache: an interrupted run goes on where it stopped. Exit 0: the named level may be
released. Exit 1: no level ships. Exit 2: bad input. Exit 3: undecided, or not releasable
(kokoro-int8 is judged like the hub's weights and never released). A pipe's last line is one JSON
object; all of it is in BUILD/release/decision.json (with --product, product.json).
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import (
    InputError,
    command,
    conclude,
    exit_of,
    level_name,
    option,
    parse,
    require_installed,
)
from kokoro_ane.eval.session import PYTORCH, SessionOptions, open_session
from kokoro_ane.eval.subjects import ENCODER
from kokoro_ane.pipeline import read_decision
from kokoro_ane.quantize import CHOICES, METHODS, Method, default_layout, find_method, parse_level
from mlprogram import load_rules

if TYPE_CHECKING:
    from kokoro_ane.eval.decision import Choice

ENCODERS = "mixed,w8g,lossless"  # of a product


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(SessionOptions):
    """What is chosen among; a name of `methods` may have its layout before it."""

    methods: str | None = option(
        "levels to judge, with commas: w8,padded-w8 (default: all of the layout:"
        f" {','.join(METHODS)})"
    )
    smallest: bool = option(
        "search the smallest level that ships", False, exclusive="size of a search"
    )
    at_most: float | None = option(
        "search the best level of at most so many MB", metavar="MB", exclusive="size of a search"
    )
    product: bool = option("levels of encoder and vocoder that ship, combined", False)
    encoders: str = option(
        f"with --product: levels of the encoder, with commas (default: {ENCODERS}; of a search"
        " also the one that it finds, searched)",
        "",
        rare=True,
    )
    chip: str = option("chip of the Neural Engine column", "m4", metavar="CHIP")
    no_build: bool = option("judge only the packages that are there", False, rare=True)
    out: Path | None = option("folder for all of it (default: BUILD/release)", metavar="FOLDER")

    @property
    def searches(self) -> bool:
        """Whether a recipe is searched."""
        return self.smallest or self.at_most is not None


def parse_levels(options: ReleaseOptions, layout: str) -> list[tuple[Method, str]]:
    """Methods and layouts of --methods, else all of the layout, or of a product those that ship."""
    if options.searches:
        names = (options.methods or "mixed18").split(",")
        chosen = [parse_level(name, layout) for name in names]
        by_recipe = [name for name in CHOICES if name in METHODS]
        if unknown := [method.name for method, _ in chosen if method.name not in by_recipe]:
            raise InputError(
                f"--methods {unknown[0]}: a recipe is searched for {' or '.join(by_recipe)}"
            )
        return chosen
    if options.methods:
        return [parse_level(name, layout) for name in options.methods.split(",")]
    if options.product:
        return read_shipping_vocoders(options.build, layout)
    return [(method, layout) for method in METHODS.values()]


def combine_products(
    options: ReleaseOptions, levels: list[tuple[Method, str]]
) -> list[tuple[Any, Any]]:
    """Every encoder of --encoders with every vocoder of these levels; of a search, all encoders."""
    if options.features != PYTORCH:
        raise InputError("--features belongs to levels: a product's are its own encoder's")
    usual = f"searched,{ENCODERS}" if options.searches else ENCODERS
    names = (options.encoders or usual).split(",")
    encoders = [find_method(name, ENCODER).name for name in names]
    if options.searches:
        return [(encoders, level) for level in levels]
    vocoders = [level_name(method.name, layout) for method, layout in levels]
    return [(encoder, vocoder) for encoder in encoders for vocoder in vocoders]


def read_shipping_vocoders(build: Path, layout: str) -> list[tuple[Method, str]]:
    """Levels of the layout that BUILD/release/decision.json lets ship; fp16, which is then named as
    unjudged, where there are none.
    """
    from kokoro_ane.eval.judge import SHIP

    path = build / "release" / "decision.json"
    levels = read_decision(path)["levels"] if path.is_file() else []
    ship = [parse_level(level["method"]) for level in levels if level["verdict"] == SHIP]
    fit = [level for level in ship if level[1] == layout and not level[0].unfit_for_engine]
    return fit or [parse_level("fp16", layout)]


def choose_release(options: ReleaseOptions) -> "tuple[Choice, dict[str, Any], Path]":
    """Judge every level, or every product, and choose: the choice, the whole decision, and its
    file.

    Raises InputError: an unknown name, no level that could be judged.
    """
    from kokoro_ane.core import (
        check_implied,
        json_of,
        open_checkpoint,
        quiet_coremltools,
        write_json,
    )

    require_installed("the judge", "judge")
    file = "product.json" if options.product else "decision.json"
    if options.searches and options.no_build:
        raise InputError("a search builds levels of the vocoder: no --no-build")
    if options.at_most is not None and not options.at_most > 0:
        raise InputError(f"--at-most {options.at_most:g}: give a size in MB")
    ours = json_of("verdict", "provenance")
    folder = options.out or options.build / "release"
    out = folder / file
    cache = folder / "cache"
    check_implied(out, ours)
    checkpoint = open_checkpoint(options.checkpoint, thorough=True)
    named = parse_levels(options, options.layout or default_layout(checkpoint))
    names: Any = combine_products(options, named) if options.product else named
    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.eval.decision import build_decision_record, build_product_record, choose
        from kokoro_ane.eval.levels import judge_all, judge_by_stages, judge_method
        from kokoro_ane.eval.store import explain_withheld
    judge: Any = judge_by_stages if options.product else judge_method
    record_of = build_product_record if options.product else build_decision_record
    searched: dict[str, Any] = {}
    with open_session(options, checkpoint, cache, not options.no_build) as context:
        if options.searches:
            from kokoro_ane.eval.product_search import search_product
            from kokoro_ane.eval.search import search_level

            judge = search_product if options.product else search_level
            judge = partial(judge, most_mb=options.at_most, record=searched)
        levels = judge_all(context, names, judge)
        if all(level["failed"] for level in levels):
            raise InputError(
                f"no level could be judged; {levels[0]['method']}: {levels[0]['failed']}"
            )
        choice = choose(levels, explain_withheld(checkpoint))
        record = record_of(levels, choice, context, options.chip) | searched
    write_json(out, record, ours)
    return choice, record, out


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    chips = tuple(load_rules().chips)
    options = parse(ReleaseOptions, "kokoro-ane release", __doc__, argv, chip=chips)
    choice, record, file = choose_release(options)
    from kokoro_ane.eval.terminal import print_products, print_release

    if options.product:
        print_products(record)
    else:
        print_release(record)
    levels = record["products" if options.product else "levels"]
    short = {
        "verdict": choice.verdict,
        "level": choice.level,
        "releasable": choice.releasable,
        "reason": choice.reason,
        "levels": {level["method"]: level["verdict"] for level in levels},
        "file": str(file),
    }
    code = exit_of(choice.verdict, choice.releasable)
    released_level = "nothing" if code else choice.level
    meaning = f"{released_level} may be released; every figure is in {file}"
    return conclude(options, short, code, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
