"""List the voices of a checkpoint: name, language, sex, where it is from, whether it is at hand.

    kokoro-ane voices [--checkpoint FOLDER] [--language en-GB]

Nothing is opened and nothing is downloaded. Exit 0: listed. Exit 2: no such folder or language. A
pipe's last line is one JSON object.
"""

from dataclasses import asdict, dataclass

from kokoro_ane.core import (
    EXIT_GOOD,
    CommandOptions,
    InputError,
    checkpoint_option,
    command,
    conclude,
    list_voices,
    option,
    parse,
    print_table,
)


@dataclass(frozen=True)
class VoicesOptions(CommandOptions):
    """Whose voices are listed."""

    checkpoint: str | None = checkpoint_option()
    language: str | None = option("only voices of this language, such as en or en-GB")


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(VoicesOptions, "kokoro-ane voices", __doc__, argv)
    voices = list_voices(options.checkpoint)
    if options.language:
        asked = options.language.lower()
        known = sorted({voice.language for voice in voices if voice.language})
        # With a hyphen behind both, `en` finds en-GB, and `e` finds nothing.
        voices = tuple(
            voice for voice in voices if f"{voice.language}-".lower().startswith(f"{asked}-")
        )
        if not voices:
            raise InputError(f"no voice speaks {options.language!r}. There are: {', '.join(known)}")
    at_hand = sum(voice.at_hand for voice in voices)
    rows = [
        (voice.name, voice.language, voice.sex, voice.source, "yes" if voice.at_hand else "no")
        for voice in voices
    ]
    title = f"{at_hand} of {len(voices)} voices are at hand"
    print_table(title, ("voice", "language", "sex", "from", "at hand"), rows)
    report = {"voices": [asdict(voice) for voice in voices]}
    return conclude(options, report, EXIT_GOOD, "`kokoro-ane speak --voice NAME` speaks with one")


if __name__ == "__main__":
    raise SystemExit(main())
