"""Speak: text to a .wav or .flac file, or a stream, through g2p, encoder and vocoder.

    python -m pipeline.synthesize "Hello." --voice slt -o hello.wav [--checkpoint demo] [--runtime torch|mlprogram|coreml|onnx]
        [--method w8a8]
    python -m pipeline.synthesize --file book.txt -o book.flac --timestamps words.json [--resume]
    echo "Hello." | python -m pipeline.synthesize - --stream | aplay

Exit 0: spoken. Exit 2: bad input, one line says which. The last line of stdout is one JSON object; with --stream stdout is audio, and the
table and the JSON line go to stderr. Finished chunks of an interrupted run stay in OUT.parts/ until --resume has used them.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not pipeline/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.arguments import checkpoint_argument, form_argument, seed_argument
from core.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    import numpy as np

    from core.checkpoint import Checkpoint
    from pipeline.audio import Sink
    from pipeline.conductor import Pipeline
    from pipeline.journal import Journal
    from pipeline.reading import Phonemizer
    from pipeline.tally import Tally


# Each sentence length makes oneDNN kernels of its own: 1,024 kept grew by 288 MB over 10,000 words (--runtime torch), 32 by 1 to 22 MB.
FEW_KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="pipeline.synthesize", description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="?", help="what to say; - reads standard input")
    parser.add_argument("--file", type=Path, help="a UTF-8 text file instead")
    parser.add_argument("-o", "--out", type=Path, help="output, .wav or .flac, 24 kHz mono 16 bit")
    parser.add_argument("--stream", nargs="?", const="wav", choices=("wav", "pcm"), help="audio to stdout as it is finished (default: wav)")
    parser.add_argument("--voice", help="a voice, or a blend such as af_heart:0.7,am_adam:0.3 (default: the checkpoint's first)")
    parser.add_argument("--speed", type=float, default=1.0, help="0.25 to 4; 2 is twice as fast")
    parser.add_argument("--seed", type=seed_argument, default=0, help="of the noise: the same seed gives the same samples")
    checkpoint_argument(parser)
    parser.add_argument(
        "--runtime", help="torch; mlprogram: the packages, executed here (default); coreml: on a Mac; onnx (default without PyTorch)"
    )
    parser.add_argument("--method", default="", help="level of the vocoder: fp16, w8a8, p6 ... (default: the runtime's: fp16; onnx fp32)")
    form_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the packages (default: %(default)s)")
    parser.add_argument("--phonemes", action="store_true", help="the text is phonemes of Kokoro's vocabulary already")
    parser.add_argument("--dialect", help="of g2p: us, gb, es, it, and misaki's and BCP 47 names (default: by the voice)")
    parser.add_argument("--lexicon", type=Path, help="your own pronunciations, before the lexicon's")
    parser.add_argument("--timestamps", type=Path, help="write word and phoneme times as .json, or subtitles as .srt or .vtt")
    parser.add_argument("--resume", action="store_true", help="go on with the chunks that an interrupted run left in OUT.parts/")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser.parse_args(argv)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Everything that can be told before a model is opened."""
    from core.output import check_output
    from encoder.vocab import check_speed
    from g2p.dialects import dialect_of
    from pipeline.audio import SUFFIXES
    from pipeline.journal import journal_of_ours
    from pipeline.runtimes import check_runtime, default_runtime, level_for
    from pipeline.time_files import SUFFIXES as TIMES

    if (arguments.out is None) == (arguments.stream is None):
        raise InputError("give -o FILE.wav (or .flac), or --stream" + (": not both" if arguments.out else ""))
    if arguments.resume and arguments.out is None:
        raise InputError("--resume needs -o FILE: a stream keeps nothing")
    if arguments.out is not None:
        check_output(arguments.out, suffixes=SUFFIXES)
        check_output(parts_of(arguments.out), journal_of_ours)
    if arguments.timestamps is not None:
        check_output(arguments.timestamps, suffixes=TIMES)
    if arguments.dialect is not None:
        arguments.dialect = dialect_of(arguments.dialect)
    arguments.runtime = arguments.runtime or default_runtime()
    arguments.method = level_for(arguments.runtime, arguments.method)
    check_runtime(arguments.runtime, arguments.method, form=arguments.form)
    check_speed(arguments.speed)


def phonemizer(arguments: argparse.Namespace, voice: str) -> "tuple[Phonemizer, dict[str, str]]":
    """The g2p stage, and the hash of its package where one is executed."""
    from g2p.dialects import voice_language
    from pipeline.reading import PhonemeReader, TextReader
    from pipeline.runtimes.g2p import open_g2p

    if arguments.phonemes:
        return PhonemeReader(), {}
    program, made_of = open_g2p(arguments.runtime, arguments.build)
    return TextReader.load(arguments.dialect or voice_language(voice), arguments.lexicon, program), made_of


def open_pipeline(arguments: argparse.Namespace, checkpoint: "Checkpoint") -> "tuple[Pipeline, np.ndarray, str, dict[str, str]]":
    """The pipeline, the voice [510, 1, 256], its name, and the hashes of what the pipeline is made of."""
    from core.voices import VoiceLibrary
    from pipeline.conductor import Pipeline
    from pipeline.runtimes import Request, open_runtime

    library = VoiceLibrary(checkpoint.folder / "voices")
    if not library.names:
        raise InputError(f"{library.folder} holds no voice")
    name = arguments.voice or library.names[0]
    voice = library.blend_array(name)
    opened = open_runtime(arguments.runtime, Request(checkpoint, arguments.build, arguments.method, arguments.form))
    reader, read_by = phonemizer(arguments, name)
    pipeline = Pipeline(reader, opened.encoder, opened.vocoder, checkpoint.config.vocab)
    return pipeline, voice, name, opened.made_of | read_by


def settings(arguments: argparse.Namespace, text: str, voice: "np.ndarray", made_of: dict[str, str]) -> dict[str, Any]:
    """What the samples hang on: chunks of another run are used only if all of it is the same."""
    lexicon = hashlib.sha256(arguments.lexicon.read_bytes()).hexdigest() if arguments.lexicon else None
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
    """How many threads sum: PyTorch's own number, or what the environment asks of another runtime."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else os.environ.get("OMP_NUM_THREADS")


def parts_of(out: Path) -> Path:
    """Where finished chunks are kept until the output is complete."""
    return out.with_name(out.name + ".parts")


@contextmanager
def journal_of(arguments: argparse.Namespace, made_with: dict[str, Any]) -> "Iterator[Journal | None]":
    """The chunks kept beside the output; None for a stream. Removed when all went well, else a line says how to go on."""
    from pipeline.journal import Journal

    if arguments.out is None:
        yield None
        return
    folder = parts_of(arguments.out)
    with Journal.open(folder, made_with, arguments.resume) as journal:
        finished = False
        try:
            yield journal
            finished = True
        finally:
            if finished or not journal.written:
                journal.remove()
            else:
                print(f"{journal.written} finished chunks are kept in {folder}: the same command with --resume goes on", file=sys.stderr)


def spoken(
    arguments: argparse.Namespace, text: str, pipeline: "Pipeline", voice: "np.ndarray", made_of: dict[str, str]
) -> "tuple[Tally, Sink]":
    """Speak it all, chunk by chunk."""
    from rich.console import Console
    from rich.progress import Progress

    from pipeline.audio import to_file, to_stream
    from pipeline.conductor import SpeechOptions
    from pipeline.tally import Tally
    from pipeline.time_files import times_to

    tally, options = Tally(), SpeechOptions(arguments.speed, arguments.seed)
    with ExitStack() as held:
        journal = held.enter_context(journal_of(arguments, settings(arguments, text, voice, made_of)))
        stamps = held.enter_context(times_to(arguments.timestamps, text)) if arguments.timestamps else None
        sink = held.enter_context(to_file(arguments.out) if arguments.out else to_stream(sys.stdout.buffer, arguments.stream))
        console = Console(stderr=True)
        bar = held.enter_context(Progress(console=console, transient=True, disable=arguments.quiet or not console.is_terminal))
        task = bar.add_task("speaking", total=len(text))
        for speech in pipeline.speak(text, voice, options, journal.kept) if journal else pipeline.speak(text, voice, options):
            sink.write(speech.audio)
            tally.add(speech)
            if stamps:
                stamps.add(speech)
            if journal:
                journal.keep(speech)
            words = speech.chunk.words  # none: the silence at the end
            bar.update(task, completed=words[-1].end if words else len(text))
    return tally, sink


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    check_arguments(arguments)
    from rich.console import Console

    os.environ.setdefault(*FEW_KERNELS)  # before torch reads it
    from core.checkpoint import open_checkpoint
    from pipeline.packages import ENCODER_BY_PYTORCH
    from pipeline.reading import read_text
    from pipeline.runtimes import RUNTIMES
    from pipeline.tally import print_table

    text = read_text(arguments.text, arguments.file, sys.stdin.buffer)
    checkpoint = open_checkpoint(arguments.checkpoint)
    pipeline, voice, name, made_of = open_pipeline(arguments, checkpoint)
    tally, sink = spoken(arguments, text, pipeline, voice, made_of)
    made = {"checkpoint": checkpoint.name, "releasable": checkpoint.releasable, "voice": name, "runtime": arguments.runtime}
    made |= {"method": arguments.method, "form": arguments.form, "speed": arguments.speed, "seed": arguments.seed}
    report = made | tally.report() | {"samples_at_full_scale": sink.full_scale, "dropped": pipeline.dropped}
    report["models"] = made_of
    report["out"] = str(arguments.out) if arguments.out else f"stream {arguments.stream}"
    to = sys.stderr if arguments.stream else sys.stdout
    if RUNTIMES[arguments.runtime].packages and not arguments.phonemes and "G2P" not in made_of:
        print(f"unknown words are read by NumPy: {arguments.build / 'G2P.json'} is not built; `make g2p` builds it", file=sys.stderr)
    if RUNTIMES[arguments.runtime].packages and ENCODER_BY_PYTORCH in made_of:
        print(f"durations and prosody come from PyTorch: {arguments.build} holds no encoder; `make encoder` builds it", file=sys.stderr)
    level = "" if arguments.runtime == "torch" else f" {arguments.method}"
    shown = arguments.out.name if arguments.out else report["out"]
    print_table(report, f"{shown}  {name}, {arguments.runtime}{level}, {checkpoint.name}", Console(file=to))
    print(json.dumps(report, ensure_ascii=False), file=to)
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from pipeline.synthesize import main  # one module identity, however it was started

    raise SystemExit(main())
