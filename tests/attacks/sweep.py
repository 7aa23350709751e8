"""Bad invocations: good calls of every command with one to three things wrong, and the faults that
none of them may show.
"""

import argparse
import contextlib
import importlib
import io
import itertools
import os
import re
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from kokoro_ane.cli import COMMANDS
from kokoro_ane.core.errors import LONGEST_LINE
from tests.attacks.spoil import KINDS
from tests.attacks.world import CK, HANG, USERS, WORK, words

VOCODER = "{user}/build/KokoroVocoder-tiny-padded"
CALLS = [line.strip().replace("VOCODER", VOCODER) for line in """
    build vocoder CK --buckets 20 --out {user}/build
    build vocoder CK --without-sine --out {user}/new
    build vocoder CK --runtime onnx --out {user}/new
    build g2p --method fp16 --out {user}/build
    build encoder CK --buckets 40 --token-buckets 16 --precision fp32 --out {user}/build
    quantize --method w8a8 CK BUILD --set clips=2
    quantize --method mixed --recipe {user}/recipe.json CK BUILD
    speak 'Hello there.' -o {user}/new.wav CK BUILD --method w8 --voice slt:0.6,rms:0.4
    speak - --stream pcm CK BUILD --runtime torch
    speak 'Hi there.' -o {user}/new.wav CK --runtime torch --timestamps {user}/new.srt --speed 1.5
    speak Hello. -o {user}/new.wav CK --runtime torch --seed 3 --lexicon {user}/lexicon.tsv
    speak --file {user}/text.txt -o {user}/new.flac CK --runtime torch --quiet --dialect gb
    speak hɛlˈO --phonemes -o {user}/hello.wav --resume CK --runtime torch
    quality --method w8 CK BUILD --clips 2 --workers 1 --out {user}/new.json
    release --methods fp16,w8 --no-build CK BUILD --workers 1
    release --methods w8 --no-build CK BUILD --out {user}/new
    report CK BUILD --out {user}/build/release --pairs-seed 1
    validate --phonemes hɛlˈO CK --voice slt --seed 3
    validate --phonemes hɛlˈO CK --runtime mlprogram BUILD
    vectors CK BUILD --out {user}/new --voice slt
    vectors CK BUILD --check {user}/build/vectors
    bundle CK BUILD --out {user}/new-tiny
    bundle --verify {user}/build/bundle-tiny-padded-fp16
    release --at-most 1 CK BUILD --out {user}/new
    variation CK
    voices CK
    settle CK slt
    doctor BUILD
    device-report VOCODER-fp16.mlpackage --out {user}/new.json
    device-report --read {user}/words.json BUILD
    g2p 'Hello there, it cost $5.'
    g2p --file {user}/text.txt --explain
    g2p ane --lexicon {user}/lexicon.tsv --dialect gb
    rules --check {user}/page.md
""".splitlines() if line.strip()]  # fmt: skip
OUTPUTS = "-o --out --json --recipe --renders --timestamps --build".split()
PLACES = [f"{{user}}/{name}" for name in """
    thesis thesis-tiny build build/mine build/vectors file file/x loop fifo dangling dangling/x
    deep.json empty binary music.wav hello.wav clip.flac words.srt words.json log.jsonl recipe.json
    page.html picture.png build/KokoroVocoder-tiny-padded-fp16.json
    build/KokoroVocoder-tiny-padded-fp16.mlpackage build/KokoroVocoder-other-fp16.mlpackage
    build/bundle-tiny-padded-fp16 build/release/decision.json
    checkpoint checkpoint/voices nothing/deep/er ../outside .hidden CON new.wav new.json new.JSON
    new.srt new.flac new.png new new. new.mp3
""".split()]  # fmt: skip
PLACES += ["{user}", "{user}/" + "x" * 300, "{user}/" + "x/" * 3000, "{user}/a\0b"]
PLACES += ["{user}/ü \n.json", "{user}/\udcff.wav", "", "~/x", "file:///etc/passwd"]
PLACES += ". .. ../outside - -- /proc/x /proc/self/mem /dev/null /dev/full /dev/zero".split()
NUMBERS = "0 -1 1 2 1e308 nan inf -inf 0x10 1_000 ٣ ½ 1e-320 abc 1,2 -0 1.5 2147483648 True".split()
NUMBERS += ["9" * 30, "-" + "9" * 30, "9" * 5000, " 1 ", "", "1\n", "\0", f"{2**64}"]
WORDS = """
    ../../x ../voices/slt a/b ü %s%n {0} [red]x[/] [/] - slt slt:1e308,rms:1e308 slt:nan slt:0
    slt:-1,rms:2 slt,slt : , slt: :1 nobody 40,40,20 20,abc w8 p6 padded-w8 fp16,fp16
    fp16,nonsense m1 m99 torch coreml onnx en-US xx clips=2 clips=nan clips=9999999999 clips =
    a=b=c main duration x=1,2 features=1,3157,1,81 NaN null hexgrad -1 --
    [slow](/ˈ/) <speak> hɛlˈO =cmd|'/C
""".split()
WORDS += [
    "",
    " ",
    "\n\n",
    "\0",
    "a\0b",
    "\ud800",
    "\ud800\udc00",
    "\udcff",
    "a\r\nb",
    "x" * 100_000,
]
WORDS += ["🙂" * 50, "20," * 500, "1" * 500, "$" * 500, "a" * 500, "1/2/3/4" * 50]
WORDS += [
    "[x](" * 200,
    "。。。",
    "\u202e\u200b\ufeff",
    "Ⅷ ㎏ ² ½",
    "ˈ" * 500,
    "(" * 2000,
    "don't" * 100,
]
UNKNOWN = "--nonsense - -- -z --out --checkpoint --build= @x --method".split()
ASIDE = re.compile(r"(^|/)\.staged-|\.part$")


class Case(NamedTuple):
    """A call, and the files that were spoilt before it: kind and path."""

    argv: list
    damage: list

    def outputs(self, root):
        """Where it was asked to write; the default, too, which the user can see."""
        values = [value for flag, value in itertools.pairwise(self.argv) if flag in OUTPUTS]
        values += [arg.partition("=")[2] for arg in self.argv if arg.split("=")[0] in OUTPUTS]
        for text in [*values, "build"]:
            with contextlib.suppress(ValueError, OSError, RuntimeError):
                place = os.path.realpath(root / "cwd" / Path(text).expanduser())
                yield os.path.relpath(place, root)


def actions_of(verb):
    """The flags and positions that a command knows; none where it has no parser."""
    parsers = []

    def caught(parser, *_, **__):
        parsers.append(parser)
        raise SystemExit

    module = COMMANDS[verb][0] if verb in COMMANDS else "mlprogram.__main__"
    patched = mock.patch.object(argparse.ArgumentParser, "parse_args", caught)
    with patched, contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        importlib.import_module(module).main([])
    actions = [action for parser in parsers[:1] for action in parser._actions]
    for sub in [a for a in actions if isinstance(a, argparse._SubParsersAction)]:
        actions += [action for parser in sub.choices.values() for action in parser._actions]
    return [action for action in actions if not isinstance(action, argparse._HelpAction)]


def drawn(draw, world):
    """A good call with one to three things wrong."""
    argv, damage = words(draw.choice(CALLS), world.user), []
    actions = actions_of(argv[0])
    for kind in draw.choices("value flag drop unknown file".split(), [6, 4, 1, 1, 7], k=3):
        if kind == "file":
            damage += damaged(draw, argv, world)
        elif len(argv) > 1:
            spoil(argv, kind, actions, draw)
        if draw.random() < 0.5:
            break
    if any("--checkpoint" in a.option_strings for a in actions) and argv[1:2] != ["g2p"]:
        argv += words(CK, world.user) * all("--checkpoint" not in a for a in argv)
    return Case([text.replace("{user}", str(world.user)) for text in argv], damage)


def bad_value(draw, action):
    """One that suits the flag's kind badly, or well."""
    if action is not None and action.choices and draw.random() < 0.7:
        return draw.choice([*map(str, action.choices), *WORDS[:8]])
    if action is not None and action.type is Path:
        return draw.choice(PLACES)
    numbers = action is not None and action.type in (int, float)
    return draw.choice(NUMBERS if numbers else draw.choice([WORDS, WORDS, PLACES, NUMBERS]))


def spoil(argv, kind, actions, draw):
    """One argument is another, is gone, or one more is there."""
    at = draw.randrange(1, len(argv))
    if kind == "value":
        argv[at] = bad_value(
            draw, next((a for a in actions if argv[at - 1] in a.option_strings), None)
        )
    elif kind == "flag" and actions:
        action = draw.choice(actions)
        argv += [*action.option_strings[-1:], *[bad_value(draw, action)] * (action.nargs != 0)]
    elif kind == "drop":
        del argv[at]
    else:
        argv.insert(at, draw.choice(UNKNOWN))


def damaged(draw, argv, world):
    """Spoil a file that these arguments make the command read, or the cache; none of the user's."""
    named = [world.root / "cache"]
    named += [Path(arg) for arg in argv if arg.startswith(f"{world.user}/") and arg.isprintable()]
    users = [world.user / name for name in USERS]
    files = [
        file
        for place in named
        if len(str(place)) < 999
        for file in (place, *place.rglob("*"))
        if file.is_file() and not file.is_symlink() and file not in users
    ]
    if not files:
        return []
    suffix = draw.choice(sorted({file.suffix for file in files}))
    path = draw.choice(sorted(file for file in files if file.suffix == suffix))
    kind = draw.choice(sorted(KINDS))
    KINDS[kind](path, draw)
    return [(kind, path.relative_to(world.root).as_posix())]


def within(name, places):
    """Whether it is one of these places, or lies in one."""
    parts, places = (
        (name, name.partition(".parts/")[0]),
        [p for p in places if p not in (".", "..")],
    )
    return any(part == place or part.startswith(f"{place}/") for part in parts for place in places)


def is_lost(name, after, places, code):
    """Whether this change is a loss: nobody's work changes but a file that was named as output;
    ours only where it was asked for.
    """
    done = code in (0, 1, 3)
    if name.startswith("cache") or "/cache/" in name:
        return False
    if name.removeprefix("user/") in USERS or not name.startswith("user/"):
        return not (name in places and done)
    if done and within(name, places):
        return name not in after and name.endswith("Manifest.json")
    return ".parts/" not in name


def faults_of(case, ended, before, after, root):
    """Every fault by name, with an example. before, after: `World.scan`."""
    faults, places = {}, list(case.outputs(root))
    if "Traceback (most recent" in ended.stderr or ended.code not in (0, 1, 2, 3, WORK, HANG):
        faults["traceback"] = ended.stderr[-1500:] or ended.code
    if ended.code == HANG:
        faults["hang"] = case.argv
    new = [name for name in after if name not in before and not name.startswith("cache")]
    files = [name for name in new if not (root / name).is_dir()]
    left = [n for n in new if ASIDE.search(n) or (n.startswith("tmp/") and n != "tmp/.ses")]
    if ended.code == 2:  # those are kept on purpose
        left += [name for name in files if "/cache/" not in name and ".parts/" not in name]
    changed = [name for name in before if after.get(name) != before[name]]
    lists = {
        "lost": [name for name in changed if is_lost(name, after, places, ended.code)],
        "leftover": left,
        "outside": [name for name in files if name not in left and not within(name, places)],
    }
    faults |= {fault: min(names) for fault, names in lists.items() if names}
    errors = [line for line in ended.stderr.splitlines() if "error: " in line]
    if ended.code == 2 and (not errors or len(errors[-1]) > LONGEST_LINE + 80):
        faults["unclear"] = ended.stderr[-80:]
    return faults
