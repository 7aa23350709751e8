"""Command-line values that several commands take.

parser.add_argument("--buckets", type=buckets_argument)
"""

import argparse
from typing import Any

from core.contract import FORMS, HOST, LITERAL, check_buckets, with_host_tail
from core.errors import InputError

MAX_SEED = 1 << 62


def buckets_argument(text: str) -> tuple[int, ...]:
    """'20,40' -> (20, 40), for argparse; an ArgumentTypeError says what is wrong with the list."""
    try:
        return check_buckets(tuple(int(part) for part in text.split(",") if part.strip()))
    except InputError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 20,40,80") from None


def seed_argument(text: str) -> int:
    """A seed that every generator takes, with room for the next ones: 0 to 2**62."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_SEED):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 0 to {MAX_SEED}")
    return int(text)


def threads_argument(text: str) -> int:
    """A number of threads that PyTorch takes: 1 to 1024."""
    if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= 1024):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 to 1024")
    return int(text)


def checkpoint_argument(parser: argparse.ArgumentParser) -> None:
    """--checkpoint, the same for every command that opens one."""
    parser.add_argument(
        "--checkpoint",
        help="folder with config.json, one .pth and voices/; or 'hexgrad/Kokoro-82M', 'kokoro-int8', 'demo' (default: the first of these "
        "three that can be had)",
    )


def form_argument(parser: argparse.ArgumentParser) -> None:
    """--form, the same for every command that builds or opens a vocoder package: one of FORMS, by which the package is called."""
    parser.add_argument("--form", action=_Form, choices=FORMS, default=LITERAL, help="form of the vocoder (default: %(default)s)")
    tail_argument(parser)


def tail_argument(parser: argparse.ArgumentParser) -> None:
    """--tail, beside a --form: `--tail host` is the form of the same layout that ends before conv_post."""
    places = ("package", "host")
    parser.add_argument("--tail", action=_Form, choices=places, default=places[0], help="who computes conv_post and the inverse STFT")


def settings_argument(parser: argparse.ArgumentParser) -> None:
    """--set, beside a --method: quantize.methods.with_settings reads it."""
    said = "a trial: another value for a setting of the method's activations; give what it makes a folder of its own"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help=said)


class _Form(argparse.Action):
    """--form and --tail in any order: together they name one of FORMS."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, values)
        if namespace.tail == HOST:
            namespace.form = with_host_tail(namespace.form)
