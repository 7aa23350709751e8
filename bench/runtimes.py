"""Every runtime, level and layout beside PyTorch, on the same sentences: tokens whose duration changed, and each function's worst dB.

    OMP_NUM_THREADS=1 python -m bench.runtimes --checkpoint kokoro-int8 [--rows onnx,mlprogram:fp16,mlprogram:fp16:streaming]

duration (hidden, text), prosody (F0, energy) and vocoder are each given the reference's inputs. Speed and memory: bench.chain_speed;
verdicts: eval/quality.py. Exit 0: durations equal, everything finite, float32 rows at 100 dB or more; 1: not. The last line of stdout is
one JSON object.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import checkpoint_argument, print_table
from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, command
from kokoro_ane.runtimes.registry import RUNTIMES, level_for, open_runtime

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.core.steps import Tensors

LIMIT_DB = 100.0
VOICES = 5
SHARED = ("raw", "hidden", "text")  # what `prosody` is given of the reference's
FEATURES = (*SHARED, "f0_hz", "energy", "spectrum")  # what `vocoder` is given
COMPARED = {"hidden": "duration", "text": "duration", "f0_hz": "prosody", "energy": "prosody", "waveform": "vocoder"}
DECIBELS = ("duration_db", "prosody_db", "vocoder_db")


@dataclass(frozen=True)
class Row:
    """RUNTIME, RUNTIME:LEVEL or RUNTIME:LEVEL:LAYOUT."""

    runtime: str
    level: str
    layout: str = PADDED

    @classmethod
    def parse(cls, text: str) -> "Row":
        """Raises InputError for an unknown runtime."""
        runtime, _, rest = text.partition(":")
        level, _, layout = rest.partition(":")
        if runtime not in RUNTIMES:
            raise InputError(f"--rows {text}: unknown runtime {runtime!r}; there are {', '.join(RUNTIMES)}")
        return cls(runtime, level_for(runtime, level), layout or PADDED)


@dataclass(frozen=True, eq=False)
class Said:
    """A sentence in one voice: what a chain starts from, voice [510, 1, 256]; every tensor of PyTorch's chain."""

    given: "Tensors"
    voice: "np.ndarray"
    tensors: "Tensors"


def said(checkpoint: "Checkpoint", texts: Iterable[str], voices: tuple[str, ...]) -> list[Said]:
    """Every sentence by PyTorch, one voice a sentence in turn, British ones in their dialect; its seed is its number."""
    from kokoro_ane.core.steps import run_steps
    from kokoro_ane.core.voices import VoiceLibrary
    from kokoro_ane.g2p import G2P
    from kokoro_ane.pipeline.chain import STEPS, Chain, begin
    from kokoro_ane.quantize.locator import Request

    dialects = {name: "gb" if name.startswith("b") else "us" for name in voices}
    read = {dialect: G2P.load(dialect) for dialect in dialects.values()}
    opened, found = open_runtime("torch", Request(checkpoint, Path("build"))), []
    packs = {name: VoiceLibrary(checkpoint.folder / "voices").blend_array(name) for name in voices}
    for index, text in enumerate(texts):
        name = voices[index % len(voices)]
        given = begin(read[dialects[name]].phonemize(text).phonemes, 1.0, index)
        chain = Chain(checkpoint.config.vocab, packs[name], opened.encoder, opened.vocoder)
        found.append(Said(given, packs[name], run_steps(STEPS, chain, given)))
    return found


def parity(row: Row, checkpoint: "Checkpoint", build: Path, sentences: list[Said]) -> dict[str, Any]:
    """Durations changed, worst dB of each function on the reference's own inputs, values that are not finite."""
    import numpy as np

    from kokoro_ane.core.checks import snr_db
    from kokoro_ane.core.steps import run_steps
    from kokoro_ane.encoder.encoder_steps import STEPS as ENCODER_STEPS
    from kokoro_ane.pipeline.chain import STEPS, Chain
    from kokoro_ane.quantize.locator import Request

    opened = open_runtime(row.runtime, Request(checkpoint, build, row.level, row.layout))
    changed, unfinite, worst = 0, 0, dict.fromkeys(DECIBELS, float("inf"))
    for sentence in sentences:
        chain, wanted = Chain(checkpoint.config.vocab, sentence.voice, opened.encoder, opened.vocoder), sentence.tensors
        own = run_steps(ENCODER_STEPS, chain, sentence.given)
        changed += int((own["durations"] != wanted["durations"]).sum())
        curves = run_steps(ENCODER_STEPS, chain, sentence.given | {name: wanted[name] for name in SHARED})
        voiced = run_steps(STEPS, chain, sentence.given | {name: wanted[name] for name in FEATURES})
        found = {name: {"duration": own, "prosody": curves, "vocoder": voiced}[function][name] for name, function in COMPARED.items()}
        unfinite += sum(int((~np.isfinite(array)).sum()) for array in found.values())
        for name, function in COMPARED.items():
            worst[f"{function}_db"] = min(worst[f"{function}_db"], snr_db(wanted[name], found[name]))
    tokens = sum(len(sentence.tensors["ids"]) for sentence in sentences)
    return {"tokens": tokens, "durations_changed": changed, "not_finite": unfinite, **worst}


def good(row: dict[str, Any]) -> bool:
    """Float32 beside PyTorch: durations equal, nothing infinite, every function within LIMIT_DB. Other levels are judged by eval."""
    near = row["level"] != "fp32" or min(row[name] for name in DECIBELS) >= LIMIT_DB
    return near and not row["durations_changed"] and not row["not_finite"]


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.runtimes", __doc__)
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the files (default: %(default)s)")
    parser.add_argument("--rows", default="onnx", help="RUNTIME[:LEVEL[:LAYOUT]], ... (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=50, help="of core/data/unseen.txt (default: %(default)s)")
    arguments = parser.parse_args(argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.quantize.corpus import frozen_sentences

    wanted, texts = [Row.parse(text) for text in arguments.rows.split(",")], frozen_sentences("unseen")
    if not 1 <= arguments.sentences <= len(texts):
        raise InputError(f"--sentences {arguments.sentences}: 1 to {len(texts)} are there")
    checkpoint = open_checkpoint(arguments.checkpoint)
    sentences = said(checkpoint, texts[: arguments.sentences], checkpoint.voices[:VOICES])
    rows = [vars(row) | parity(row, checkpoint, arguments.build, sentences) for row in wanted]
    table = [
        (
            row["runtime"],
            row["level"],
            row["layout"],
            f"{row['durations_changed']} of {row['tokens']}",
            *(f"{row[name]:.1f}" for name in DECIBELS),
        )
        for row in rows
    ]
    headings = ("runtime", "level", "layout", "durations changed", "duration dB", "prosody dB", "vocoder dB")
    print_table(f"{checkpoint.name}, {len(sentences)} sentences, against PyTorch", headings, table)
    kept = all(good(row) for row in rows)
    print(json.dumps({"rows": rows, "good": kept}))
    return EXIT_GOOD if kept else EXIT_REJECTED


if __name__ == "__main__":
    raise SystemExit(main())
