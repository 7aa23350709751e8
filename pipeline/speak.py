"""Speak: text to a .wav or .flac file, or a stream, through g2p, encoder and vocoder.

    kokoro-ane speak "Hello." --voice slt -o hello.wav [--checkpoint FOLDER] [--runtime torch|mlprogram|coreml|onnx]
        [--method w8a8]
    kokoro-ane speak --file book.txt -o book.flac --timestamps words.json [--resume]
    echo "Hello." | kokoro-ane speak - --stream | aplay

Exit 0: spoken. Exit 2: bad input, one line says which. The last line of stdout is one JSON object;
with --stream stdout is audio, and the table and the JSON line go to stderr. Finished chunks of an
interrupted run stay in OUT.parts/ until --resume has used them.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import checkpoint_argument, layout_argument, seed_argument
from kokoro_ane.core.contract import SAMPLE_RATE_HZ
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, command

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.pipeline.audio import Sink
    from kokoro_ane.pipeline.resume import ResumeState
    from kokoro_ane.pipeline.synthesis import Pipeline, SynthesisStats
    from kokoro_ane.pipeline.text import Phonemizer


# Each sentence length makes oneDNN kernels of its own: 1,024 kept grew by 288 MB over 10,000 words
# (--runtime torch), 32 by 1 to 22 MB.
FEW_KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane speak", __doc__)
    parser.add_argument("text", nargs="?", help="what to say; - reads standard input")
    parser.add_argument("--file", type=Path, help="a UTF-8 text file instead")
    parser.add_argument("-o", "--out", type=Path, help="output, .wav or .flac, 24 kHz mono 16 bit")
    parser.add_argument(
        "--stream",
        nargs="?",
        const="wav",
        choices=("wav", "pcm"),
        help="audio to stdout as it is finished (default: wav)",
    )
    parser.add_argument(
        "--voice",
        help=(
            "a voice, or a blend such as af_heart:0.7,am_adam:0.3 (default: the checkpoint's first)"
        ),
    )
    parser.add_argument("--speed", type=float, default=1.0, help="0.25 to 4; 2 is twice as fast")
    parser.add_argument(
        "--seed",
        type=seed_argument,
        default=0,
        help="of the noise: the same seed gives the same samples",
    )
    checkpoint_argument(parser)
    parser.add_argument(
        "--runtime",
        help=(
            "torch; mlprogram: the packages, executed here (default where built); coreml: on a Mac;"
            " onnx (default without PyTorch)"
        ),
    )
    parser.add_argument(
        "--method",
        default="",
        help="level of the vocoder: fp16, w8a8, p6 ... (default: the runtime's: fp16; onnx fp32)",
    )
    layout_argument(parser)
    parser.add_argument(
        "--build",
        type=Path,
        default=Path("build"),
        help="folder with the packages (default: %(default)s)",
    )
    parser.add_argument(
        "--phonemes",
        action="store_true",
        help="the text is phonemes of Kokoro's vocabulary already",
    )
    parser.add_argument(
        "--dialect",
        help="of g2p: us, gb, es, it, and misaki's and BCP 47 names (default: by the voice)",
    )
    parser.add_argument(
        "--lexicon", type=Path, help="your own pronunciations, before the lexicon's"
    )
    parser.add_argument(
        "--timestamps",
        type=Path,
        help="write word and phoneme times as .json, or subtitles as .srt or .vtt",
    )
    parser.add_argument(
        "--trim",
        action=argparse.BooleanOptionalAction,
        help=(
            "cut silence above 0.1 s before the first sound and above 0.25 s behind the last"
            " (default: with --stream)"
        ),
    )
    parser.add_argument(
        "--loudness",
        type=float,
        metavar="LUFS",
        help="level the file to this loudness (BS.1770), its peak at most -1 dBFS",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the chunks that an interrupted run left in OUT.parts/",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser.parse_args(argv)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Everything that can be told before a model is opened."""
    from kokoro_ane.core.staging import check_implied, check_output
    from kokoro_ane.encoder.encoder_steps import check_speed
    from kokoro_ane.g2p.alphabet import dialect_of
    from kokoro_ane.pipeline.audio import SUFFIXES
    from kokoro_ane.pipeline.polish import check_loudness
    from kokoro_ane.pipeline.resume import resume_state_of_ours
    from kokoro_ane.pipeline.timestamps import SUFFIXES as TIMES
    from kokoro_ane.runtimes.registry import check_runtime, default_runtime, level_for

    if (arguments.out is None) == (arguments.stream is None):
        raise InputError(
            "give -o FILE.wav (or .flac), or --stream" + (": not both" if arguments.out else "")
        )
    if arguments.resume and arguments.out is None:
        raise InputError("--resume needs -o FILE: a stream keeps nothing")
    if (
        arguments.loudness is not None
        and check_loudness(arguments.loudness)
        and arguments.out is None
    ):
        raise InputError("--loudness needs -o FILE: it is known when the last word is spoken")
    if arguments.out is not None:
        arguments.out = check_output(arguments.out, suffixes=SUFFIXES, arguments=arguments)
        check_implied(parts_of(arguments.out), resume_state_of_ours)
    if arguments.timestamps is not None:
        arguments.timestamps = check_output(
            arguments.timestamps, suffixes=TIMES, arguments=arguments
        )
    if arguments.dialect is not None:
        arguments.dialect = dialect_of(arguments.dialect)
    if arguments.trim and arguments.timestamps is not None:
        raise InputError("--trim moves what --timestamps tells: give one of them")
    arguments.trim = (
        arguments.stream is not None and arguments.timestamps is None
        if arguments.trim is None
        else arguments.trim
    )
    if arguments.runtime or arguments.method:
        arguments.runtime = arguments.runtime or default_runtime()
        check_runtime(
            arguments.runtime,
            level_for(arguments.runtime, arguments.method),
            layout=arguments.layout,
        )
    check_speed(arguments.speed)


def phonemizer(arguments: argparse.Namespace, voice: str) -> "tuple[Phonemizer, dict[str, str]]":
    """The g2p stage, and the hash of its package where one is executed."""
    from kokoro_ane.g2p.alphabet import voice_language
    from kokoro_ane.pipeline.text import PhonemeReader, TextReader
    from kokoro_ane.runtimes.files import open_g2p

    if arguments.phonemes:
        return PhonemeReader(), {}
    program, made_of = open_g2p(arguments.runtime, arguments.build)
    return (
        TextReader.load(arguments.dialect or voice_language(voice), arguments.lexicon, program),
        made_of,
    )


def open_pipeline(
    arguments: argparse.Namespace, checkpoint: "Checkpoint"
) -> "tuple[Pipeline, np.ndarray, str, dict[str, str]]":
    """The pipeline, the voice [510, 1, 256], its name, and the hashes of what the pipeline is made
    of.
    """
    from kokoro_ane.core.voices import VoiceLibrary
    from kokoro_ane.pipeline.synthesis import Pipeline, runtime_at_hand
    from kokoro_ane.quantize.locator import Request
    from kokoro_ane.runtimes.registry import level_for, open_runtime

    if not arguments.runtime:
        arguments.runtime = runtime_at_hand(
            Request(checkpoint, arguments.build, "", arguments.layout, source=arguments.checkpoint)
        )
    arguments.method = level_for(arguments.runtime, arguments.method)
    name, voice = VoiceLibrary(checkpoint.folder / "voices").chosen(arguments.voice)
    opened = open_runtime(
        arguments.runtime, Request(checkpoint, arguments.build, arguments.method, arguments.layout)
    )
    opened.require_voice(name)
    reader, read_by = phonemizer(arguments, name)
    pipeline = Pipeline(reader, opened.encoder, opened.vocoder, checkpoint.config.vocab)
    return pipeline, voice, name, opened.made_of | read_by


def settings(
    arguments: argparse.Namespace, text: str, voice: "np.ndarray", made_of: dict[str, str]
) -> dict[str, Any]:
    """What the samples hang on: chunks of another run are used only if all of it is the same."""
    lexicon = (
        hashlib.sha256(arguments.lexicon.read_bytes()).hexdigest() if arguments.lexicon else None
    )
    return {
        "text": hashlib.sha256(text.encode()).hexdigest(),
        "voice": hashlib.sha256(voice.tobytes()).hexdigest(),
        "speed": arguments.speed,
        "seed": arguments.seed,
        "runtime": arguments.runtime,
        "models": made_of,
        "threads": threads(),  # another number sums in another order: the last bits differ
        "g2p": "phonemes" if arguments.phonemes else arguments.dialect,
        "lexicon": lexicon,
    }


def threads() -> int | str | None:
    """How many threads sum: PyTorch's own number, or what the environment asks of another
    runtime.
    """
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else os.environ.get("OMP_NUM_THREADS")


def parts_of(out: Path) -> Path:
    """Where finished chunks are kept until the output is complete."""
    return out.with_name(out.name + ".parts")


@contextmanager
def resume_state_of(
    arguments: argparse.Namespace, made_with: dict[str, Any]
) -> "Iterator[ResumeState | None]":
    """The chunks kept beside the output; None for a stream. Removed when all went well, else a line
    says how to go on.
    """
    from kokoro_ane.pipeline.resume import ResumeState

    if arguments.out is None:
        yield None
        return
    folder = parts_of(arguments.out)
    with ResumeState.open(folder, made_with, arguments.resume) as state:
        finished = False
        try:
            yield state
            finished = True
        finally:
            if finished or not state.written:
                state.remove()
            else:
                print(
                    f"{state.written} finished chunks are kept in {folder}: the same command with"
                    " --resume goes on",
                    file=sys.stderr,
                )


def spoken(
    arguments: argparse.Namespace,
    text: str,
    pipeline: "Pipeline",
    voice: "np.ndarray",
    made_of: dict[str, str],
) -> "tuple[SynthesisStats, Sink]":
    """Speak it all, chunk by chunk."""
    from rich.console import Console
    from rich.progress import Progress

    from kokoro_ane.pipeline.audio import to_file, to_stream
    from kokoro_ane.pipeline.polish import LevelledSink, TrimmedSink
    from kokoro_ane.pipeline.synthesis import Player, SpeechOptions, SynthesisStats
    from kokoro_ane.pipeline.timestamps import times_to

    stats, options = (
        SynthesisStats(),
        SpeechOptions(arguments.speed, arguments.seed, fade_ticks=True),
    )
    with ExitStack() as held:
        state = held.enter_context(
            resume_state_of(arguments, settings(arguments, text, voice, made_of))
        )
        stamps = (
            held.enter_context(times_to(arguments.timestamps, text))
            if arguments.timestamps
            else None
        )
        sink = held.enter_context(
            to_file(arguments.out)
            if arguments.out
            else to_stream(sys.stdout.buffer, arguments.stream)
        )
        levelled = None if arguments.loudness is None else LevelledSink(sink, arguments.loudness)
        sink = levelled or sink
        if arguments.trim:
            sink = TrimmedSink(sink)
        console = Console(stderr=True)
        bar = held.enter_context(
            Progress(
                console=console, transient=True, disable=arguments.quiet or not console.is_terminal
            )
        )
        task = bar.add_task("speaking", total=len(text))
        play = None if arguments.out else Player(sink.write, stats.heard)
        for speech in (
            pipeline.speak(text, voice, options, state.kept)
            if state
            else pipeline.speak(text, voice, options, play=play)
        ):
            if play is None:
                sink.write(speech.audio)
            stats.add(speech)
            if stamps:
                stamps.add(speech)
            if state:
                state.keep(speech)
            words = speech.chunk.words  # none: the silence at the end
            bar.update(task, completed=words[-1].end if words else len(text))
        if isinstance(sink, TrimmedSink):
            sink.finish()
        if levelled:
            levelled.finish()
            stats.loudness_lufs, sink.full_scale = levelled.reached, levelled.full_scale
    return stats, sink


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    check_arguments(arguments)
    os.environ.setdefault(*FEW_KERNELS)  # before torch reads it

    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.pipeline.synthesis import print_report
    from kokoro_ane.pipeline.text import read_text
    from kokoro_ane.runtimes.registry import ENCODER_BY_PYTORCH, RUNTIMES

    text = read_text(arguments.text, arguments.file, sys.stdin.buffer)
    checkpoint = open_checkpoint(arguments.checkpoint)
    pipeline, voice, name, made_of = open_pipeline(arguments, checkpoint)
    stats, sink = spoken(arguments, text, pipeline, voice, made_of)
    made = {
        "checkpoint": checkpoint.name,
        "releasable": checkpoint.releasable,
        "voice": name,
        "runtime": arguments.runtime,
    }
    made |= {
        "method": arguments.method,
        "layout": arguments.layout,
        "speed": arguments.speed,
        "seed": arguments.seed,
    }
    report = (
        made
        | stats.report()
        | {
            "samples_at_full_scale": sink.full_scale,
            "dropped": pipeline.dropped,
        }
    )
    report |= {} if arguments.loudness is None else {"loudness_lufs": stats.loudness_lufs}
    report |= {
        "models": made_of,
        "seconds_trimmed": round(getattr(sink, "cut", 0) / SAMPLE_RATE_HZ, 6),
    }
    report["out"] = str(arguments.out) if arguments.out else f"stream {arguments.stream}"
    if RUNTIMES[arguments.runtime].packages and not arguments.phonemes and "G2P" not in made_of:
        print(
            f"unknown words are read by NumPy: {arguments.build / 'G2P.json'} is not built; `make"
            " g2p` builds it",
            file=sys.stderr,
        )
    if RUNTIMES[arguments.runtime].packages and ENCODER_BY_PYTORCH in made_of:
        print(
            f"durations and prosody come from PyTorch: {arguments.build} holds no encoder; `make"
            " encoder` builds it",
            file=sys.stderr,
        )
    level = "" if arguments.runtime == "torch" else f" {arguments.method}"
    shown = arguments.out.name if arguments.out else report["out"]
    with redirect_stdout(sys.stderr if arguments.stream else sys.stdout):
        print_report(report, f"{shown}  {name}, {arguments.runtime}{level}, {checkpoint.name}")
        print(json.dumps(report, ensure_ascii=False))
    return EXIT_GOOD


if __name__ == "__main__":
    raise SystemExit(main())
