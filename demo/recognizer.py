"""Is the demo voice understood? Word error rate of pocketsphinx on unseen sentences, the demo voice against flite itself.

    python -m demo.recognizer [--checkpoint demo] [--sentences 102] [--out build/recognizer.json]

Three readings of each sentence, voices taking turns: flite's own audio; the demo voice told flite's durations, F0 and energy ("copy": what
the vocoder alone loses); the demo voice from text, through g2p, encoder and vocoder in PyTorch ("text"). No sentence is in training
(core/data/unseen.txt). Needs Debian's flite. Exit 1 when "text" is above 1.6 times flite.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not demo/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.recognizer import Count, heard, rate
from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli
from core.staging import write_json

if TYPE_CHECKING:
    import numpy as np

    from core.checkpoint import Checkpoint

LARGEST_RATIO = 1.6  # of flite's word error rate
READINGS = ("flite", "copy", "text")


def main(argv: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    return run_cli(run, argv)


def run(argv: list[str] | None) -> int:
    """Speak, listen, count."""
    parser = argparse.ArgumentParser(prog="demo.recognizer", description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default="demo", help="a checkpoint with the voices slt, rms and awb (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=102, help="how many of the unseen sentences (default: all, %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the source noise (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write every sentence and what was heard as JSON")
    arguments = parser.parse_args(argv)
    from rich.console import Console
    from rich.progress import track

    from core.checkpoint import open_checkpoint
    from core.corpus import frozen_sentences

    texts = frozen_sentences("unseen")
    if not 1 <= arguments.sentences <= len(texts):
        raise InputError(f"--sentences {arguments.sentences}: 1 to {len(texts)} are there")
    speaker, counts = Speaker(open_checkpoint(arguments.checkpoint), arguments.seed), []
    for i, text in enumerate(track(texts[: arguments.sentences], "listening", console=Console(stderr=True))):
        counts += [heard(text, voice, reading, samples) for voice, reading, samples in speaker.readings(text, i)]
    figures = summary(counts)
    print_table(figures)
    if arguments.out is not None:
        write_json(arguments.out, [vars(count) for count in counts])
    reached = figures["all"]["text"] <= LARGEST_RATIO * figures["all"]["flite"]
    print(json.dumps({"reached": reached, "largest_ratio": LARGEST_RATIO, "sentences": arguments.sentences, "wer": figures}))
    return EXIT_GOOD if reached else EXIT_REJECTED


class Speaker:
    """Responsibilities: the three readings of a sentence at 16 kHz."""

    def __init__(self, checkpoint: "Checkpoint", seed: int) -> None:
        from demo.model import DemoVoice
        from pipeline.conductor import Pipeline
        from pipeline.reading import TextReader
        from pipeline.runtimes import Request, open_runtime

        self.checkpoint, self.seed, self.copying = checkpoint, seed, DemoVoice.load(checkpoint.folder)
        opened = open_runtime("torch", Request(checkpoint, Path("build")))
        self.pipeline = Pipeline(TextReader.load("us", None), opened.encoder, opened.vocoder, checkpoint.config.vocab)

    def readings(self, text: str, index: int) -> "Iterator[tuple[str, str, np.ndarray]]":
        """Voice, reading, samples [N] at 16 kHz; sentence `index` falls to voice index mod 3."""
        import numpy as np

        from core.contract import SAMPLE_RATE_HZ
        from core.corpus import RECORDING_RATE_HZ, VOICES
        from demo.corpus import spelled
        from demo.features import resampled
        from demo.judge import rendered
        from demo.spelling import american_speller
        from pipeline.conductor import SpeechOptions

        voice = VOICES[index % len(VOICES)]
        utterance, _ = spelled("unseen", text, voice, american_speller())
        yield voice, "flite", utterance.recording
        yield voice, "copy", rendered(self.copying, utterance, self.seed)
        spoken = self.pipeline.speak(text, self.checkpoint.voice(voice), SpeechOptions(seed=self.seed))
        yield voice, "text", resampled(np.concatenate([speech.audio for speech in spoken]), SAMPLE_RATE_HZ, RECORDING_RATE_HZ)


def summary(counts: list[Count]) -> dict[str, dict[str, float]]:
    """Word error rate by voice and in all, by reading."""
    figures = {}
    for voice in ("all", *dict.fromkeys(count.voice for count in counts)):
        figures[voice] = {reading: rate([c for c in counts if c.reading == reading and voice in ("all", c.voice)]) for reading in READINGS}
    return figures


def print_table(figures: dict[str, dict[str, float]]) -> None:
    """One line a voice."""
    from rich.console import Console
    from rich.table import Table

    table = Table("voice", *READINGS, "text / flite", title="word error rate, pocketsphinx en-us")
    for voice, rates in figures.items():
        ratio = rates["text"] / rates["flite"] if rates["flite"] else float("nan")
        table.add_row(voice, *(f"{100 * rates[reading]:.1f} %" for reading in READINGS), f"{ratio:.2f}")
    Console().print(table)


if __name__ == "__main__":
    from demo.recognizer import main  # one module identity, however it was started

    raise SystemExit(main())
