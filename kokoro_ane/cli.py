"""The console command: every verb of the project under one name, with or without a Makefile.

    kokoro-ane build vocoder --checkpoint kokoro-int8
    kokoro-ane speak "Hello." -o hello.wav
    kokoro-ane doctor

Each subcommand is one module's main(argv); `kokoro-ane VERB --help` is that command's own help.
"""

import importlib
import sys
from collections.abc import Sequence
from types import MappingProxyType

from kokoro_ane import __version__

COMMANDS = MappingProxyType(
    {
        "build": ("kokoro_ane.pipeline.build", "a stage's packages: g2p, encoder, vocoder"),
        "quantize": ("kokoro_ane.pipeline.apply", "a compressed level from the fp16 package"),
        "speak": ("kokoro_ane.pipeline.speak", "text to a .wav or .flac file, or a stream"),
        "quality": ("kokoro_ane.eval.quality", "judge one level; builds it where it is missing"),
        "release": ("kokoro_ane.eval.release", "judge every level and name the one to release"),
        "report": ("kokoro_ane.eval.report", "the page of a release decision"),
        "bundle": ("kokoro_ane.pipeline.bundle", "one folder for an app"),
        "validate": (
            "kokoro_ane.pipeline.validate",
            "one utterance through upstream, PyTorch and the packages, intermediates compared",
        ),
        "vectors": ("kokoro_ane.pipeline.vectors", "test vectors of every step"),
        "sensitivity": (
            "kokoro_ane.quantize.sensitivity",
            "measure every layer, find a recipe for `mixed`",
        ),
        "controls": ("kokoro_ane.eval.controls", "prove that the gates reject known errors"),
        "variation": (
            "kokoro_ane.eval.variation",
            "what the model does to itself, stored for verdicts",
        ),
        "g2p": ("kokoro_ane.g2p.__main__", "text to phonemes"),
        "describe": ("kokoro_ane.pipeline.examine", "what a package is made of"),
        "ane": ("kokoro_ane.pipeline.examine", "what a chip's Neural Engine takes of a package"),
        "device-report": (
            "kokoro_ane.pipeline.device_report",
            "what a Mac measures of packages, beside what they compute and move",
        ),
        "doctor": (
            "kokoro_ane.pipeline.doctor",
            "what is installed, which checkpoint is at hand, what is built",
        ),
    }
)
OWN_VERB = ("describe", "ane")  # subcommands of one command


def usage() -> str:
    """The list of verbs."""
    rows = "\n".join(f"  {name:<13} {says}" for name, (_, says) in COMMANDS.items())
    return (
        f"usage: kokoro-ane VERB ...\n\n{rows}\n\n`kokoro-ane VERB --help` tells more; --version"
        " prints the version."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the verb; 2 where there is no such verb, or nowhere to print."""
    from kokoro_ane.core.errors import run_cli

    return run_cli(_called, None if argv is None else list(argv))


def _called(argv: list[str] | None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] in (["-h"], ["--help"]):
        print(usage())
        return 0
    if arguments[:1] == ["--version"]:
        print(__version__)
        return 0
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
    code: int = verb.__wrapped__(arguments if arguments[0] in OWN_VERB else arguments[1:])
    return code


if __name__ == "__main__":
    raise SystemExit(main())
