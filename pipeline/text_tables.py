"""What a port needs to read words: the G2P network, the tagger and the small rules around them, as raw tables; and words to check it by.

    write_text_tables(Path("text"), "us")      # text/us.json, text/us.bin, and three .tsv

NAME.json holds the rules, and of each array its dtype, shape and first byte in NAME.bin (little-endian, row-major, 64-byte borders). A
matrix [out, in] of the network is int8 with float32 `.scale` [out, 1]; what has no scale is float32. `tagger.features` rises.
NAME.words.tsv: word, source, phonemes, confidence as g2p reads it alone; NAME.tags.tsv: a sentence's words, a place, its tag and its
probability; NAME.sentences.tsv: a sentence and its phonemes. docs/synthesis.md says how they are used.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core.errors import InputError
from kokoro_ane.core.staging import write_json
from kokoro_ane.g2p import alphabet, morphology, part_of_speech, weak_forms
from kokoro_ane.g2p.chunks import BEFORE_NUMBER, OPEN, TITLES
from kokoro_ane.g2p.lexicon import Lexicon
from kokoro_ane.g2p.neural import WEIGHTS_OF, NeuralG2P, confidence_of, load_arrays
from kokoro_ane.g2p.part_of_speech import Tagger
from kokoro_ane.g2p.phonemizer import G2P
from kokoro_ane.g2p.reading import ACRONYM, CAPITALISED, CAPITALS, PREFIX_SOUNDS, Reader
from kokoro_ane.g2p.result import Dialect

FORMAT, BORDER = 1, 64
STEP, MADE_UP = 997, ["blorf", "zorbify", "Kokoroesque", "tessaracts", "undramatic", "blorf-like", "Vroomfondel's"]
SENTENCES = (
    "They record a song every week .", "The record was broken yesterday .", "I will object to that object .", "He lives near the dam .",
    "She read the book and wound the clock .", "Please present the present to her .", "Their lives depend on it !",
    "A close friend will close the door .", "The wind began to wind down", "What a moderate man he is ?",
)  # fmt: skip


SPOKEN = (
    "The ferry crossed the harbour, and the old man waved to an empty boat.", "Nobody in the apple trade wanted to answer.",
    "“Where are you going?” she asked; he only laughed.", "It's a well-known story: the dog's owner didn't call.", "I am here. Am I late?",
)  # fmt: skip


def write_text_tables(folder: Path, dialect: Dialect) -> None:
    """The five files of a dialect. InputError where g2p's data is missing or damaged."""
    folder.mkdir(parents=True, exist_ok=True)
    tagger = Tagger.load()
    order = np.argsort(np.fromiter(tagger.rows, np.uint32))
    arrays = network_arrays(dialect) | {
        "tagger.features": np.fromiter(tagger.rows, np.uint32)[order],
        "tagger.weights": tagger.weights[order],
    }
    places, content = packed(arrays)
    (folder / f"{dialect}.bin").write_bytes(content)
    described = {"format": FORMAT, "dialect": dialect, "arrays": places, "network": network_rules(dialect), "tagger": tagger_rules(tagger)}
    write_json(folder / f"{dialect}.json", described | {"words": word_rules(dialect)})
    for name, rows in (("words", word_rows(dialect)), ("tags", tag_rows(tagger)), ("sentences", sentence_rows(dialect))):
        (folder / f"{dialect}.{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def network_arrays(dialect: Dialect) -> dict[str, np.ndarray]:
    """As they are stored: int8 with scales."""
    load_arrays(WEIGHTS_OF[dialect])  # checked against their manifest
    with np.load(WEIGHTS_OF[dialect]) as stored:
        return {f"network.{name}": stored[name] for name in stored.files}


def packed(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], bytes]:
    """Where each array lies, and all of them."""
    places, content = {}, b""
    for name, array in arrays.items():
        content += b"\0" * (-len(content) % BORDER)
        places[name] = {"dtype": str(array.dtype), "shape": list(array.shape), "offset": len(content)}
        content += np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
    return places, content


def network_rules(dialect: Dialect) -> dict[str, Any]:
    """Sizes, symbols and limits."""
    _, config = load_arrays(WEIGHTS_OF[dialect])
    sounds = alphabet.ALPHABETS[dialect]
    slope, shift = confidence_of(WEIGHTS_OF[dialect])
    return {
        "heads": config.heads,
        "blocks": config.blocks,
        "answers": list(config.answers),
        "letters": alphabet.LETTERS,
        "first_letter_id": 1 + alphabet.TAG_COUNT,
        "sounds": list(sounds.sounds),
        "vowels": list(sounds.vowels),
        "most_letters": alphabet.MAX_LETTERS,
        "longest_run": alphabet.MAX_RUN,
        "longest_onset": alphabet.MAX_ONSET,
        "confidence": {"slope": slope, "shift": shift},
    }


def tagger_rules(tagger: Tagger) -> dict[str, Any]:
    """Word lists and forms that the features are made of."""
    names = ("PRONOUNS", "CONTRACTIONS", "ENDINGS", "AUXILIARIES", "TIMES", "STOPS", "REACH", "TAGS", "FINITE", "FINITE_LETTERS",
             "VERBLESS", "ENDS", "BASE", "PAST", "FORMS", "IRREGULAR")  # fmt: skip
    rules = {name.lower(): plain(getattr(part_of_speech, name)) for name in names}
    stored, heteronyms = tagger.classes.stored, tagger.heteronyms
    return rules | {"scale": tagger.scale, "classes": plain(stored), "heteronyms": plain(heteronyms)}


def word_rules(dialect: Dialect) -> dict[str, Any]:
    """Endings, letters and small words."""
    return {
        "voiceless": plain(morphology.VOICELESS),
        "sibilants": plain(morphology.SIBILANTS),
        "flaps_after": plain(morphology.FLAPS_AFTER),
        "clitics": morphology._CLITICS[dialect],
        "letters": dict(Lexicon.load(dialect).letter_names),
        "vowels": plain(alphabet.VOWELS),
        "heavy": plain(alphabet.DIPHTHONGS | alphabet.AFFRICATES),
        "pauses": plain(alphabet.PAUSES),
        "weak": plain(weak_forms.WEAK),
        "abbreviations": plain(TITLES | BEFORE_NUMBER | OPEN),
        "after_particle": plain(weak_forms.AFTER_PARTICLE),
        "prefixes": PREFIX_SOUNDS,
        "stress": {"capitalised": CAPITALISED, "capitals": CAPITALS},
        "acronym": ACRONYM,
    }


def plain(value: Any) -> Any:
    """JSON-ready: sets sorted, tuples as lists."""
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in sorted(value.items())}
    return sorted(value) if isinstance(value, frozenset | set) else list(value) if isinstance(value, tuple) else value


def words_to_check(dialect: Dialect) -> list[str]:
    """Listed words, each also as a name, shouted and with endings, and words that no list has."""
    listed = [word for word in sorted(Lexicon.load(dialect).words)[::STEP] if word.isascii() and word.isalpha()]
    made = [form for word in listed for form in (word, word.capitalize(), word.upper(), f"{word}'s", f"{word}ing", f"{word}s", f"un{word}")]
    return sorted({*made, *MADE_UP})


def word_rows(dialect: Dialect) -> Iterator[tuple[str, ...]]:
    """As g2p reads each word alone. A heteronym's first sense."""
    words = words_to_check(dialect)
    reader = Reader(Lexicon.load(dialect), NeuralG2P.load(dialect=dialect))
    reader.prepare(words)
    for word in words:
        found = reader.read(word)
        if "\t" in word or "\n" in word:
            raise InputError(f"{word!r} cannot stand in a table")
        yield word, found.source, found.phonemes, f"{found.confidence:.6f}"


def tag_rows(tagger: Tagger) -> Iterator[tuple[str, ...]]:
    """Every word of SENTENCES."""
    for sentence in SENTENCES:
        words = sentence.split()
        for place in range(len(words)):
            shares = tagger.probabilities(words, place)
            tag = max(shares, key=lambda tag: shares[tag])
            yield sentence, str(place), tag, f"{shares[tag]:.6f}"


def sentence_rows(dialect: Dialect) -> Iterator[tuple[str, ...]]:
    """Text that needs no normalizer, as g2p says it."""
    g2p = G2P.load(dialect)
    for sentence in SPOKEN:
        yield sentence, g2p.phonemize(sentence).phonemes
