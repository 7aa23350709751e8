"""Where Kokoro-82M comes from, and which of its bytes may be released: the hub's repository at one
revision, and the list of its hashes.

    folder = download()     # the snapshot, from the hub's cache where it is complete
    read_released()            # core/data/releasable.json, which says where each hash is from

The list holds repository, revision and the hashes of weights, config and each voice.
"""

import os
import threading
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kokoro_ane.core.data_files import read_json
from kokoro_ane.core.errors import InputError

HUB_REPOSITORY = "hexgrad/Kokoro-82M"
HUB_REVISION = "f3ff3571791e39611d31c381e3a41a3af07b4987"
HUB_FILES = ("config.json", "kokoro-v1_0.pth", "voices/*.pt")
HUB_TIMEOUT_S = 10
# for the first answer, name look-up and connection included: all that an offline machine waits
PROBE_TIMEOUT_S = 4
RELEASABLE = Path(__file__).parent / "data" / "releasable.json"


def download() -> Path:
    """Return the snapshot's folder: from the cache when complete, else from the hub. Raises
    InputError when the hub does not give it.
    """
    # read when huggingface_hub is imported
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", str(HUB_TIMEOUT_S))
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import snapshot_download

    request: dict[str, Any] = {
        "repo_id": HUB_REPOSITORY,
        "revision": HUB_REVISION,
        "allow_patterns": list(HUB_FILES),
    }
    # The hub's many error classes all mean "not in the cache".
    with suppress(Exception):
        folder = Path(snapshot_download(**request, local_files_only=True))
        # The cache gives a folder even where an interrupted download left it in part.
        if all((folder / name).exists() for name in HUB_FILES[:2]) and any(
            folder.glob(HUB_FILES[2])
        ):
            return folder
    try:
        _probe()
        return Path(snapshot_download(**request, etag_timeout=HUB_TIMEOUT_S))
    except Exception as problem:  # noqa: BLE001
        # no common base class; each is reported by name
        reason = str(problem).strip().splitlines() or [""]
        raise InputError(
            f"the hub did not give {HUB_REPOSITORY} at {HUB_REVISION[:7]}:"
            f" {type(problem).__name__}: {reason[0][:160]}"
        ) from None


def _probe() -> None:
    """One plain request, answered within PROBE_TIMEOUT_S: the library retries for 23 s without a
    network, for minutes at a limit.
    """
    from huggingface_hub import get_session, hf_hub_url

    def ask() -> None:
        try:
            answer.append(
                get_session().head(
                    hf_hub_url(HUB_REPOSITORY, HUB_FILES[0], revision=HUB_REVISION),
                    timeout=PROBE_TIMEOUT_S,
                )
            )
        except Exception as problem:  # noqa: BLE001
            # raised again below, in the caller's thread
            answer.append(problem)

    answer: list[Any] = []
    asking = threading.Thread(target=ask, daemon=True)  # a look-up of a name knows no time limit
    asking.start()
    asking.join(PROBE_TIMEOUT_S)
    if not answer:
        raise TimeoutError(f"no answer within {PROBE_TIMEOUT_S} s")
    if isinstance(answer[0], Exception):
        raise answer[0]
    if answer[0].status_code == HTTPStatus.TOO_MANY_REQUESTS:
        wait = answer[0].headers.get("Retry-After")
        raise ConnectionError(
            "its rate limit is reached (429)" + (f"; it says to wait {wait} s" if wait else "")
        )


@cache
def read_released() -> tuple[dict[str, Any], ...]:
    """Return the entries of the list."""
    return tuple(read_json(RELEASABLE, "it belongs to this repository"))


def find_released_weights(weights_sha256: str) -> dict[str, Any] | None:
    """Return the entry of these weights, or None, before a voice is read."""
    return next((entry for entry in read_released() if entry["weights"] == weights_sha256), None)
