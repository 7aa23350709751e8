"""What the commands that build packages are asked for, as frozen options; the command line that
says the same, which every "not built" message names; the flags that several commands share; how
every command ends.

    options = BuildOptions("vocoder", layout="padded", checkpoint="kokoro-int8")
    options.command  # kokoro-ane build vocoder --layout padded --checkpoint kokoro-int8
    options_of(BuildOptions, arguments)  # filled by the flags of a command line
    return conclude(arguments, report, exit_of(verdict), "w8a8 ships")
"""

import argparse
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from kokoro_ane.core.contract import (
    DEFAULT_LAYOUT,
    ENCODER_NAME,
    G2P_NAME,
    HOST,
    PADDED,
    STREAMING,
    STREAMING_POLYNOMIAL,
)
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, EXIT_UNDECIDED
from mlprogram.errors import conclude as conclude_program

DEFAULT_BUILD, CORE_ML = Path("build"), "coreml"
# what names a layout, where it is not --layout
LAYOUT_FLAGS = {
    DEFAULT_LAYOUT: "",
    HOST: f"--tail {HOST}",
    STREAMING_POLYNOMIAL: "--without-sine",
}
Options = TypeVar("Options")


@dataclass(frozen=True)
class BuildOptions:
    """An uncompressed package of a stage, or the file of another runtime; None is the stage's own
    value.

    stage: g2p, encoder or vocoder. runtime: who will run it. layout: of the vocoder, "" for the
    default one (quantize.locator.default_layout). precision: fp16 or fp32. target: iOS17 or iOS18.
    method, weights: of the G2P. buckets: enumerated lengths in frames, 40 a second, rising;
    token_buckets: in tokens (phonemes + 2). checkpoint: a folder or a name; None for
    hexgrad/Kokoro-82M, or kokoro-int8, whichever can be had.
    """

    stage: str
    runtime: str = CORE_ML
    layout: str = ""
    precision: str = "fp16"
    target: str | None = None
    method: str = "w8"
    weights: Path | None = None
    buckets: tuple[int, ...] | None = None
    token_buckets: tuple[int, ...] | None = None
    checkpoint: str | None = None
    out: Path = DEFAULT_BUILD

    @property
    def command(self) -> str:
        """The command line, for a user to type."""
        return _typed("build", self)


@dataclass(frozen=True)
class QuantizeOptions:
    """A compressed level, made from the uncompressed package in `build`.

    method: a name of quantize.methods. stage: vocoder or encoder. runtime: coreml for packages, or
    onnx. recipe: for method mixed, None for the bundled one. settings: KEY=VALUE of a trial.
    """

    method: str
    stage: str = "vocoder"
    layout: str = ""
    checkpoint: str | None = None
    build: Path = DEFAULT_BUILD
    runtime: str = CORE_ML
    recipe: Path | None = None
    settings: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command line, for a user to type."""
        return _typed("quantize", self)


def _typed(verb: str, options: BuildOptions | QuantizeOptions) -> str:
    """A flag for each option that is not the default; the stage of `build` stands first, bare."""
    words = ["kokoro-ane", verb]
    for option in fields(options):
        value = getattr(options, option.name)
        if option.name == "layout" and value in LAYOUT_FLAGS:
            words += LAYOUT_FLAGS[value].split()
        elif value != option.default:
            bare = verb == "build" and option.name == "stage"
            words += [] if bare else [f"--{option.name.replace('_', '-')}"]
            words.append(shlex.quote(str(value)))
    return " ".join(words)


def options_of(kind: type[Options], arguments: argparse.Namespace) -> Options:
    """The options that a command line fills: each field by the flag of its name, where there is
    one.
    """
    flags = {}
    for option in fields(kind):  # type: ignore[arg-type]
        if hasattr(arguments, option.name):
            value = getattr(arguments, option.name)
            flags[option.name] = tuple(value) if isinstance(value, list) else value
    return kind(**flags)


def command_for(name: str) -> str:
    """What builds the package of that stage or file name."""
    rooms = {G2P_NAME: "g2p", ENCODER_NAME: "encoder"}
    stage = next((room for stage, room in rooms.items() if name.startswith(stage)), "vocoder")
    return BuildOptions(stage).command


def exit_of(verdict: str, may_be_released: bool = True) -> int:
    """The exit code of a verdict, for every command that has one. `quality` asks whether the level
    ships; `release` and `bundle` ask whether it may be released too, and what ships and may not is
    still open.
    """
    if verdict == "SHIP":
        return EXIT_GOOD if may_be_released else EXIT_UNDECIDED
    return EXIT_REJECTED if verdict == "REJECT" else EXIT_UNDECIDED


def conclude(
    arguments: argparse.Namespace, report: Mapping[str, Any], code: int, meaning: str
) -> int:
    """End a command: `exit CODE: meaning` for a person at a terminal, the report as one JSON object
    for a pipe and for --json. `meaning`: what the code says, and what to do next. Returns the code.
    """
    return conclude_program(report, code, meaning, getattr(arguments, "json", False))


def print_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], right: bool = False
) -> None:
    """A table for people on stdout. `right`: all columns but the first hold numbers."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if right and place else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


MAX_SEED = 1 << 62


def seed_argument(text: str) -> int:
    """A seed that every generator takes, with room for the next ones: 0 to 2**62."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_SEED):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not a whole number from 0 to {MAX_SEED}"
        )
    return int(text)


def checkpoint_argument(parser: argparse.ArgumentParser) -> None:
    """--checkpoint, the same for every command that opens one."""
    parser.add_argument(
        "--checkpoint",
        help=(
            "folder with config.json, one .pth and voices/; or 'hexgrad/Kokoro-82M', 'kokoro-int8'"
            " (default: the first of these two that can be had)"
        ),
    )


def build_argument(
    parser: argparse.ArgumentParser, what: str = "folder with the packages", flag: str = "--build"
) -> None:
    """--build, the same for every command that reads packages."""
    parser.add_argument(
        flag, type=Path, default=DEFAULT_BUILD, help=f"{what} (default: %(default)s)"
    )


def layout_argument(parser: argparse.ArgumentParser) -> None:
    """--layout, or the flag of one of its variants, the same for every command that builds or opens
    a vocoder package: one of LAYOUTS, or "" where nobody names one.
    """
    flags = parser.add_mutually_exclusive_group()
    flags.add_argument(
        "--layout",
        choices=(DEFAULT_LAYOUT, PADDED),
        default="",
        help=(
            f"of the vocoder (default: {DEFAULT_LAYOUT}). {PADDED}: for iOS 17; the engine takes it"
            " up to 13.5 s on M4, M5, A17 Pro and A18, up to 3.4 s on M3 and A15"
        ),
    )
    flags.add_argument(
        "--tail",
        dest="layout",
        choices=(HOST,),
        help=f"{PADDED}, but the host computes conv_post and the inverse STFT",
    )
    flags.add_argument(
        "--without-sine",
        dest="layout",
        action="store_const",
        const=STREAMING_POLYNOMIAL,
        help=f"{STREAMING}, but Snake is a polynomial: for M1, M2 and A14, which lack the sine",
    )
