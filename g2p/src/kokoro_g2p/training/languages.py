"""Train the network of Spanish, Italian, French and Portuguese (g2p/languages) on each language's
commonest words, as espeak-ng reads them.

    python -m kokoro_g2p.training.languages --seed 0   # data/languages.npz and .json, the lists
    python -m kokoro_g2p.training.languages --lists    # spanish.txt.gz ... alone

The words come from wordfreq, `pip install --no-deps wordfreq==3.1.1` (CC BY-SA 4.0); no frequency
is stored. HELD_OUT of the 40,000 commonest, drawn by SHA-256 of seed and word, train nothing, nor
do as many of the next seed, by which choices are made. A list holds those of the LISTED commonest
words that the network reads otherwise, held-out ones included. A pipe's last line is one JSON
object.
"""

import argparse
import dataclasses
import gzip
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_g2p.alphabet import PRIMARY, SOUND, Alphabet
from kokoro_g2p.bundled import DATA
from kokoro_g2p.commands import EXIT_GOOD, CommandParser, command, conclude
from kokoro_g2p.errors import InputError
from kokoro_g2p.espeak import open_espeak
from kokoro_g2p.files import open_aside
from kokoro_g2p.languages.french import LATENT
from kokoro_g2p.languages.language import LANGUAGES, Language
from kokoro_g2p.languages.reader import VOWEL, LanguageReader
from kokoro_g2p.neural import LANGUAGES as WEIGHTS
from kokoro_g2p.neural import Config, NeuralG2P
from kokoro_g2p.result import Language as Code

if TYPE_CHECKING:
    from kokoro_g2p.training.loop import Example

# words that train nothing, and of how many commonest ones they are drawn
HELD_OUT, COMMON = 2000, 40_000
FORMS = 20_000  # commonest words, whose form inside a phrase is listed too
LISTED = 40_000  # commonest words that are read as espeak-ng does, by the list where need be
OFTEN = 3  # times that an epoch has each of these, of the others once
RARE = 60  # words that a sound is heard in, at least
LETTERS = "abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿœðþß'"
SIZES = Config(width=80, inner=128, blocks=4, answers=(2,), dropout=0.0)
STEPS, SYMBOLS, FALLING = 5600, 4096, 0.6


def read_frequent_words(language: str, form: str = r"[a-zà-öø-ÿœ]+") -> list[str]:
    """The words of this form, of letters alone, the commonest first. Raises InputError when
    wordfreq is not installed.
    """
    spec = find_spec("wordfreq")
    if spec is None or not spec.submodule_search_locations or find_spec("msgpack") is None:
        raise InputError(
            "wordfreq and msgpack are not installed: `pip install --no-deps wordfreq==3.1.1"
            " msgpack`"
        )
    import msgpack

    folder = Path(spec.submodule_search_locations[0]) / "data"
    path = folder / f"large_{language}.msgpack.gz"
    # Some languages have only the small list.
    if not path.is_file():
        path = folder / f"small_{language}.msgpack.gz"
    # A header, then words in bins of falling frequency
    _, *bins = msgpack.unpackb(gzip.decompress(path.read_bytes()), raw=False)
    return [word for words in bins for word in words if re.fullmatch(form, word)]


def draw_held_out(words: Sequence[str], seed: int) -> list[str]:
    """The words that train nothing."""
    common = [word for word in words[:COMMON] if len(word) > 1]
    return sorted(common, key=lambda word: hashlib.sha256(f"{seed} {word}".encode()).digest())[
        :HELD_OUT
    ]


def ask_readings(language: Language, words: Sequence[str]) -> dict[str, str]:
    """Each word's reading in the notation of the list."""
    ask = cache(open_espeak(language.espeak))
    return {word: language.probed(word, ask, place < FORMS) for place, word in enumerate(words)}


def make_target(reading: str) -> str:
    """A reading's form at the end of a phrase as the network shall answer it, with the sound that
    only a vowel behind it brings out.
    """
    end, _, inside = reading.partition("/")
    return end + (inside[-1:] if inside[-1:] in LATENT and end[-1:] not in LATENT else "")


def list_sounds(by_word: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The sounds of every word that a network can learn: of several letters, a vowel among them,
    with a stress.
    """
    plain = {word: make_target(said) for word, said in by_word.items() if said and " " not in said}
    return {
        word: tuple(SOUND.findall(said))
        for word, said in plain.items()
        if len(word) > 1 and VOWEL.search(word) and PRIMARY in said and set(LETTERS) >= set(word)
    }


def build_alphabet(sounds: Sequence[tuple[str, ...]]) -> Alphabet:
    """Letters, and the sounds that are not rare, in rising order."""
    counts = Counter(sound for word in sounds for sound in word)
    usual = sorted(sound for sound, count in counts.items() if count >= RARE)
    # Only vowels bear stress, so that a sound with the mark tells one.
    vowels = {sound[1:] for sound in usual if sound[0] == PRIMARY}
    return Alphabet(("", *usual), tuple(sorted(vowels)), tuple(LANGUAGES), LETTERS)


def make_examples(
    alphabet: Alphabet, tag: int, sounds: Mapping[str, tuple[str, ...]], common: frozenset[str]
) -> "list[Example]":
    """A language's words, as often as an epoch has them."""
    from kokoro_g2p.training.loop import Example, can_align

    made = []
    for word, row in sounds.items():
        if alphabet.can_read(word) and alphabet.ids.keys() >= set(row):
            example = Example(
                alphabet.encode(word, tag), tuple(alphabet.ids[sound] for sound in row)
            )
            # True and False count as 1 and 0: a word too long to align is left out.
            made += [example] * (can_align(example) * (OFTEN if word in common else 1))
    return made


def write_list(code: Code, by_word: Mapping[str, str]) -> dict[str, Any]:
    """The words that the bundled network reads otherwise than espeak-ng, and those of several
    parts. Returns how many, and of how many.
    """
    language = LANGUAGES[code]
    reader = LanguageReader(language, {}, NeuralG2P.load(dialect=code))
    ask = open_espeak(language.espeak)
    # Without its list the reader answers what the network says.
    reader.listed = {}
    reader.prepare(by_word)
    lines = [
        f"{word}\t{said}\n"
        for word, said in by_word.items()
        if said and " " not in said and reader.read_unlisted(word) != said
    ]
    lines += [f"{word}\t{language.probed(word, ask, True)}\n" for word in language.compounds]
    with open_aside(DATA / f"{language.name}.txt.gz") as aside:
        aside.write_bytes(gzip.compress("".join(sorted(lines)).encode("utf-8"), mtime=0))
    return {"words": len(by_word), "listed": len(lines)}


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = CommandParser("kokoro_g2p.training.languages", __doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the held-out words and the weights")
    parser.add_argument("--steps", type=int, default=STEPS, help="length of the plan")
    parser.add_argument(
        "--state", type=Path, default=Path("build/languages.pt"), help="kept every two minutes"
    )
    parser.add_argument("--resume", type=Path, help="a state to go on from")
    parser.add_argument("--lists", action="store_true", help="write the lists; train nothing")
    arguments = parser.parse_args(argv)
    if arguments.steps < 1:
        raise InputError(f"--steps {arguments.steps}: at least 1")
    words = {code: read_frequent_words(code) for code in LANGUAGES}
    # the lists need the commonest words' readings only, training all of them
    count = LISTED if arguments.lists else None
    by_word = {code: ask_readings(LANGUAGES[code], words[code][:count]) for code in LANGUAGES}
    if not arguments.lists:
        train(arguments, words, by_word)
    figures: dict[str, Any] = {
        code: write_list(code, dict(list(by_word[code].items())[:LISTED])) for code in LANGUAGES
    }
    return conclude(arguments, figures, EXIT_GOOD, "written")


def train(
    arguments: argparse.Namespace,
    words: Mapping[Code, list[str]],
    by_word: Mapping[Code, Mapping[str, str]],
) -> None:
    """Write the network."""
    from kokoro_g2p.network import save_weights
    from kokoro_g2p.training.loop import Trainer, TrainingPlan

    sounds = {code: list_sounds(by_word[code]) for code in LANGUAGES}
    alphabet = build_alphabet([row for rows in sounds.values() for row in rows.values()])
    lessons: list[Example] = []
    for tag, code in enumerate(LANGUAGES):
        # The words of the next seed are those by which choices were made.
        unseen = {
            *draw_held_out(words[code], arguments.seed),
            *draw_held_out(words[code], arguments.seed + 1),
        }
        rows = {word: row for word, row in sounds[code].items() if word not in unseen}
        lessons += make_examples(alphabet, tag, rows, frozenset(words[code][:LISTED]))
    symbols = 1 + len(alphabet.tags) + len(LETTERS)
    config = dataclasses.replace(SIZES, sounds=len(alphabet.sounds), symbols=symbols)
    plan = TrainingPlan(arguments.steps, arguments.seed, symbols=SYMBOLS, falling_part=FALLING)
    trainer = Trainer(plan, lessons, config)
    if arguments.resume is not None:
        trainer.resume(arguments.resume)
    trainer.run(
        arguments.state, lambda entry: print(json.dumps(entry), file=sys.stderr, flush=True)
    )
    training = {"seed": arguments.seed, "steps": trainer.step, "examples": len(lessons)}
    save_weights(trainer.average, WEIGHTS, training, alphabet)


if __name__ == "__main__":
    raise SystemExit(main())
