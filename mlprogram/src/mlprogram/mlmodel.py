"""A drop-in for coremltools' `MLModel.predict` on machines without Core ML.

    model = mlprogram.MLModel("Classifier.mlpackage", function_name="main")
    model.predict({"image": pil_image})["classLabel"]

The names, types and exceptions are coremltools'; the arithmetic is `mlprogram.Program`'s, which
stays reachable as `model.programs`. It reads .mlpackage, .mlmodel and compiled .mlmodelc, and
pipelines whose every stage is an ML program.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mlprogram.dtypes import FeatureTypes_pb2, Model_pb2, coremltools
from mlprogram.errors import ProgramError
from mlprogram.package import Package, list_stages, open_model, open_package
from mlprogram.program import Program
from mlprogram.values import convert_input, convert_output


class MLState:
    """The states of one stateful model between calls: what `MLModel.make_state` gives and `predict`
    updates.
    """

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self.tensors = tensors

    def read_state(self, name: str) -> np.ndarray:
        """The value of a state; float16 comes as float32. Raises ProgramError for a name that is no
        state.
        """
        # A copy, because the next prediction writes into the same tensor.
        value = self._find_state(name).numpy().copy()
        return value.astype(np.float32) if value.dtype == np.float16 else value

    def write_state(self, name: str, value: np.ndarray) -> None:
        """A new value for a state. Raises ProgramError for a name that is no state and a shape that
        is not its own.
        """
        tensor = self._find_state(name)
        array = torch.from_numpy(np.array(value))
        if array.shape != tensor.shape:
            raise ProgramError(
                f"state '{name}' has shape {list(tensor.shape)}; given {list(array.shape)}"
            )
        # copy_ keeps the tensor and its type: a float32 array is rounded to a float16 state.
        tensor.copy_(array)

    def _find_state(self, name: str) -> torch.Tensor:
        if name not in self.tensors:
            raise ProgramError(
                f"there is no state '{name}'; the model keeps {', '.join(self.tensors)}"
            )
        return self.tensors[name]


class MLModel:
    """A Core ML model that predicts on any machine.

    Responsibilities: choose function and stages, turn the caller's values into tensors and back.
    Execution is Program's.
    """

    def __init__(
        self,
        model: str | Path | Model_pb2.Model,
        compute_units: coremltools.ComputeUnit | None = None,
        weights_dir: str | Path | None = None,
        function_name: str | None = None,
        precision: str = "declared",
        seed: int = 0,
    ) -> None:
        """Load a model from a path, or from a specification with the folder of its weights.

        `compute_units` is taken for compatibility and checked; everything runs on the CPU, by the
        rules of `precision` (mlprogram/README.md). `seed` starts the random operations of a model
        that has any. Raises TypeError and ValueError where coremltools does, ProgramError (both a
        ValueError and a RuntimeError) for a file that cannot be executed.
        """
        units = coremltools.ComputeUnit.ALL if compute_units is None else compute_units
        if not isinstance(units, coremltools.ComputeUnit):
            raise TypeError('"compute_units" parameter must be of type: coremltools.ComputeUnit')
        self._package = _open_any(model, weights_dir)
        self._spec = self._package.spec
        self.compute_unit = units
        self.function_name = self._choose_function(function_name)
        self._description = self._choose_description()
        # A model that is no pipeline is its own only stage, so one loop serves both kinds.
        self.programs = tuple(self._load(stage, precision) for stage in list_stages(self._package))
        # One generator for the model's life: successive calls draw different numbers.
        self._generator = torch.Generator().manual_seed(seed)

    def _load(self, stage: Package, precision: str) -> Program:
        # The function's name belongs to the whole model; a stage of a pipeline runs its default
        # one.
        whole = stage is self._package
        try:
            return Program(open_package(stage), self.function_name if whole else None, precision)
        except ProgramError as error:
            raise error if whole else ProgramError(f"the pipeline cannot run: {error}") from error

    def _choose_function(self, name: str | None) -> str | None:
        names = [f.name for f in self._spec.description.functions]
        # protobuf gives "" for a field that was not set, which `or None` turns into "not named".
        name = name or self._spec.description.defaultFunctionName or None
        if name is None:
            return names[0] if len(names) == 1 else None
        if not names and name != "main":
            raise ProgramError('function_name must be "main" for non multifunction model')
        if names and name not in names:
            raise ProgramError(
                f"function_name {name} not found in the model; it has {', '.join(names)}"
            )
        return name

    def _choose_description(self) -> Any:
        """Features of the chosen function, or of the model if it has one function only."""
        return next(
            (f for f in self._spec.description.functions if f.name == self.function_name),
            self._spec.description,
        )

    @property
    def input_description(self) -> dict[str, str]:
        """What each input is, by name."""
        return {f.name: f.shortDescription for f in self._description.input}

    @property
    def output_description(self) -> dict[str, str]:
        """What each output is, by name."""
        return {f.name: f.shortDescription for f in self._description.output}

    @property
    def user_defined_metadata(self) -> dict[str, str]:
        """Metadata its author wrote."""
        return dict(self._spec.description.metadata.userDefined)

    def get_spec(self) -> Model_pb2.Model:
        """A copy of the specification."""
        return deepcopy(self._spec)

    def make_state(self) -> MLState:
        """States of zeros, for successive calls of `predict`. Raises ProgramError for a
        pipeline.
        """
        if len(self.programs) > 1:
            raise ProgramError("a pipeline keeps no state")
        return MLState(self.programs[0].make_state())

    def predict(
        self, data: dict[str, Any] | list[dict[str, Any]], state: MLState | None = None
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Outputs by name for inputs by name; for a list of inputs, a list.

        Arrays, tensors, lists and numbers for multi-arrays, PIL images for images. Outputs are
        NumPy arrays, PIL images, a class label, or a dict of probabilities by label. `state` from
        `make_state()` is updated. Raises KeyError for a name that is no input, TypeError for a
        value of the wrong kind, ProgramError for a shape that is not allowed and for an operation
        that fails.
        """
        # As in coremltools, a subclass of dict is refused.
        if type(data) not in (list, dict):
            raise TypeError(
                f'"data" parameter must be either a dict or list of dict, but got {type(data)}.'
            )
        if isinstance(data, dict):
            return self._predict(data, state)
        if not all(type(row) is dict for row in data):
            raise TypeError('"data" list must contain only dictionaries')
        if state is not None:
            raise ProgramError("State can only be used for unbatched predictions")
        return [self._predict(row, None) for row in data]

    def _predict(self, data: dict[str, Any], state: MLState | None) -> dict[str, Any]:
        names = {f.name for f in self._description.input}
        unknown = sorted(set(data) - names)
        if unknown:
            message = f"does not match any of the model input name(s), which are: {names}"
            raise KeyError(f'Provided key "{unknown[0]}", in the input dict, {message}')
        if state is not None and not self.programs[0].states:
            raise ProgramError("the model keeps no state, and one was given")
        if len(self.programs) == 1:
            return self._run(self.programs[0], self._description, data, state)
        pool = dict(data)  # every feature made so far: a later stage reads what earlier ones wrote
        for program, stage in zip(self.programs, list_stages(self._package), strict=True):
            # A stage gets only the inputs it declares, because a program refuses names it does not
            # know.
            taken = {f.name: pool[f.name] for f in stage.spec.description.input if f.name in pool}
            pool |= self._run(program, stage.spec.description, taken, None)
        return {f.name: pool[f.name] for f in self._description.output}

    def _run(
        self, program: Program, description: Any, data: Mapping[str, Any], state: MLState | None
    ) -> dict[str, Any]:
        inputs = {
            # An optional input that is missing is left out here; the program fills in its default.
            f.name: convert_input(f, program.inputs[f.name], data[f.name])
            for f in description.input
            if f.name in data
        }
        made = program(
            inputs, state=None if state is None else state.tensors, generator=self._generator
        )
        return {f.name: convert_output(f, _take_output(made, f)) for f in description.output}


def _take_output(made: Mapping[str, Any], feature: FeatureTypes_pb2.FeatureType) -> Any:
    if feature.name not in made:
        raise ProgramError(
            f"the specification names an output '{feature.name}', the program gives"
            f" {', '.join(made)}"
        )
    return made[feature.name]


def _open_any(model: str | Path | Model_pb2.Model, weights_dir: str | Path | None) -> Package:
    if isinstance(model, (str, Path)):
        return open_model(Path(model).expanduser())
    if not isinstance(model, Model_pb2.Model):
        raise TypeError(
            "Expected model to be a .mlmodel file, .mlpackage file or a Model_pb2 object"
        )
    if weights_dir is None and model.WhichOneof("Type") == "mlProgram":
        raise ProgramError(
            "a model given as a specification needs the folder of its weights; pass weights_dir"
        )
    # There is no file behind this path; it names the model in messages.
    return Package(Path("specification"), model, Path(weights_dir or "."))
