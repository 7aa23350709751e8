"""Where fp16 loses: every result of one group of operations rounded to fp16, all others in float32, against nothing rounded.

    python -m bench.half_groups [--checkpoint kokoro-int8] [--sentences 4]

The PyTorch vocoder in its masked form, which is what a literal package holds; the tail (conv_post, inverse STFT) stays in fp32 as there.
`alone`: only this group is rounded; `without`: everything but this group; "before the generator" are three groups. Sentences of the
tuning set of up to six seconds, voices in turn; dB of the mean squared error of all. The executed package has its own figure
(`make vocoder`). One sentence layer by layer: bench/half_layers.py.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from core.arguments import checkpoint_argument
from core.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from vocoder.decoder import Vocoder
    from vocoder.packing import VocoderInputs

WEIGHTS, INPUTS = "weights", "inputs"
FILTERS, DECODER = "F0_conv and N_conv", "frame decoder"
CONVOLUTIONS, STYLES, NORMS = "generator: convolutions", "generator: AdaIN's statistics and affines", "generator: AdaIN's products and sums"
SNAKE, SUMS = "generator: Snake", "generator: residual sums"
BEFORE = frozenset({INPUTS, FILTERS, DECODER})
GROUPS = (INPUTS, WEIGHTS, FILTERS, DECODER, CONVOLUTIONS, STYLES, NORMS, SNAKE, SUMS)
LONGEST_FRAMES = 240


def group_of(path: str, module: "nn.Module", result: "Tensor") -> str | None:
    """The group of an operation inside `module` at `path`; None in the fp32 tail."""
    from core.layers import AdaIN1d, Conv, ConvTranspose, Snake, StyleAffine

    if path.startswith(("generator.conv_post", "generator.stft")):
        return None
    if not path.startswith("generator"):
        return FILTERS if path in ("F0_conv", "N_conv") else DECODER
    if isinstance(module, StyleAffine) or (isinstance(module, AdaIN1d) and result.shape[-1] == 1):
        return STYLES
    kinds: tuple[tuple[Any, str], ...] = ((Conv | ConvTranspose, CONVOLUTIONS), (AdaIN1d, NORMS), (Snake, SNAKE))
    return next((name for kind, name in kinds if isinstance(module, kind)), SUMS)


@contextmanager
def rounding(vocoder: "Vocoder", groups: frozenset[str]) -> Iterator[None]:
    """Inside, results of the named groups are rounded to fp16."""
    from torch.utils._python_dispatch import TorchDispatchMode

    inside: list[tuple[str, nn.Module]] = []

    class Rounding(TorchDispatchMode):
        """Rounds what a chosen operation gives."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if inside and hasattr(result, "is_floating_point") and result.is_floating_point() and group_of(*inside[-1], result) in groups:
                return result.half().to(result.dtype)
            return result

    handles = []
    for path, module in vocoder.named_modules():
        handles.append(module.register_forward_pre_hook(lambda module, _, path=path: inside.append((path, module))))
        handles.append(module.register_forward_hook(lambda *_: inside.pop() and None, always_call=True))
    try:
        with Rounding():
            yield
    finally:
        for handle in handles:
            handle.remove()


def rendered(vocoder: "Vocoder", inputs: "VocoderInputs", groups: frozenset[str]) -> "np.ndarray":
    """[600 F], with the masked form's arithmetic and a mask of ones."""
    import torch

    from core.layers import Mask

    given = (inputs.asr[:, :, None], inputs.f0_hz[:, None, None], inputs.energy[:, None, None], inputs.style[:, :, None, None])
    tensors = [t.half().float() if INPUTS in groups else t for t in (*given, inputs.spectrum[:, :, None])]
    with torch.no_grad(), rounding(vocoder, groups):
        return vocoder(*tensors, Mask.of(torch.ones(1, 1, 1, inputs.frames))).flatten().numpy()


def figures(vocoder: "Vocoder", clips: "list[VocoderInputs]", track: Callable[..., Any]) -> dict[str, dict[str, float]]:
    """`alone` and `without` in dB for every group, and `all`."""
    import copy

    import numpy as np

    from core.figures import snr_db

    halves = copy.deepcopy(vocoder)
    for parameter in (*halves.parameters(), *halves.buffers()):
        parameter.data = parameter.data.half().float()
    references = np.concatenate([rendered(vocoder, clip, frozenset()) for clip in clips])

    def snr(groups: frozenset[str]) -> float:
        model = halves if WEIGHTS in groups else vocoder
        return snr_db(references, np.concatenate([rendered(model, clip, groups) for clip in clips]))

    every = frozenset(GROUPS)
    rows = {name: {"alone_db": snr(frozenset({name})), "without_db": snr(every - {name})} for name in track(GROUPS, "groups")}
    return rows | {
        "all before the generator": {"alone_db": snr(BEFORE), "without_db": snr(every - BEFORE)},
        "all": {"alone_db": snr(every)},
    }


def print_report(rows: Mapping[str, Mapping[str, float]], title: str) -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    table = Table("rounded to fp16", "alone, dB", "all but this, dB", title=title)
    for name, row in sorted(rows.items(), key=lambda pair: pair[1]["alone_db"]):
        table.add_row(name, f"{row['alone_db']:.1f}", f"{row['without_db']:.1f}" if "without_db" in row else "")
    Console().print(table)
    print(json.dumps(rows))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.half_groups", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--sentences", type=int, default=4, help="of the tuning set, up to six seconds long (default: %(default)s)")
    arguments = parser.parse_args(argv)
    from functools import partial

    from rich.console import Console
    from rich.progress import track

    from core.checkpoint import open_checkpoint
    from quantize.activations import calibration_inputs
    from vocoder.decoder import Vocoder

    checkpoint = open_checkpoint(arguments.checkpoint)
    vocoder = Vocoder.of(checkpoint)
    short = [clip for clip in calibration_inputs(checkpoint, vocoder, 24) if 40 <= clip.frames <= LONGEST_FRAMES]
    if not 1 <= arguments.sentences <= len(short):
        raise InputError(f"--sentences {arguments.sentences}: 1 to {len(short)} are there")
    rows = figures(vocoder, short[: arguments.sentences], partial(track, console=Console(stderr=True)))
    print_report(rows, f"{checkpoint.name}, literal form, {arguments.sentences} sentences")
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from bench.half_groups import main  # one module identity, however it was started

    raise SystemExit(main())
