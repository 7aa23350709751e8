"""The hub for real, small: a local server speaks its protocol, the library finds it through HF_ENDPOINT, our loader downloads from it."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bench.random_checkpoint import tiny_config, write_checkpoint
from kokoro_ane.core.checkpoint import HUB_REPOSITORY, HUB_REVISION
from kokoro_ane.core.staging import sha256_of

WEIGHTS = "kokoro-v1_0.pth"
CLIENT = """
import sys, time
from huggingface_hub import constants
from kokoro_ane.core import checkpoint
from kokoro_ane.core.errors import InputError
checkpoint.HUB_SHA256 = sys.argv[1]
constants.DOWNLOAD_CHUNK_SIZE = 4096  # 10 MiB: what a cut connection loses; these files are smaller
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
        self.ranges: list[str] = []
        self.cuts = 0  # how often the weights break off in the middle
        self.silent = self.limited = False


class Handler(BaseHTTPRequestHandler):
    """HEAD and GET of /REPOSITORY/resolve/REVISION/FILE, the tree of the revision, byte ranges."""

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
            self.send_file(name, hub.files[name])
        else:
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})

    def send_file(self, name: str, data: bytes) -> None:
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": HUB_REVISION, "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range")
        first = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
        if asked:
            self.server.ranges.append(asked)
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        cut = None
        if name == WEIGHTS and self.command == "GET" and self.server.cuts:
            self.server.cuts -= 1
            cut = (len(data) - first) // 2
        self.send(206 if asked else 200, data[first:], headers, cut)

    def send(self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None) -> None:
        self.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:cut])
        self.close_connection = cut is not None


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
    assert opened(hub, tmp_path, sha256, source=None)[0] == said
    assert hub.asked == []


def test_interrupted_and_resumed(hub: Hub, repository: Path, tmp_path: Path) -> None:
    hub.cuts = 2
    sha256 = sha256_of(repository / WEIGHTS)
    assert opened(hub, tmp_path, sha256)[0].startswith(f"opened tiny {sha256}")
    assert len(hub.ranges) == 2 and hub.cuts == 0 and hub.ranges[0] != "bytes=0-", hub.ranges


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
