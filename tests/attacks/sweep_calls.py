"""What the sweep draws from: good calls of every command, and the values and files that spoil them.
A number draws a case.

    # the same case for the same numbers, whatever came before
    case = drawn(0, 17, flags, Path("/tmp/sweep"))
    for damage in case.damage: damage.done(Path("/tmp/sweep"))
"""

import argparse
import contextlib
import copy
import importlib
import io
import json
import os
import pickle
import random
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from kokoro_ane.cli import COMMANDS, OWN_VERB
from tests.commands import parsed

CK, B = "--checkpoint {user}/checkpoint", "--build {user}/build"
SAID = f"'Hello there.' -o {{user}}/new.wav {CK} {B}"
VOCODER = "{user}/build/KokoroVocoder-tiny"
CALLS = {
    "build": [
        f"vocoder {CK} --buckets 20 --out {{user}}/build",
        f"vocoder {CK} --layout streaming-poly --out {{user}}/new",
        f"vocoder {CK} --runtime onnx --out {{user}}/new",
        "g2p --method fp16 --out {user}/build",
        f"encoder {CK} --buckets 40 --token-buckets 16 --precision fp32 --out {{user}}/build",
    ],
    "quantize": [
        f"--method w8a8 {CK} {B} --set clips=2",
        f"--method mixed --recipe {{user}}/recipe.json {CK} {B}",
    ],
    "speak": [
        f"{SAID} --runtime mlprogram --method w8 --voice slt:0.6,rms:0.4",
        f"- --stream pcm {CK} {B} --runtime torch",
        (
            f"{SAID} --runtime torch --timestamps {{user}}/new.srt --speed 1.5 --seed 3 --lexicon"
            " {user}/lexicon.tsv"
        ),
        (
            f"--file {{user}}/text.txt -o {{user}}/new.flac {CK} {B} --runtime torch --quiet"
            " --dialect gb"
        ),
        f"hɛlˈO --phonemes -o {{user}}/hello.wav --resume {CK} --runtime torch",
    ],
    "quality": [f"--method w8 {CK} {B} --clips 2 --workers 1 --out {{user}}/new.json"],
    "release": [
        f"--methods fp16,w8 --no-build {CK} {B} --workers 1",
        f"--methods w8 --no-build {CK} {B} --out {{user}}/new",
    ],
    "report": [f"{CK} {B} --out {{user}}/build/release --pairs-seed 1"],
    "validate": [
        f"--phonemes hɛlˈO {CK} --voice slt --save-dir {{user}}/new",
        f"--text Hello. {CK} --runtime mlprogram --build {{user}}/build",
    ],
    "vectors": [
        f"{CK} {B} --out {{user}}/new --voice slt",
        f"{CK} {B} --check {{user}}/build/vectors",
    ],
    "bundle": [
        f"{CK} {B} --out {{user}}/new-tiny",
        f"{CK} {B}",
        "--verify {user}/build/bundle-tiny-fp16",
    ],
    "sensitivity": [f"{CK} {B} --size 0.5 --recipe {{user}}/new.json --log {{user}}/new.jsonl"],
    "controls": [f"{CK} --clips 2 --renders {{user}}/new"],
    "variation": [CK],
    "doctor": [B],
    "device-report": [
        f"{VOCODER}-fp16.mlpackage --out {{user}}/new.json",
        f"--read {{user}}/words.json {B}",
    ],
    "g2p": [
        "'Hello there, it cost $5.'",
        "--file {user}/text.txt --explain",
        "ane --lexicon {user}/lexicon.tsv --dialect gb",
    ],
    "describe": [
        f"{VOCODER}-w8.mlpackage --top 3",
        "{user}/build/KokoroEncoder-tiny-fp16.mlpackage --function duration",
    ],
    "ane": [
        f"{VOCODER}-fp16.mlpackage --chip m1 --json {{user}}/new.json --no-device",
        "{user}/build/G2P.mlpackage --chip a14 --at-least 1 --rules {user}/ane_rules.json",
    ],
    "mlprogram.__main__": ["rules --check {user}/page.md"],
    "kokoro_ane.cli": [f"doctor {B}", "g2p hello"],
}
SELDOM = {"bundle": 0.3, "release": 0.5, "vectors": 0.5, "validate": 0.5}  # good ones take seconds
OUTPUTS = (
    "-o --out --json --plot --save-dir --recipe --log --renders --timestamps --build --write"
).split()
BELOW = """thesis thesis-tiny build build/mine build/vectors file file/x loop fifo dangling
 dangling/x deep.json empty binary music.wav hello.wav clip.flac words.srt words.json
 log.jsonl recipe.json page.html picture.png build/KokoroVocoder-tiny-fp16.json
 build/KokoroVocoder-tiny-fp16.mlpackage build/KokoroVocoder-other-fp16.mlpackage
 build/bundle-tiny-fp16 build/release/decision.json checkpoint checkpoint/voices
 nothing/deep/er ../outside .hidden CON new.wav new.json new.JSON new.srt new.flac
 new.png new new. new.mp3"""
PLACES = (
    "{user}",
    *(f"{{user}}/{name}" for name in BELOW.split()),
    "{user}/" + "x" * 300,
    "{user}/" + "x/" * 3000,
    "{user}/a\0b",
    "{user}/ü \n.json",
    "{user}/\udcff.wav",
    "",
    ".",
    "..",
    "../outside",
    "-",
    "--",
    "~/x",
    "file:///etc/passwd",
    *"/proc/x /proc/self/mem /dev/null /dev/full /sys/kernel/x /dev/zero".split(),
)
NUMBERS = (
    *(
        "0 -1 1 2 1e308 -1e308 nan inf -inf 0x10 1_000 ٣ ½ 1e-320 abc 1,2 -0 1.5 "
        "2147483648 18446744073709551616 4.0000001 0.2499 True"
    ).split(),
    "9" * 30,
    "-" + "9" * 30,
    "9" * 5000,
    " 1 ",
    "",
    "1\n",
    "\0",
)
WORDS = (
    "",
    " ",
    "\0",
    "x" * 300,
    "x" * 100_000,
    "../../x",
    "../voices/slt",
    "a/b",
    "\ud800",
    "\n\n",
    "🙂" * 50,
    "20," * 500,
    "1" * 5000,
    *[
        "ü",
        "%s%n",
        "{0}",
        "[red]x[/]",
        "[/]",
        "-",
        "slt",
        "slt:1e308,rms:1e308",
        "slt:nan",
        "slt:-1,rms:2",
        "slt:0",
        "slt,slt",
        ":",
        ",",
        "slt:",
        ":1",
        "slt:1e-320",
        "nobody",
        "40,40,20",
    ],
    *(
        "0 20,abc w8 p6 streaming-w8 fp16,fp16 fp16,nonsense m1 m99 torch coreml onnx "
        "en-US xx clips=2 clips=nan clips=9999999999"
    ).split(),
    *"clips = a=b=c main duration x=1,2 features=1,3157,1,81 NaN null hexgrad".split(),
    "features=" + "9" * 30,
)
TEXTS = (
    "",
    " ",
    "\n",
    "\0",
    "a\0b",
    "\ud800\udc00",
    "\udcff",
    "🙂🙂",
    "。。。",
    "-1",
    "--",
    "1" * 3000,
    "$" * 500,
    "a" * 2000,
    "1/2/3/4" * 50,
    "١٢٣",
    "\u202e\u200b\ufeff",
    "[slow](/ˈ/)",
    "[x](" * 200,
    "<speak>",
    "Ⅷ ㎏ ² ½",
    "hɛlˈO",
    "ˈ" * 500,
    "(" * 2000,
    "." * 2000,
    "don't" * 100,
    "=cmd|' /C calc'!A0",
    "%s%s%n",
    "a\r\nb",
)
UNKNOWN = "--nonsense - -- -z --out --checkpoint --build= @x --method".split()
OTHERS = (
    None,
    True,
    False,
    5,
    -1,
    0,
    1.5,
    10**25,
    float("nan"),
    float("inf"),
    1e308,
    "",
    "x",
    "../../x",
    "/etc/passwd",
    "a\0b",
    "x" * 300,
    "\ud800",
    [],
    [[]],
    [0],
    ["x"],
    [None],
    {},
    {"x": {}},
    {"": 1},
    [1] * 1000,
    2**31,
    2**63,
    -(2**63),
)
PACKAGES = (
    "user/build/*.json user/build/*.mlpackage/**/* user/build/*.mlpackage user/build/release/*.json"
)
READ_BY = {  # what a flag's command reads, as patterns below ROOT
    "--checkpoint": (
        "user/checkpoint/config.json user/checkpoint/random.pth user/checkpoint/voices/*"
        " user/checkpoint/voices"
    ),
    "--build": PACKAGES,
    "--check": "user/build/vectors/**/* user/build/manifest.json",
    "--verify": "user/build/bundle-tiny-fp16/**/*",
    "--lexicon": "user/lexicon.tsv",
    "--file": "user/text.txt",
    "--recipe": "user/recipe.json",
    "--rules": "user/ane_rules.json",
    "--workers": "user/build/release/cache/**/*.json cache/speech/*.npz",
    "--out": "user/build/* user/build/release/*",
}


@dataclass(frozen=True)
class Damage:
    """One kind, done to one of the files that some patterns find."""

    kind: str
    pattern: str
    seed: int

    # spoil it; None where there is no such file (an earlier damage took it)
    def done(self, root):
        draw = random.Random(self.seed)
        # no pipe
        paths = sorted(
            path
            for path in root.glob(self.pattern)
            if path.is_file() or ("*" not in self.pattern and path.is_dir())
        )
        paths = [
            path for path in paths if "mine" not in path.parts and "other" not in path.as_posix()
        ]
        with contextlib.suppress(
            FileNotFoundError, IsADirectoryError, NotADirectoryError, IndexError
        ):
            path = draw.choice(paths)
            KINDS[self.kind](path, draw)
            return path
        return None


@dataclass(frozen=True)
class Case:
    """One invocation: who is called, with which arguments and standard input, after which
    damage.
    """

    number: int
    command: str
    argv: tuple[str, ...]
    stdin: bytes = b""
    damage: tuple[Damage, ...] = ()

    @property
    def module(self):  # to import
        return COMMANDS[self.command][0] if self.command in COMMANDS else self.command

    @property
    def arguments(self):  # what main() gets
        return [self.command, *self.argv] if self.command in OWN_VERB else list(self.argv)

    # the places it was asked to write to; a default that the user can see is one too
    def outputs(self):
        values = [
            value for flag, value in zip(self.argv, self.argv[1:], strict=False) if flag in OUTPUTS
        ]
        return [
            *values,
            *(arg.partition("=")[2] for arg in self.argv if arg.partition("=")[0] in OUTPUTS),
            "build",
        ]


def actions_of(module):
    """The flags and positions that a command knows, those of its subcommands too; none where it has
    no parser.
    """
    parsers = []

    def caught(parser, *_, **__):
        parsers.append(parser)
        raise SystemExit

    patched = mock.patch.object(argparse.ArgumentParser, "parse_args", caught)
    with patched, contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        importlib.import_module(module).main([])
    actions, open_ends = [], parsers[:1]
    while open_ends:
        flags = open_ends.pop()._actions
        actions += flags
        open_ends += [
            parser
            for a in flags
            if isinstance(a, argparse._SubParsersAction)
            for parser in a.choices.values()
        ]
    return [action for action in actions if not isinstance(action, argparse._HelpAction)]


def drawn(seed, number, flags, root):
    """Case `number`: a good call with one to three things wrong."""
    draw = random.Random(f"{seed}/{number}")
    command = draw.choices(sorted(CALLS), [SELDOM.get(name, 1.0) for name in sorted(CALLS)])[0]
    argv, damage, actions = shlex.split(draw.choice(CALLS[command])), [], flags[command]
    for _ in range(draw.choice([1, 1, 1, 2, 2, 3])):
        kind = draw.choices("value flag drop unknown text file".split(), [5, 4, 1, 1, 2, 7])[0]
        if kind == "file":
            damage.append(_damage(draw, argv))
        else:
            _spoil(argv, kind, command, actions, draw)
    if (
        any("--checkpoint" in a.option_strings for a in actions)
        and argv[:1] != ["g2p"]
        and not any("--checkpoint" in a for a in argv)
    ):
        argv += CK.split()  # it would look for real Kokoro
    stdin = draw.choice([b"", b"Hello.", b"\xff\xfe", b"\0", os.fsencode("ü" * 50)])
    arguments = tuple(argument.replace("{user}", str(root / "user")) for argument in argv)
    return Case(number, command, arguments, stdin, tuple(filter(None, damage)))


# A value that suits the flag's kind badly, or well
def _bad_value(draw, action):
    if action.choices and draw.random() < 0.7:
        return draw.choice(
            [*map(str, action.choices), *WORDS[:8], str(next(iter(action.choices))).upper()]
        )
    if action.type is Path:
        return draw.choice(PLACES)
    return draw.choice(
        NUMBERS
        if action.type in (int, float)
        else draw.choice([WORDS, NUMBERS, PLACES, TEXTS[:10]])
    )


def _spoil(argv, kind, command, actions, draw):
    """One argument is another, is gone, or one more is there."""
    if kind == "value" and argv:
        at = draw.randrange(len(argv))
        flag = next((a for a in actions if at and argv[at - 1] in a.option_strings), None)
        argv[at] = (
            _bad_value(draw, flag) if flag else draw.choice(draw.choice([WORDS, PLACES, NUMBERS]))
        )
    elif kind == "flag" and actions:
        action = draw.choice(actions)
        argv += [
            *action.option_strings[-1:],
            *([] if action.nargs == 0 else [_bad_value(draw, action)]),
        ]
    elif kind == "drop" and argv:
        del argv[draw.randrange(len(argv))]
    elif kind == "unknown":
        argv.insert(draw.randrange(len(argv) + 1), draw.choice(UNKNOWN))
    elif kind == "text" and command in ("speak", "g2p", "validate") and argv:
        argv[0 if argv[0] not in ("--text", "--phonemes") else 1] = draw.choice(TEXTS)


def _damage(draw, argv):
    """Of something that these arguments make the command read; None where they name nothing."""
    read = [pattern for flag in argv for pattern in READ_BY.get(flag, "").split()]
    read += [
        f"user/build/{arg.rpartition('/')[2]}/**/*" for arg in argv if arg.endswith(".mlpackage")
    ]
    return (
        Damage(draw.choice(sorted(KINDS)), draw.choice(read), draw.randrange(1 << 30))
        if read
        else None
    )


def places(value, at=()):
    """Every place in nested data: for at in places(data): reader(changed(data, at, None))."""
    if at:
        yield at
    for key, item in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(item, (*at, key))


def changed(data, at, value):  # A copy with `value` there
    data = copy.deepcopy(data)
    inner = data
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = copy.deepcopy(value)
    return data


def bits(path, draw):  # one to eight bytes are others
    data = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 8) if data else 0):
        data[draw.randrange(len(data))] = draw.randrange(256)
    path.write_bytes(data)


def _instead(make):
    def kind(path, draw):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        make(path, draw)

    return kind


def json_field(path, draw):
    """A field of JSON has another value, or another stands beside it; other files get bits."""
    try:
        data = parsed(path)
    except ValueError:
        return bits(path, draw)
    at = draw.choice(list(places(data)) or [()])
    data = changed(data, at, draw.choice(OTHERS)) if at else draw.choice(OTHERS)
    if isinstance(data, dict):
        data |= (
            {draw.choice(["x", "", "../x", "format"]): draw.choice(OTHERS)}
            if draw.random() < 0.1
            else {}
        )
    path.write_text(json.dumps(data))
    return None


class Runs:
    """A pickle that would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkfifo, (str(self.path),)


# bits of a package, and a manifest beside it that agrees with them
def rehashed(path, draw):
    bits(path, draw)
    package = next((parent for parent in path.parents if parent.suffix == ".mlpackage"), None)
    if package is not None and package.with_suffix(".json").is_file():
        from kokoro_ane.core.export import package_bytes, package_sha256

        data = parsed(package.with_suffix(".json"))
        data |= {"package_sha256": package_sha256(package), "package_bytes": package_bytes(package)}
        package.with_suffix(".json").write_text(json.dumps(data))


DEEP = [
    "[" * 200_000,
    '{"a":' * 100_000,
    "9" * 5_000,
    '{"format": 1e999}',
    "null",
    "[]",
    '"x"',
    "\0",
    "\ufeff{}",
]
KINDS = {
    "bits": bits,
    "field": json_field,
    "field 2": json_field,
    "rehashed": rehashed,
    "cut": lambda path, draw: os.truncate(path, draw.randrange(max(path.stat().st_size, 1))),
    "deep": lambda path, draw: path.write_text(draw.choice(DEEP), encoding="utf-8"),
    "pickle": lambda path, _: path.write_bytes(
        pickle.dumps({"decoder": Runs(path.parent / "ran")})
    ),
    "gone": _instead(lambda *_: None),
    "folder": _instead(lambda path, _: path.mkdir()),
    "pipe": _instead(lambda path, _: os.mkfifo(path)),
    "loop": _instead(lambda path, _: path.symlink_to(path)),
    "zero": _instead(lambda path, _: path.symlink_to("/dev/zero")),
}
