"""Kokoro's config.json as frozen dataclasses: unknown keys and impossible shapes are errors.

    config = KokoroConfig.load(Path("config.json"))

Upstream hard-codes three decoder widths (1024, 64 and 512); here the optional section `decoder`
names them, and upstream's are the default.
"""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kokoro_ane.core.contract import (
    FRAME_SAMPLES,
    HOP_SAMPLES,
    N_FFT,
    PROSODY_PER_FRAME,
    VOICE_SHAPE,
)
from kokoro_ane.core.data_files import check_name, conform, fill_defaults, read_json
from kokoro_ane.core.errors import InputError
from kokoro_g2p import MAX_PHONEMES

# far beyond any checkpoint, far below what hangs
MAX_WIDTH, MAX_LAYERS, MAX_SYMBOLS = 16_384, 128, 65_536
# of this machine's memory
MAX_BYTES = 4 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 5


@dataclass(frozen=True)
class IstftNetConfig:
    """Section `istftnet`: the generator's rates, kernels and widths."""

    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    upsample_initial_channel: int
    resblock_kernel_sizes: tuple[int, ...]
    resblock_dilation_sizes: tuple[tuple[int, ...], ...]
    gen_istft_n_fft: int
    gen_istft_hop_size: int

    def __post_init__(self) -> None:
        # Every length in the contract is counted in frames of that many samples.
        samples = math.prod(self.upsample_rates) * self.gen_istft_hop_size * PROSODY_PER_FRAME
        _require(
            samples == FRAME_SAMPLES,
            f"istftnet.upsample_rates {self.upsample_rates} give {samples} samples a frame, not"
            f" {FRAME_SAMPLES}",
        )
        fft = (self.gen_istft_n_fft, self.gen_istft_hop_size)
        _require(
            fft == (N_FFT, HOP_SAMPLES),
            f"istftnet n_fft and hop are {fft}, not {(N_FFT, HOP_SAMPLES)}",
        )
        _require(
            len(self.upsample_rates) == len(self.upsample_kernel_sizes),
            "istftnet.upsample_rates and upsample_kernel_sizes differ in length",
        )
        _require(
            len(self.resblock_kernel_sizes) == len(self.resblock_dilation_sizes),
            "istftnet.resblock_* lists differ in length",
        )
        _require(
            all(len(d) == 3 for d in self.resblock_dilation_sizes),
            "istftnet.resblock_dilation_sizes: three dilations a block are needed",
        )
        for rate, kernel in zip(self.upsample_rates, self.upsample_kernel_sizes, strict=True):
            # An odd difference could not be cut alike at both ends, and the length would be off by
            # one.
            fits = 1 < rate <= kernel and (kernel - rate) % 2 == 0
            needed = (
                "a rate of 2 or more is needed, and a kernel as long or longer by an even number"
            )
            _require(
                fits, f"istftnet.upsample_kernel_sizes has {kernel} for a rate of {rate}: {needed}"
            )
        even = next((kernel for kernel in self.resblock_kernel_sizes if kernel % 2 == 0), None)
        _require(
            even is None,
            f"istftnet.resblock_kernel_sizes has {even}: only odd kernels keep the length",
        )
        stages = len(self.upsample_rates)
        _require(
            # Every stage halves the channels, and at least one has to be left.
            self.upsample_initial_channel >= 2**stages,
            f"istftnet.upsample_initial_channel {self.upsample_initial_channel} cannot be halved"
            f" {stages} times",
        )


@dataclass(frozen=True)
class PlbertConfig:
    """Section `plbert`: the ALBERT of the encoder."""

    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    num_hidden_layers: int
    dropout: float = 0.1


@dataclass(frozen=True)
class DecoderConfig:
    """Section `decoder` (ours, optional): the widths that upstream writes as literals."""

    hidden_dim: int = 1024
    asr_res_dim: int = 64


@dataclass(frozen=True)
class KokoroConfig:
    """config.json in all. `name` and `releasable` are ours. core/checkpoint.py says by value what
    may be released; this can only refuse.
    """

    istftnet: IstftNetConfig
    hidden_dim: int
    style_dim: int
    n_token: int
    text_encoder_kernel_size: int
    plbert: PlbertConfig
    n_layer: int
    max_dur: int
    vocab: dict[str, int]
    dim_in: int = 64
    dropout: float = 0.2
    max_conv_dim: int = 512
    multispeaker: bool = True
    n_mels: int = 80
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    name: str = ""  # not given: the checkpoint's folder gives it one (core/checkpoint.py)
    releasable: bool = True

    def __post_init__(self) -> None:
        _require(
            max(self.n_token, len(self.vocab)) <= MAX_SYMBOLS,
            f"n_token or vocab holds more than {MAX_SYMBOLS} symbols",
        )
        outside = next(
            (
                f"{symbol!r}: {number}"
                for symbol, number in self.vocab.items()
                if not 0 <= number < self.n_token
            ),
            None,
        )
        _require(outside is None, f"vocab gives {outside}, outside n_token {self.n_token}")
        layers = max(self.n_layer, self.plbert.num_hidden_layers)
        _require(
            layers <= MAX_LAYERS,
            f"n_layer or plbert.num_hidden_layers is {layers}, at most {MAX_LAYERS}",
        )
        _require(
            self.plbert.hidden_size % self.plbert.num_attention_heads == 0,
            f"plbert.hidden_size {self.plbert.hidden_size} is no multiple of num_attention_heads"
            f" {self.plbert.num_attention_heads}",
        )
        # Sizes that no machine holds would hang before any tensor is compared.
        needed = 4 * self.fewest_weights
        _require(
            needed <= MAX_BYTES,
            f"weights of these sizes take {needed / 1e9:.0f} GB, this machine has"
            f" {MAX_BYTES / 1e9:.0f} to give",
        )
        _require(
            2 * self.style_dim == VOICE_SHAPE[-1],
            f"style_dim is {self.style_dim}; a voice's rows hold two styles of 128",
        )
        _require(
            self.hidden_dim % 2 == 0,
            f"hidden_dim is {self.hidden_dim}: both directions of an LSTM share it, so it is even",
        )
        kernel = self.text_encoder_kernel_size
        positions = self.plbert.max_position_embeddings
        _require(
            kernel % 2 == 1,
            f"text_encoder_kernel_size is {kernel}: only odd kernels keep the length",
        )
        longest = MAX_PHONEMES + 2
        _require(
            positions >= longest,
            f"plbert.max_position_embeddings is {positions}, an utterance takes up to {longest}",
        )
        # A phoneme string is read character by character.
        odd = next((symbol for symbol in self.vocab if len(symbol) != 1), None)
        _require(
            self.vocab != {} and odd is None,
            f"vocab holds {'nothing' if odd is None else repr(odd[:20])}: each key is one"
            " character",
        )

    @property
    def vocoder_sizes(self) -> tuple[Any, ...]:
        """All that decides the shapes of the vocoder's weights."""
        return self.istftnet, self.hidden_dim, self.style_dim, self.decoder

    @property
    def fewest_weights(self) -> int:
        """A lower bound of how many weights the sizes ask for: the largest matrices only."""
        bert = self.plbert
        net = self.istftnet
        text = (
            self.n_layer * self.hidden_dim**2 * self.text_encoder_kernel_size
            + (self.n_token + self.max_dur) * self.hidden_dim
        )
        attention = bert.hidden_size * (
            4 * bert.hidden_size + 2 * bert.intermediate_size + bert.max_position_embeddings
        )
        widest = max((*net.resblock_kernel_sizes, *net.upsample_kernel_sizes))
        return (
            text
            + attention
            + 9 * self.decoder.hidden_dim**2
            + widest * net.upsample_initial_channel**2 // 4
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any], where: str) -> "KokoroConfig":
        """Build from parsed JSON; `where` names the file in errors."""
        conform(data, cls, where)
        try:
            if "name" in data:
                check_name(data["name"], "name")
            _require_sizes(data, "")
            return fill_defaults(cls, data, where)
        except InputError as problem:
            raise InputError(f"{where}: {problem}") from None

    @classmethod
    def load(cls, path: Path) -> "KokoroConfig":
        """Read config.json. Raises InputError for a missing file, bad JSON, an unknown or missing
        key, or other shapes.
        """
        data = read_json(path, "a checkpoint folder holds config.json, one .pth file and voices/")
        return cls.from_dict(data, str(path))


def not_releasable(name: str) -> str:
    """Why nothing of that checkpoint may be released, and what could be, for a reader of a table, a
    report or a model card.
    """
    if name == "kokoro-int8":
        return (
            "kokoro-int8 has rounded weights: for trying and testing; release from the hub's"
            " (CHECKPOINT=hexgrad/Kokoro-82M)"
        )
    return (
        f"{name} is not releasable: its weights, config or voices are not on the list"
        " (core/data/releasable.json), or it is fp32"
    )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)


def _require_sizes(value: Any, name: str) -> None:
    """Every whole number but a symbol's id is a size: above 0, no wider than MAX_WIDTH."""
    if isinstance(value, dict):
        for key, item in value.items():
            # The ids of symbols begin at 0 and are no sizes.
            if key != "vocab":
                _require_sizes(item, f"{name}.{key}".removeprefix("."))
    elif isinstance(value, list):
        _require(value != [], f"{name} is empty")
        for item in value:
            _require_sizes(item, name)
    # type, not isinstance: a bool is no size.
    elif type(value) is int:
        _require(
            0 < value <= MAX_WIDTH,
            f"{name} is {value}, not a positive whole number up to {MAX_WIDTH}",
        )
