"""Text to Kokoro phonemes: the whole path, one sentence at a time.

    result = phonemize("The apple costs $3.")
    result.phonemes, [(word.text, word.source) for word in result.words]

    g2p = G2P.load("us")
    # at most 510 phonemes each, memory bounded
    for sentence in g2p.sentences(open("book.txt")): ...

    phonemes, tokens = g2p("As misaki's users call it.")

Stages are handed in, so each can be replaced or left out: normalizer, lexicon, heteronyms (None:
the default sense), neural (None: unknown words are spelled). The trained ones are loaded at the
first word that needs them. Every spoken word is one Word; the words of `2026` share its offsets.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kokoro_g2p.alphabet import LANGUAGES_READ, MAX_PHONEMES, dialect_of, find_unknown_symbol
from kokoro_g2p.characters import mark_breaks
from kokoro_g2p.errors import InputError
from kokoro_g2p.languages.scripts import SCRIPTS, load_script_stages
from kokoro_g2p.lexicon import Lexicon
from kokoro_g2p.overrides import Foreign, Phrases, extract
from kokoro_g2p.reading import FallbackNeural, LateNeural, Neural, Reader
from kokoro_g2p.result import (
    GB,
    PUNCTUATION,
    US,
    Drop,
    Language,
    Normalized,
    Result,
    Source,
    SpokenToken,
    Word,
    find_mark_tag,
    make_spoken_tokens,
)
from kokoro_g2p.sentence import NEAR, SenseChooser, Sentence, SentenceReader
from kokoro_g2p.splitting import cut_placed_sentences, cut_result, join_phonemes
from kokoro_g2p.ssml import clip_markup, find_voice
from kokoro_g2p.word_lists import parse_pairs

if TYPE_CHECKING:
    from kokoro_g2p.grammar.interpreter import Grammar
    from kokoro_g2p.heteronyms import Heteronyms


UserWords = Path | str | Mapping[str, str] | None
Fallback = Callable[[str], str | None]  # a word, its phonemes
Normalizer = Callable[..., Normalized]  # a text as Normalized
# sentences read together, so that the neural model is asked once for all of them; the first goes
# alone, for latency
BATCH = 16
REMEMBERED = 1000  # texts within another language


class Prepared(Protocol):
    """A reader of words, which is given many at once so that it asks its network once."""

    def prepare(self, words: Iterable[str]) -> None: ...


class ReadsSentences(Protocol):
    """A reader of sentences: their words, and the number of characters without a sound
    (g2p/sentence.py, g2p/languages/reader.py).
    """

    def read_sentence(self, sentence: Sentence) -> tuple[tuple[Word, ...], int]: ...


CLOSED = parse_pairs("M:MD D:DT S:PRP$ P:PRP O:PRP I:IN T:TO C:CC W:WP 0:CD X:EX")


class LateHeteronyms:
    """The bundled tagger and its choice (g2p/heteronyms.py), loaded when first needed."""

    @cached_property
    def chooser(self) -> "Heteronyms":
        """The chooser. Raises InputError when the tagger is missing or damaged."""
        from kokoro_g2p.heteronyms import Heteronyms

        return Heteronyms.load()

    def tag(self, words: Sequence[str], index: int) -> str:
        """The Penn tag of `words[index]`: by the word itself in a closed class, else the tagger's
        likeliest.
        """
        tagger = self.chooser.tagger
        closed = CLOSED.get(tagger.classes(words[index])[:1])
        name = words[index][:1].isupper() and index > 0 and not words[index].isupper()
        return closed or ("NNP" if name else tagger.choose_tag(words, index).upper())

    def choose(self, words: Sequence[str], index: int, keys: Sequence[str]) -> str:
        """One of `keys` for `words[index]`."""
        return self.chooser.choose(words, index, keys)


@lru_cache(REMEMBERED)
def read_words(language: str, text: str) -> tuple[list[Foreign], Sequence[Drop]]:
    """Start and end in `text`, phonemes, and whether a space follows, of each word; and what is
    left out. Raises InputError when the language's data is missing or damaged.
    """
    result = load_reader(language, None).phonemize(text)
    words = [(word.start, word.end, word.phonemes, word.space) for word in result.words]
    return words, result.drops


class LateReaders:
    """The readers of other languages, each loaded at its first word. `held`: those that are
    read.
    """

    held: Collection[str] = LANGUAGES_READ

    def __call__(self, language: str, text: str) -> tuple[list[Foreign], Sequence[Drop]] | None:
        """The words of a text in a language; None where that is not held."""
        return read_words(language, text) if language in self.held else None


class G2P:
    """Two responsibilities: hold the stages, and take a text through them sentence by sentence."""

    def __init__(
        self,
        normalizer: Normalizer,
        lexicon: Lexicon,
        heteronyms: SenseChooser | None = None,
        neural: Neural | None = None,
        phrases: Mapping[str, str] | None = None,
        unk: str | None = None,
    ) -> None:
        reader = Reader(lexicon, neural)
        self._set(
            normalizer,
            reader,
            SentenceReader(reader, heteronyms),
            lexicon.dialect,
            phrases,
            heteronyms,
            unk,
        )

    def _set(
        self,
        normalizer: Normalizer,
        reader: Prepared,
        sentence_reader: ReadsSentences,
        language: Language,
        phrases: Mapping[str, str] | None,
        heteronyms: SenseChooser | None = None,
        unk: str | None = None,
    ) -> None:
        self._normalizer, self._reader, self._sentence_reader = normalizer, reader, sentence_reader
        self._dialect, self._heteronyms, self._unk = language, heteronyms, unk
        self._phrases = Phrases(phrases) if phrases else None
        self._reader_of: Callable[[str], G2P] | None = None
        self.others = LateReaders()

    @classmethod
    def load(
        cls,
        dialect: str = US,
        lexicon: UserWords = None,
        fallback: Fallback | None = None,
        unk: str | None = None,
        neural: Neural | None = None,
        without: Collection[str] = (),
    ) -> "G2P":
        """All stages. `dialect`: us, gb, a, b, en-us, en-gb, es, it, fr, pt, zh, hi, ja.
        `lexicon`: a user's words and phrases, a file or a mapping.

        `fallback`: asked for words nobody lists, in the place of the neural model: a word in,
        phonemes out, or None for "spell it". `unk`: stands for a word that would be spelled for
        want of anything better. Both are for English, as `neural`, a network in the place of
        NumPy's, and `without`, domains of g2p/data/grammar/whitelist.tsv that are left out. Raises
        InputError for a bad one of these.
        """
        from kokoro_g2p.grammar.load import grammar_of
        from kokoro_g2p.user_lexicon import load_user_lexicon

        kind, (user_words, phrases) = dialect_of(dialect), load_user_lexicon(lexicon)
        if kind not in (US, GB):
            if fallback is not None or unk is not None or without:
                raise InputError(
                    f"{kind} leaves no word unknown: fallback, unk and without are for English"
                )
            other = cls.__new__(cls)
            if kind in SCRIPTS:
                normalizer, script = load_script_stages(kind, user_words)
                other._set(normalizer, script, script, kind, phrases)
                script.others = other.others
                return other
            from kokoro_g2p.languages.language import LANGUAGES
            from kokoro_g2p.languages.reader import LanguageReader

            language = LANGUAGES[kind]
            reader = LanguageReader(language, user_words, LateNeural(kind))
            other._set(language.normalize, reader, reader, kind, phrases)
            return other
        if unk is not None and (
            not isinstance(unk, str) or find_unknown_symbol(unk) not in (None, "❓")
        ):
            raise InputError(f"unk is {unk!r}: phonemes of Kokoro's vocabulary, or misaki's ❓")
        words = Lexicon.load(kind, user_words)
        if fallback is not None:
            neural = FallbackNeural(fallback)
        return cls(
            partial(grammar_of(kind, without), known=words.has_word),
            words,
            LateHeteronyms(),
            neural or LateNeural(kind),
            phrases,
            unk,
        )

    @property
    def grammar(self) -> "Grammar | None":
        """The grammar that normalizes the text; None where there is another normalizer."""
        from kokoro_g2p.grammar.interpreter import Grammar

        held = getattr(self._normalizer, "func", self._normalizer)
        return held if isinstance(held, Grammar) else None

    def reasons(self, words: Sequence[str], place: int) -> list[str]:
        """The features that decided the sense of a heteronym, each with its weight, strongest
        first; an empty list for other words, or where no table decides.
        """
        if not isinstance(self._heteronyms, LateHeteronyms) or not isinstance(self._reader, Reader):
            return []
        entry = self._reader.lexicon.find(words[place])
        if not entry or not entry.senses:
            return []
        near = slice(max(0, place - NEAR), place + NEAR)
        keys = tuple(entry.senses)
        return self._heteronyms.chooser.explain(words[near], place - near.start, keys)

    def __call__(self, text: str) -> tuple[str, list[SpokenToken]]:
        """(phonemes, tokens) as misaki answers: text, tag, phonemes, white space, confidence,
        source of every word.
        """
        result = self.phonemize(text)
        spoken = [word.spoken for word in result.words]
        tag = getattr(self._heteronyms, "tag", None)
        tags = [
            (
                find_mark_tag(word.text)
                if word.source in ("punctuation", "pause")
                else tag(spoken, place)
                if tag
                else ""
            )
            for place, word in enumerate(result.words)
        ]
        return result.phonemes, make_spoken_tokens(result, tags)

    def phonemize(self, text: str) -> Result:
        """Phonemes of the whole text, of any length. Never raises on any text: what cannot be said
        is counted in `dropped`.

        Raises InputError for what is no text: None, bytes, a number.
        """
        if not isinstance(text, str):
            raise InputError(f"the text is {_describe(text)}: wanted is a str")
        words: list[Word] = []
        dropped: Counter[str] = Counter()
        drops: list[tuple[int, int, str]] = []
        for _, result in self._read_results(text):
            if words and result.words:
                words[-1] = replace(words[-1], space=True)
            words.extend(result.words)
            dropped.update(result.dropped)
            drops += result.drops
        return Result(text, join_phonemes(words), tuple(words), dict(dropped), tuple(drops))

    def sentences(
        self, text: str | Iterable[str], limit: int = MAX_PHONEMES, keep_empty: bool = False
    ) -> Iterator[Result]:
        """One Result a sentence, cut where it is longer than `limit` phonemes; offsets count from
        the beginning of the whole text.

        `text` may be an iterable of pieces, an open file for instance: a few thousand characters
        are held at a time. What was dropped in a sentence without words is told with the next one,
        or with `keep_empty` in a Result of its own.
        """
        if not isinstance(text, Iterable) or isinstance(text, (bytes, bytearray)):
            raise InputError(
                f"the text is {_describe(text)}: wanted is a str, or an iterable of pieces of one"
            )
        waiting: Counter[str] = Counter()
        drops: tuple[tuple[int, int, str], ...] = ()
        for offset, result in self._read_results(text):
            waiting.update(result.dropped)
            drops += result.drops
            completed = replace(result, dropped=dict(waiting), drops=drops)
            if result.words and len(result.phonemes) <= limit:
                yield completed
            elif result.words:
                yield from cut_result(completed, limit, offset)
            elif keep_empty:
                yield completed
            else:
                continue
            waiting.clear()
            drops = ()

    def _read_results(self, text: str | Iterable[str]) -> Iterator[tuple[int, Result]]:
        batch: list[Sentence] = []
        size = 1
        outer: tuple[str, ...] = ()
        reader = self
        for offset, sentence, before, after in cut_placed_sentences(text):
            following = self.reader_of(find_voice(outer)) if outer else self
            if following is not reader:
                yield from reader._read(batch)
                batch = []
                reader = following
            batch.append(reader._prepare_sentence(offset, sentence, outer, before, after))
            outer = batch[-1].marked.open
            if len(batch) >= size:
                yield from reader._read(batch)
                batch = []
                size = min(2 * size, BATCH)
        yield from reader._read(batch)

    def reader_of(self, voice: str) -> "G2P":
        """The reader for words of a voice that the text names ("": none); this one unless `follow`
        was given others.
        """
        return self._reader_of(voice) if self._reader_of and voice else self

    def follow(self, reader_of: "Callable[[str], G2P]") -> None:
        """Read the words of another voice in its language: `reader_of` its name."""
        self._reader_of = reader_of

    def _prepare_sentence(
        self,
        offset: int,
        text: str,
        outer: tuple[str, ...] = (),
        before: str = "",
        after: str = "",
    ) -> Sentence:
        """Prepare a sentence for reading; `outer`: start tags of elements that are still open;
        `before`, `after`: what stands around it.
        """
        laid = mark_breaks(text, before, after)
        marked = extract(laid, self._phrases, outer, self._dialect, self.others)
        return Sentence(offset, text, marked, self._normalizer(marked.text, dialect=self._dialect))

    def _read(self, batch: Sequence[Sentence]) -> Iterator[tuple[int, Result]]:
        self._reader.prepare(
            token.text
            for sentence in batch
            for token in sentence.normalized.tokens
            if token.kind == "word"
        )
        for sentence in batch:
            offset = sentence.offset
            words, unsaid = self._sentence_reader.read_sentence(sentence)
            if self._unk is not None:
                words = tuple(
                    (
                        replace(word, phonemes=self._unk)
                        if word.source == "spelled" and not word.confidence
                        else word
                    )
                    for word in words
                )
            marked = sentence.marked
            own_drops = (*marked.drops, *self._find_unheard(sentence, words))
            lost = (*own_drops, *sentence.normalized.drops)
            dropped = Counter(why for _, _, why in lost) + Counter({"unpronounceable": unsaid})
            drops = tuple(
                sorted(
                    (
                        *self._place_drops(sentence, words),
                        *((a + offset, b + offset, why) for a, b, why in own_drops),
                    )
                )
            )
            if marked.foreign:
                words = tuple(
                    part for word in words for part in self._split_foreign(sentence, word)
                )
            if marked.paces or marked.voice:
                words = tuple(
                    replace(word, rate=marked.find_pace(word.start - offset), voice=marked.voice)
                    for word in words
                )
            yield (
                sentence.offset,
                Result(sentence.text, join_phonemes(words), words, dict(dropped), drops),
            )

    @staticmethod
    def _split_foreign(sentence: Sentence, word: Word) -> Iterator[Word]:
        """The words of a run of another language; another word itself."""
        run = (sentence.marked.foreign or {}).get(word.start - sentence.offset, ())
        for start, end, phonemes, space in run:
            written = word.text[start:end]
            source: Source = "punctuation" if phonemes in PUNCTUATION else "rule"
            space = space or (end == run[-1][1] and word.space)
            start, end = word.start + start, word.start + end
            yield Word(written, start, end, written, phonemes, source, space=space)
        if not run:
            yield word

    def _find_unheard(
        self, sentence: Sentence, words: tuple[Word, ...]
    ) -> list[tuple[int, int, str]]:
        """What is asked for with <emphasis> and changes none of the words that it holds: their
        stress is as strong already.
        """
        marked = sentence.marked
        lost = []
        asked = [one for one in marked.overrides if one.tag]
        if asked:
            others = tuple(one for one in marked.overrides if not one.tag)
            unmarked = replace(sentence, marked=replace(marked, overrides=others))
            plain, _ = self._sentence_reader.read_sentence(unmarked)
            changed = [
                one.start - sentence.offset
                for one, other in zip(words, plain, strict=False)
                if one.phonemes != other.phonemes
            ]
            for one in asked:
                start, end = marked.find_original(one.start, one.end)
                if not [place for place in changed if start <= place < end]:
                    lost.append((start, end, clip_markup(one.tag)))
        return lost

    @staticmethod
    def _place_drops(sentence: Sentence, words: tuple[Word, ...]) -> Iterator[tuple[int, int, str]]:
        """Drops of the normalizer with offsets of the whole text."""
        spans = {(word.start - sentence.offset, word.end - sentence.offset) for word in words}
        for start, end, why in sentence.normalized.drops:
            place = sentence.marked.find_original(start, end) if start < end else (start, end)
            yield place[0] + sentence.offset, place[1] + sentence.offset, why
        for token in sentence.normalized.tokens:
            place = sentence.marked.find_original(token.start, token.end)
            if token.kind != "punctuation" and place not in spans:
                yield place[0] + sentence.offset, place[1] + sentence.offset, "unpronounceable"


def _describe(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r}"[:60]


@cache
def load_reader(dialect: str, lexicon: Path | str | None) -> G2P:
    """The reader of a dialect and a user lexicon, loaded once for each pair."""
    return G2P.load(dialect, lexicon)


def phonemize(text: str, dialect: str = US, lexicon: Path | str | None = None) -> Result:
    """Phonemes of `text` with all stages, which stay loaded. For long text: `G2P.sentences`."""
    return load_reader(dialect, lexicon).phonemize(text)
