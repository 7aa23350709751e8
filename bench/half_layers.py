"""Where an fp16 error grows in one sentence: SNR of every layer's result in a few frames and in the rest, one group of operations rounded.

    python -m bench.half_layers --checkpoint kokoro-int8 --sentence 21 --voice af_heart --frames 12:15 [--group inputs]

The sentence is one of core/data/unseen.txt, as bench.runtimes speaks it (noise of the sentence's number). The rounded vocoder is that of
bench.half_groups. The last line of stdout is one JSON object: by layer `local_db` and `rest_db`; `other_seed` is the same for other noise.
"""

import argparse
import json
from typing import TYPE_CHECKING, Any

from core.arguments import checkpoint_argument
from core.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    from torch import Tensor

    from core.checkpoint import Checkpoint
    from vocoder.decoder import Vocoder
    from vocoder.packing import VocoderInputs

OTHER_NOISE = 99


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    from bench.half_groups import GROUPS, INPUTS

    parser = argparse.ArgumentParser(prog="bench.half_layers", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--sentence", type=int, default=21, help="of core/data/unseen.txt, from 0 (default: %(default)s)")
    parser.add_argument("--voice", default="af_heart")
    parser.add_argument("--frames", default="12:15", help="BEGIN:END, 40 a second (default: %(default)s)")
    parser.add_argument("--group", default=INPUTS, choices=GROUPS, help="what is rounded to fp16 (default: %(default)s)")
    return parser.parse_args(argv)


def inputs_of(checkpoint: "Checkpoint", sentence: int, voice: str) -> "VocoderInputs":
    """The sentence's features by PyTorch, as tensors."""
    import numpy as np
    import torch

    from bench.runtime_rows import said
    from core.corpus import frozen_sentences
    from vocoder.inputs import FIELDS
    from vocoder.packing import VocoderInputs

    texts = frozen_sentences("unseen")
    if not 0 <= sentence < len(texts):
        raise InputError(f"--sentence {sentence}: 0 to {len(texts) - 1} are there")
    (spoken,) = said(checkpoint, [texts[sentence]], (voice,), first=sentence)
    names = ("style_decoder" if name == "style" else name for name in FIELDS)
    return VocoderInputs(*(torch.from_numpy(np.ascontiguousarray(spoken.tensors[name])).float() for name in names))


def traced(vocoder: "Vocoder", inputs: "VocoderInputs", groups: frozenset[str]) -> "list[tuple[str, Tensor]]":
    """Every layer's result that has a time axis, by PyTorch path, in the order in which they are computed."""
    from bench.half_groups import rendered

    found: list[tuple[str, Tensor]] = []

    def note(path: str, result: Any) -> None:
        value = result[0] if isinstance(result, tuple) else result
        if value.shape[-1] >= inputs.frames:
            found.append((path, value.detach().clone()))

    handles = [
        module.register_forward_hook(lambda _module, _given, result, path=path: note(path, result))
        for path, module in vocoder.named_modules()
        if path
    ]
    try:
        rendered(vocoder, inputs, groups)
    finally:
        for handle in handles:
            handle.remove()
    return found


def compared(first: "list[tuple[str, Tensor]]", second: "list[tuple[str, Tensor]]", frames: int, place: slice) -> list[dict[str, Any]]:
    """SNR in dB of the columns of `place` and of all others, layer by layer."""
    import torch

    rows = []
    for (path, reference), (_, test) in zip(first, second, strict=True):
        columns = torch.arange(reference.shape[-1]) * frames // reference.shape[-1]
        inside = (columns >= place.start) & (columns < place.stop)
        rows.append(
            {"layer": path} | {key: _db(reference[..., at], test[..., at]) for key, at in (("local_db", inside), ("rest_db", ~inside))}
        )
    return rows


def _db(reference: "Tensor", test: "Tensor") -> float:
    from core.figures import snr_db

    return float(snr_db(reference.flatten().numpy(), test.flatten().numpy()))


def measured(checkpoint: "Checkpoint", arguments: argparse.Namespace) -> dict[str, Any]:
    """Rows of every layer, and the waveform's where the noise is another."""
    from dataclasses import replace

    from vocoder.decoder import Vocoder
    from vocoder.source import gaussian_noise

    inputs, vocoder = inputs_of(checkpoint, arguments.sentence, arguments.voice), Vocoder.of(checkpoint)
    begin, _, end = arguments.frames.partition(":")
    place = slice(int(begin), int(end))
    if not 0 <= place.start < place.stop <= inputs.frames:
        raise InputError(f"--frames {arguments.frames}: BEGIN:END within 0 and {inputs.frames}")
    exact = traced(vocoder, inputs, frozenset())
    rows = compared(exact, traced(vocoder, inputs, frozenset({arguments.group})), inputs.frames, place)
    other = replace(inputs, spectrum=vocoder.generator.m_source.spectrum(inputs.f0_hz, gaussian_noise(inputs.frames, OTHER_NOISE)))
    seed = compared(exact[-1:], traced(vocoder, other, frozenset())[-1:], inputs.frames, place)[0]
    return {"group": arguments.group, "layers": rows, "other_seed": seed}


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from bench.markdown import print_markdown
    from core.checkpoint import open_checkpoint

    found = measured(open_checkpoint(arguments.checkpoint), arguments)
    rows = [(row["layer"], f"{row['local_db']:.1f}", f"{row['rest_db']:.1f}") for row in found["layers"]]
    seed = found["other_seed"]
    print_markdown(
        ("layer", f"frames {arguments.frames}, dB", "the rest, dB"),
        [*rows, ("other noise", f"{seed['local_db']:.1f}", f"{seed['rest_db']:.1f}")],
    )
    print(json.dumps(found))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from bench.half_layers import main  # one module identity, however it was started

    raise SystemExit(main())
