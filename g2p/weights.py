"""The weights that come with the repository: matrices in 8 bits with one scale a row, the rest in 32, and a manifest with their hash.

    model = load_model()                  # g2p/data/model.npz, SHA-256 checked against g2p/data/model.json
    save_weights(model, Path("elsewhere/model.npz"), {"seed": 0})

There is one model: NumPy (g2p/network.py) and PyTorch compute with the same 8-bit values in float32 that the package holds, so all give
the same answers.
"""

import dataclasses
import hashlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from core.errors import InputError
from core.schema import conform
from core.staging import read_json, staged, write_json
from g2p.result import GB, US

if TYPE_CHECKING:
    import numpy as np

    from g2p.model import LetterToSound
    from g2p.sizes import Config

WEIGHTS_OF = {US: Path(__file__).parent / "data" / "model.npz", GB: Path(__file__).parent / "data" / "model_gb.npz"}
WEIGHTS = WEIGHTS_OF[US]
AGAIN = "`git checkout g2p/data` brings the bundled weights back, `python -m g2p.training.train` makes new ones"
SCALE = ".scale"  # an array of this ending holds the scales of the one before it
LARGEST = 127


class WeightsManifest(TypedDict):
    """The .json beside a .npz of weights."""

    sha256: str
    config: dict[str, int | float | list[int]]
    training: NotRequired[Any]
    confidence: NotRequired[dict[str, float]]  # slope, shift and words of g2p/training/calibrate.py


def quantized(matrix: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
    """A matrix [out, in] as int8 [out, in] and float32 scales [out, 1]: the largest magnitude of a row becomes 127."""
    import numpy as np

    scale = (np.abs(matrix).max(axis=1, keepdims=True) / LARGEST).astype(np.float32)
    scale[scale == 0] = 1
    return np.rint(matrix / scale).astype(np.int8), scale


def save_weights(model: "LetterToSound", path: Path, training: dict[str, Any]) -> None:
    """Write the parameters as `path` (.npz), matrices in 8 bits, and beside it a .json with their SHA-256, the sizes and `training`."""
    import numpy as np

    arrays: dict[str, np.ndarray] = {}
    for name, parameter in model.state_dict().items():
        arrays[name] = parameter.detach().numpy().astype(np.float32)
        if parameter.dim() == 2 and name != "embedding.weight":
            arrays[name], arrays[name + SCALE] = quantized(arrays[name])
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    write_json(path.with_suffix(".json"), {"sha256": digest, "config": dataclasses.asdict(model.config), "training": training})


def load_arrays(path: Path | None = None) -> "tuple[dict[str, np.ndarray], Config]":
    """The parameters in float32 by name, and the sizes. Raises InputError: missing, another hash, another shape than its manifest says."""
    from g2p.sizes import Config

    path = path or WEIGHTS
    manifest = read_manifest(path)
    content = _checked(path, manifest)
    try:
        return _state(content), Config(**manifest["config"] | {"answers": tuple(manifest["config"]["answers"])})
    except (KeyError, TypeError, ValueError, OSError) as problem:
        raise _other_than_described(path, problem) from None


def load_model(path: Path | None = None) -> "LetterToSound":
    """The PyTorch model in float32, ready to answer. Raises InputError as `load_arrays` does."""
    import torch

    from g2p.model import LetterToSound

    arrays, config = load_arrays(path)
    try:
        model = LetterToSound(config).eval()
        model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except (TypeError, ValueError, RuntimeError) as problem:
        raise _other_than_described(path or WEIGHTS, problem) from None
    return model.requires_grad_(False)


def _other_than_described(path: Path, problem: Exception) -> InputError:
    what = str(problem).splitlines()[-1].strip()
    return InputError(f"{path} does not hold the model its manifest describes ({what}): {AGAIN}")


def read_manifest(path: Path) -> dict[str, Any]:
    """What stands beside the weights: sha256, config, training. Raises InputError when it is missing or not JSON."""
    manifest = read_json(path.with_suffix(".json"), f"the manifest of the weights; {AGAIN}")
    if not isinstance(manifest, dict) or "sha256" not in manifest or "config" not in manifest:
        raise InputError(f"{path.with_suffix('.json')} is not a manifest of weights (sha256, config, training): {AGAIN}")
    conform(manifest, WeightsManifest, str(path.with_suffix(".json")))
    return manifest


def confidence_of(path: Path) -> tuple[float, float]:
    """Slope and shift that make the network's probability the share of right words (g2p/decode.py); 1 and 0 where none were fitted."""
    fitted = read_manifest(path).get("confidence", {})
    return float(fitted.get("slope", 1.0)), float(fitted.get("shift", 0.0))


def _checked(path: Path, manifest: dict[str, Any]) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: {AGAIN}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != manifest["sha256"]:
        raise InputError(f"{path} has SHA-256 {found[:12]}, its manifest says {str(manifest['sha256'])[:12]}: {AGAIN}")
    return content


def _state(content: bytes) -> "dict[str, np.ndarray]":
    import numpy as np

    with np.load(io.BytesIO(content)) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    values = {name: array.astype(np.float32) for name, array in found.items() if not name.endswith(SCALE)}
    return {name: array * found.get(name + SCALE, np.float32(1)) for name, array in values.items()}
