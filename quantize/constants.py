"""Replace constants of a package by compressed weights: of any stage, in any number of functions.

    plan = plan_of(method, program)                     # {"concat_4": BlockWeights(...), ...}
    stored = {name: form_of(program.constant(name), how) for name, how in plan.items()}
    model = with_constants(package, {"duration": stored})

The converter names an LSTM's constants by number (concat_4). Here they are called by the LSTM's
place in the program: lstm0.weight_ih. Importing this module imports coremltools.
"""

import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil.frontend._utils import (
    _construct_constexpr_dequant_op,
    _construct_constexpr_lut_op,
)
from coremltools.converters.mil.mil import Program as MilProgram
from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass
from coremltools.converters.mil.mil.passes.helper import block_context_manager
from coremltools.models.utils import _apply_graph_pass

from kokoro_ane.core.builder import MAIN
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.quantize.methods import Method, Weights
from kokoro_ane.quantize.stored_forms import Integers, StoredWeight, Table
from mlprogram import Program

READERS = {
    "linear": ("weight",),
    "conv": ("weight",),
    "lstm": ("weight_ih", "weight_hh", "weight_ih_back", "weight_hh_back"),
    "gather": ("x",),
}
HALF = "_to_fp16"  # what the converter adds to the name of a constant that it rounds


def weights_of(program: Program) -> dict[str, str]:
    """The constants that layers compute with: the package's name of each -> the name in this
    project. Example: concat_4 -> lstm0.weight_ih.
    """
    constants = {op.name: op.outputs[0].name for op in program.operations if op.op_type == "const"}
    values, names, lstms = set(constants.values()), {}, 0
    for op in program.operations:
        for parameter in READERS.get(op.op_type, ()):
            value = op.inputs.get(parameter, ("",))[0]
            if value in values:
                names[value] = (
                    f"lstm{lstms}.{parameter}" if op.op_type == "lstm" else value.removesuffix(HALF)
                )
        lstms += op.op_type == "lstm"
    return names


def plan_of(method: Method, program: Program, prefix: str = "") -> dict[str, Weights]:
    """The scheme of every constant that is large enough to pay. The patterns of method.parts match
    `prefix` and the name by weights_of, as in duration.lstm0.weight_ih.
    """
    chosen = {
        value: method.weights_of(f"{prefix}{name}") for value, name in weights_of(program).items()
    }
    sizes = {
        value: math.prod(size or 1 for size in program.value_type(value).shape) for value in chosen
    }
    return {
        value: how
        for value, how in chosen.items()
        if how is not None and sizes[value] > how.keep_up_to
    }


def with_constants(
    package: Path, stored: Mapping[str, Mapping[str, StoredWeight]]
) -> "ct.models.MLModel":
    """The model of `package` with these constants compressed, {function: {name: stored}}. It is not
    loaded for prediction.
    """
    with tempfile.TemporaryDirectory() as folder:
        # a copy, because MLModel(path) rewrites the Manifest.json of the package that it opens
        copy = shutil.copytree(package, Path(folder) / package.name)
        model = ct.models.MLModel(str(copy), skip_model_load=True)
        return _apply_graph_pass(
            model,
            [ReplaceConstants(stored)],
            spec_version=int(ct.target.iOS17),
            skip_model_load=True,
        )


class ReplaceConstants(AbstractGraphPass):
    """A pass that puts an unpacking operation in the place of each named constant. With `alone`
    coremltools' own passes, which follow other changes, are skipped.
    """

    def __init__(
        self, stored: Mapping[str, Mapping[str, StoredWeight]], alone: bool = True
    ) -> None:
        self._stored, self._alone = stored, alone

    def apply(self, prog: MilProgram) -> None:
        """Change the program in place."""
        for name, function in prog.functions.items():
            _in_block(function, self._stored[name])
        prog.skip_all_passes = self._alone
        if MAIN not in prog.functions:
            prog.default_function_name, prog.export_as_multifunction = (
                next(iter(self._stored)),
                True,
            )


@block_context_manager
def _in_block(block: Any, stored: Mapping[str, StoredWeight]) -> None:
    for op in [
        op for op in block.operations if op.op_type == "const" and op.outputs[0].name in stored
    ]:
        new, old = stored[op.outputs[0].name], op.outputs[0]
        if isinstance(new, Integers):
            offset = None if new.offset is None else new.offset.numpy()
            unpacked = _construct_constexpr_dequant_op(
                new.values.numpy(), offset, new.scale.numpy(), axis=0, name=op.name, before_op=op
            )
        else:
            assert isinstance(new, Table)
            groups, count = new.entries.shape
            # [groups, 1 ..., 2^bits, 1]
            lut = new.entries.numpy().reshape(groups, *[1] * (new.index.ndim - 1), count, 1)
            unpacked = _construct_constexpr_lut_op(
                new.index.numpy(), lut.swapaxes(0, new.axis), name=op.name, before_op=op
            )
        block.replace_uses_of_var_after_op(
            anchor_op=op, old_var=old, new_var=unpacked, no_check_var_types=True
        )
        block.remove_ops([op])


def require_stored(program: Program, stored: Mapping[str, StoredWeight]) -> None:
    """Raise CheckFailed where the package unpacks a constant to other values than were stored."""
    for name, form in stored.items():
        if not np.array_equal(program.constant(name), form.array()):
            raise CheckFailed(
                f"{program.path} unpacks {name} to other values than were stored; the package was"
                " not kept"
            )
