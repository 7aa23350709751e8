"""The console command: every verb of the project under one name, with or without a Makefile.

    kokoro-ane build vocoder --checkpoint kokoro-int8
    kokoro-ane speak "Hello." -o hello.wav
    kokoro-ane doctor

Each subcommand is one module's main(argv); `kokoro-ane VERB --help` is that command's own help.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kokoro_ane import __version__

# What most people need, in the order in which they need it
GROUPS = MappingProxyType(
    {
        "Speak": {
            "speak": ("kokoro_ane.pipeline.speak", "text to a sound file, or a stream"),
            "voices": ("kokoro_ane.pipeline.voice_table", "who can speak"),
        },
        "Build": {
            "build": ("kokoro_ane.pipeline.build", "a stage's packages: g2p, encoder, vocoder"),
            "quantize": ("kokoro_ane.pipeline.apply", "a compressed level from the fp16 package"),
            "bundle": ("kokoro_ane.pipeline.bundle", "one folder for an app"),
        },
        "Judge": {
            "quality": (
                "kokoro_ane.eval.quality",
                "judge one level; builds it where it is missing",
            ),
            "release": ("kokoro_ane.eval.release", "judge every level and name the one to release"),
            "report": ("kokoro_ane.eval.report", "the page of a release decision"),
        },
    }
)
# `kokoro-ane more` lists these
MORE = MappingProxyType(
    {
        "doctor": (
            "kokoro_ane.pipeline.doctor",
            "what is installed, which checkpoint is at hand, what is built",
        ),
        "g2p": ("kokoro_g2p.__main__", "text to phonemes"),
        "validate": (
            "kokoro_ane.pipeline.validate",
            "one utterance through upstream, PyTorch and the packages, intermediates compared",
        ),
        "vectors": ("kokoro_ane.pipeline.vectors", "test vectors of every step"),
        "settle": (
            "kokoro_ane.pipeline.settle",
            "statistics of voices, before they are first asked for",
        ),
        "variation": (
            "kokoro_ane.eval.variation",
            "what the model does to itself, stored for verdicts",
        ),
        "device-report": (
            "kokoro_ane.pipeline.device_report",
            "what a Mac measures of packages, beside what they compute and move",
        ),
    }
)
COMMANDS = MappingProxyType(
    # One flat look-up; the groups only order the help.
    {verb: place for verbs in (*GROUPS.values(), MORE) for verb, place in verbs.items()}
)


def usage() -> str:
    """The verbs that most people need, by what they are for."""
    lines = ["usage: kokoro-ane VERB ..."]
    for group, verbs in GROUPS.items():
        lines += ["", f"{group}:", *_rows(verbs)]
    return "\n".join(
        [
            *lines,
            "",
            "`kokoro-ane VERB --help` tells more of a verb, `kokoro-ane more` lists further verbs;",
            "--version prints the version. `mlprogram --help` examines any package.",
        ]
    )


def _rows(verbs: Mapping[str, tuple[str, str]]) -> list[str]:
    return [f"  {name:<13} {meaning}" for name, (_, meaning) in verbs.items()]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the verb; 2 where there is no such verb, or nowhere to print."""
    from kokoro_ane.core import run_cli

    return run_cli(_called, None if argv is None else list(argv))


def _called(argv: list[str] | None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] in (["-h"], ["--help"]):
        print(usage())
        return 0
    if arguments[:1] == ["more"]:
        print("\n".join(["further verbs:", *_rows(MORE)]))
        return 0
    if arguments[:1] == ["--version"]:
        print(__version__)
        return 0
    # Two mistakes share an answer: no verb at all, and one that does not exist.
    if not arguments or arguments[0] not in COMMANDS:
        missed = f"no verb {arguments[0][:80]!r}; there are" if arguments else "give a verb"
        print(
            f"error: {missed}: {', '.join(COMMANDS)} (`kokoro-ane --help` says what each does)",
            file=sys.stderr,
        )
        return 2
    # Only the verb's own modules are imported, which takes seconds: run_cli's handlers are there
    # already. So the verb is called without its own run_cli.
    verb = importlib.import_module(COMMANDS[arguments[0]][0]).main
    code: int = verb.__wrapped__(arguments[1:])
    return code


if __name__ == "__main__":
    raise SystemExit(main())
