"""The weights that come with the repository: 16-bit arrays and a manifest that names their hash, sizes and training.

model = load_model()                  # g2p/data/model.npz, SHA-256 checked against g2p/data/model.json
save_weights(model, Path("elsewhere/model.npz"), {"seed": 0})
"""

import dataclasses
import hashlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError
from pipeline.staging import read_json, staged, write_json

if TYPE_CHECKING:
    from g2p.model import LetterToSound

WEIGHTS = Path(__file__).parent / "data" / "model.npz"
AGAIN = "`git checkout g2p/data` brings the bundled weights back, `python -m g2p.training.train` makes new ones"


def save_weights(model: "LetterToSound", path: Path, training: dict[str, Any]) -> None:
    """Write the parameters in 16 bits as `path` (.npz), and beside it a .json with their SHA-256, the sizes and `training`."""
    import numpy as np

    arrays = {name: parameter.detach().numpy().astype(np.float16) for name, parameter in model.state_dict().items()}
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez_compressed(stream, **arrays)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    write_json(path.with_suffix(".json"), {"sha256": digest, "config": dataclasses.asdict(model.config), "training": training})


def load_model(path: Path | None = None) -> "LetterToSound":
    """The model in float32, ready to answer. Raises InputError: missing, another hash, another shape than its manifest says."""
    import numpy as np
    import torch

    from g2p.model import Config, LetterToSound

    path = path or WEIGHTS
    manifest = read_json(path.with_suffix(".json"), f"the manifest of the weights; {AGAIN}")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: {AGAIN}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != manifest.get("sha256"):
        raise InputError(f"{path} has SHA-256 {found[:12]}, its manifest says {str(manifest.get('sha256'))[:12]}: {AGAIN}")
    config = manifest["config"]
    model = LetterToSound(Config(**config | {"answers": tuple(config["answers"])})).eval()
    with np.load(io.BytesIO(content)) as arrays:
        state = {name: torch.from_numpy(arrays[name].astype(np.float32)) for name in arrays.files}
    try:
        model.load_state_dict(state)
    except RuntimeError as problem:
        raise InputError(
            f"{path} does not hold the model its manifest describes ({str(problem).splitlines()[-1].strip()}): {AGAIN}"
        ) from None
    return model.requires_grad_(False)
