"""Compare the whole chain in PyTorch with upstream's KModel of the same weights, in float64: unseen
sentences, voices in turn.

    python -m bench.chain_parity [--checkpoint kokoro-int8] [--sentences 10] \\
        [--voices af_heart,am_adam,bf_emma,bm_george,af_bella]

`vocoder`: our vocoder on upstream's own features. `chain`: everything from the phonemes on. Exit 1
when a duration differs or a figure is below --limit dB. A pipe's last line is one JSON object.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.figures import print_figures
from kokoro_ane.core import (
    EXIT_GOOD,
    EXIT_REJECTED,
    SAMPLE_RATE_HZ,
    CommandOptions,
    InputError,
    checkpoint_option,
    command,
    conclude,
    option,
    parse,
)

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint

FIGURES = {"vocoder_db": "waveform", "chain_db": "chain"}


def compare(checkpoint: "Checkpoint", text: str, voice: str) -> dict[str, Any]:
    """Return the number of durations that differ, and the SNR in dB of the vocoder and of the
    chain.
    """
    from kokoro_ane.core import snr_db
    from kokoro_ane.pipeline import begin, run_torch, run_upstream
    from kokoro_g2p import text_reader, voice_language

    # Only the first chunk of a sentence is compared.
    phonemes = next(text_reader(voice_language(voice))(text)).phonemes
    spoken = (checkpoint, begin(phonemes, speed=1.0, seed=0), checkpoint.voice(voice).numpy())
    # upstream's features go into our vocoder too, so that its figure is its alone
    reference = run_upstream(*spoken)
    tensors = run_torch(*spoken, reference)
    row = {
        "voice": voice,
        "text": text,
        "seconds": len(reference["waveform"]) / SAMPLE_RATE_HZ,
        # a duration that differs moves every later sample: counted apart from the SNR
        "durations_changed": int((reference["durations"] != tensors["durations"]).sum()),
    }
    return row | {
        name: snr_db(reference["waveform"], tensors[tensor]) for name, tensor in FIGURES.items()
    }


@dataclass(frozen=True)
class ParityOptions(CommandOptions):
    """What is compared, and how near it has to be."""

    checkpoint: str | None = checkpoint_option()
    sentences: int = option("of core/data/unseen.txt", 10)
    voices: str | None = option("with commas; default: all of the checkpoint")
    limit: float = option("dB to reach", 100.0)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(ParityOptions, "bench.chain_parity", __doc__, argv)
    from rich.console import Console
    from rich.progress import track

    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.speech import read_unseen_sentences

    texts = read_unseen_sentences()
    if not 1 <= options.sentences <= len(texts):
        raise InputError(f"--sentences {options.sentences}: 1 to {len(texts)} are there")
    checkpoint = open_checkpoint(options.checkpoint)
    voices = checkpoint.voices
    rows = []
    if options.voices:
        voices = tuple(options.voices.split(","))
    for index, text in enumerate(
        track(texts[: options.sentences], "sentences", console=Console(stderr=True))
    ):
        rows.append(compare(checkpoint, text, voices[index % len(voices)]))
    names = ("voice", "seconds", "durations_changed", *FIGURES)
    # The texts are in the report, and too long for a table.
    print_figures(f"{checkpoint.name} against upstream, float64", rows, names)
    worst = {name: min(row[name] for row in rows) for name in FIGURES}
    changed = sum(row["durations_changed"] for row in rows)
    good = not changed and min(worst.values()) >= options.limit
    report = {"good": good, "durations_changed": changed, "worst": worst, "rows": rows}
    if good:
        return conclude(options, report, EXIT_GOOD, "every sentence keeps the limit")
    return conclude(options, report, EXIT_REJECTED, "a duration or a figure differs")


if __name__ == "__main__":
    raise SystemExit(main())
