"""A compiled Core ML model (.mlmodelc) as the specification it was compiled from: `model.mil`,
`metadata.json`, `weights/`.

    # Model_pb2.Model with its ML program and its description
    spec = read_compiled(Path("Vocoder.mlmodelc"))

`coremldata.bin`, the compiler's own copy of the description, is not published and not read. Without
metadata.json the description comes from the functions' signatures and their
FlexibleShapeInformation. A compiled pipeline holds one folder `model0`, `model1`, ... per stage.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlprogram.dtypes import FeatureTypes_pb2, MIL_pb2, Model_pb2
from mlprogram.errors import ProgramError
from mlprogram.files import parse_json, read_json, read_text
from mlprogram.miltext import parse_program

_ARRAY, _IMAGE = FeatureTypes_pb2.ArrayFeatureType, FeatureTypes_pb2.ImageFeatureType
_OLDEST = 6  # first specification with ML programs (iOS 15)
_SPECIFICATIONS = MappingProxyType({"ios15": 6, "ios16": 7, "ios17": 8, "ios18": 9})
_BY_ELEMENT = MappingProxyType(
    {
        MIL_pb2.FLOAT16: _ARRAY.FLOAT16,
        MIL_pb2.FLOAT32: _ARRAY.FLOAT32,
        MIL_pb2.FLOAT64: _ARRAY.DOUBLE,
        MIL_pb2.INT32: _ARRAY.INT32,
    }
)
# The words of metadata.json for the same types.
_BY_WORD = MappingProxyType(
    {
        "Float16": _ARRAY.FLOAT16,
        "Float32": _ARRAY.FLOAT32,
        "Double": _ARRAY.DOUBLE,
        "Int32": _ARRAY.INT32,
    }
)
_LAYOUTS = MappingProxyType(
    {
        "RGB": _IMAGE.RGB,
        "BGR": _IMAGE.BGR,
        "Grayscale": _IMAGE.GRAYSCALE,
        "Grayscale16Half": _IMAGE.GRAYSCALE_FLOAT16,
    }
)


def read_compiled(folder: Path) -> Model_pb2.Model:
    """The specification of a compiled model. Raises ProgramError for a compiled neural network and
    for a text that cannot be read.
    """
    stages = find_stage_folders(folder)
    if stages:
        return _read_pipeline(folder, stages)
    text = folder / "model.mil"
    if not text.is_file():
        # A neural network compiles into files of Espresso, Core ML's older engine.
        kind = (
            "a compiled neural network"
            if any(folder.glob("*.espresso.*"))
            else "no compiled ML program"
        )
        raise ProgramError(
            f'{folder}: {kind}, it has no model.mil; convert the model with convert_to="mlprogram"'
        )
    try:
        program, attributes = parse_program(read_text(text))
    except ProgramError as error:
        raise ProgramError(f"{text}: {error}") from error
    metadata = _read_metadata(folder)
    spec = Model_pb2.Model(mlProgram=program)
    # Without metadata.json the newest opset of any function gives the version.
    newest = max(
        (_SPECIFICATIONS.get(f.opset, _OLDEST) for f in program.functions.values()), default=_OLDEST
    )
    try:
        spec.specificationVersion = int(metadata.get("specificationVersion", newest))
        _describe(spec.description, program, attributes, metadata)
    # ProgramError is a ValueError too, so it must leave before the clause below.
    except ProgramError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ProgramError(
            f"{folder}: metadata.json or the shapes are of another kind ({type(error).__name__}:"
            f" {error})"
        ) from None
    return spec


def find_stage_folders(folder: Path) -> tuple[Path, ...]:
    """Folders of the stages of a compiled pipeline, in order; none for any other model."""
    # model.mil also begins so, hence the look at what stands behind the word.
    stages = [
        path
        for path in folder.glob("model*")
        if path.is_dir() and path.name.removeprefix("model").isdecimal()
    ]
    # By number, because by text model10 would come before model2.
    return tuple(sorted(stages, key=lambda path: int(path.name.removeprefix("model"))))


def _read_pipeline(folder: Path, stages: tuple[Path, ...]) -> Model_pb2.Model:
    """Inputs that no earlier stage makes, outputs that no later stage takes."""
    spec = Model_pb2.Model()
    spec.pipeline.models.extend(read_compiled(stage) for stage in stages)
    models = spec.pipeline.models
    spec.specificationVersion = max(model.specificationVersion for model in models)
    names: set[str] = set()
    for model in models:
        # What an earlier stage takes or gives is known already and no input of the whole.
        spec.description.input.extend(f for f in model.description.input if f.name not in names)
        names |= {f.name for f in (*model.description.input, *model.description.output)}
    # an output that a later stage takes stays inside the pipeline
    for i, model in enumerate(models):
        later = {f.name for other in models[i + 1 :] for f in other.description.input}
        spec.description.output.extend(f for f in model.description.output if f.name not in later)
    return spec


def _read_metadata(folder: Path) -> dict[str, Any]:
    path = folder / "metadata.json"
    if not path.is_file():
        return {}
    try:
        content = read_json(path)
        # Compilers write a list of one record.
        return dict(content[0] if isinstance(content, list) else content)
    except (IndexError, TypeError, ValueError) as error:
        raise ProgramError(
            f"{path}: not the metadata of a compiled model ({type(error).__name__}: {error})"
        ) from error


def _describe(
    description: Any,
    program: MIL_pb2.Program,
    attributes: dict[str, dict[str, Any]],
    metadata: dict[str, Any],
) -> None:
    rows = {
        row["name"]: row
        for row in metadata.get("functions", ())
        if row.get("name") in program.functions
    }
    description.metadata.shortDescription = metadata.get("shortDescription", "")
    description.metadata.userDefined.update(metadata.get("userDefinedMetadata", {}))
    # Core ML describes the one function of a model as the model itself, several one by one
    if len(program.functions) == 1:
        name = next(iter(program.functions))
        _fill_features(
            description, program.functions[name], attributes[name], rows.get(name, metadata)
        )
        # "main" is what an empty name means.
        description.defaultFunctionName = "" if name == "main" else name
        return
    for name, function in sorted(program.functions.items()):
        _fill_features(
            description.functions.add(name=name), function, attributes[name], rows.get(name, {})
        )
    default = metadata.get("defaultFunctionName", "main")
    description.defaultFunctionName = (
        default if default in program.functions else min(program.functions)
    )


def _fill_features(
    description: Any,
    function: MIL_pb2.Function,
    attributes: dict[str, Any],
    metadata: dict[str, Any],
) -> None:
    # An attribute is a dictionary or a list of pairs; dict takes either.
    flexible = dict(attributes.get("FlexibleShapeInformation", ()))
    rows = {row["name"]: row for row in metadata.get("inputSchema", ())}
    for value in function.inputs:
        state = value.type.WhichOneof("type") == "stateType"
        feature = (description.state if state else description.input).add(name=value.name)
        if state:
            _fill_array(
                feature.type.stateType.arrayType, value.type.stateType.wrappedType.tensorType, {}
            )
        elif rows.get(value.name, {}).get("type") == "Image":
            _fill_image(feature.type.imageType, rows[value.name])
        else:
            _fill_array(
                feature.type.multiArrayType, value.type.tensorType, rows.get(value.name, {})
            )
            _fill_shapes(
                feature.type.multiArrayType, value.name, flexible, rows.get(value.name, {})
            )
        # metadata.json writes flags as texts, "1" and "0".
        feature.type.isOptional = rows.get(value.name, {}).get("isOptional") == "1"
    outputs = {row["name"]: row for row in metadata.get("outputSchema", ())}
    for name in function.block_specializations[function.opset].outputs:
        _fill_output(description.output.add(name=name).type, outputs.get(name, {}))


def _fill_output(kind: FeatureTypes_pb2.FeatureType, row: dict[str, Any]) -> None:
    """Without a row: a multi-array of the type the program gives."""
    word = row.get("type", "MultiArray")
    if word == "Image":
        _fill_image(kind.imageType, row)
    elif word == "MultiArray":
        # 0 is the invalid type, for a word that is not known.
        kind.multiArrayType.dataType = _BY_WORD.get(row.get("dataType", ""), 0)
        kind.multiArrayType.shape.extend(parse_json(row.get("shape", "[]"), "shape"))
    elif word == "String":
        # A message without fields counts as set only if it is marked.
        kind.stringType.SetInParent()
    elif word == "Int64":
        kind.int64Type.SetInParent()
    elif word == "Dictionary":
        (
            kind.dictionaryType.int64KeyType
            if row.get("keyType") == "Int64"
            else kind.dictionaryType.stringKeyType
        ).SetInParent()


def _fill_array(
    array: FeatureTypes_pb2.ArrayFeatureType, tensor: MIL_pb2.TensorType, row: dict[str, Any]
) -> None:
    # Types that a multi-array cannot have, such as bool, get the invalid 0.
    array.dataType = _BY_ELEMENT.get(tensor.dataType, 0)
    sizes = [
        d.constant.size if d.WhichOneof("dimension") == "constant" else 0 for d in tensor.dimensions
    ]
    array.shape.extend(
        # metadata.json first, then the program's own sizes, and nothing where one is open.
        parse_json(row["shape"], "shape") if row.get("shape") else sizes if all(sizes) else []
    )


def _fill_shapes(
    array: FeatureTypes_pb2.ArrayFeatureType,
    name: str,
    flexible: dict[str, Any],
    row: dict[str, Any],
) -> None:
    """Allowed shapes: from metadata.json, else from the function's own attribute."""
    # metadata.json writes lists as texts, the attribute as values.
    ranges = parse_json(row.get("shapeRange", "[]"), "shapeRange") or flexible.get(
        "RangeDims", {}
    ).get(name, [])
    listed = parse_json(row.get("enumeratedShapes", "[]"), "enumeratedShapes")
    # EnumeratedShapes holds whole sets: {set: {input: shape}}, of which one input's row is taken.
    listed = listed or [
        shapes[name] for shapes in flexible.get("EnumeratedShapes", {}).values() if name in shapes
    ]
    default = flexible.get("DefaultShapes", {}).get(name)
    # The default comes from the attribute only where nothing else has given a shape.
    if default and not array.shape:
        array.shape.extend(default)
    # The protobuf has a place for one kind of flexibility; a list says more than a range.
    if listed:
        for shape in listed:
            array.enumeratedShapes.shapes.add(shape=shape)
    elif ranges:
        for low, high in ranges:
            array.shapeRange.sizeRanges.add(lowerBound=low, upperBound=high)


def _fill_image(image: FeatureTypes_pb2.ImageFeatureType, row: dict[str, Any]) -> None:
    image.width, image.height = int(row.get("width", 0)), int(row.get("height", 0))
    image.colorSpace = _LAYOUTS.get(row.get("colorspace", "RGB"), _IMAGE.RGB)
