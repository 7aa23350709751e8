"""Who a checkpoint is, by its values: one hash over weights, config and voices, and the list of
those that may be released.

    identity = Identity.of(weights_sha256, config, library)
    identity.sha256, withheld(identity)      # None: every part of it is on the list

A voice is hashed as the float32 numbers that it holds, so that a .pt, a .bin and a .npy of one
voice agree; a config as its parsed fields without `name` and `releasable`, which are what it says
of itself. core/data/releasable.json is the list and says where each hash is from.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.data_files import read_json

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core.config import KokoroConfig
    from kokoro_ane.core.voices import VoiceLibrary

# Checkpoints that may be released: repository, revision and the hashes of weights, config and each
# voice. Fewer voices than it has are as good, others are not.
RELEASABLE = Path(__file__).parent / "data" / "releasable.json"
OWN_WORDS = ("name", "releasable")  # of config.json


@dataclass(frozen=True)
class Identity:
    """Hashes of the three things that decide what is heard."""

    weights: str
    config: str
    voices: Mapping[str, str]

    @classmethod
    def of(cls, weights_sha256: str, config: "KokoroConfig", library: "VoiceLibrary") -> "Identity":
        """Reads every voice. Raises InputError for one that cannot be read."""
        return cls(
            weights_sha256,
            config_sha256(config),
            {name: voice_sha256(library.pack(name)) for name in library.names},
        )

    @property
    def sha256(self) -> str:
        """One hash over all of it."""
        return sha256_of_json(
            {"weights": self.weights, "config": self.config, "voices": dict(self.voices)}
        )


def sha256_of_json(data: object) -> str:
    """SHA-256 of plain data, however its keys are ordered."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def config_sha256(config: "KokoroConfig") -> str:
    """Hash the parsed fields: spaces, the order of keys and a default that is written out change
    nothing.
    """
    return sha256_of_json(
        {key: value for key, value in dataclasses.asdict(config).items() if key not in OWN_WORDS}
    )


def voice_sha256(pack: "np.ndarray") -> str:
    """Hash the [510, 1, 256] float32 numbers, little-endian: what sha256sum says of the voice's
    .bin.
    """
    return hashlib.sha256(pack.astype("<f4").tobytes()).hexdigest()


@cache
def released() -> tuple[dict[str, Any], ...]:
    """The list."""
    return tuple(read_json(RELEASABLE, "it belongs to this repository"))


def released_weights(weights_sha256: str) -> dict[str, Any] | None:
    """The entry of these weights: enough to refuse the others without a look at their voices."""
    return next((entry for entry in released() if entry["weights"] == weights_sha256), None)


def withheld(identity: Identity) -> str | None:
    """Why this checkpoint may not be released, naming the first part that is not on the list; None
    where all are.
    """
    entry = released_weights(identity.weights)
    if entry is None:
        return (
            f"its weights (SHA-256 {identity.weights[:12]}) are not on the list of releasable"
            " checkpoints"
        )
    if identity.config != entry["config"]:
        return f"its config.json is not that of {entry['repository']}"
    other = next(
        (
            name
            for name, sha256 in sorted(identity.voices.items())
            if entry["voices"].get(name) != sha256
        ),
        None,
    )
    if other is not None:
        return f"its voice {other} is not that of {entry['repository']}"
    return None if identity.voices else "it has no voices"
