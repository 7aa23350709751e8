"""Kokoro's weights off every grid: kokoro-int8 with each stored integer moved by up to half a step,
as a checkpoint folder.

    write_shaken(Path("build/shaken0"), seed=0)  # config.json, shaken.safetensors, voices/

What is fitted to one set of weights shows on these. Weights that nobody has rounded, as the hub's
are, lie somewhere within the step that rounds to kokoro-int8; so do these, at random.
"""

import shutil
from pathlib import Path

import numpy as np

from kokoro_ane.core.checkpoint import SHAKEN_NAME
from kokoro_ane.core.data_files import read_json
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8.cache import CONFIG, cached
from kokoro_ane.core.kokoro_int8.packages import decode, read_parts
from kokoro_ane.core.staging import json_text, staged, strangers

WEIGHTS = "shaken.safetensors"


def write_shaken(folder: Path, seed: int) -> None:
    """Write the checkpoint `kokoro-shakenSEED`; the folder appears when it is complete. Its voices
    are those of the cache. Raises InputError as `cached` and `read_parts` do, and for a folder that
    holds anything else.
    """
    from safetensors.numpy import save

    source = cached()
    with staged(folder, shaken_of_ours) as aside:
        aside.mkdir(parents=True)
        (aside / WEIGHTS).write_bytes(save(decode(read_parts(), np.random.default_rng(seed))))
        config = read_json(source / CONFIG, "the cache holds it")
        config |= {"name": f"{SHAKEN_NAME}{seed}", "releasable": False}
        (aside / CONFIG).write_text(json_text(config), encoding="utf-8")
        shutil.copytree(source / "voices", aside / "voices")


def shaken_of_ours(folder: Path) -> str | None:
    """Why `write_shaken` did not write a folder, or None: for core.staging.staged."""
    try:
        name = read_json(folder / CONFIG, "a checkpoint holds it").get("name", "")
    except InputError as problem:
        return str(problem)
    if not str(name).startswith("kokoro-shaken"):
        return f"it holds the checkpoint {name!r}"
    voices = {f"voices/{path.name}" for path in (folder / "voices").glob("*.bin")}
    return strangers(folder, {WEIGHTS, CONFIG, *voices})
