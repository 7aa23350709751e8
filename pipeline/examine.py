"""Describe a package, and forecast what a chip's Neural Engine runs of it: mlprogram's examiner as
commands of this project, which protect files and streams.

    kokoro-ane describe build/KokoroVocoder-fp16.mlpackage
    kokoro-ane ane build/KokoroVocoder-fp16.mlpackage --chip m1 --json forecast.json
"""

from contextlib import ExitStack

from kokoro_ane.core.errors import InputError, Parser, command
from mlprogram.__main__ import build_parser, run
from mlprogram.errors import ProgramError


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself; `argv` begins with the verb."""
    arguments = build_parser(Parser).parse_args(argv)
    from kokoro_ane.core.staging import check_output, staged

    with ExitStack() as stack:
        for flag in ("json", "plot"):
            target = getattr(arguments, flag, None)
            # "-" is stdout
            if target and str(target) != "-":
                place = check_output(target, arguments=arguments)
                setattr(arguments, flag, stack.enter_context(staged(place)))
        try:
            return run(arguments)
        except ProgramError as problem:
            raise InputError(str(problem)) from None


if __name__ == "__main__":
    raise SystemExit(main())
