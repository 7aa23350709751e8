"""Packages that tests build: of a MIL function, of a PyTorch module, compressed; their profiles and
forecasts.
"""

import json
import re
import uuid
import warnings
from functools import partial

import coremltools as ct
import coremltools.optimize.coreml as cto
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from coremltools.converters.mil.mil import Program as MilProgram

from mlprogram import Program
from mlprogram.examine.placement import forecast_placement
from mlprogram.examine.profile import open_program, profile_program
from mlprogram.examine.rules import load_rules

FP16, FP32 = ct.precision.FLOAT16, ct.precision.FLOAT32
IOS16, IOS17, IOS18 = ct.target.iOS16, ct.target.iOS17, ct.target.iOS18


def rows(text):
    """The lines of a table without comments; one that is set in goes on the line before."""
    return re.split(r"\n(?=\S)", re.sub("^#.*\n", "", text, flags=re.MULTILINE).strip())


def listed(value):
    """Several values as they are, one alone in a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def converted(module, folder, *inputs, outputs=("y",), examples=None, target=IOS17, **options):
    """Write a PyTorch module, traced on `examples` (zeros where none are given), as an .mlpackage;
    outputs by name or by their type, None for coremltools' own.
    """
    if examples is None:
        examples = tuple(torch.zeros(*spec.shape.default) for spec in inputs)
    kinds = [ct.TensorType(o) if isinstance(o, str) else o for o in outputs] if outputs else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module.eval(), examples, check_trace=False)
    return _stored(traced, folder, target, inputs=[*inputs], outputs=kinds, **options)


def _stored(model, folder, target, **options):
    path = folder / f"{uuid.uuid4().hex}.mlpackage"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ct.convert(
            model,
            convert_to="mlprogram",
            minimum_deployment_target=target,
            skip_model_load=True,
            **options,
        ).save(str(path))
    return path


def op(name, **attributes):
    """A builder of one operation of x, and of indices where they are an input."""
    return lambda x, **i: getattr(mb, name)(x=x, **attributes, **({"indices": i["i"]} if i else {}))


def program_in_words(text, builders):
    """Builder and inputs of `operation attribute=value ... of shape`: an operation of `builders`,
    or else of coremltools.
    """
    call, _, shape = text.strip().partition(" of ")
    name, *pairs = call.split()
    attributes = {key: json.loads(value) for key, value in (pair.split("=") for pair in pairs)}
    inputs = {"x": tuple(map(int, shape.split(",")))} if shape else {"x": (1, 4, 1, 32)}
    build = builders.get(name) or (lambda x, **more: getattr(mb, name)(x=x, **more))
    return partial(build, **attributes), inputs


def operations_of(spec):
    """The operations of a specification's main function, to be edited."""
    function = spec.mlProgram.functions["main"]
    return function.block_specializations[function.opset].operations


def package_of(inputs, build, folder, dtype=types.fp16, target=IOS17):
    """Write a package, without any graph pass, whose function is `build` of inputs with these
    shapes (names that start with `i` are int32) or placeholders; it returns values, or a dictionary
    of them by name.
    """
    placeholders = {
        n: mb.placeholder(s, types.int32 if n.startswith("i") else dtype)
        if isinstance(s, tuple)
        else s
        for n, s in inputs.items()
    }
    with Function(placeholders, opset_version=target) as function:
        result = build(**function.inputs)
        if isinstance(result, dict):
            result = [mb.identity(x=v, name=n) for n, v in result.items()]
        function.set_outputs(listed(result))
    program = MilProgram()
    program.add_function("main", function)
    options = {"source": "milinternal", "pass_pipeline": ct.PassPipeline.EMPTY}
    return _stored(program, folder, target, compute_precision=FP32, **options)


def program_of(inputs, build, folder, target=IOS17):
    """Such a package in fp32, opened; a single value is its output y."""

    def named(**values):
        result = build(**values)
        return result if isinstance(result, (dict, list)) else {"y": result}

    return Program(package_of(inputs, named, folder, types.fp32, target))


def profile_at(path):
    """The profile of a package at its declared shapes."""
    program = open_program(path)
    return profile_program(program, program.shapes({}))


def profile_of(inputs, build, folder, **options):
    """The profile of a built package at its declared shapes."""
    return profile_at(package_of(inputs, build, folder, **options))


def forecast_of(chip, *package, **options):
    """The forecast of a built package for a chip, by the packaged rules."""
    return forecast_placement(profile_of(*package, **options), load_rules(), chip)


def fired(forecast):
    """{rule id: effect} of all findings."""
    findings = [*(f for op in forecast.ops for f in op.findings), *forecast.graph_findings]
    return {f.rule.id: f.effect for f in findings}


def linear(dtype="int8", **more):
    """A compression to integer weights with a scale."""
    return _compress(
        cto.linear_quantize_weights,
        cto.OpLinearQuantizerConfig,
        mode="linear_symmetric",
        dtype=dtype,
        **more,
    )


def palette(**more):
    """A compression to indices into a palette."""
    return _compress(cto.palettize_weights, cto.OpPalettizerConfig, mode="uniform", **more)


def sparse(share):
    """A compression that sets this share of the weights to zero and leaves them out."""
    return _compress(cto.prune_weights, cto.OpMagnitudePrunerConfig, target_sparsity=share)


def _compress(run, config, **options):
    chosen = cto.OptimizationConfig(config(weight_threshold=0, **options))
    return lambda model, joint=False: run(model, chosen, joint_compression=joint)


def joint(then, share=0.6):
    """Sparse first, then a palette or int8 on what is left."""
    return lambda model: then(sparse(share)(model), joint=True)


def compressed(path, change, folder):
    """The package after a change of its model, beside nothing else in this folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = change(ct.models.MLModel(str(path), skip_model_load=True))
        model.save(str(folder / "changed.mlpackage"))
    return folder / "changed.mlpackage"
