"""What palettes of the encoder's weights are fitted to: the second moments of the weights' inputs,
summed while the uncompressed package speaks the tuning set.

    programs = {"duration": Program(...), "prosody": Program(...)}
    fits = encoder_fits(checkpoint, EncoderPackage(manifests).backend, programs)
    tables, index = fits["duration"]["concat_4"](weight, PaletteWeights(6, gptq=True, rows=16))

Linear layers, convolutions and LSTMs have fits; an LSTM multiplies its inputs and, one step later,
its outputs. A layer that reads the style alone has one column a sentence and gets no fit. An
embedding multiplies nothing and gets none either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import FRAMES, INPUT_IDS, JUDGED, TUNING
from kokoro_ane.core.voices import style_row
from kokoro_ane.encoder.encoder_steps import EncoderBackend, encode, program_functions
from kokoro_ane.quantize.corpus import require_disjoint
from kokoro_ane.quantize.palettes import Fit, Unfolded
from kokoro_ane.quantize.speech import own_speech
from mlprogram import Program
from mlprogram.graph import Operation

TIME_AXIS = {"linear": -2, "conv": -1, "lstm": 0}
FEWEST = 2  # columns of a sentence: what reads the style alone has one
Columns = Callable[[Tensor], Tensor]  # a value cut to its valid steps -> [n, I taps]


@dataclass(frozen=True, eq=False)
class Watched:
    """A program whose products are watched. Responsibilities: 1. which constant multiplies which
    value; 2. the sums of second moments while it runs.
    """

    program: Program
    # by value: constant, axis of time, form, columns
    uses: dict[str, list[tuple[str, int, Unfolded, Columns]]]
    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> "Watched":
        """Watch every linear layer, ungrouped convolution and LSTM."""
        uses: dict[str, list[tuple[str, int, Unfolded, Columns]]] = {}
        for op in program.operations:
            if op.op_type in TIME_AXIS:
                for value, constant, form, columns in _products(op, program):
                    uses.setdefault(value, []).append(
                        (constant, TIME_AXIS[op.op_type], form, columns)
                    )
        return cls(program, uses)

    def __call__(self, inputs: Mapping[str, Any]) -> Mapping[str, Tensor]:
        """Run the program and sum; steps in the padding do not count."""
        steps = inputs[INPUT_IDS][0] >= 0 if INPUT_IDS in inputs else inputs[FRAMES][0, -1, 0] > 0
        share = float(steps.sum()) / len(steps)

        def note(name: str, _: str, value: Tensor) -> None:
            for constant, axis, _form, columns in self.uses.get(name, ()):
                count = round(value.shape[axis] * share)
                if count >= FEWEST and value.shape[axis] >= len(steps):
                    rows = columns(value.narrow(axis, 0, count).float())
                    size = rows.shape[1]
                    self.sums.setdefault(constant, torch.zeros(size, size)).addmm_(rows.T, rows)
                    self.counts[constant] = self.counts.get(constant, 0) + len(rows)

        return self.program(inputs, hook=note)

    def fits(self) -> dict[str, Fit]:
        """The fit of every constant that was used."""
        forms = {constant: form for uses in self.uses.values() for constant, _, form, _ in uses}
        return {
            constant: Fit(forms[constant], total / self.counts[constant])
            for constant, total in self.sums.items()
        }


def _products(op: Operation, program: Program) -> list[tuple[str, str, Unfolded, Columns]]:
    """Value, constant, form and columns of each product of an operation."""
    # a linear layer is a convolution with a kernel of 1; its columns are [..., I] -> [n, I]
    row, plain = Unfolded(1, 1, 1, 0, transposed=False), lambda value: value.flatten(0, -2)
    if op.op_type == "linear":
        return [(op.inputs["x"][0], op.inputs["weight"][0], row, plain)]
    if op.op_type == "conv":
        _, channels, _, kernel = (
            size or 1 for size in program.value_type(op.inputs["weight"][0]).shape
        )
        # a depthwise convolution reads one channel: there is nothing to weigh against each other
        if channels == 1:
            return []
        form = replace(row, kernel=kernel, padding=(kernel - 1) // 2)
        return [(op.inputs["x"][0], op.inputs["weight"][0], form, form.inputs)]
    # An LSTM's outputs [T, 1, 2 H] hold the forward half, then the backward one. weight_hh
    # multiplies the state before the step, weight_hh_back the state after it.
    width, outputs = program.value_type(op.inputs["weight_hh"][0]).shape[1] or 1, op.outputs[0].name
    products = [
        (op.inputs["x"][0], op.inputs[name][0], row, plain)
        for name in ("weight_ih", "weight_ih_back")
    ]
    halves = {
        "weight_hh": lambda value: value[:-1, 0, :width],
        "weight_hh_back": lambda value: value[1:, 0, width:],
    }
    return products + [
        (outputs, op.inputs[name][0], row, columns) for name, columns in halves.items()
    ]


@torch.no_grad()
def encoder_fits(
    checkpoint: Checkpoint, backend: EncoderBackend, programs: Mapping[str, Program]
) -> dict[str, dict[str, Fit]]:
    """Fits by function and constant, from the tuning set. `backend` must be that of the same
    programs. Raises InputError where the tuning set holds a judged sentence.
    """
    watched = {name: Watched.of(program) for name, program in programs.items()}
    watching = replace(backend, functions=program_functions(watched))
    sentences = own_speech(checkpoint, TUNING)
    require_disjoint(sentences, own_speech(checkpoint, JUDGED))
    for one in sentences:
        # the second half of a style row is the encoder's, the first the vocoder's
        style = style_row(checkpoint.blend(one.voice), len(one.phonemes))
        style = style[:, checkpoint.config.style_dim :]
        encode(watching, tuple(int(i) for i in one.input_ids), style, one.speed, one.durations)
    return {name: program.fits() for name, program in watched.items()}
