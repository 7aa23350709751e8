"""Options of commands: one frozen dataclass per command, whose fields are its flags; the command
line that says the same, which every "not built" message names; how every command ends.

    @dataclass(frozen=True)
    class DoctorOptions(CommandOptions):
        build: Path = build_option()  # --build, the same for every command that reads packages
        seed: int = option("of the noise", 0, type=seed_argument)  # --seed

    options = parse(DoctorOptions, "kokoro-ane doctor", __doc__, argv)
    return conclude(options, report, exit_of(verdict), "w8a8 ships")
    BuildOptions("vocoder", layout="padded").command  # kokoro-ane build vocoder --layout padded
"""

import argparse
import difflib
import json
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, get_args, get_origin

from kokoro_ane.core.contract import (
    DEFAULT_LAYOUT,
    ENCODER_NAME,
    FRAMES_PER_SECOND,
    G2P_NAME,
    PADDED,
    PADDED_BUCKETS,
    STREAMING,
    STREAMING_POLYNOMIAL,
    check_buckets,
)
from kokoro_ane.core.errors import (
    EXIT_GOOD,
    EXIT_REJECTED,
    EXIT_UNDECIDED,
    InputError,
    Parser,
)
from kokoro_g2p import MAX_PHONEMES

DEFAULT_BUILD = Path("build")
CORE_ML = "coreml"
# runtimes beside Core ML that a stage can be built for
OTHER_RUNTIMES = ("onnx", "executorch", "tvm")
# what names a layout, where it is not --layout
LAYOUT_FLAGS = {
    DEFAULT_LAYOUT: "",
    STREAMING_POLYNOMIAL: "--without-sine",
}
REQUIRED = MISSING  # the default of an option that has to be given
MAX_SEED = 1 << 62
# what is taken for a flag's type in Python
WIDER: Mapping[type, Any] = MappingProxyType({float: Real, int: Integral, tuple: (tuple, list)})


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """What every command takes: --json, which core.errors.Parser adds."""

    json: bool = False


Options = TypeVar("Options", bound=CommandOptions)


def option(meaning: str, default: Any = None, *flags: str, **argument: Any) -> Any:
    """Return a dataclass field that is a flag of its command.

    flags: its names, where it is not `--` and the name of the field; without a dash it is
    positional. argument: further arguments of argparse's add_argument. The type follows from the
    annotation: `bool` is a switch, `bool | None` has --no- too. exclusive: the name of a group of
    which a user may give one flag. rare: only `--help-all` shows it.
    """
    return field(default=default, metadata={"flags": flags, "help": meaning, **argument})


def parse(
    kind: type[Options],
    prog: str,
    doc: str | None,
    argv: Sequence[str] | None,
    **choices: Collection[str],
) -> Options:
    """Return the options that a command line gives; exit as argparse does where it is wrong.
    `choices`: of fields whose values are known only where the command is.
    """
    parser = Parser(prog, doc)
    add_options(parser, kind, **choices)
    return collect_options(kind, parser.parse_args(argv))


def add_options(
    parser: argparse.ArgumentParser,
    kind: type[CommandOptions],
    names: Collection[str] = (),
    **choices: Collection[str],
) -> None:
    """Add a flag for each field that `option` made, or only for the fields of these names."""
    groups: dict[str, Any] = {}
    for each in fields(kind):
        if not each.metadata or (names and each.name not in names):
            continue
        argument = dict(each.metadata)
        actions = len(parser._actions)
        is_rare = argument.pop("rare", False)
        if each.name in choices:
            argument["choices"] = choices[each.name]
        if "add" in argument:
            argument["add"](parser)
            _note_rare(parser, actions, is_rare)
            continue
        flags = argument.pop("flags") or (f"--{each.name.replace('_', '-')}",)
        exclusive = argument.pop("exclusive", "")
        group = parser
        if exclusive:
            if exclusive not in groups:
                groups[exclusive] = parser.add_mutually_exclusive_group()
            group = groups[exclusive]
        if flags[0].startswith("-"):
            argument |= {"dest": each.name, "required": each.default is MISSING}
        types = get_args(each.type) or (each.type,)
        if bool in types:
            has_negation = NoneType in types
            argument["action"] = argparse.BooleanOptionalAction if has_negation else "store_true"
        else:
            argument.setdefault("type", types[0])
            is_shown = each.default not in (None, "", (), MISSING)
            if is_shown and "default" not in argument["help"]:
                argument["help"] += f" (default: {each.default})"
        group.add_argument(*flags, **argument)
        _note_rare(parser, actions, is_rare)


def _note_rare(parser: argparse.ArgumentParser, actions: int, is_rare: bool) -> None:
    """Show the parser's actions from that number on by `--help-all` only."""
    if is_rare and isinstance(parser, Parser):
        parser.rare += parser._actions[actions:]


def collect_options(kind: type[Options], arguments: argparse.Namespace) -> Options:
    """Return the options of parsed flags; a flag that was not given leaves the field's default."""
    values: dict[str, Any] = {}
    for each in fields(kind):
        value = getattr(arguments, each.name, None)
        if value is not None:
            values[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def check_options(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """Return the options of a call in Python; a str may name a file. Raises InputError for a name
    that there is not, and for a value of another type than the flag's.
    """
    types = {each.name: each for each in fields(kind)}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in types:
            near = difflib.get_close_matches(name, types, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise InputError(f"no option {name!r}{hint} There are: {', '.join(types)}")
        hint_of: Any = types[name].type
        kinds = [get_origin(one) or one for one in get_args(hint_of) or (hint_of,)]
        if get_origin(hint_of) is tuple:
            kinds = [tuple]
        if Path in kinds and isinstance(value, str):
            value = Path(value)
        wide: list[Any] = [WIDER.get(one, one) for one in kinds]
        is_switch = isinstance(value, bool)
        # True is an int in Python, so a switch passes only where one is asked for.
        if (is_switch and bool not in kinds) or not isinstance(value, tuple(wide)):
            names = " or ".join(one.__name__ for one in kinds if one is not NoneType)
            raise InputError(
                f"{name} {value!r:.80} is of type {type(value).__name__}: give {names}"
            )
        choices = types[name].metadata.get("choices")
        if choices and value is not None and value not in choices:
            raise InputError(f"{name} {value!r:.80}: give {' or '.join(choices)}")
        checked[name] = tuple(value) if isinstance(value, list) else value
    return kind(**checked)


def seed_argument(text: str) -> int:
    """A seed that every generator takes, with room for the next ones: 0 to 2**62."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_SEED):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not a whole number from 0 to {MAX_SEED}"
        )
    return int(text)


def check_seed(seed: int) -> int:
    """Return the seed of a call, as `seed_argument` reads it. Raises InputError."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed <= MAX_SEED:
        raise InputError(f"seed {seed!r} is not a whole number from 0 to {MAX_SEED}")
    return int(seed)


def parse_buckets(text: str) -> tuple[int, ...]:
    """'20,40' -> (20, 40), for argparse; an ArgumentTypeError says what is wrong with the list."""
    try:
        return check_buckets(tuple(int(part) for part in text.split(",") if part.strip()))
    except InputError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers such as 20,40,80"
        ) from None


def token_buckets(text: str) -> tuple[int, ...]:
    """Lengths within ALBERT's positions: 3 to 512."""
    buckets = parse_buckets(text)
    if buckets[0] < 3 or buckets[-1] > MAX_PHONEMES + 2:
        raise argparse.ArgumentTypeError(
            f"token buckets {text!r} are not within 3..{MAX_PHONEMES + 2} (phonemes + 2)"
        )
    return buckets


def checkpoint_option(rare: bool = False) -> Any:
    """--checkpoint, the same for every command that opens one."""
    return option(
        "a folder, hexgrad/Kokoro-82M or kokoro-int8 (default: the first of these two that can be"
        " had)",
        metavar="NAME",
        rare=rare,
    )


def build_option(what: str = "folder with the packages", rare: bool = False) -> Any:
    """--build, the same for every command that reads packages."""
    return option(what, DEFAULT_BUILD, rare=rare)


def voice_option() -> Any:
    """--voice, the same for every command that speaks."""
    return option("a voice, or a blend as af_heart:0.7,am_adam:0.3", metavar="NAME")


def layout_option(rare: bool = False) -> Any:
    """--layout, or the flag of one of its variants, the same for every command that builds or opens
    a vocoder package: one of LAYOUTS, or "" where nobody names one.
    """
    return field(default="", metadata={"add": _add_layout_flags, "rare": rare})


def _add_layout_flags(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_mutually_exclusive_group()
    flags.add_argument(
        "--layout",
        choices=(DEFAULT_LAYOUT, PADDED),
        default="",
        help=(
            f"of the vocoder (default: {DEFAULT_LAYOUT}). {PADDED}: for iOS 17; the engine of M4,"
            f" M5, A17 Pro and A18 takes it up to {PADDED_BUCKETS[-1] / FRAMES_PER_SECOND:g} s,"
            " others' up to 2.6 s"
        ),
    )
    flags.add_argument(
        "--without-sine",
        dest="layout",
        action="store_const",
        const=STREAMING_POLYNOMIAL,
        help=f"{STREAMING}, but Snake is a polynomial: for M1, M2 and A14, which lack the sine",
    )


@dataclass(frozen=True)
class BuildOptions(CommandOptions):
    """An uncompressed package of a stage, or the file of another runtime; None is the stage's own
    value. stage: g2p, encoder or vocoder.
    """

    stage: str
    runtime: str = option("who will run it", CORE_ML, choices=(CORE_ML, *OTHER_RUNTIMES))
    layout: str = layout_option()
    precision: str = option(
        "fp16, and fp32 where it is needed: the vocoder's tail, the encoder's durations; fp32: a"
        " reference package",
        "fp16",
        choices=("fp16", "fp32"),
    )
    target: str | None = option(
        "minimum deployment target (default: iOS18; iOS17 of g2p and of --layout padded)",
        choices=("iOS17", "iOS18"),
    )
    method: str = option(
        "w8: 8-bit weights in float32 arithmetic; fp16: all 16 bits", "w8", choices=("w8", "fp16")
    )
    weights: Path | None = option(
        "a .npz of kokoro_g2p.training.g2p_network with its .json; default: the bundled one"
    )
    buckets: tuple[int, ...] | None = option(
        "enumerated lengths in frames, 40 a second, rising", type=parse_buckets
    )
    token_buckets: tuple[int, ...] | None = option(
        "enumerated lengths in tokens (phonemes + 2)", type=token_buckets
    )
    checkpoint: str | None = checkpoint_option()
    out: Path = option("folder for packages and manifests", DEFAULT_BUILD)
    again: bool = option("build anew what is there and current", False)

    @property
    def command(self) -> str:
        """The command line, for a user to type."""
        return _typed("build", self)


@dataclass(frozen=True)
class QuantizeOptions(CommandOptions):
    """A compressed level, made from the uncompressed package in `build`."""

    method: str = option("compression method", REQUIRED)
    stage: str = option("whose package", "vocoder", choices=("vocoder", "encoder"))
    layout: str = layout_option()
    checkpoint: str | None = checkpoint_option()
    build: Path = build_option("folder with the parent package")
    runtime: str = option("whose file", CORE_ML, choices=(CORE_ML, "onnx"))
    recipe: Path | None = option("for method mixed (default: the checkpoint's bundled recipe)")
    settings: tuple[str, ...] = option(
        "a trial: another value for a setting of the method's activations; give what it makes a"
        " folder of its own",
        (),
        "--set",
        action="append",
        metavar="KEY=VALUE",
    )

    @property
    def command(self) -> str:
        """The command line, for a user to type."""
        return _typed("quantize", self)


def _typed(verb: str, options: BuildOptions | QuantizeOptions) -> str:
    """A flag for each option that is not the default; the stage of `build` stands first, bare."""
    words = ["kokoro-ane", verb]
    for each in fields(options):
        value = getattr(options, each.name)
        if each.name == "layout" and value in LAYOUT_FLAGS:
            words += LAYOUT_FLAGS[value].split()
        elif value != each.default:
            bare = verb == "build" and each.name == "stage"
            words += [] if bare else [f"--{each.name.replace('_', '-')}"]
            words.append(shlex.quote(str(value)))
    return " ".join(words)


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
    options: CommandOptions | argparse.Namespace, report: Mapping[str, Any], code: int, meaning: str
) -> int:
    """End a command: `exit CODE: meaning` for a person at a terminal, the report as one JSON object
    for a pipe and for --json. `meaning`: what the code says, and what to do next. Returns the code.
    """
    is_terminal = sys.stdout.isatty()
    if is_terminal:
        print(f"exit {code}: {meaning}")
    if getattr(options, "json", False) or not is_terminal:
        # What another encoding lacks is escaped by JSON's rules, not by Python's.
        is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
        print(json.dumps(report, ensure_ascii=not is_unicode, allow_nan=False))
    return code


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
