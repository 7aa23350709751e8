"""The commands as calls: the same options, defaults and checks; errors as exceptions.

    samples, rate_hz = speak("The ferry crossed the harbour.", voice="af_heart")
    manifests = build("vocoder", checkpoint="kokoro-int8")
    judge("w8a8", checkpoint="kokoro-int8").figures["pesq"]["mean"]

Each fills the frozen options of its command, which name every further argument.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import (
    SAMPLE_RATE_HZ,
    BuildOptions,
    QuantizeOptions,
    check_options,
    list_voices,
)

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core import ListedVoice, Manifest
    from kokoro_ane.eval import Choice
    from kokoro_ane.pipeline import Bundle, Kokoro, Piece

# the arguments that choose a model
OPENING = ("checkpoint", "runtime", "method", "layout", "build")


@dataclass(frozen=True)
class Judged:
    """A level's verdict and what it rests on.

    verdict: SHIP, REJECT or UNDECIDED. reasons: in words. broken: names of the gates that reject
    it. figures: metric -> statistic -> value over all clips, in the units of docs/metrics.md, None
    where a metric says nothing. package_bytes: on disk. file: every clip's figures.
    """

    verdict: str
    reasons: tuple[str, ...]
    broken: tuple[str, ...]
    figures: Mapping[str, Mapping[str, float | None]]
    package_bytes: int
    file: Path


def speak(
    text: str | None = None,
    voice: str | None = None,
    *,
    file: Path | str | None = None,
    out: Path | str | None = None,
    stream: str | None = None,
    speed: float = 1.0,
    seed: int = 0,
    pauses: Mapping[str, float] | None = None,
    checkpoint: str | None = None,
    runtime: str | None = None,
    method: str = "",
    layout: str = "",
    build: Path | str = "build",
    phonemes: bool = False,
    dialect: str | None = None,
    lexicon: Path | str | None = None,
    timestamps: Path | str | None = None,
    trim: bool | None = None,
    loudness: float | None = None,
    split: str | None = None,
    fresh: bool = False,
) -> "tuple[np.ndarray, int]":
    """Samples [n] float32 of the whole text, pauses included, and their rate in Hz; none where a
    file `out` or standard output (`stream`: "wav" or "pcm") takes them.

    The other arguments are the flags of `kokoro-ane speak`; pauses: seconds by name. The model
    stays open for the next call that asks for the same.

    Raises InputError: nothing to say, an unknown voice, runtime or level, a package that is not
    built, a value of another type.
    """
    # First of all, so that locals() holds the arguments and nothing else.
    options = locals()
    from kokoro_ane.pipeline import SpeakOptions, speak_text

    return speak_text(check_options(SpeakOptions, options)).samples, SAMPLE_RATE_HZ


def load(
    checkpoint: str | None = None,
    runtime: str | None = None,
    method: str = "",
    layout: str = "",
    build: Path | str = "build",
) -> "Kokoro":
    """A loaded model, whose `stream` and `stream_async` speak in any number of threads.

    Calls that ask for the same get the same one, also at once; the last two stay open. The
    arguments are the flags of `kokoro-ane speak`: None and "" for what is at hand.

    Raises InputError: no checkpoint, an unknown runtime or level, a package that is not built.
    """
    options = locals()
    from kokoro_ane.pipeline import SpeakOptions
    from kokoro_ane.pipeline import load as load_model

    given = check_options(SpeakOptions, options)
    # In the order of OPENING, which is that of the parameters of pipeline.load.
    return load_model(*(getattr(given, name) for name in OPENING))


def stream(
    text: str | Iterable[str],
    voice: str | None = None,
    *,
    speed: float = 1.0,
    seed: int = 0,
    pauses: Mapping[str, float] | None = None,
    phonemes: bool = False,
    dialect: str | None = None,
    lexicon: Path | str | None = None,
    checkpoint: str | None = None,
    runtime: str | None = None,
    method: str = "",
    layout: str = "",
    build: Path | str = "build",
) -> "Generator[Piece, None, None]":
    """Pieces of the text's audio in order, each when it is computed: samples, text, words with
    their times.

    `text` is a whole, or parts of any length that are still being written, such as a language
    model's tokens: a sentence is spoken when the next word, a blank line or the end has come. The
    iterator may be closed at any piece; the model (`load`) stays open.

    Raises InputError as `speak`.
    """
    how = locals()
    from kokoro_ane.pipeline import check_before_opening

    # A wrong argument is refused before a model is opened, which takes seconds.
    check_before_opening(checkpoint, voice, text, dialect, phonemes=phonemes)
    # pop leaves in `how` what stream itself takes.
    kokoro = load(**{name: how.pop(name) for name in OPENING})
    return kokoro.stream(**how)


async def stream_async(
    text: "str | Iterable[str] | AsyncIterable[str]",
    voice: str | None = None,
    *,
    speed: float = 1.0,
    seed: int = 0,
    pauses: Mapping[str, float] | None = None,
    phonemes: bool = False,
    dialect: str | None = None,
    lexicon: Path | str | None = None,
    checkpoint: str | None = None,
    runtime: str | None = None,
    method: str = "",
    layout: str = "",
    build: Path | str = "build",
) -> "AsyncGenerator[Piece, None]":
    """`stream` for asyncio: the model loads and computes in threads, one piece ahead of the one
    that is used. Parts of the text may come from an asynchronous iterator. Raises as `stream`.
    """
    how = locals()
    from kokoro_ane.pipeline import check_before_opening

    check_before_opening(checkpoint, voice, text, dialect, phonemes=phonemes)
    opening = {name: how.pop(name) for name in OPENING}
    # Loading takes seconds, and would hold up the event loop.
    kokoro = await asyncio.to_thread(load, **opening)
    # Whoever stops early closes this generator, and aclosing closes the one inside.
    async with aclosing(kokoro.stream_async(**how)) as pieces:
        async for piece in pieces:
            yield piece


def voices(checkpoint: str | None = None) -> "tuple[ListedVoice, ...]":
    """Every voice of a checkpoint: name, language, sex, where it is from, whether it is at hand.
    Nothing is opened or downloaded. Raises InputError for a folder without voices.
    """
    return list_voices(checkpoint)


def build(stage: str, **options: Any) -> "tuple[Manifest, ...]":
    """Write the packages of "g2p", "encoder" or "vocoder" into `out`; each was executed and
    compared with PyTorch before it got its name.

    options: of core.commands.BuildOptions: checkpoint, layout, precision, buckets, out ...

    Raises InputError: an unknown name, a checkpoint or folder that cannot be used; CheckFailed: a
    package missed a limit, nothing was kept.
    """
    from kokoro_ane.pipeline import build_stage

    # `stage` is an option like the others; here it has a place of its own.
    return build_stage(check_options(BuildOptions, {"stage": stage} | options))


def compress(method: str, **options: Any) -> "tuple[Manifest, ...]":
    """Compress the uncompressed package in `build`: the level's manifests.

    options: of core.commands.QuantizeOptions: stage, layout, checkpoint, build ...

    Raises InputError and CheckFailed as `build`.
    """
    from kokoro_ane.pipeline import quantize_stage

    pairs = quantize_stage(check_options(QuantizeOptions, {"method": method} | options))
    # Pairs of (parent, level), of which the caller wants the level.
    return tuple(manifest for _, manifest in pairs)


def judge(method: str, **options: Any) -> Judged:
    """Verdict over one level of the vocoder ("fp16", "w8", "p6", "w8a8", "mixed" ...), executed and
    heard against the fp32 model, sentence by sentence.

    A package that is missing in `build` is built first. options: of eval.quality.QualityOptions:
    checkpoint, layout, runtime, clips (fewer than 24 end UNDECIDED), workers (with more than one
    the caller's script needs `if __name__ == "__main__"`) ... Clips measured before are read from
    `build`/release/cache.

    Raises InputError: an unknown level, layout or runtime, packages of another checkpoint;
    CheckFailed: a package that cannot be built.
    """
    from kokoro_ane.eval import QualityOptions, judge_level

    level, file = judge_level(check_options(QualityOptions, {"method": method} | options))
    # JSON's lists become tuples, as the record is frozen.
    reasons, broken = tuple(level["reasons"]), tuple(level["broken"])
    return Judged(level["verdict"], reasons, broken, level["summary"], level["bytes"], file)


def release(**options: Any) -> "Choice":
    """Judge every level on the same clips and name the one to release.

    options: of eval.release.ReleaseOptions: checkpoint, layout, methods, product ... All figures
    are in `build`/release/decision.json.

    Raises InputError and CheckFailed as `judge`.
    """
    from kokoro_ane.eval import ReleaseOptions, choose_release

    return choose_release(check_options(ReleaseOptions, options))[0]


def bundle(**options: Any) -> "Bundle":
    """Write one folder for an app and verify it; what is missing is built first.

    options: of pipeline.bundle.BundleOptions: method, product, layout, checkpoint, build, out ...

    Raises InputError: parts of several checkpoints, or other ones than were judged; CheckFailed: a
    level that was rejected.
    """
    from kokoro_ane.pipeline import BundleOptions, make_bundle

    return make_bundle(check_options(BundleOptions, options))
