"""The console command: every verb of the project under one name, with or without a Makefile.

    kokoro-ane build vocoder --layout streaming
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
    from kokoro_ane.core.streams import with_streams

    return with_streams(
        lambda: _called(list(sys.argv[1:] if argv is None else argv), last=argv is None)
    )


def _called(arguments: list[str], last: bool) -> int:
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
    try:
        # its handlers are there before a verb's modules, which take seconds to import
        from kokoro_ane.core.process import interruptible

        with interruptible(last):
            try:
                return _verb(arguments)
            except KeyboardInterrupt:  # while modules are imported
                return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()


def _verb(arguments: list[str]) -> int:
    from kokoro_ane.core.streams import NO_MEMORY, no_memory

    try:
        # only the verb's own modules are imported
        module = importlib.import_module(COMMANDS[arguments[0]][0])
    except (ImportError, MemoryError, RuntimeError) as problem:
        if not no_memory(problem):
            raise
        print(f"error: {NO_MEMORY}", file=sys.stderr)
        return 2
    code: int = module.main(arguments if arguments[0] in OWN_VERB else arguments[1:])
    return code


def _interrupted() -> int:
    print("error: interrupted; nothing was left half-written", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
