"""Speak: text to a sound file, .wav, .flac, .mp3 or .opus, or to a stream.

    kokoro-ane speak "Hello." --voice slt -o hello.wav [--checkpoint FOLDER] [--method w8a8] \\
        [--runtime torch|mlprogram|coreml|onnx]
    kokoro-ane speak --file book.txt -o book.flac --timestamps words.json [--fresh]
    echo "Hello." | kokoro-ane speak - --stream | aplay     # or what is still being written

Exit 0: spoken. Exit 2: bad input, one line says which. A pipe's last line is one JSON object; with
--stream stdout is audio, and the table and the JSON line go to stderr. Finished chunks of an
interrupted run stay in OUT.parts/ and the same command goes on with them.
"""

import argparse
import hashlib
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kokoro_ane.core import (
    EXIT_GOOD,
    SAMPLE_RATE_HZ,
    CommandOptions,
    InputError,
    build_option,
    check_seed,
    checkpoint_option,
    command,
    command_began,
    conclude,
    layout_option,
    option,
    parse,
    print_table,
    seed_argument,
    voice_option,
)
from kokoro_g2p import LANGUAGES_READ, parse_pauses

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core import Voice
    from kokoro_ane.pipeline.audio import Output
    from kokoro_ane.pipeline.synthesis import Pipeline, Speech
    from kokoro_g2p import LiveText


NOTHING = io.BytesIO()


def parse_pauses_argument(text: str) -> Mapping[str, float]:
    """'paragraph=0.6,chapter=1.5' for argparse."""
    try:
        return parse_pauses(text)
    except InputError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


@dataclass(frozen=True)
class SpeakOptions(CommandOptions):
    """What is spoken, by what, and where it goes: `out`, a file, or `stream`, wav or pcm to stdout,
    or else memory. text, or file: UTF-8. runtime, method, layout: None and "" for what is at hand.
    """

    text: str | None = option("what to say; - reads standard input", None, "text", nargs="?")
    voice: str | None = voice_option()
    file: Path | None = option("a UTF-8 text file instead", metavar="FILE")
    out: Path | None = option("a .wav, .flac, .mp3 or .opus file, 24 kHz", None, "-o", "--out")
    stream: str | None = option(
        "audio to stdout as it is finished (default: wav)",
        nargs="?",
        const="wav",
        choices=("wav", "pcm"),
    )
    speed: float = option("0.25 to 4; 2 is twice as fast", 1.0)
    pauses: Mapping[str, float] | None = option(
        "seconds of silence, as paragraph=0.6,chapter=1.5",
        type=parse_pauses_argument,
        metavar="NAME=S,...",
    )
    dialect: str | None = option(f"{', '.join(LANGUAGES_READ)} or a BCP 47 tag", metavar="NAME")
    timestamps: Path | None = option(
        "times of words (.json), or subtitles (.srt, .vtt)", metavar="FILE"
    )
    split: str | None = option(
        "a file for each chapter: OUT-01, OUT-02 ...", choices=("chapter",), metavar="chapter"
    )
    loudness: float | None = option("level the file (BS.1770); -19 is usual", metavar="LUFS")
    method: str = option("level of the vocoder: fp16, w8a8, p6 ...", "", metavar="LEVEL")
    runtime: str | None = option("mlprogram, torch, onnx, coreml (on a Mac)", metavar="NAME")
    checkpoint: str | None = checkpoint_option(rare=True)
    layout: str = layout_option(rare=True)
    build: Path = build_option(rare=True)
    seed: int = option(
        "of the noise: the same seed gives the same samples", 0, type=seed_argument, rare=True
    )
    phonemes: bool = option("the text is phonemes of Kokoro's vocabulary already", False, rare=True)
    lexicon: Path | None = option("your own pronunciations, before the lexicon's", rare=True)
    trim: bool | None = option(
        "cut silence above 0.1 s before the first sound and above 0.25 s behind the last (default:"
        " with --stream)",
        rare=True,
    )
    fresh: bool = option(
        "discard the chunks that an interrupted run left in OUT.parts/", False, rare=True
    )
    # what every run does; it was a choice before version 0.3
    resume: bool = option(argparse.SUPPRESS, False)
    # a call shows no progress bar; a command does, without --quiet
    quiet: bool = option("no progress bar", True, rare=True)


@dataclass(frozen=True, eq=False)
class SpeechResult:
    """What was spoken. report: JSON-ready, docs/speaking.md. samples: [n] float32; none where a
    file or a stream took them.
    """

    report: dict[str, Any]
    samples: "np.ndarray"


def check_speak_options(options: SpeakOptions) -> SpeakOptions:
    """The options with the defaults that follow from others. Raises InputError for everything that
    can be refused before a model is opened.
    """
    from kokoro_ane.core import check_implied, check_output
    from kokoro_ane.encoder import check_speed
    from kokoro_ane.pipeline.audio import SUFFIXES, check_format, check_loudness
    from kokoro_ane.pipeline.resume import explain_foreign_state, name_parts
    from kokoro_ane.pipeline.speaking import choose_runtime
    from kokoro_g2p import check_pauses, dialect_of

    out = options.out
    timestamps = options.timestamps
    stream = options.stream
    if out is not None and stream is not None:
        raise InputError("give -o FILE.wav (or .flac, .mp3, .opus), or --stream: not both")
    if (options.resume or options.fresh) and out is None:
        raise InputError("--resume and --fresh need -o FILE: a stream keeps nothing")
    if options.resume and options.fresh:
        raise InputError("--fresh discards what --resume goes on with: give one of them")
    if options.loudness is not None:
        check_loudness(options.loudness)
        if stream is not None:
            raise InputError("--loudness needs -o FILE: it is known when the last word is spoken")
    if options.split and out is None:
        raise InputError("--split needs -o FILE")
    if out is not None:
        out = check_output(out, suffixes=SUFFIXES, arguments=options)
        check_format(out)
        check_implied(name_parts(out), explain_foreign_state)
    if timestamps is not None:
        from kokoro_ane.pipeline.timestamps import SUFFIXES as TIMES

        timestamps = check_output(timestamps, suffixes=TIMES, arguments=options)
        if options.trim:
            raise InputError("--trim moves what --timestamps tells: give one of them")
    runtime = choose_runtime(options.runtime, options.method, options.layout)
    check_speed(options.speed)
    check_seed(options.seed)
    check_pauses(options.pauses or {})
    return replace(
        options,
        out=out,
        timestamps=timestamps,
        runtime=runtime,
        dialect=dialect_of(options.dialect) if options.dialect else None,
        trim=stream is not None and timestamps is None if options.trim is None else options.trim,
    )


def collect_settings(
    options: SpeakOptions, runtime: str, text: str, voice: "Voice", models: dict[str, str]
) -> dict[str, Any]:
    """What decides the samples: chunks of another run are used only if all of it is the same."""

    def digest(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    torch = sys.modules.get("torch")
    return {
        "text": digest(text.encode()),
        "voice": digest(voice.pack.tobytes() + voice.statistics.tobytes()),
        "speed": options.speed,
        "seed": options.seed,
        "pauses": dict(options.pauses or {}),
        "runtime": runtime,
        "models": models,
        # another number of threads sums in another order: the last bits differ
        "threads": torch.get_num_threads() if torch else os.environ.get("OMP_NUM_THREADS"),
        "g2p": "phonemes" if options.phonemes else options.dialect,
        "lexicon": digest(options.lexicon.read_bytes()) if options.lexicon else None,
    }


@contextmanager
def show_progress(total: int | None, quiet: bool) -> "Iterator[Callable[[Speech], None]]":
    """A progress bar on a terminal's stderr, in characters of the text, and what moves it behind a
    chunk. total: None for a pipe, whose length is known at its end.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    hidden = quiet or not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("speaking", total=total)

        def move(speech: "Speech") -> None:
            words = speech.chunk.words  # none: the silence at the end
            bar.update(task, completed=words[-1].end if words else total)

        yield move


def synthesize_blocks(
    options: SpeakOptions,
    text: "str | LiveText",
    pipeline: "Pipeline",
    voice: "Voice",
    made_with: dict[str, Any],
    started: float,
) -> SpeechResult:
    """Speak the text, block by block, into the file, the stream or memory. The report is of the
    audio and of the time it took. `made_with`: what decides the samples. `started`: when the
    command or the call did.
    """
    import numpy as np

    from kokoro_ane.pipeline.audio import level_loudness, trim_silence
    from kokoro_ane.pipeline.resume import name_parts, resume_state
    from kokoro_ane.pipeline.synthesis import (
        Speech,
        SpeechOptions,
        SynthesisStats,
        is_chapter_start,
    )

    stats = SynthesisStats(started=started)
    earlier = None
    memory = [np.zeros(0, np.float32)]
    # a stream is played as it is computed, window by window where the vocoder has windows
    windowed = options.stream is not None
    how = SpeechOptions(options.speed, options.seed, windowed=windowed, pauses=options.pauses or {})
    files: list[dict[str, Any]] = []
    samples_written = full_scale = 0
    with ExitStack() as stack:
        listeners: list[Callable[[Speech], None]] = [stats.add]  # of finished chunks
        if options.out:
            state = resume_state(name_parts(options.out), made_with, options.fresh)
            kept = stack.enter_context(state)
            earlier = kept.earlier
            listeners.append(kept.keep)
        if options.timestamps:
            from kokoro_ane.pipeline.timestamps import open_times_file

            listeners.append(stack.enter_context(open_times_file(options.timestamps, text)).add)
        total = len(text) if isinstance(text, str) else None
        listeners.append(stack.enter_context(show_progress(total, options.quiet)))

        def blocks() -> "Iterator[tuple[int, np.ndarray]]":
            """Samples in order, each with the number of its file."""
            number = 0
            before: Speech | None = None
            held: list[np.ndarray] = []  # of a chunk that may begin a chapter
            for block in pipeline.blocks(text, voice, how, earlier):
                if not isinstance(block, Speech):
                    if options.split:
                        held.append(block)
                    else:
                        yield number, block
                    stats.heard(len(block))
                    continue
                if options.split:
                    audio = np.concatenate([memory[0], *held])
                    held = []
                    if is_chapter_start(before, block.chunk):
                        # the silence before a heading ends the chapter before it
                        if block.pause:
                            yield number, audio[: block.pause]
                        number += 1
                        audio = audio[block.pause :]
                    yield number, audio
                before = block
                # its last sample was written
                for listener in listeners:
                    listener(block)

        for number, group in itertools.groupby(blocks(), key=itemgetter(0)):
            audio: Iterable[np.ndarray] = map(itemgetter(1), group)
            loudness_lufs = None
            if options.trim:
                audio = trim_silence(audio)
            if options.loudness is not None:
                samples, loudness_lufs = level_loudness(
                    np.concatenate(list(audio)), options.loudness
                )
                audio = [samples]
            with open_destination(options, number, memory) as output:
                for samples in audio:
                    output.write(samples)
            samples_written += output.samples
            full_scale += output.full_scale
            file = name_chapter_file(options.out, number) if options.split and options.out else None
            seconds = round(output.samples / SAMPLE_RATE_HZ, 6)
            files.append({"file": str(file), "seconds": seconds, "loudness_lufs": loudness_lufs})
    report = {
        **stats.report(),
        "samples_at_full_scale": full_scale,
        "dropped": pipeline.dropped,
        "loudness_lufs": files[0]["loudness_lufs"],
        "seconds_trimmed": round((stats.samples - samples_written) / SAMPLE_RATE_HZ, 6),
        **({"files": files} if options.split else {}),
    }
    return SpeechResult(report, np.concatenate(memory))


def name_chapter_file(out: Path, number: int) -> Path:
    """book.mp3 -> book-01.mp3; what stands before the first heading is book-00.mp3."""
    return out.with_stem(f"{out.stem}-{number:02}")


@contextmanager
def open_destination(
    options: SpeakOptions, number: int, memory: "list[np.ndarray]"
) -> "Iterator[Output]":
    """Where the samples of file `number` go: a file, the stream, or `memory`."""
    from kokoro_ane.core import check_output
    from kokoro_ane.pipeline.audio import SUFFIXES, Output, open_file, open_stream

    if options.out:
        out = name_chapter_file(options.out, number) if options.split else options.out
        if options.split:
            out = check_output(out, suffixes=SUFFIXES, arguments=options)
        with open_file(out) as output:
            yield output
    elif options.stream:
        yield open_stream(sys.stdout.buffer, options.stream)
    else:
        output = Output(lambda _: None)
        write = output.write

        def remember(samples: "np.ndarray") -> None:
            write(samples)
            memory.append(samples)

        output.write = remember  # type: ignore[method-assign]
        yield output


def speak_text(options: SpeakOptions, stdin: BinaryIO = NOTHING) -> SpeechResult:
    """Speak a text. The model stays open for the next call that asks for the same, until a file in
    `build` changes. `stdin`: what a text or file of "-" stands for.

    Raises InputError: nothing to say, an unknown voice, runtime or level, a package that is not
    built, a file that cannot be written.
    """
    started = command_began()
    options = check_speak_options(options)
    from kokoro_ane.pipeline.speaking import ReaderOptions, check_before_opening, load
    from kokoro_g2p import read_text

    # what is still being written is spoken as its sentences complete
    text = read_text(options.text, options.file, stdin, live=options.stream is not None)
    check_before_opening(
        options.checkpoint, options.voice, text, options.dialect, phonemes=options.phonemes
    )
    kokoro = load(
        options.checkpoint, options.runtime, options.method, options.layout, options.build
    )
    name, voice = kokoro.chosen(options.voice, options.dialect)
    reading = ReaderOptions(options.phonemes, options.dialect, options.lexicon)
    # a voice in the text is refused before anything is spoken; a pipe's text is not there yet
    kokoro.check_voices_in(text, reading)
    g2p_hash = {} if options.phonemes else kokoro.g2p_program[1]
    models = kokoro.opened.made_of | g2p_hash
    made_with = (
        collect_settings(options, kokoro.runtime, text, voice, models)
        if isinstance(text, str)
        else {}
    )
    with kokoro.reader(name, reading) as reader:
        for path in (options.out, options.timestamps):
            if path and not path.parent.exists():
                print(f"{path.parent} is no folder yet: it is made", file=sys.stderr)
                path.parent.mkdir(parents=True)
        pipeline = kokoro.pipeline(reader)
        spoken = synthesize_blocks(options, text, pipeline, voice, made_with, started)
    about = {
        "checkpoint": kokoro.checkpoint.name,
        "releasable": kokoro.checkpoint.releasable,
        "voice": name,
        "runtime": kokoro.runtime,
        "method": kokoro.request.method,
        "layout": kokoro.request.layout,
        "speed": options.speed,
        "seed": options.seed,
        "models": models,
        "out": str(options.out) if options.out else f"stream {options.stream}",
    }
    return replace(spoken, report=about | spoken.report)


def print_report(report: dict[str, Any], title: str) -> None:
    """Stages with their share, then what is worth a line."""
    spent, factor = report["seconds_by_stage"], report["real_time_factor"]
    total = sum(spent.values())
    rows = []
    for stage, seconds in (*spent.items(), ("all", total)):
        share = seconds / total if total else 0.0
        stage_factor = "" if factor is None else f"{share * factor:.3f}"
        rows.append((stage, f"{seconds:.3f}", f"{share:.0%}", stage_factor))
    print_table(title, ("stage", "seconds", "share", "real-time factor"), rows, right=True)
    print(*describe_in_words(report), sep="\n")


def describe_in_words(report: dict[str, Any]) -> list[str]:
    """What the table does not hold, in words."""
    chunks, earlier = report["chunks"], report["chunks_of_an_earlier_run"]
    length = f"{report['seconds_of_audio']:.2f} s of audio in {chunks} chunk{'s' * (chunks != 1)}"
    lines = [f"{length}, {earlier} of them from an earlier run" if earlier else length]
    factor, first_s = report["real_time_factor"], report["first_audio_s"]
    if factor is not None:
        lines.append(
            f"real-time factor {factor:.3f} (seconds of computing for a second of sound); first"
            f" audio {first_s:.2f} s after the start of the command"
        )
    turned, down = report["chunks_turned_down"], report["turned_down_db"]
    clipping = f"{turned} chunks turned down, by {-down:.1f} dB at most"
    lines.append(
        f"peak {report['peak_of_the_model']:.3f} of full scale:"
        f" {clipping if turned else 'nothing turned down'}; no sample clipped"
    )
    if report["dropped"]:
        counts = [f"{count} {what}" for what, count in report["dropped"].items()]
        lines.append("left out: " + ", ".join(counts))
    return lines


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    words = sys.argv[1:] if argv is None else list(argv)
    if "--" in words[:-1]:
        # what stands behind it is the text, whatever it begins with; flags may follow
        place = words.index("--")
        words = [*words[:place], *words[place + 2 :], *words[place : place + 2]]
    options = parse(SpeakOptions, "kokoro-ane speak", __doc__, words)
    if options.out is None and options.stream is None:
        raise InputError("give -o FILE.wav (or .flac, .mp3, .opus), or --stream")
    report = speak_text(options, sys.stdin.buffer).report
    from kokoro_ane.pipeline.speaking import WITHOUT_FILES
    from kokoro_ane.runtimes import ENCODER_BY_PYTORCH, RUNTIMES

    if RUNTIMES[report["runtime"]].is_for_packages:
        if not options.phonemes and "G2P" not in report["models"]:
            print(
                f"unknown words are read by NumPy: {options.build / 'G2P.json'} is not built; `make"
                " g2p` builds it",
                file=sys.stderr,
            )
        if ENCODER_BY_PYTORCH in report["models"]:
            print(
                f"durations and prosody come from PyTorch: {options.build} holds no encoder; `make"
                " encoder` builds it",
                file=sys.stderr,
            )
    level = "" if report["runtime"] == WITHOUT_FILES else f" {report['method']}"
    shown = options.out.name if options.out else report["out"]
    title = f"{shown}  {report['voice']}, {report['runtime']}{level}, {report['checkpoint']}"
    with redirect_stdout(sys.stderr if options.stream else sys.stdout):
        print_report(report, title)
        return conclude(options, report, EXIT_GOOD, f"spoken to {report['out']}")


if __name__ == "__main__":
    raise SystemExit(main())
