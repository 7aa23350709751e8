"""One loader for three homes of a checkpoint: the hub, a folder with the same files, kokoro-int8
from packages.

    # or a folder, "kokoro-int8", or None for the default
    checkpoint = open_checkpoint("hexgrad/Kokoro-82M")
    vocoder = Vocoder.from_checkpoint(checkpoint)                     # vocoder.decoder
    checkpoint.network_sha256, checkpoint.withheld       # who it is; None: it may be released

Strict: a missing, extra or mis-shaped tensor is an InputError that names it. Pickles are read with
weights_only, the SHA-256 is recorded. A checkpoint is identified by its values: a voice is hashed
as the float32 numbers that it holds, so that a .pt, a .bin and a .npy of one voice agree; a config
as its parsed fields without `name` and `releasable`, which anybody may write there.
"""

import dataclasses
import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kokoro_ane.core.config import KokoroConfig, not_releasable
from kokoro_ane.core.data_files import check_name, sha256_of, sha256_of_json
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.hub import HUB_REPOSITORY, download, find_released_weights
from kokoro_ane.core.staging import is_of_finder
from kokoro_ane.core.tensor_files import plain_tensor, read_safetensors, read_tensors, split_by_part

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from kokoro_ane.core.voices import VoiceLibrary

LoadedModule = TypeVar("LoadedModule", bound="nn.Module")
# of kokoro-v1_0.pth at that revision
HUB_SHA256 = "496dba118d1a58f5f3db2efc88dbdc216e0483fc89fe6e47ee1f2c53f18ad1e4"
PARTS = ("bert", "bert_encoder", "predictor", "text_encoder", "decoder")
PREFIXES = tuple(f"{name}." for name in PARTS)
OWN_WORDS = ("name", "releasable")  # of config.json
KOKORO_INT8, HUB_NAME = "kokoro-int8", "kokoro-82m"
SHAKEN_NAME = "kokoro-shaken"  # with its seed behind (core/kokoro_int8/shaken.py)


def open_checkpoint(source: str | None = None, thorough: bool = False) -> "Checkpoint":
    """Open `source`: a folder, "kokoro-int8", HUB_REPOSITORY, or None.

    None is the first that can be had: HUB_REPOSITORY from the cache or the hub, then kokoro-int8
    with a notice. Weights are hashed each time, but for kokoro-int8's: without `thorough` a file of
    the size and time of the checked one is taken for it, which is enough to speak. What judges or
    ships asks for `thorough`.

    Raises InputError when the folder or hub cannot give a complete checkpoint.
    """
    if source is None:
        return _default(thorough)
    if source == KOKORO_INT8:
        return _kokoro_int8(thorough)
    if source == HUB_REPOSITORY:
        return Checkpoint.from_folder(download(), expected_sha256=HUB_SHA256)
    folder = Path(source)
    if not folder.exists():
        raise InputError(
            f"checkpoint {source!r} is neither a folder nor {HUB_REPOSITORY!r} nor {KOKORO_INT8!r}"
        )
    return Checkpoint.from_folder(folder)


def _default(thorough: bool) -> "Checkpoint":
    try:
        folder = download()
    except InputError as problem:
        from kokoro_ane.core.kokoro_int8.cache import is_available
        from kokoro_ane.core.kokoro_int8.packages import INSTALL

        if not is_available():
            raise InputError(
                f"no checkpoint is at hand: {INSTALL}, as kokoro-int8; --checkpoint FOLDER names"
                f" another; {problem}"
            ) from None
        print(
            f"Real Kokoro from installed packages, since {problem}: {not_releasable(KOKORO_INT8)}",
            file=sys.stderr,
        )
        return _kokoro_int8(thorough)
    return Checkpoint.from_folder(folder, expected_sha256=HUB_SHA256)


def _kokoro_int8(thorough: bool) -> "Checkpoint":
    """Open kokoro-int8, which is decoded on the first call; `thorough` checks the weights' hash."""
    from kokoro_ane.core.kokoro_int8.cache import WEIGHTS, WEIGHTS_SHA256, cached

    folder = cached(thorough)
    return Checkpoint(
        folder, folder / WEIGHTS, KokoroConfig.load(folder / "config.json"), WEIGHTS_SHA256
    )


@dataclass(frozen=True)
class Identity:
    """Hashes of the three parts that determine the sound: weights, config and voices."""

    weights: str
    config: str
    voices: Mapping[str, str]

    @classmethod
    def from_library(
        cls, weights_sha256: str, config: "KokoroConfig", library: "VoiceLibrary"
    ) -> "Identity":
        """Read every voice. Raises InputError for one that cannot be read."""
        return cls(
            weights_sha256,
            config_sha256(config),
            {name: voice_sha256(library.pack(name)) for name in library.names},
        )

    @property
    def sha256(self) -> str:
        """One hash over all three."""
        return sha256_of_json(
            {"weights": self.weights, "config": self.config, "voices": dict(self.voices)}
        )


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
    # "<f4" gives the same bytes on every machine, whatever its own order is.
    return hashlib.sha256(pack.astype("<f4").tobytes()).hexdigest()


def withheld(identity: Identity) -> str | None:
    """Return why a checkpoint may not be released, naming the first part that is not on the list,
    or None.
    """
    # The weights name the entry; config and voices are then held against it.
    entry = find_released_weights(identity.weights)
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


@dataclass(frozen=True)
class Checkpoint:
    """Responsibilities: 1. the config; 2. state dicts by part, in float32, under upstream's keys;
    3. voices; 4. who it is, by value.

    `sha256` is that of the weights' file. Packages and levels are bound to `network_sha256`: a
    voice is an input of theirs. Figures and decisions are bound to `content_sha256`.
    """

    folder: Path
    weights: Path
    config: KokoroConfig
    sha256: str

    @classmethod
    def from_folder(cls, folder: Path, expected_sha256: str | None = None) -> "Checkpoint":
        """Find config.json and the one .pth or .safetensors file in `folder`."""
        config = KokoroConfig.load(folder / "config.json")
        # With two files of weights it is open which one is meant.
        weight_files = sorted(
            path
            for path in folder.glob("*")
            if path.suffix in (".pth", ".safetensors") and not is_of_finder(path.name)
        )
        if len(weight_files) != 1:
            names = ", ".join(p.name for p in weight_files) or "none"
            raise InputError(
                f"{folder} must hold exactly one .pth file (or .safetensors) beside config.json;"
                f" found: {names}"
            )
        (weights,) = weight_files
        digest = sha256_of(weights)
        if expected_sha256 is not None and digest != expected_sha256:
            # in the hub's cache it is a link: what that leads to has to go
            raise InputError(
                f"{weights} has SHA-256 {digest}, expected {expected_sha256}: delete"
                f" {weights.resolve()} and download again"
            )
        from kokoro_ane.core.kokoro_int8.cache import WEIGHTS_SHA256

        # What weights that this project knows are called.
        registered_name = {HUB_SHA256: HUB_NAME, WEIGHTS_SHA256: KOKORO_INT8}.get(digest)
        if not config.name:
            name = registered_name or folder.resolve().name
            check_name(name, f'{folder / "config.json"} gives no "name", and the folder\'s own')
            config = replace(config, name=name)
        # What config.json calls the weights is believed only where the hash agrees.
        if registered_name == KOKORO_INT8 and config.name != registered_name:
            raise InputError(
                f"{weights} holds the weights of {registered_name}, but its config.json gives the"
                f' name {config.name}: give it "name": "{registered_name}"'
            )
        if config.name in (HUB_NAME, KOKORO_INT8) and registered_name != config.name:
            raise InputError(
                f"{weights} (SHA-256 {digest[:12]}) does not hold the weights of {config.name},"
                ' whose name its config.json or its folder gives: give it a "name" of its own'
            )
        return cls(folder, weights, config, digest)

    @property
    def name(self) -> str:
        """kokoro-82m, kokoro-int8, or what config.json says; where it says nothing, the folder's
        name.
        """
        return self.config.name

    @property
    def source(self) -> str:
        """The value of `--checkpoint` that opens it."""
        return self.name if self.name == KOKORO_INT8 else str(self.folder)

    @property
    def releasable(self) -> bool:
        """Whether core/data/releasable.json lists all of it. Packages of others carry their name,
        and no decision releases them.
        """
        return self.withheld is None

    @cached_property
    def withheld(self) -> str | None:
        """The reason why nothing of it may be released; None where weights, config and every voice
        are on the list.
        """
        if find_released_weights(self.sha256) is None:  # before its voices are read
            return withheld(Identity(self.sha256, "", {}))
        return (
            withheld(self.identity)
            if self.config.releasable
            else "its config.json says releasable: false"
        )

    @cached_property
    def identity(self) -> Identity:
        """Hashes of weights, config and every voice."""
        return Identity.from_library(self.sha256, self.config, self.library)

    @property
    def network_sha256(self) -> str:
        """One hash over weights and config."""
        # A voice is an input of the network, so none goes into this hash.
        return Identity(self.sha256, config_sha256(self.config), {}).sha256

    @property
    def content_sha256(self) -> str:
        """One hash over weights, config and voices: another voice under an old name is another
        checkpoint.
        """
        return self.identity.sha256

    @property
    def as_source(self) -> dict[str, str]:
        """Name and hashes as manifests carry them: `sha256` is of the network, `weights_sha256` is
        for a look at the hub's page.
        """
        return {"name": self.name, "sha256": self.network_sha256, "weights_sha256": self.sha256}

    @cached_property
    def _parts(self) -> "dict[str, dict[str, Tensor]]":
        data: Any = (
            read_safetensors(self.weights)
            if self.weights.suffix == ".safetensors"
            else read_tensors(self.weights)
        )
        # Upstream's .pth is a dict of parts; a whole model's state dict has keys PART.KEY.
        if isinstance(data, dict) and any(
            isinstance(name, str) and name.startswith(PREFIXES) for name in data
        ):
            data = split_by_part(data)  # upstream's KModel.state_dict()
        if not isinstance(data, dict) or not all(isinstance(part, dict) for part in data.values()):
            raise InputError(
                f"{self.weights} is not a dict of state dicts: expected the parts"
                f" {', '.join(PARTS)}"
            )
        unknown = [str(name)[:80] for name in data if name not in PARTS]
        if unknown:
            raise InputError(
                f"{self.weights} holds unknown part {unknown[0]!r}; known: {', '.join(PARTS)}"
            )
        return {name: _plain(part, f"{self.weights}: {name}") for name, part in data.items()}

    @property
    def part_names(self) -> tuple[str, ...]:
        """The parts that the weights hold."""
        return tuple(self._parts)

    def part(self, name: str) -> "dict[str, Tensor]":
        """State dict of one part (`decoder`, `text_encoder`, ...) in float32, without the `module.`
        prefix.
        """
        if name not in self._parts:
            raise InputError(
                f"{self.weights} has no part {name!r}; it holds {', '.join(self._parts)}"
            )
        return self._parts[name]

    def load_part(self, module: LoadedModule, name: str) -> LoadedModule:
        """Load part `name` into `module`, strictly, and return it in eval mode."""
        where = f"{self.weights}: {name}"
        try:
            # Not strict, so that the keys come back as lists and one of them can be named.
            missing, extra = module.load_state_dict(self.part(name), strict=False)
        except RuntimeError as problem:
            # The first line of PyTorch's message is a heading; one for each tensor follows.
            lines = [line.strip() for line in str(problem).splitlines()[1:] if line.strip()]
            lines = lines or [str(problem)]
            config = self.folder / "config.json"
            raise InputError(
                f"{where}: {lines[0]} ({len(lines)} tensors do not fit {config})"
            ) from None
        # load_state_dict names all keys at once; the first is enough to act on.
        for kind, keys in (("is missing tensor", missing), ("has an extra tensor", extra)):
            if keys:
                raise InputError(f"{where} {kind} {keys[0]} ({len(keys)} in all)")
        return module.eval()

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voice packs in voices/."""
        return self.library.names

    def voice(self, name: str) -> "Tensor":
        """Style pack [510, 1, 256] in float32; InputError lists the names when there is no such
        voice.
        """
        import torch

        return torch.from_numpy(self.library.pack(name))

    def blend(self, text: str) -> "Tensor":
        """A voice by name, or a blend such as "af_heart:0.7,am_adam:0.3": [510, 1, 256] float32."""
        import torch

        return torch.from_numpy(self.library.blend(text))

    @property
    def library(self) -> "VoiceLibrary":
        """The voice packs of the folder."""
        from kokoro_ane.core.voices import VoiceLibrary

        return VoiceLibrary(self.folder / "voices")


def _plain(part: "dict[str, Tensor]", where: str) -> "dict[str, Tensor]":
    """Return a state dict in float32 without the `module.` prefix of its keys."""
    plain = {}
    for key, value in part.items():
        if not isinstance(key, str):
            raise InputError(f"{where} has the key {str(key)[:80]}, not a tensor's name")
        plain[key.removeprefix("module.")] = plain_tensor(value, f"{where}.{key}")
    # A file that was allocated and never written reads as zeros.
    if not any(bool(value.any()) for value in plain.values()):
        raise InputError(f"{where} holds nothing but zeros: these are no trained weights")
    return plain
