"""Speak: text to a .wav or .flac file, or a stream, through g2p, encoder and vocoder.

    kokoro-ane speak "Hello." --voice slt -o hello.wav [--checkpoint FOLDER] [--method w8a8] \\
        [--runtime torch|mlprogram|coreml|onnx]
    kokoro-ane speak --file book.txt -o book.flac --timestamps words.json [--resume]
    echo "Hello." | kokoro-ane speak - --stream | aplay     # or what is still being written

Exit 0: spoken. Exit 2: bad input, one line says which. A pipe's last line is one JSON object; with
--stream stdout is audio, and the table and the JSON line go to stderr. Finished chunks of an
interrupted run stay in OUT.parts/ until --resume has used them.
"""

import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kokoro_ane.core.commands import (
    CommandOptions,
    build_option,
    checkpoint_option,
    conclude,
    layout_option,
    option,
    parse,
    print_table,
    seed_argument,
    voice_option,
)
from kokoro_ane.core.contract import SAMPLE_RATE_HZ
from kokoro_ane.core.errors import EXIT_GOOD, InputError, command

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.pipeline.synthesis import Pipeline, Speech
    from kokoro_ane.pipeline.text import LiveText, Phonemizer
    from kokoro_ane.quantize.locator import Request
    from kokoro_ane.runtimes.registry import Opened


# Each sentence length makes oneDNN kernels of its own: 1,024 kept grew by 288 MB over 10,000 words
# (--runtime torch), 32 by 1 to 22 MB.
FEW_KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
NOTHING = io.BytesIO()
WITHOUT_FILES = "torch"  # the runtime that needs none


@dataclass(frozen=True)
class SpeakOptions(CommandOptions):
    """What is spoken, by what, and where it goes: `out`, a file, or `stream`, wav or pcm to stdout,
    or else memory. text, or file: UTF-8. runtime, method, layout: None and "" for what is at hand.
    """

    text: str | None = option("what to say; - reads standard input", None, "text", nargs="?")
    voice: str | None = voice_option()
    file: Path | None = option("a UTF-8 text file instead")
    out: Path | None = option("output, .wav or .flac, 24 kHz mono 16 bit", None, "-o", "--out")
    stream: str | None = option(
        "audio to stdout as it is finished (default: wav)",
        nargs="?",
        const="wav",
        choices=("wav", "pcm"),
    )
    speed: float = option("0.25 to 4; 2 is twice as fast", 1.0)
    seed: int = option("of the noise: the same seed gives the same samples", 0, type=seed_argument)
    checkpoint: str | None = checkpoint_option()
    runtime: str | None = option(
        "torch; mlprogram: the packages, executed here (default where built); coreml: on a Mac;"
        " onnx (default without PyTorch)"
    )
    method: str = option(
        "level of the vocoder: fp16, w8a8, p6 ... (default: the runtime's: fp16; onnx fp32)", ""
    )
    layout: str = layout_option()
    build: Path = build_option()
    phonemes: bool = option("the text is phonemes of Kokoro's vocabulary already", False)
    dialect: str | None = option(
        "of g2p: us, gb, es, it, and misaki's and BCP 47 names (default: by the voice)"
    )
    lexicon: Path | None = option("your own pronunciations, before the lexicon's")
    timestamps: Path | None = option(
        "write word and phoneme times as .json, or subtitles as .srt or .vtt"
    )
    trim: bool | None = option(
        "cut silence above 0.1 s before the first sound and above 0.25 s behind the last (default:"
        " with --stream)"
    )
    loudness: float | None = option(
        "level the file to this loudness (BS.1770), its peak at most -1 dBFS", metavar="LUFS"
    )
    resume: bool = option("go on with the chunks that an interrupted run left in OUT.parts/", False)
    # a call shows no progress bar; a command does, without --quiet
    quiet: bool = option("no progress bar", True)


@dataclass(frozen=True, eq=False)
class Spoken:
    """What was spoken. report: JSON-ready, docs/speaking.md. samples: [n] float32; none where a
    file or a stream took them.
    """

    report: dict[str, Any]
    samples: "np.ndarray"


def checked(options: SpeakOptions) -> SpeakOptions:
    """The options with the defaults that follow from others. Raises InputError for everything that
    can be refused before a model is opened.
    """
    from kokoro_ane.core.staging import check_implied, check_output
    from kokoro_ane.encoder.encoder_steps import check_speed
    from kokoro_ane.g2p.alphabet import dialect_of
    from kokoro_ane.pipeline.audio import SUFFIXES, check_loudness
    from kokoro_ane.pipeline.resume import not_a_resume_state, parts_of
    from kokoro_ane.runtimes.registry import check_runtime, default_runtime

    out, timestamps = options.out, options.timestamps
    stream, runtime = options.stream, options.runtime
    if out is not None and stream is not None:
        raise InputError("give -o FILE.wav (or .flac), or --stream: not both")
    if options.resume and out is None:
        raise InputError("--resume needs -o FILE: a stream keeps nothing")
    if options.loudness is not None:
        check_loudness(options.loudness)
        if stream is not None:
            raise InputError("--loudness needs -o FILE: it is known when the last word is spoken")
    if out is not None:
        out = check_output(out, suffixes=SUFFIXES, arguments=options)
        check_implied(parts_of(out), not_a_resume_state)
    if timestamps is not None:
        from kokoro_ane.pipeline.timestamps import SUFFIXES as TIMES

        timestamps = check_output(timestamps, suffixes=TIMES, arguments=options)
        if options.trim:
            raise InputError("--trim moves what --timestamps tells: give one of them")
    # names are checked before anything is opened; a default is chosen later, by what is built
    if runtime or options.method:
        runtime = runtime or default_runtime()
        check_runtime(runtime, options.method, layout=options.layout)
    check_speed(options.speed)
    return replace(
        options,
        out=out,
        timestamps=timestamps,
        runtime=runtime,
        dialect=dialect_of(options.dialect) if options.dialect else None,
        trim=stream is not None and timestamps is None if options.trim is None else options.trim,
    )


@lru_cache(maxsize=1)
def opened_models(
    source: str | None, runtime: str | None, method: str, layout: str, build: Path, stamp: object
) -> "tuple[Checkpoint, str, Request, Opened]":
    """The checkpoint, the runtime's name, the request, and the models, which stay open for the next
    call. `stamp` changes with the files in `build`: a package that was built anew is opened anew.
    """
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.staging import there
    from kokoro_ane.quantize.locator import Request
    from kokoro_ane.runtimes.registry import RUNTIMES, default_runtime, open_runtime, resolve

    checkpoint, name = open_checkpoint(source), runtime or default_runtime()
    request = resolve(name, Request(checkpoint, build, method, layout))
    # PyTorch speaks where neither a runtime nor a level is asked for and the default has no files
    may_choose = not (runtime or method) and not RUNTIMES[WITHOUT_FILES].missing
    if may_choose and not there(request.vocoder):
        print(
            f"{request.vocoder} is not built: PyTorch speaks;"
            f" `{request.command(request.vocoder)}` builds it",
            file=sys.stderr,
        )
        name = WITHOUT_FILES
        request = resolve(name, replace(request, method=""))
    return checkpoint, name, request, open_runtime(name, request)


def settings(
    options: SpeakOptions, runtime: str, text: str, voice: "np.ndarray", models: dict[str, str]
) -> dict[str, Any]:
    """What decides the samples: chunks of another run are used only if all of it is the same."""

    def digest(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    torch = sys.modules.get("torch")
    return {
        "text": digest(text.encode()),
        "voice": digest(voice.tobytes()),
        "speed": options.speed,
        "seed": options.seed,
        "runtime": runtime,
        "models": models,
        # another number of threads sums in another order: the last bits differ
        "threads": torch.get_num_threads() if torch else os.environ.get("OMP_NUM_THREADS"),
        "g2p": "phonemes" if options.phonemes else options.dialect,
        "lexicon": digest(options.lexicon.read_bytes()) if options.lexicon else None,
    }


@contextmanager
def progress(total: int | None, quiet: bool) -> "Iterator[Callable[[Speech], None]]":
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


def synthesized(
    options: SpeakOptions,
    text: "str | LiveText",
    pipeline: "Pipeline",
    voice: "np.ndarray",
    made_with: dict[str, Any],
) -> Spoken:
    """Speak the text, block by block, into the file, the stream or memory. The report is of the
    audio and of the time it took. `made_with`: what decides the samples.
    """
    import numpy as np

    from kokoro_ane.pipeline.audio import Output, levelled, to_file, to_stream, trimmed
    from kokoro_ane.pipeline.resume import parts_of, resume_state
    from kokoro_ane.pipeline.synthesis import Speech, SpeechOptions, SynthesisStats

    stats, earlier, loudness_lufs = SynthesisStats(), None, None
    memory = [np.zeros(0, np.float32)]
    # a stream is played as it is computed, window by window where the vocoder has windows
    how = SpeechOptions(options.speed, options.seed, windowed=options.stream is not None)
    with ExitStack() as stack:
        listeners: list[Callable[[Speech], None]] = [stats.add]  # of finished chunks
        if options.out:
            state = resume_state(parts_of(options.out), made_with, options.resume)
            kept = stack.enter_context(state)
            earlier = kept.earlier if options.resume else None
            listeners.append(kept.keep)
        if options.timestamps:
            from kokoro_ane.pipeline.timestamps import times_to

            listeners.append(stack.enter_context(times_to(options.timestamps, text)).add)
        total = len(text) if isinstance(text, str) else None
        listeners.append(stack.enter_context(progress(total, options.quiet)))
        output = Output(lambda _: None)
        if options.out:
            output = stack.enter_context(to_file(options.out))
        elif options.stream:
            output = to_stream(sys.stdout.buffer, options.stream)

        def blocks() -> "Iterator[np.ndarray]":
            for block in pipeline.blocks(text, voice, how, earlier):
                if isinstance(block, Speech):
                    # its last sample was written
                    for listener in listeners:
                        listener(block)
                else:
                    yield block
                    stats.heard(len(block))

        audio: Iterable[np.ndarray] = blocks()
        if options.trim:
            audio = trimmed(audio)
        if options.loudness is not None:
            whole = np.concatenate(list(audio))
            samples, loudness_lufs = levelled(whole, options.loudness)
            audio = [samples]
        for samples in audio:
            output.write(samples)
            if not (options.out or options.stream):
                memory.append(samples)
    report = {
        **stats.report(),
        "samples_at_full_scale": output.full_scale,
        "dropped": pipeline.dropped,
        "loudness_lufs": loudness_lufs,
        "seconds_trimmed": round((stats.samples - output.samples) / SAMPLE_RATE_HZ, 6),
    }
    return Spoken(report, np.concatenate(memory))


def g2p_stage(
    options: SpeakOptions, runtime: str, voice: str
) -> "tuple[Phonemizer, dict[str, str]]":
    """What reads the text of a voice, and the hash of the G2P package by its name, where that reads
    unknown words: the packages speak, and it is built.
    """
    from kokoro_ane.g2p.alphabet import dialect_of, voice_language
    from kokoro_ane.pipeline.text import phoneme_sentences, text_reader
    from kokoro_ane.runtimes.registry import RUNTIMES

    if options.phonemes:
        return phoneme_sentences, {}
    program: Any = None
    made_of: dict[str, str] = {}
    if RUNTIMES[runtime].packages:
        from kokoro_ane.runtimes.executed import open_g2p

        program, made_of = open_g2p(runtime, options.build)
    # a dialect that was asked for holds for every voice
    if options.dialect:
        return text_reader(dialect_of(options.dialect), options.lexicon, program), made_of
    reader = text_reader(voice_language(voice), options.lexicon, program, voice_language)
    return reader, made_of


def speak(options: SpeakOptions, stdin: BinaryIO = NOTHING) -> Spoken:
    """Speak a text. The model stays open for the next call that asks for the same, until a file in
    `build` changes. `stdin`: what a text or file of "-" stands for.

    Raises InputError: nothing to say, an unknown voice, runtime or level, a package that is not
    built, a file that cannot be written.
    """
    options = checked(options)
    os.environ.setdefault(*FEW_KERNELS)  # before torch reads it
    from kokoro_ane.core.voices import VoiceLibrary
    from kokoro_ane.g2p.alphabet import voice_language
    from kokoro_ane.g2p.ssml import voices_in
    from kokoro_ane.pipeline.synthesis import Pipeline
    from kokoro_ane.pipeline.text import read_text

    # what is still being written is spoken as its sentences complete
    text = read_text(options.text, options.file, stdin, live=options.stream is not None)
    manifests = sorted(
        (path.name, path.stat().st_mtime_ns) for path in options.build.glob("*.json")
    )
    checkpoint, runtime, request, opened = opened_models(
        options.checkpoint,
        options.runtime,
        options.method,
        options.layout,
        options.build,
        (Path.cwd(), *manifests),
    )
    library = VoiceLibrary(checkpoint.folder / "voices")

    @cache
    def voice_named(other: str) -> "np.ndarray":
        pack = library.blend(other)
        opened.require_voice(other)
        return pack

    name, voice = library.chosen(options.voice)
    opened.require_voice(name)
    # a voice in the text is refused before anything is spoken; a pipe's text is not there yet
    if isinstance(text, str) and not options.phonemes:
        for other in voices_in(text):
            voice_named(other)
            if not options.dialect:
                voice_language(other)

    reader, g2p_hash = g2p_stage(options, runtime, name)
    vocab, models = checkpoint.config.vocab, opened.made_of | g2p_hash
    pipeline = Pipeline(reader, opened.encoder, opened.vocoder, vocab, voices=voice_named)
    made_with = settings(options, runtime, text, voice, models) if isinstance(text, str) else {}
    spoken = synthesized(options, text, pipeline, voice, made_with)
    about = {
        "checkpoint": checkpoint.name,
        "releasable": checkpoint.releasable,
        "voice": name,
        "runtime": runtime,
        "method": request.method,
        "layout": request.layout,
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
    # of a stage: how many times real time it would be if it were alone
    length, rows = total / factor if factor else 0.0, []
    for stage, seconds in (*spent.items(), ("all", total)):
        share = f"{seconds / total:.0%}" if total else ""
        speed = f"{length / seconds:,.1f}" if seconds and length else ""
        rows.append((stage, f"{seconds:.3f}", share, speed))
    print_table(title, ("stage", "seconds", "share", "times real time"), rows, right=True)
    print(*in_words(report), sep="\n")


def in_words(report: dict[str, Any]) -> list[str]:
    """What the table does not hold, in words."""
    chunks, earlier = report["chunks"], report["chunks_of_an_earlier_run"]
    length = f"{report['seconds_of_audio']:.2f} s of audio in {chunks} chunk{'s' * (chunks != 1)}"
    lines = [f"{length}, {earlier} of them from an earlier run" if earlier else length]
    factor, first_s = report["real_time_factor"], report["first_audio_s"]
    if factor is not None:
        lines.append(f"real-time factor {factor:.3f}; first audio after {first_s:.2f} s")
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
    options = parse(SpeakOptions, "kokoro-ane speak", __doc__, argv)
    if options.out is None and options.stream is None:
        raise InputError("give -o FILE.wav (or .flac), or --stream")
    report = speak(options, sys.stdin.buffer).report
    from kokoro_ane.runtimes.registry import ENCODER_BY_PYTORCH, RUNTIMES

    if RUNTIMES[report["runtime"]].packages:
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
