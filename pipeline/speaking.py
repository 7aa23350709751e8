"""A loaded model that speaks: pieces of a text's audio as they are computed, for any number of
threads.

    kokoro = load(checkpoint="kokoro-int8")
    for piece in kokoro.stream("Hello there. How are you?", voice="af_heart"):
        play(piece.samples)                                # [n] float32 at 24 kHz
    async for piece in kokoro.stream_async(tokens): ...    # what is still being written
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import check_seed

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core import Checkpoint, Voice
    from kokoro_ane.pipeline.synthesis import Pipeline, SpeechOptions
    from kokoro_ane.pipeline.timestamps import TimedWord
    from kokoro_ane.quantize import PackageRequest
    from kokoro_ane.runtimes import OpenedChain
    from kokoro_g2p import Phonemizer, TextParts


# Each sentence length makes oneDNN kernels of its own: 1,024 kept grew by 288 MB over 10,000 words
# (--runtime torch), 32 by 1 to 22 MB.
FEW_KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
WITHOUT_FILES = "torch"  # the runtime that needs none
OPEN_MODELS = 2  # so that two levels can alternate; a model has 0.3 to 0.6 GB
_opening = threading.Lock()


@dataclass(frozen=True, eq=False)
class Piece:
    """A spoken sentence, or a part of a long one. samples [n] float32 at 24 kHz, the silence before
    it included: joined, pieces are the whole audio.

    text: as written, without markup. words: with their times in the whole audio. start_s: where
    `samples` begin in it. phonemes: in Kokoro's symbols. index: from 0.
    """

    index: int
    samples: "np.ndarray"
    start_s: float
    text: str
    words: "tuple[TimedWord, ...]"
    phonemes: str


@dataclass(frozen=True)
class ReaderOptions:
    """How a text is read. phonemes: it is phonemes already. dialect: None for the voice's."""

    phonemes: bool = False
    dialect: str | None = None
    lexicon: Path | None = None


class Kokoro:
    """A loaded model. Responsibilities: 1. its voices and readers; 2. speaking, in as many threads
    as call it.
    """

    def __init__(
        self,
        checkpoint: "Checkpoint",
        runtime: str,
        request: "PackageRequest",
        opened: "OpenedChain",
    ) -> None:
        """`runtime` opened the models of `request`."""
        from kokoro_ane.core import VoiceLibrary
        from kokoro_ane.runtimes import RUNTIMES

        self.checkpoint, self.runtime, self.request = checkpoint, runtime, request
        self.opened = opened
        self.library = VoiceLibrary(checkpoint.folder / "voices")
        # some runtimes compute for one thread at a time
        self._turn: AbstractContextManager[object] = (
            nullcontext() if RUNTIMES[runtime].parallel else threading.Lock()
        )
        self._settling = threading.Lock()
        # A reader remembers words, so it serves one text at a time; here are those that rest.
        self._readers: dict[Any, list[Phonemizer]] = {}

    def stream(
        self,
        text: str | Iterable[str],
        voice: str | None = None,
        *,
        speed: float = 1.0,
        seed: int = 0,
        pauses: Mapping[str, float] | None = None,
        phonemes: bool = False,
        dialect: str | None = None,
        lexicon: Path | str | None = None,
    ) -> Generator[Piece, None, None]:
        """Pieces of the text's audio in order, each when it is computed. `text`: a whole, or parts
        of any length, spoken as their sentences complete. It may be closed at any piece.

        Raises InputError as kokoro_ane.stream; here for all that is known before the first piece.
        """
        from kokoro_ane.encoder import check_speed
        from kokoro_ane.pipeline.synthesis import SpeechOptions
        from kokoro_g2p import TextParts, check_pauses

        how = SpeechOptions(check_speed(speed), check_seed(seed), pauses=check_pauses(pauses or {}))
        name, tables = self.chosen(voice, dialect)
        reading = ReaderOptions(phonemes, dialect, Path(lexicon) if lexicon else None)
        parts = text if isinstance(text, str) else TextParts(text)
        self.check_voices_in(parts, reading)
        return self._pieces(parts, name, tables, how, reading)

    async def stream_async(
        self, text: str | Iterable[str] | AsyncIterable[str], voice: str | None = None, **how: Any
    ) -> AsyncGenerator[Piece, None]:
        """`stream` beside an event loop, which it never holds up: a piece is computed in a thread
        while the one before is used. `how`: as of `stream`.
        """
        loop = asyncio.get_running_loop()
        parts = None if isinstance(text, str | Iterable) else _PartsOfLoop(text, loop)
        pieces = self.stream(parts or text, voice, **how)  # type: ignore[arg-type]

        def compute() -> "asyncio.Future[Piece | None]":
            # None is the end, because a future cannot carry StopIteration.
            return loop.run_in_executor(None, next, pieces, None)

        def end(computed: "asyncio.Future[Piece | None]") -> None:
            # Read, so that an error of a piece that nobody waits for is no unheard one
            if not computed.cancelled():
                computed.exception()
            pieces.close()

        computed = compute()
        try:
            # Shielded: who stops waiting does not cancel what a thread computes.
            while (piece := await asyncio.shield(computed)) is not None:
                # The next piece is computed while this one is used.
                computed = compute()
                yield piece
        finally:
            # A thread that waits for a part would wait for ever.
            if parts is not None:
                parts.cancel()
            # what is under way in its thread ends first
            computed.add_done_callback(end)

    def chosen(self, voice: str | None, dialect: str | None = None) -> "tuple[str, Voice]":
        """The name and the tables of a voice or a blend; None: the default one where it speaks
        `dialect`, else the first that does. Where none does, stderr is told.
        """
        from kokoro_ane.core import describe_no_speaker, list_speakers
        from kokoro_g2p import dialect_of

        name, _ = self.library.chosen(voice)
        if voice is None and dialect:
            language = dialect_of(dialect)
            able = list_speakers(language, self.library.names)
            if not able:
                print(
                    f"{describe_no_speaker(language, self.checkpoint.name)}: {name} does",
                    file=sys.stderr,
                )
            elif name not in able:
                name = able[0]
        return name, self.voice(name)

    def voice(self, name: str) -> "Voice":
        """A voice or a blend; one that nobody has settled is settled first, by one thread."""
        from kokoro_ane.runtimes import open_voice

        with self._settling:
            return open_voice(self.checkpoint, name, self.opened.vocoder.predictor)

    def check_voices_in(self, text: object, reading: ReaderOptions) -> None:
        """Raises InputError for a voice that the text names and that is not there, or a language
        that is not read, where all of the text is.
        """
        from kokoro_g2p import check_languages, voices_in

        # Parts that are still being written cannot be read ahead.
        if isinstance(text, str) and not reading.phonemes:
            check_languages(text)
            for other in voices_in(text):
                self.voice(other)

    def pipeline(self, reader: "Phonemizer") -> "Pipeline":
        """The chain from text to sound, for one text."""
        from kokoro_ane.pipeline.synthesis import Pipeline

        vocab = self.checkpoint.config.vocab
        encoder = self.opened.encoder
        vocoder = self.opened.vocoder
        return Pipeline(reader, encoder, vocoder, vocab, voices=cache(self.voice), turn=self._turn)

    @cached_property
    def g2p_program(self) -> "tuple[Any, dict[str, str]]":
        """What reads unknown words, and the G2P package's hash by its name; None where PyTorch
        speaks or no package is built.
        """
        from kokoro_ane.runtimes import RUNTIMES

        # PyTorch alone speaks without Core ML's tools, whose import takes as long as PyTorch's
        if not RUNTIMES[self.runtime].is_for_packages:
            return None, {}
        from kokoro_ane.pipeline.g2p_stage import make_package_run
        from kokoro_ane.runtimes import open_g2p

        program, made_of = open_g2p(self.runtime, self.request.build)
        return None if program is None else make_package_run(program), made_of

    @contextmanager
    def reader(self, voice: str, reading: ReaderOptions) -> "Iterator[Phonemizer]":
        """What reads the text of a voice."""
        from kokoro_g2p import dialect_of, phoneme_sentences, text_reader, voice_language

        if reading.phonemes:
            yield phoneme_sentences
            return
        # a dialect that was asked for holds for every voice
        language = dialect_of(reading.dialect) if reading.dialect else voice_language(voice)
        follow = None if reading.dialect else voice_language
        resting = self._readers.setdefault((language, follow), [])
        # a lexicon is read anew: its file may have changed
        if reading.lexicon or not resting:
            reader = text_reader(language, reading.lexicon, self.g2p_program[0], follow)
        else:
            # Taking one out is a single step, so that no two threads get the same.
            reader = resting.pop()
        try:
            yield reader
        finally:
            if not reading.lexicon:
                resting.append(reader)

    def _pieces(
        self,
        text: "str | TextParts",
        name: str,
        voice: "Voice",
        how: "SpeechOptions",
        reading: ReaderOptions,
    ) -> Generator[Piece, None, None]:
        from kokoro_ane.pipeline.timestamps import (
            convert_to_seconds,
            list_timed_words,
            show_words,
            time_words,
        )

        samples = 0
        with self.reader(name, reading) as reader:
            for speech in self.pipeline(reader).speak(text, voice, how):
                audio = speech.audio
                written = show_words(time_words(speech, samples), text)
                yield Piece(
                    speech.index,
                    audio,
                    convert_to_seconds(samples),
                    written,
                    list_timed_words(speech, samples),
                    speech.chunk.phonemes,
                )
                samples += len(audio)


class _PartsOfLoop:
    """Parts of an asynchronous iterable, for a thread beside the loop that they come from."""

    def __init__(self, parts: AsyncIterable[str], loop: asyncio.AbstractEventLoop) -> None:
        self._parts = aiter(parts)
        self._loop = loop
        self._awaited: Future[str | None] | None = None

    def __iter__(self) -> Iterator[str]:
        while True:
            # The loop fetches the part, and this thread waits for it.
            self._awaited = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
            part = self._awaited.result()
            if part is None:
                return
            yield part

    async def _next(self) -> str | None:
        return await anext(self._parts, None)

    def cancel(self) -> None:
        """End the wait for a part."""
        if self._awaited is not None:
            self._awaited.cancel()


def check_before_opening(
    source: str | None, voice: str | None, text: object, dialect: str | None, *, phonemes: bool
) -> str | None:
    """Refuse what needs no model to be refused: an unknown voice or a language that is not read,
    given or named by the text, and a text without a word. Returns the voice's name; None where only
    opening `source` tells.

    Raises InputError, as the opened model would.
    """
    from kokoro_ane.core import check_voice, list_voice_names
    from kokoro_g2p import (
        check_languages,
        check_sayable,
        dialect_of,
        voice_language,
        voices_in,
    )

    language = dialect_of(dialect) if dialect else None
    names = list_voice_names(source)
    if not names:  # a folder that is no checkpoint: opening it says so
        return None
    place = source or "the default checkpoint"
    name = check_voice(voice, names, place)
    spoken = [name, *(voices_in(text) if isinstance(text, str) and not phonemes else ())]
    for one in spoken:
        check_voice(one, names, place)
    if isinstance(text, str) and not phonemes:
        check_languages(text)
        check_sayable(text, language or voice_language(name))
    return name


def load(
    checkpoint: str | None = None,
    runtime: str | None = None,
    method: str = "",
    layout: str = "",
    build: Path = Path("build"),
) -> Kokoro:
    """The loaded model, one for all callers: it stays open for the next call that asks for the
    same, until a file in `build` changes. The last two stay. Raises InputError as kokoro_ane.load.
    """
    runtime = choose_runtime(runtime, method, layout)
    os.environ.setdefault(*FEW_KERNELS)  # before torch reads it
    # A package that was built anew has another time, and is opened anew.
    manifests = sorted((path.name, path.stat().st_mtime_ns) for path in build.glob("*.json"))
    # threads that ask for one model wait for the first of them
    with _opening:
        # A relative path leads elsewhere from another folder.
        return _open(checkpoint, runtime, method, layout, build, (Path.cwd(), *manifests))


def choose_runtime(runtime: str | None, method: str, layout: str) -> str | None:
    """The runtime that a name or a level stands for; None: what is built decides. Raises InputError
    for names that there are not, before anything is opened.
    """
    from kokoro_ane.runtimes import check_runtime, default_runtime

    if not (runtime or method):
        return None
    runtime = runtime or default_runtime()
    check_runtime(runtime, method, layout=layout)
    return runtime


@lru_cache(maxsize=OPEN_MODELS)
def _open(
    source: str | None, runtime: str | None, method: str, layout: str, build: Path, stamp: object
) -> Kokoro:
    """The model as `load` describes it. `stamp` changes with the files in `build`: a package that
    was built anew is opened anew.
    """
    from kokoro_ane.core import is_there, open_checkpoint
    from kokoro_ane.quantize import PackageRequest
    from kokoro_ane.runtimes import RUNTIMES, default_runtime, open_runtime, resolve

    checkpoint = open_checkpoint(source)
    name = runtime or default_runtime()
    request = resolve(name, PackageRequest(checkpoint, build, method, layout))
    # PyTorch speaks where neither a runtime nor a level is asked for and the default has no files
    may_choose = not (runtime or method) and not RUNTIMES[WITHOUT_FILES].missing
    if may_choose and not is_there(request.vocoder):
        print(
            f"{request.vocoder} is not built: PyTorch speaks;"
            f" `{request.command(request.vocoder)}` builds it",
            file=sys.stderr,
        )
        name = WITHOUT_FILES
        request = resolve(name, replace(request, method=""))
    return Kokoro(checkpoint, name, request, open_runtime(name, request))
