"""Write an .mlpackage as Apple's compiler would lay it out: model.mil, metadata.json, weights/. For tests of mlprogram/compiled.py.

    compile_package(Path("a.mlpackage"), Path("a.mlmodelc"), scalars=True)

`scalars`: `fp16` as newer compilers write it, else `tensor<fp16, []>`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from coremltools.proto import FeatureTypes_pb2, MIL_pb2

from mlprogram.constants import Constants
from mlprogram.dtypes import dtype_of
from mlprogram.package import Package, open_package

WORDS = {"FLOAT16": "Float16", "FLOAT32": "Float32", "DOUBLE": "Double", "INT32": "Int32"}


def compile_package(package: Path, out: Path, scalars: bool = True, metadata: bool = True) -> Path:
    opened = open_package(package)
    out.mkdir(parents=True)
    if opened.weights_dir.is_dir():
        shutil.copytree(opened.weights_dir, out / "weights")
    (out / "model.mil").write_text(Writer(opened, scalars).program(), encoding="utf-8")
    if metadata:
        description = opened.spec.description
        content = {"inputSchema": [row(f) for f in description.input], "outputSchema": [row(f) for f in description.output]}
        content |= {"specificationVersion": opened.spec.specificationVersion, "metadataOutputVersion": "3.0"}
        (out / "metadata.json").write_text(json.dumps([content]), encoding="utf-8")
    return out


def row(feature: FeatureTypes_pb2.FeatureType) -> dict[str, str]:
    """One entry of a schema."""
    kind, common = feature.type.WhichOneof("Type"), {"name": feature.name, "isOptional": "1" if feature.type.isOptional else "0"}
    if kind == "imageType":
        image = feature.type.imageType
        space = FeatureTypes_pb2.ImageFeatureType.ColorSpace.Name(image.colorSpace)
        return common | {"type": "Image", "width": str(image.width), "height": str(image.height), "colorspace": space}
    if kind != "multiArrayType":
        return common | {"type": {"stringType": "String", "dictionaryType": "Dictionary", "int64Type": "Int64"}[kind]}
    array = feature.type.multiArrayType
    found = common | {"type": "MultiArray", "shape": str(list(array.shape))}
    found["dataType"] = WORDS[FeatureTypes_pb2.ArrayFeatureType.ArrayDataType.Name(array.dataType)]
    if array.WhichOneof("ShapeFlexibility") == "enumeratedShapes":
        found["enumeratedShapes"] = str([list(s.shape) for s in array.enumeratedShapes.shapes])
    if array.WhichOneof("ShapeFlexibility") == "shapeRange":
        found["shapeRange"] = str([[r.lowerBound, r.upperBound] for r in array.shapeRange.sizeRanges])
    return found


class Writer:
    """The text of one program."""

    def __init__(self, package: Package, scalars: bool) -> None:
        self.package, self.scalars, self.constants = package, scalars, Constants(package)

    def program(self) -> str:
        functions = "\n".join(self.function(n, f) for n, f in self.package.spec.mlProgram.functions.items())
        return f'program(1.0)\n[buildInfo = dict<string, string>({{{{"coremlc-version", "3500.32.1"}}}})]\n{{\n{functions}\n}}\n'

    def function(self, name: str, function: MIL_pb2.Function) -> str:
        inputs = ", ".join(f"{self.type(v.type)} {v.name}" for v in function.inputs)
        return f"    func {name}<ios17>({inputs}) {self.block(function.block_specializations[function.opset])};"

    def block(self, block: MIL_pb2.Block) -> str:
        operations = "\n".join(f"            {self.operation(op)};" for op in block.operations)
        return f"{{\n{operations}\n        }} -> ({', '.join(block.outputs)})"

    def operation(self, op: MIL_pb2.Operation) -> str:
        inputs = ", ".join(f"{name} = {self.argument(argument)}" for name, argument in op.inputs.items())
        blocks = ", ".join(f"({', '.join(f'{self.type(v.type)} {v.name}' for v in b.inputs)}) {self.block(b)}" for b in op.blocks)
        attributes = ", ".join(f"{name} = {self.value(value)}" for name, value in op.attributes.items())
        outputs = ", ".join(f"{self.type(v.type)} {v.name}" for v in op.outputs)
        return f"{outputs}{' = ' if outputs else ''}{op.type}({inputs}){blocks}{f'[{attributes}]' if attributes else ''}"

    def argument(self, argument: MIL_pb2.Argument) -> str:
        parts = [b.name if b.WhichOneof("binding") == "name" else self.value(b.value) for b in argument.arguments]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def type(self, kind: MIL_pb2.ValueType) -> str:
        if kind.WhichOneof("type") == "stateType":
            return f"state<{self.type(kind.stateType.wrappedType)}>"
        if kind.WhichOneof("type") == "listType":
            return f"list<{self.type(kind.listType.type)}, ?>"
        if kind.WhichOneof("type") == "dictionaryType":
            return f"dict<{self.type(kind.dictionaryType.keyType)}, {self.type(kind.dictionaryType.valueType)}>"
        tensor = kind.tensorType
        sizes = [str(d.constant.size) if d.WhichOneof("dimension") == "constant" else "?" for d in tensor.dimensions]
        name = dtype_of(tensor.dataType).name
        return name if self.scalars and not sizes else f"tensor<{name}, [{', '.join(sizes)}]>"

    def value(self, value: MIL_pb2.Value) -> str:
        kind = self.type(value.type)
        if value.WhichOneof("value") == "blobFileValue":
            blob, text = value.blobFileValue, 'string("{}")' if self.scalars else 'tensor<string, []>("{}")'
            offset = "uint64({})" if self.scalars else "tensor<uint64, []>({})"
            return f"{kind}(BLOBFILE(path = {text.format(blob.fileName)}, offset = {offset.format(blob.offset)}))"
        content = self.constants.read(value)
        return f"{kind}({padded(content if isinstance(content, (str, list)) else content.tolist())})"


def padded(content: object) -> str:
    """Floats in hexadecimal, as Apple's compiler writes them."""
    if isinstance(content, list):
        return f"[{', '.join(padded(c) for c in content)}]"
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, float):
        return "nan" if content != content else content.hex().replace("0x1.0000000000000p", "0x1p")
    return json.dumps(content) if isinstance(content, str) else str(content)
