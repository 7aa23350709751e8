"""Forms of Snake without sine: operations, passes over memory, error, and the demo voice's SNR when every step is rounded to fp16.

    python -m bench.snake_forms [--checkpoint demo] [--sentences 2]

A form takes u = z / pi and gives u + sin(z)^2 / pi. It is written for `Steps`, which counts what a converted program holds: one operation
a step, a pass for every full-size tensor read or written. The last line of stdout is one JSON object.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from core.errors import EXIT_GOOD, InputError, run_cli
from vocoder.decoder import Vocoder

if TYPE_CHECKING:
    import torch

COSINE = "cosine"
DOUBLE_SQUARE_CONSTANT = 0.3184041


class Steps:
    """Counts operations and passes, and rounds results and constants to fp16 if asked to."""

    def __init__(self, half: bool) -> None:
        self.half, self.operations, self.passes = half, 0, 0

    def __call__(self, value: "torch.Tensor", reads: int = 1) -> "torch.Tensor":
        """`value`, the result of one operation that read `reads` tensors."""
        self.operations, self.passes = self.operations + 1, self.passes + reads + 1
        return value.half().to(value.dtype) if self.half else value

    def line(self, x: "torch.Tensor", slope: float, shift: float) -> "torch.Tensor":
        """slope x + shift: one operation, since coremltools makes a batch_norm of it."""
        import numpy as np

        if self.half:
            slope, shift = float(np.float16(slope)), float(np.float16(shift))
        return self(x * slope + shift)


def reduced(u: "torch.Tensor", step: Steps) -> "torch.Tensor":
    """q = (u - round u)^2."""
    rest = step(u - step(u.round()), 2)
    return step(rest * rest)


def horner(u: "torch.Tensor", step: Steps) -> "torch.Tensor":
    """Four terms by Horner's rule, no batch_norm: the form before this one."""
    q = reduced(u, step)
    value = step.line(q, -7.3182386, 0.0)
    for coefficient in (13.144595, -10.2985575, 3.1406601):
        value = step(step.line(value, 1.0, coefficient) * q, 2)
    return step(u + value, 2)


def quintic(u: "torch.Tensor", step: Steps) -> "torch.Tensor":
    """q (c (a q + b)^2 + d)^2, the square of an odd polynomial: what the engine variant has."""
    from vocoder.windowed.layers import POLYNOMIAL

    a, b, c, d = POLYNOMIAL
    q = reduced(u, step)
    line = step.line(q, a, b)
    root = step.line(step(line * line), c, d)
    return step(u + step(q * step(root * root), 2), 2)


def cubic(u: "torch.Tensor", step: Steps) -> "torch.Tensor":
    """q (c (a q + b)^2 + d): three terms."""
    q = reduced(u, step)
    line = step.line(q, 1.0, -0.507841)
    return step(u + step(q * step.line(step(line * line), 9.6422182, 0.6332489), 2), 2)


def double_square(u: "torch.Tensor", step: Steps) -> "torch.Tensor":
    """e - (c (q + a)^2 + d)^2: no product of two tensors; the constant e is the next convolution's."""
    q = step.line(reduced(u, step), 1.0, -0.65577639)
    value = step.line(step(q * q), 2.11482495, -0.34526770)
    return step(u - step(value * value), 2) + DOUBLE_SQUARE_CONSTANT


def half_angle(u: "torch.Tensor", step: Steps) -> "torch.Tensor":
    """y (c - y), y = q (a q + b): sin^2 by its half angle."""
    q = reduced(u, step)
    y = step(q * step.line(q, -4.4185189, 2.1520341), 2)
    return step(u + step(y * step.line(y, -1.0, 1.4758025), 2), 2)


def cosine(u: "torch.Tensor", step: Steps) -> "torch.Tensor":
    """(v - cos v + 1) / 2 pi on v = 2 pi u, for chips that have cosines."""
    import torch

    v = u * (2 * math.pi)
    v = v.half().to(v.dtype) if step.half else v
    return (step(v - step(torch.cos(v)), 2) + 1) / (2 * math.pi)


Form = Callable[["torch.Tensor", Steps], "torch.Tensor"]
FORMS: dict[str, Form] = {
    COSINE: cosine,
    "four terms, Horner": horner,
    "q (c (aq+b)^2 + d)^2": quintic,
    "q (c (aq+b)^2 + d)": cubic,
    "y (c - y), y = q (aq+b)": half_angle,
    "e - (c (q+a)^2 + d)^2": double_square,
}


def errors(form: Form) -> dict[str, Any]:
    """Largest error in exact arithmetic, RMS error with every step in fp16 (u in -1..1 is given exactly), and the counts."""
    import torch

    u = torch.linspace(-1, 1, 20_001, dtype=torch.float64).half().double()
    exact, count = u + torch.sin(math.pi * u) ** 2 / math.pi, Steps(half=False)
    wide, narrow = form(u, count) - exact, form(u, Steps(half=True)) - exact
    return {
        "operations": count.operations,
        "passes": count.passes,
        "largest_error": float(wide.abs().max()),
        "fp16_rms_error": float(narrow.square().mean().sqrt()),
    }


def _rounded(_module: Any, _arguments: Any, result: "torch.Tensor") -> "torch.Tensor":
    return result.half().float()


def snr_of_forms(checkpoint_name: str, sentences: int) -> dict[str, dict[str, float]]:
    """Worst SNR in dB of each form against the literal vocoder in fp32: in fp32, and with activations and weights in fp16.

    The tail stays in fp32 as in every export; in fp16 every convolution, block of the generator, u and step of a Snake rounds its result.
    """
    from rich.console import Console
    from rich.progress import track

    from core.checkpoint import open_checkpoint
    from core.corpus import heldout
    from core.figures import snr_db
    from quantize.features import text_encoder, vocoder_inputs
    from vocoder.package import render_reference

    checkpoint = open_checkpoint(checkpoint_name)
    encoder, reference = text_encoder(checkpoint), Vocoder.of(checkpoint)
    inputs = [vocoder_inputs(checkpoint, reference, encoder, utterance, seed=0) for utterance in heldout()[:: 24 // sentences][:sentences]]
    truth = [render_reference(reference, x) for x in inputs]
    found: dict[str, dict[str, float]] = {}
    for name, form in track(FORMS.items(), "forms", console=Console(stderr=True)):
        found[name] = {}
        for label, half in (("fp32_db", False), ("fp16_db", True)):
            model = with_form(Vocoder.of(checkpoint), form, half)
            found[name][label] = min(snr_db(true, render_reference(model, x)) for true, x in zip(truth, inputs, strict=True))
    return found


def with_form(vocoder: "torch.nn.Module", form: Form, half: bool) -> "torch.nn.Module":
    """`vocoder` with `form` for every Snake, rounded to fp16 if asked to."""
    import torch

    from core.layers import Conv, ConvTranspose, Snake
    from vocoder.generator import AdaINResBlock1

    def snake(module: Snake, arguments: tuple[torch.Tensor, ...], _: torch.Tensor) -> torch.Tensor:
        factor = module.alpha.detach() / math.pi
        u = arguments[0] * factor
        return form(u.half().float() if half else u, Steps(half)) / factor

    for path, module in vocoder.named_modules():
        if isinstance(module, Snake):
            module.register_forward_hook(snake)
        elif half and isinstance(module, (Conv, ConvTranspose, AdaINResBlock1)) and not path.endswith("conv_post"):
            module.register_forward_hook(_rounded)
            if not isinstance(module, AdaINResBlock1):
                module.weight.data = module.weight.data.half().float()
    return vocoder


def print_table(rows: dict[str, dict[str, Any]]) -> None:
    """The human part."""
    from bench.markdown import print_markdown

    lines = [
        (name, str(row["operations"]), str(row["passes"]), f"{row['largest_error']:.1e}", f"{row['fp16_rms_error']:.1e}",
         f"{row['fp32_db']:.1f}", f"{row['fp16_db']:.1f}")
        for name, row in rows.items()
    ]  # fmt: skip
    print_markdown(("form", "operations", "passes", "largest error", "RMS error in fp16", "fp32 dB", "fp16 dB"), lines)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.snake_forms", description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default="demo", help="as in every command")
    parser.add_argument("--sentences", type=int, default=2, help="held-out sentences, 1 to 24")
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.sentences <= 24:
        raise InputError(f"--sentences is {arguments.sentences}: 1 to 24")
    measured = snr_of_forms(arguments.checkpoint, arguments.sentences)
    rows = {name: errors(form) | measured[name] for name, form in FORMS.items()}
    print_table(rows)
    print(json.dumps(rows))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    sys.exit(main())
