"""NaN and infinity in what a runtime's vocoder gives, over feature sets of every voice and many lengths, silence and F0 = 0 among them.

    OMP_NUM_THREADS=1 python -m bench.finite --runtime executorch --checkpoint kokoro-int8 [--sets 200]

Every fourth set is made silent (F0 = 0, energy -10, no spectrum), every fourth has F0 = 0; every tenth is one long utterance. Compared
with PyTorch where --compared says so. Exit 0: every sample finite. Exit 1: one is not. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not bench/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.arguments import checkpoint_argument
from core.errors import EXIT_GOOD, EXIT_REJECTED, run_cli

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint
    from vocoder.inputs import VocoderInputs

KINDS = ("speech", "speech", "F0 = 0", "silence")
SPEEDS = (1.0, 0.8, 1.3)
SHORTEST_PHONEMES, LONG_EVERY, QUIET = 4, 10, -10.0


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="bench.finite", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--runtime", default="executorch", help="whose vocoder (default: %(default)s)")
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with its files (default: %(default)s)")
    parser.add_argument("--sets", type=int, default=200, help="feature sets (default: %(default)s)")
    parser.add_argument("--compared", type=int, default=8, help="one in so many is compared with PyTorch (default: %(default)s)")
    return parser.parse_args(argv)


def feature_sets(checkpoint: "Checkpoint", count: int) -> "Iterator[tuple[str, VocoderInputs]]":
    """Kind and arrays of every set, by PyTorch's encoder: voices in turn, 4 to 40 phonemes, every tenth a sentence and the next."""
    from core.corpus import frozen_sentences
    from core.steps import run
    from core.voices import VoiceLibrary
    from encoder.steps import STEPS as ENCODER_STEPS
    from g2p import G2P
    from pipeline.runtimes import Request, open_runtime
    from pipeline.steps import Chain, begin
    from vocoder.inputs import FIELDS, VocoderInputs
    from vocoder.steps import STEPS

    reader, texts, opened = G2P.load("us"), frozen_sentences("unseen"), open_runtime("torch", Request(checkpoint, Path("build")))
    packs = [VoiceLibrary(checkpoint.folder / "voices").blend_array(name) for name in checkpoint.voices]
    source = [step for step in STEPS if step.name in ("noise", "excitation", "spectrum")]
    for index in range(count):
        long = index % LONG_EVERY == LONG_EVERY - 1
        text = " ".join(texts[(index + n) % len(texts)] for n in range(1 + long))
        phonemes = reader.phonemize(text).phonemes
        said = phonemes if long else phonemes[: SHORTEST_PHONEMES + 7 * index % 37]
        chain = Chain(checkpoint.config.vocab, packs[index % len(packs)], opened.encoder, opened.vocoder)
        tensors = run((*ENCODER_STEPS, *source), chain, begin(said, SPEEDS[index % len(SPEEDS)], index))
        kind = KINDS[index % len(KINDS)]
        yield kind, VocoderInputs(*(broken(kind, name, tensors["style_decoder" if name == "style" else name]) for name in FIELDS))


def broken(kind: str, name: str, array: Any) -> Any:
    """What a kind does to one tensor."""
    zeroed = {"F0 = 0": ("f0_hz",), "silence": ("f0_hz", "spectrum")}.get(kind, ())
    quiet = QUIET if (kind, name) == ("silence", "energy") else 0.0
    return array * 0 + quiet if name in zeroed or quiet else array


def measured(checkpoint: "Checkpoint", arguments: argparse.Namespace) -> dict[str, Any]:
    """Sets, frames and samples that are not finite, by kind; worst dB against PyTorch of those compared."""
    import numpy as np
    import torch

    from core.figures import snr_db
    from pipeline.runtimes import Request, files_of, module_of
    from vocoder.decoder import Vocoder
    from vocoder.inputs import VocoderInputs
    from vocoder.package import render_reference

    _, path = files_of(arguments.runtime, Request(checkpoint, arguments.build))
    subject, vocoder = module_of(arguments.runtime).open_vocoder(path), Vocoder.of(checkpoint)
    rows = {kind: {"sets": 0, "frames_most": 0, "not_finite": 0, "worst_db": float("inf")} for kind in dict.fromkeys(KINDS)}
    for index, (kind, arrays) in enumerate(feature_sets(checkpoint, arguments.sets)):
        inputs, row = VocoderInputs(*(torch.from_numpy(np.ascontiguousarray(array)).float() for array in vars(arrays).values())), rows[kind]
        found = subject.render(inputs)
        row["sets"] += 1
        row["frames_most"] = max(row["frames_most"], inputs.frames)
        row["not_finite"] += int((~np.isfinite(found)).sum())
        if index // len(KINDS) % arguments.compared == 0 and kind != "silence":  # nothing to compare where the reference is noise
            row["worst_db"] = min(row["worst_db"], snr_db(render_reference(vocoder, inputs), found))
    return {"runtime": arguments.runtime, "checkpoint": checkpoint.name, "rows": rows, "sets": arguments.sets}


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from bench.markdown import print_markdown
    from core.checkpoint import open_checkpoint

    found = measured(open_checkpoint(arguments.checkpoint), arguments)
    lines = [(kind, *(str(round(value, 1)) for value in row.values())) for kind, row in found["rows"].items()]
    print_markdown(("features", "sets", "frames at most", "not finite", "worst dB against PyTorch"), lines)
    print(json.dumps(found | {"rows": {k: {n: v if v < 1e9 else None for n, v in row.items()} for k, row in found["rows"].items()}}))
    return EXIT_REJECTED if any(row["not_finite"] for row in found["rows"].values()) else EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from bench.finite import main  # one module identity, however it was started

    raise SystemExit(main())
