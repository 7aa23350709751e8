"""What the sweep draws from: good calls of every command, and the values and files that spoil them. A number draws a case.

case = drawn(0, 17, flags, Path("/tmp/sweep"))      # the same case for the same numbers, whatever came before
"""

import argparse
import contextlib
import importlib
import io
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_ane.cli import COMMANDS, OWN_VERB
from tests.sweep_damage import Damage, draw_damage

CK, B = ["--checkpoint", "{user}/checkpoint"], ["--build", "{user}/build"]
SAID = ["Hello there.", "-o", "{user}/new.wav", *CK, *B]
CALLS: dict[str, list[list[str]]] = {
    "build": [
        ["vocoder", *CK, "--buckets", "20", "--out", "{user}/build"],
        ["vocoder", *CK, "--layout", "tiled", "--chips", "m1", "--out", "{user}/new"],
        ["vocoder", *CK, "--runtime", "onnx", "--out", "{user}/new"],
        ["encoder", *CK, "--buckets", "40", "--token-buckets", "16", "--precision", "fp32", "--out", "{user}/build"],
        ["g2p", "--method", "fp16", "--out", "{user}/build"],
    ],
    "quantize": [
        ["--method", "w8", *CK, *B],
        ["--method", "w8a8", *CK, *B, "--set", "clips=2"],
        ["--method", "mixed", "--recipe", "{user}/recipe.json", *CK, *B],
    ],
    "speak": [
        [*SAID, "--runtime", "torch", "--voice", "slt"],
        [*SAID, "--runtime", "mlprogram", "--method", "w8", "--voice", "slt:0.6,rms:0.4"],
        [*SAID, "--runtime", "torch", "--timestamps", "{user}/new.srt", "--speed", "1.5", "--seed", "3", "--lexicon", "{user}/lexicon.tsv"],
        ["--file", "{user}/text.txt", "-o", "{user}/new.flac", *CK, *B, "--runtime", "torch", "--quiet", "--dialect", "gb"],
        ["-", "--stream", "pcm", *CK, *B, "--runtime", "torch"],
        ["hɛlˈO", "--phonemes", "-o", "{user}/hello.wav", "--resume", *CK, "--runtime", "torch"],
    ],
    "quality": [["--method", "fp16", *CK, *B, "--workers", "1"], ["--method", "w8", *CK, *B, "--clips", "2", "--out", "{user}/new.json"]],
    "release": [["--methods", "fp16,w8", "--no-build", *CK, *B, "--workers", "1"], ["--methods", "w8", "--no-build", *CK, *B, "--out",
    "{user}/new"]],
    "report": [[*CK, *B], [*CK, *B, "--out", "{user}/build/release", "--pairs-seed", "1"]],
    "validate": [
        ["--phonemes", "hɛlˈO", *CK, "--voice", "slt", "--save-dir", "{user}/new"],
        ["--text", "Hello.", *CK, "--encoder-package", "{user}/build/KokoroEncoder-tiny-fp16.json",
         "--vocoder-package", "{user}/build/KokoroVocoder-tiny-fp16.json"],
    ],
    "vectors": [[*CK, *B, "--out", "{user}/new", "--voice", "slt"], [*CK, *B, "--check", "{user}/build/vectors"]],
    "bundle": [[*CK, *B, "--out", "{user}/new-tiny"], [*CK, *B], ["--verify", "{user}/build/bundle-tiny-fp16"]],
    "sensitivity": [[*CK, *B, "--recipe", "{user}/new.json", "--clips", "1"], [*CK, *B, "--size", "0.5", "--recipe", "{user}/new.json",
    "--log", "{user}/new.jsonl"]],
    "controls": [[*CK, "--clips", "2", "--renders", "{user}/new"]],
    "g2p": [["Hello there, it cost $5."], ["--file", "{user}/text.txt", "--explain"], ["ane", "--lexicon", "{user}/lexicon.tsv",
    "--dialect", "gb"]],
    "describe": [["{user}/build/KokoroVocoder-tiny-w8.mlpackage", "--top", "3"], ["{user}/build/KokoroEncoder-tiny-fp16.mlpackage",
    "--function", "duration"]],
    "ane": [
        ["{user}/build/KokoroVocoder-tiny-fp16.mlpackage", "--chip", "m1", "--json", "{user}/new.json", "--no-device"],
        ["{user}/build/G2P.mlpackage", "--chip", "a14", "--at-least", "1", "--rules", "{user}/ane_rules.json"],
    ],
    "doctor": [[*B]],
    "mlprogram.__main__": [["rules"], ["rules", "--check", "{user}/page.md"]],
    "kokoro_ane.cli": [["doctor", *B], ["g2p", "hello"]],
}  # fmt: skip
SELDOM = {"bundle": 0.3, "release": 0.5, "vectors": 0.5, "validate": 0.5}  # good ones take seconds
OUTPUTS = (
    "-o", "--out", "--json", "--plot", "--save-dir", "--recipe", "--log", "--renders", "--timestamps", "--build", "--write",
)  # fmt: skip
PLACES = (
    "{user}", "{user}/thesis", "{user}/thesis-tiny", "{user}/build", "{user}/build/mine", "{user}/build/vectors", "{user}/file",
    "{user}/file/x", "{user}/loop",
    "{user}/fifo", "{user}/dangling", "{user}/dangling/x", "{user}/deep.json", "{user}/empty", "{user}/binary", "{user}/music.wav",
    "{user}/hello.wav",
    "{user}/clip.flac", "{user}/words.srt", "{user}/words.json", "{user}/log.jsonl", "{user}/recipe.json", "{user}/page.html",
    "{user}/picture.png",
    "{user}/build/KokoroVocoder-tiny-fp16.json", "{user}/build/KokoroVocoder-tiny-fp16.mlpackage",
    "{user}/build/KokoroVocoder-other-fp16.mlpackage",
    "{user}/build/bundle-tiny-fp16", "{user}/build/release/decision.json", "{user}/checkpoint", "{user}/checkpoint/voices",
    "{user}/nothing/deep/er",
    "/proc/x", "/proc/self/mem", "/dev/null", "/dev/full", "/sys/kernel/x", "/dev/zero", "", ".", "..", "../outside", "{user}/../outside",
    "-", "--", "~/x",
    "{user}/" + "x" * 300, "{user}/" + "x/" * 3000, "{user}/a\0b", "{user}/ü \n.json", "{user}/\udcff.wav", "{user}/.hidden",
    "{user}/CON", "file:///etc/passwd",
    "{user}/new.wav", "{user}/new.json", "{user}/new.JSON", "{user}/new.srt", "{user}/new.flac", "{user}/new.png", "{user}/new",
    "{user}/new.", "{user}/new.mp3",
)  # fmt: skip
NUMBERS = ("0", "-1", "1", "2", "1e308", "-1e308", "nan", "inf", "-inf", "9" * 30, "-" + "9" * 30, "9" * 5000, "0x10", "1_000", " 1 ",
    "٣", "½", "1e-320", "",
           "abc", "1,2", "-0", "1.5", "2147483648", "18446744073709551616", "4.0000001", "0.2499", "True", "1\n", "\0")  # fmt: skip
WORDS = ("", " ", "\0", "x" * 300, "x" * 100_000, "../../x", "../voices/slt", "a/b", "ü", "\ud800", "%s%n", "{0}", "[red]x[/]", "[/]",
    "-", "\n\n", "🙂" * 50, "slt",
         "slt:1e308,rms:1e308", "slt:nan", "slt:-1,rms:2", "slt:0", "slt,slt", ":", ",", "slt:", ":1", "slt:1e-320", "nobody", "40,40,20",
         "0", "20,abc", "20," * 500,
         "1" * 5000, "w8", "p6", "tiled-w8", "fp16,fp16", "fp16,nonsense", "m1", "m1,m1", "m99", "torch", "coreml", "onnx", "en-US",
         "xx", "clips=2", "clips=nan",
         "clips=9999999999", "clips", "=", "a=b=c", "main", "duration", "x=1,2", "features=1,3157,1,81", "features=" + "9" * 30, "NaN",
         "null", "demo")  # fmt: skip
TEXTS = ("", " ", "\n", "\0", "a\0b", "\ud800\udc00", "\udcff", "🙂🙂", "。。。", "-1", "--", "1" * 3000, "$" * 500, "a" * 2000,
    "1/2/3/4" * 50, "١٢٣", "\u202e\u200b\ufeff",
         "[slow](/ˈ/)", "[x](" * 200, "<speak>", "Ⅷ ㎏ ² ½", "hɛlˈO", "ˈ" * 500, "(" * 2000, "." * 2000, "don't" * 100,
         "=cmd|' /C calc'!A0", "%s%s%n", "a\r\nb")  # fmt: skip

UNKNOWN = ("--nonsense", "-", "--", "-z", "--out", "--checkpoint", "--build=", "@x", "--method")


@dataclass(frozen=True)
class Case:
    """One invocation: who is called, with which arguments and standard input, after which damage."""

    number: int
    command: str
    argv: tuple[str, ...]
    stdin: bytes = b""
    damage: tuple[Damage, ...] = ()

    @property
    def module(self) -> str:
        """To import."""
        return COMMANDS[self.command][0] if self.command in COMMANDS else self.command

    @property
    def given(self) -> list[str]:
        """What main() gets."""
        return [self.command, *self.argv] if self.command in OWN_VERB else list(self.argv)

    def outputs(self) -> list[str]:
        """The places it was asked to write to; a default that the user can see is one too."""
        pairs = zip(self.argv, self.argv[1:], strict=False)
        found = [value for flag, value in pairs if flag in OUTPUTS]
        return [*found, *(arg.partition("=")[2] for arg in self.argv if arg.partition("=")[0] in OUTPUTS), "build"]


class _Caught(BaseException):
    """Carries a parser out of a command."""


@contextlib.contextmanager
def _parsers_caught(found: list[argparse.ArgumentParser]) -> Iterator[None]:
    real = argparse.ArgumentParser.parse_args

    def caught(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> Any:
        found.append(parser)
        raise _Caught

    argparse.ArgumentParser.parse_args = caught  # type: ignore[method-assign]
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_args = real  # type: ignore[method-assign]


def actions_of(module: str) -> list[argparse.Action]:
    """The flags and positions that a command knows, those of its subcommands too; none where it has no parser."""
    found: list[argparse.ArgumentParser] = []
    try:
        with _parsers_caught(found), contextlib.redirect_stdout(io.StringIO()):
            importlib.import_module(module).main([])
    except (_Caught, SystemExit):
        pass
    actions, open_ends = [], found[:1]
    while open_ends:
        for action in open_ends.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                open_ends += action.choices.values()
            actions.append(action)
    return [action for action in actions if not isinstance(action, argparse._HelpAction)]


def bad_value(draw: random.Random, action: argparse.Action) -> str:
    """A value that suits the flag's kind badly, or well."""
    if action.choices and draw.random() < 0.7:
        return draw.choice([*map(str, action.choices), *WORDS[:8], str(next(iter(action.choices))).upper()])
    if action.type is Path:
        return draw.choice(PLACES)
    if action.type in (int, float):
        return draw.choice(NUMBERS)
    return draw.choice(draw.choice([WORDS, NUMBERS, PLACES, TEXTS[:10]]))


def drawn(seed: int, number: int, flags: dict[str, list[argparse.Action]], root: Path) -> Case:
    """Case `number`: a good call with one to three things wrong."""
    draw = random.Random(f"{seed}/{number}")
    command = draw.choices(sorted(CALLS), [SELDOM.get(name, 1.0) for name in sorted(CALLS)])[0]
    argv, damage, actions = list(draw.choice(CALLS[command])), [], flags[command]
    for _ in range(draw.choice([1, 1, 1, 2, 2, 3])):
        kind = draw.choices(["value", "flag", "drop", "unknown", "text", "file"], [5, 4, 1, 1, 2, 7])[0]
        if kind == "file":
            damage.append(draw_damage(draw, argv))
        else:
            _spoil(argv, kind, command, actions, draw)
    argv = [argument.replace("{user}", str(root / "user")) for argument in _with_checkpoint(argv, actions)]
    stdin = draw.choice([b"", b"Hello.", b"\xff\xfe", b"\0", os.fsencode("ü" * 50)])
    return Case(number, command, tuple(argv), stdin, tuple(filter(None, damage)))


def _spoil(argv: list[str], kind: str, command: str, actions: list[argparse.Action], draw: random.Random) -> None:
    """One argument is another, is gone, or one more is there."""
    if kind == "value" and argv:
        at = draw.randrange(len(argv))
        known = next((a for a in actions if at and argv[at - 1] in a.option_strings), None)
        argv[at] = bad_value(draw, known) if known else draw.choice(draw.choice([WORDS, PLACES, NUMBERS]))
    elif kind == "flag" and actions:
        action = draw.choice(actions)
        value = [] if action.nargs == 0 else [bad_value(draw, action)]
        argv += [action.option_strings[-1], *value] if action.option_strings else value
    elif kind == "drop" and argv:
        del argv[draw.randrange(len(argv))]
    elif kind == "unknown":
        argv.insert(draw.randrange(len(argv) + 1), draw.choice(UNKNOWN))
    elif kind == "text" and command in ("speak", "g2p", "validate") and argv:
        argv[0 if argv[0] not in ("--text", "--phonemes") else 1] = draw.choice(TEXTS)


def _with_checkpoint(argv: list[str], actions: list[argparse.Action]) -> list[str]:
    """A command that would look for real Kokoro is given the tiny checkpoint."""
    takes = any("--checkpoint" in action.option_strings for action in actions)
    stage_without = argv[:1] == ["g2p"]
    return argv if not takes or stage_without or any(a.startswith("--checkpoint") for a in argv) else [*argv, *CK]
