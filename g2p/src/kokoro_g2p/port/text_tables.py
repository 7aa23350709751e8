"""Write what a port needs to read text: g2p's rules as a program, its word lists, its network and
tagger as raw tables; and texts by which the port checks itself.

    # us.rules, us.words, us.json, us.bin, us.texts.tsv, us.chunks.json
    write_text_tables(Path("text"), "us")

g2p/port/rule_program.py writes NAME.rules, g2p/port/word_table.py NAME.words. NAME.json gives the
dtype, shape and first byte of each array in NAME.bin (little-endian, row-major, aligned to 64
bytes). A matrix [out, in] of the network is int8 with float32 `.scale` [out, 1]; an array without a
scale is float32. `tagger.features` is sorted; `heteronyms.weights` [places, 1] is int8.
NAME.texts.tsv: texts and their phonemes; NAME.chunks.json: texts with pauses and paces, and their
chunks. Only English has the tagger and the heteronyms.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_g2p import alphabet
from kokoro_g2p.bundled import DATA, read_data_text
from kokoro_g2p.files import json_text
from kokoro_g2p.heteronyms import Heteronyms
from kokoro_g2p.languages.reader import LanguageReader
from kokoro_g2p.languages.script_reader import ScriptReader
from kokoro_g2p.languages.scripts import SCRIPTS
from kokoro_g2p.lexicon import Lexicon
from kokoro_g2p.neural import WEIGHTS_OF, load_arrays, read_alphabet, read_confidence
from kokoro_g2p.part_of_speech import Tagger
from kokoro_g2p.pauses import find_opening, is_paragraph_end
from kokoro_g2p.phonemizer import G2P
from kokoro_g2p.port.rule_program import write_rules
from kokoro_g2p.port.word_table import pack_words
from kokoro_g2p.result import GB, US, Dialect, Guess, Language
from kokoro_g2p.splitting import _find_whole_sentences
from kokoro_g2p.ssml import find_voice
from kokoro_g2p.text import chunks, cut_parts

FORMAT, BORDER = 4, 64
LISTS = {"ours": "o", "gold": "g", "cmudict": "c", "silver": "s"}
# Approximate bytes of a language's files without the texts to check by: writing them takes half a
# minute.
TEXT_BYTES: dict[Language, int] = {
    US: 3_940_000, GB: 4_506_000, "es": 487_000, "it": 507_000, "fr": 498_000, "pt": 496_000,
    "zh": 301_000, "hi": 88_000, "ja": 2_193_000
}  # fmt: skip
STEP = 997  # every 997th word of the lists is spoken as a check


@cache
def read_port_texts(kind: str) -> tuple[str, ...]:
    """Return texts by which a port checks itself: words that no list has (`word`), `text`,
    `markup`.
    """
    return tuple(
        line.partition("\t")[2].replace("⏎", "\n")
        for line in read_data_text(DATA / "port_texts.tsv").split("\n")
        if line.startswith(kind)
    )


MARKED = read_port_texts("markup")


def write_text_tables(
    folder: Path,
    language: Language,
    without: Collection[str] = (),
    others: Collection[Language] = (US,),
) -> None:
    """Write the files of a language. without: domains of one-off forms that an English grammar
    leaves out. others: languages beside which it stands, which a text may ask for. Raises
    InputError where g2p's data is missing or damaged, or its code has no form in a file of rules.
    """
    folder.mkdir(parents=True, exist_ok=True)
    g2p = G2P.load(language, without=without if language in (US, GB) else ())
    write_rules(folder / f"{language}.rules", *list_rule_roots(g2p))
    # The port reads no other languages than it has files of.
    g2p.others.held = others
    # prose for every language, words where there are lists
    texts = [*read_port_texts("text")]
    if language not in SCRIPTS:  # which have no network
        _write_arrays(folder, language)
    (folder / f"{language}.words").write_bytes(pack_language(language))
    if language in (US, GB):
        texts += list_words_to_check(language)
    rows = (
        f"{text}\t{' '.join(chunk['phonemes'] for chunk in read_chunks(g2p, text))}\n"
        for text in texts
    )
    (folder / f"{language}.texts.tsv").write_text("".join(rows), encoding="utf-8")
    spoken = [{"text": text, "chunks": read_chunks(g2p, text)} for text in MARKED]
    (folder / f"{language}.chunks.json").write_text(
        json_text({"format": FORMAT, "texts": spoken}), encoding="utf-8"
    )


def read_chunks(g2p: G2P, text: str) -> list[dict[str, Any]]:
    """Return the chunks that `kokoro-ane speak` makes of a text: phonemes, pace, the silence and
    voice that the text asks for, and what they open.
    """
    return [
        {
            "phonemes": chunk.phonemes,
            "ending": chunk.ending,
            "rate": chunk.rate,
            "pause_before_s": chunk.before_s,
            "voice": chunk.voice or None,
            "opening": chunk.opening or None,
        }
        for chunk in chunks(g2p.sentences(text, keep_empty=True), text)
    ]


def languages_for(voices: Iterable[str]) -> tuple[Language, ...]:
    """Return the languages that voices of these names speak and a port reads, as languages_with."""
    return languages_with(alphabet.voice_language(voice) for voice in voices)


def languages_with(wanted: Iterable[Language]) -> tuple[Language, ...]:
    """Return those of the languages that a port reads; English too where one reads Latin letters by
    it.
    """
    spoken = set(wanted)
    if not spoken.isdisjoint(SCRIPTS):
        spoken.add(US)
    return tuple(sorted(language for language in TEXT_BYTES if language in spoken))


def text_bytes(voices: Iterable[str]) -> int:
    """Return about how many bytes `write_text_tables` writes for these voices."""
    return sum(TEXT_BYTES[language] for language in languages_for(voices))


def _write_arrays(folder: Path, dialect: Language) -> None:
    """Write network and tagger: NAME.bin, and NAME.json, which says where each array lies in it."""
    weights = WEIGHTS_OF[dialect]
    _, config = load_arrays(weights)  # checked against their manifest
    with np.load(weights) as stored:
        # int8 with scales, as they are stored
        arrays = {f"network.{name}": stored[name] for name in stored.files}
    scale = 0.0
    if dialect in (US, GB):
        # features are sorted, so that a port can use binary search
        chooser = Heteronyms.load()
        tagger = chooser.tagger
        scale = chooser.tagger.scale
        arrays["heteronyms.weights"] = np.asarray(chooser.weights)[:, None]
        features = np.fromiter(tagger.rows, np.uint32)
        order = np.argsort(features)
        arrays["tagger.features"] = features[order]
        arrays["tagger.weights"] = tagger.weights[order]
    places = {}
    content = b""
    for name, array in arrays.items():
        # Each array begins at a multiple of BORDER bytes.
        content += b"\0" * (-len(content) % BORDER)
        places[name] = {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "offset": len(content),
        }
        # Little-endian, whatever machine writes it
        content += np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
    (folder / f"{dialect}.bin").write_bytes(content)
    sounds = read_alphabet(weights, dialect)
    slope, shift = read_confidence(weights)
    description = {
        "format": FORMAT,
        "dialect": dialect,
        "arrays": places,
        "network": {
            "heads": config.heads,
            "blocks": config.blocks,
            "answers": list(config.answers),
            "sounds": list(sounds.sounds),
            "vowels": list(sounds.vowels),
            "confidence": {"slope": slope, "shift": shift},
        },
        "tagger": {"scale": scale},
    }
    (folder / f"{dialect}.json").write_text(json_text(description), encoding="utf-8")


def list_rule_roots(g2p: G2P) -> tuple[dict[str, Any], dict[int, str]]:
    """Return the entry points of the rules by name; and by id the names of what a port holds
    natively: word lists, network, the tagger's tables.
    """
    reader: Any = g2p._reader
    roots = {
        "cut": _find_whole_sentences,
        "sentence": g2p._prepare_sentence,
        "read": g2p._read,
        "parts": cut_parts,
        "paragraph": is_paragraph_end,
        "opening": find_opening,
        "voice": find_voice,
        "guess": Guess,
    }
    natives = {id(g2p.others): "others"}
    if isinstance(reader, ScriptReader):
        return roots, natives | {
            id(reader.listed): "list.listed",
            id(reader.user): "list.user",
        }
    roots |= {"speakable": reader.neural.model.reads, "encode": reader.neural.model.encoded}
    # a port has large tables and NumPy code of its own: the rules refer to them by name
    natives |= {id(reader.neural): "neural"}
    if isinstance(reader, LanguageReader):
        return roots, natives | {id(reader.listed): "list.listed"}
    chooser = g2p._heteronyms.chooser  # type: ignore[union-attr]
    tagger = chooser.tagger
    # what texts of before left in memory is no part of the rules
    tagger.classes.kept.clear()
    lists = reader.lexicon._all
    natives |= {id(entries): f"list.{name}" for entries, name, _ in lists}
    return roots, natives | {
        id(chooser.weights): "heteronyms",
        id(tagger.rows): "rows",
        id(tagger.weights): "weights",
        id(Tagger.compute_scores): "scores",
        id(tagger.classes.stored): "list.classes",
    }


@cache
def pack_language(language: Language) -> bytes:
    """Return the packed words of a language. Cached: packing takes twenty seconds."""
    if language in (US, GB):
        return pack_words(list_word_rows(language))
    # `l`: the language's own list
    reader: Any = G2P.load(language)._reader
    listed: Mapping[str, str] = reader.listed
    return pack_words([(word, f"l={listed[word]}") for word in sorted(listed)])


def list_word_rows(dialect: Dialect) -> list[tuple[str, str]]:
    """Return the sorted words with their entry in each list: `g=phonemes`, or `g:TAG=phonemes`, or
    `g:TAG` for letter by letter; and `t=` with the class of the word.
    """
    whole = Lexicon.load(dialect)
    classes = Tagger.load().classes.stored
    rows = []
    # A port makes plurals and past forms by the rules, and lists none that they give.
    lexicon = whole.without(whole.find_derived())
    for word in sorted({*lexicon.words, *classes}):
        columns = []
        for entries, name, _ in lexicon._all:
            entry = entries.get(word)
            # A heteronym has a reading for each part of speech.
            senses = entry.items() if isinstance(entry, Mapping) else ()
            letter = LISTS.get(name, "")  # the user's list is empty
            columns += [f"{letter}={entry}"] if isinstance(entry, str) else []
            for tag, phonemes in senses:
                columns.append(f"{letter}:{tag}" + (f"={phonemes}" if phonemes else ""))
        if word in classes:
            # A word of the tagger alone has a row too.
            columns.append(f"t={classes[word]}")
        rows.append((word, "\t".join(columns)))
    return rows


def list_words_to_check(dialect: Dialect) -> list[str]:
    """Return listed words, each also capitalized, in capitals and with endings, and words that no
    list has. A plural or past form that a bundle leaves out gets no second ending.
    """
    forms = {*read_port_texts("word")}
    lexicon = Lexicon.load(dialect)
    derived = lexicon.find_derived()
    for word in sorted(lexicon.words)[::STEP]:
        if word.isascii() and word.isalpha():
            forms |= {word, word.capitalize(), word.upper(), f"un{word}", f"{word}'s"}
            forms |= set() if word in derived else {f"{word}ing", f"{word}s"}
    return sorted(forms)
