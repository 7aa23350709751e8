"""The commands that build packages, for a user to type: what every "not built" message names.

# kokoro-ane build vocoder --layout streaming --checkpoint kokoro-int8
build_command("vocoder", layout="streaming", checkpoint="kokoro-int8")
"""

import argparse
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kokoro_ane.core.contract import (
    ENCODER_NAME,
    G2P_NAME,
    HOST,
    LAYOUTS,
    PADDED,
    STREAMED,
)

DEFAULT_BUILD = Path("build")


def build_command(
    stage: str,
    layout: str = PADDED,
    precision: str = "fp16",
    checkpoint: str | None = None,
    out: Path = DEFAULT_BUILD,
    runtime: str | None = None,
) -> str:
    """What builds an uncompressed package of g2p, encoder or vocoder, or the file of another
    runtime.
    """
    parts = ["kokoro-ane build", stage] + ([f"--runtime {runtime}"] if runtime else [])
    if layout not in ("", PADDED):
        parts.append(f"--layout {layout}")
    if precision != "fp16":
        parts.append(f"--precision {precision}")
    return " ".join(parts + _places(checkpoint, "--out", out))


def quantize_command(
    method: str,
    layout: str = PADDED,
    checkpoint: str | None = None,
    build: Path = DEFAULT_BUILD,
    stage: str = "vocoder",
) -> str:
    """What builds a compressed one from it."""
    flags = {
        "stage": "" if stage == "vocoder" else stage,
        "layout": "" if layout == PADDED else layout,
    }
    parts = [
        f"kokoro-ane quantize --method {method}",
        *(f"--{flag} {value}" for flag, value in flags.items() if value),
    ]
    return " ".join(parts + _places(checkpoint, "--build", build))


def _places(checkpoint: str | None, flag: str, folder: Path) -> list[str]:
    flags = [f"--checkpoint {shlex.quote(checkpoint)}"] if checkpoint else []
    return flags + ([f"{flag} {shlex.quote(str(folder))}"] if folder != DEFAULT_BUILD else [])


def command_for(name: str) -> str:
    """What builds the package of that stage or file name."""
    rooms = {G2P_NAME: "g2p", ENCODER_NAME: "encoder"}
    return build_command(
        next((room for stage, room in rooms.items() if name.startswith(stage)), "vocoder")
    )


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


def layout_argument(parser: argparse.ArgumentParser, layouts: tuple[str, ...] = LAYOUTS) -> None:
    """--layout, the same for every command that builds or opens a vocoder package: one of LAYOUTS,
    by which the package is called.
    """
    parser.add_argument(
        "--layout",
        action=_Layout,
        choices=layouts,
        default=PADDED,
        help="layout of the vocoder (default: %(default)s)",
    )
    tail_argument(parser)


def tail_argument(parser: argparse.ArgumentParser) -> None:
    """--tail, beside a --layout: `--tail host` is the padded layout that ends before conv_post."""
    places = ("package", "host")
    parser.add_argument(
        "--tail",
        action=_Layout,
        choices=places,
        default=places[0],
        help="who computes conv_post and the inverse STFT",
    )


class _Layout(argparse.Action):
    """--layout and --tail in any order: together they name one of LAYOUTS."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)
        if namespace.tail == HOST and namespace.layout in STREAMED:
            parser.error(f"--layout {namespace.layout} has no tail of its own on the host")
        if namespace.tail == HOST:
            namespace.layout = HOST
