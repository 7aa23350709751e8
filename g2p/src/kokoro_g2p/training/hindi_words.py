"""List the words of Hindi that the rules of languages/hindi.py read otherwise than espeak-ng.

    pip install --no-deps wordfreq==3.1.1 msgpack; pip install espeakng-loader phonemizer-fork
    python -m kokoro_g2p.training.hindi_words && make hashes

The words are those of wordfreq (CC BY-SA 4.0), the readings what espeak-ng (GPL) prints of them;
none of its code is used. A pipe's last line is one JSON object.
"""

import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kokoro_g2p.alphabet import KNOWN
from kokoro_g2p.bundled import DATA
from kokoro_g2p.commands import EXIT_GOOD, CommandParser, command, conclude
from kokoro_g2p.espeak import open_espeak
from kokoro_g2p.languages.hindi import LETTERS, read_word
from kokoro_g2p.training.languages import read_frequent_words
from kokoro_g2p.training.mandarin_words import write_packed

RARE, COMMON = 24_000, 300  # words that are read, those of them inside a sentence


def read_inside(word: str, ask: Callable[[str], str]) -> str:
    """What espeak-ng says of a word between two others."""
    said = ask(f"घर {word} घर").split(" ")
    # Where espeak-ng joins the words, it is asked for the word alone.
    return said[1] if len(said) == 3 else ask(word)


def is_word(answer: str) -> bool:
    """Whether espeak-ng has said a word and neither a part of one by name nor another language."""
    return bool(answer) and " " not in answer and "χ" not in answer and set(answer) <= KNOWN


@command
def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = CommandParser("kokoro_g2p.training.hindi_words", __doc__)
    parser.add_argument("--out", type=Path, default=DATA, help="the folder of the list")
    arguments = parser.parse_args(argv)
    words = read_frequent_words("hi", rf"[{LETTERS}]+")[:RARE]
    ask = open_espeak("hi")
    # common words lose their stress inside a sentence, where they nearly always stand
    frame = partial(read_inside, ask=ask)
    answers = {word: frame(word) for word in words[:COMMON]}
    answers |= {word: ask(word) for word in words[COMMON:]}
    # Nasal marks are characters of their own on both sides, so that equal sounds compare equal.
    answers = {word: unicodedata.normalize("NFD", answer) for word, answer in answers.items()}
    unlike = {
        word: answer
        for word, answer in answers.items()
        if is_word(answer) and answer != unicodedata.normalize("NFD", read_word(word))
    }
    content = "\n".join(f"{word}\t{answer}" for word, answer in sorted(unlike.items()))
    target = arguments.out / "hindi.txt.gz"
    write_packed(target, content)
    share = round(100 - 100 * len(unlike) / len(words), 2)
    report = {"words": len(words), "listed": len(unlike), "equal": share}
    return conclude(arguments, report, EXIT_GOOD, f"{len(unlike)} words: {target}")


if __name__ == "__main__":
    raise SystemExit(main())
