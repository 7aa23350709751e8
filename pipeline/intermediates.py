"""One utterance three ways, compared where tensors cross from stage to stage: upstream (dynamic,
packed), our PyTorch (static, masked), the executed packages; and the first stage that is bad.

    reference = upstream_run(checkpoint, said, torch.float32)
    ours = torch_run(checkpoint, said, torch.float32, reference)
    rows = compared(reference, ours, limits=FLOAT32)
    first_bad(rows)                     # its name, or None

All runs give the same names (ORDER), time on the last axis, cut to length; ours are the chain's own
steps. An intermediate behind a bad one is not judged: it differs because its input does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.contract import (
    COLUMNS_PER_FRAME,
    DEFAULT_BUCKETS,
    TOKEN_BUCKETS,
    PackedLayout,
    bucket_for,
)
from kokoro_ane.core.steps import Tensors, run_steps
from kokoro_ane.encoder.encoder_steps import (
    FROM_IDS,
    AlignmentLimits,
    Buckets,
    EncoderBackend,
    Encoding,
)
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.pipeline.chain import Chain, rectangular
from kokoro_ane.pipeline.upstream import (
    Silence,
    injected_noise,
    upstream_intermediates,
    upstream_of,
)
from kokoro_ane.vocoder.decoder import PackedVocoder, Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs, pack
from kokoro_ane.vocoder.source import gaussian_noise
from kokoro_ane.vocoder.vocoder_steps import SOURCE, VOCODER, VocoderBackend
from kokoro_ane.vocoder.vocoder_steps import STEPS as VOCODER_STEPS

ORDER = (
    "bert",
    "bert_encoder",
    "durations",
    "text",
    "frames",
    "f0_hz",
    "energy",
    "asr",
    "spectrum",
    "trunk",
    "waveform",
    "chain",
)
# Intermediates each one is computed from; one is judged only when these hold.
FROM = {
    "bert_encoder": ("bert",),
    "durations": ("bert_encoder",),
    "frames": ("durations", "bert_encoder"),
    "f0_hz": ("frames",),
    "energy": ("frames",),
    "asr": ("durations", "text"),
    "waveform": ("trunk",),
}
# of the reference's largest value: where the difference first passes it, the two part
PARTING = 1e-3
GOOD, BAD, AFTER, ABSENT, REPORTED = "good", "BAD", "behind a bad one", "not compared", "reported"

# dB. spectrum, trunk and waveform run on upstream's own inputs; `chain` is the waveform of the
# whole chain on its own inputs, and has no limit: the last bits of F0 decide the phase of nearly
# silent bins. Upstream sums the source's phase in float32: 40 for its spectrum.
FLOAT64 = dict.fromkeys(ORDER, 80.0)
FLOAT32 = FLOAT64 | {"spectrum": 40.0}
# fp16 there: docs/encoder.md, docs/vocoder.md
PACKAGE = FLOAT32 | {"text": 40.0, "asr": 40.0, "energy": 40.0, "waveform": 40.0}

Intermediates = dict[str, np.ndarray]
SOURCE_STEPS = tuple(step for step in VOCODER_STEPS if step.stage == SOURCE)
RENDER_STEPS = tuple(step for step in VOCODER_STEPS if step.stage == VOCODER)
BUCKETS = Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)
OF_THE_ENCODER = ("durations", "text", "frames", "asr", "f0_hz", "energy")


@dataclass(frozen=True)
class UtteranceInputs:
    """ids with boundary tokens, style [1, 256], speed, and the seed of the noise."""

    ids: tuple[int, ...]
    style: Tensor
    speed: float
    seed: int

    def given(self, dtype: torch.dtype) -> Tensors:
        """What the steps start from, in the dtype to compute in."""
        half = self.style.shape[1] // 2
        style = self.style.to(dtype).numpy()
        start: Tensors = {
            "ids": np.array(self.ids, np.int32),
            "speed": np.array([self.speed], np.float32),
        }
        start["seed"] = np.array([self.seed], np.int64)
        return start | {"style_decoder": style[:, :half], "style_prosody": style[:, half:]}


class TorchBackend:
    """A VocoderBackend: the module that is exported, padded to the default buckets and masked, in
    any dtype; the trunk is kept.
    """

    arrays = False

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        self.source, self.packed = (
            vocoder.generator.m_source.host,
            PackedVocoder(vocoder, PackedLayout(hidden_dim)).eval(),
        )
        self.buckets = BUCKETS.frames
        self.trunk: Tensor | None = None
        vocoder.generator.conv_post.register_forward_pre_hook(self._keep)

    def _keep(self, _: torch.nn.Module, given: tuple[Tensor, ...]) -> None:
        self.trunk = given[0]  # [1, C, 1, 120 B + 1]

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """features [1, channels, 1, B + 1]."""
        return torch.from_numpy(pack(inputs, bucket_for(inputs.frames, BUCKETS.frames)))

    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """Waveform [600F]."""
        return self.packed(features, style).flatten()[: 5 * COLUMNS_PER_FRAME * frames]


@torch.no_grad()
def upstream_run(
    checkpoint: Checkpoint, spoken: UtteranceInputs, dtype: torch.dtype
) -> Intermediates:
    """KModel.forward_with_tokens, unmodified, complex path, with the noise of the seed injected."""
    model = upstream_of(checkpoint).to(dtype)
    with injected_noise(
        lambda frames: torch.from_numpy(gaussian_noise(frames, spoken.seed)), BUCKETS.frames[-1]
    ):
        tensors = upstream_intermediates(
            model, torch.tensor([spoken.ids]), spoken.style.to(dtype), spoken.speed
        )
    width = checkpoint.config.hidden_dim
    kept = {name: tensors[name].transpose(1, 2) for name in ("bert", "bert_encoder")}
    # without the style that upstream appends
    kept["frames"] = tensors["frames"][..., :width].transpose(1, 2)
    names: tuple[str, ...] = ("durations", "text", "asr", "f0_hz", "energy")
    if not isinstance(model.decoder, Silence):
        names += ("spectrum", "trunk", "waveform")
    arrays = _arrays(kept | {name: tensors[name] for name in names})
    return arrays | {"chain": arrays["waveform"]} if "waveform" in arrays else arrays


@torch.no_grad()
def torch_run(
    checkpoint: Checkpoint, spoken: UtteranceInputs, dtype: torch.dtype, reference: Intermediates
) -> Intermediates:
    """Our PyTorch, padded to the default buckets and masked."""
    encoder, count = Encoder.of(checkpoint).to(dtype), len(spoken.ids)
    kept: dict[str, Tensor] = {}

    def keep(name: str, _module: torch.nn.Module, _given: tuple, out: Tensor) -> None:
        kept[name] = out[:, :count].transpose(1, 2)

    for name in ("bert", "bert_encoder"):
        getattr(encoder, name).register_forward_hook(partial(keep, name))
    limits = AlignmentLimits.of(checkpoint.config, BUCKETS.frames[-1])
    backend = EncoderBackend(torch_functions(encoder), limits, BUCKETS)
    if "spectrum" not in reference:
        return _arrays(kept) | _encoded(run_steps(FROM_IDS, Encoding(backend), spoken.given(dtype)))
    vocoder = TorchBackend(Vocoder.of(checkpoint).to(dtype), checkpoint.config.hidden_dim)
    tensors = chain_run(_chain(backend, vocoder), spoken, dtype, reference)
    columns = tensors["spectrum"].shape[-1]
    assert vocoder.trunk is not None  # the chain has just run
    return _arrays(kept) | tensors | {"trunk": vocoder.trunk[:, :, 0, :columns].numpy()}


@torch.no_grad()
def executed_run(
    spoken: UtteranceInputs,
    encoder: EncoderBackend,
    vocoder: VocoderBackend | None,
    reference: Intermediates,
) -> Intermediates:
    """Packages or files, opened; what they do not give out (bert, bert_encoder, trunk) is left out,
    and without a vocoder its own.
    """
    if vocoder is None:
        return _encoded(run_steps(FROM_IDS, Encoding(encoder), spoken.given(torch.float32)))
    return chain_run(_chain(encoder, vocoder), spoken, torch.float32, reference)


def chain_run(
    chain: Chain, spoken: UtteranceInputs, dtype: torch.dtype, reference: Intermediates
) -> Intermediates:
    """The chain on its own tensors, then source and vocoder again on the reference's, spectrum
    included.

    The phase of a nearly silent bin is decided by the last bits of F0, and the vocoder reads
    phases, so a stage can be judged only on equal inputs. The second run comes last: what a backend
    keeps (the trunk) is of that.
    """
    given = spoken.given(dtype)
    free = run_steps((*FROM_IDS, *VOCODER_STEPS), chain, given)
    found = _encoded(free) | {"chain": free["waveform"]}
    if "spectrum" not in reference:
        return found
    theirs = {
        name: reference[name].astype(given["style_decoder"].dtype)
        for name in ("asr", "f0_hz", "energy")
    }
    source = run_steps(SOURCE_STEPS, chain, given | theirs)
    theirs["spectrum"] = reference["spectrum"].astype(given["style_decoder"].dtype)
    return found | {
        "spectrum": source["spectrum"],
        "waveform": run_steps(RENDER_STEPS, chain, given | theirs)["waveform"],
    }


def _chain(encoder: EncoderBackend, vocoder: VocoderBackend) -> Chain:
    return Chain({}, np.zeros(0, np.float32), encoder, vocoder)


def _encoded(tensors: Tensors) -> Intermediates:
    frames = tensors["asr"].shape[-1]
    found = {name: tensors[name] for name in OF_THE_ENCODER}
    # without the mask and the padding
    return found | {"text": found["text"][:, :, 0], "frames": found["frames"][:, :-1, 0, :frames]}


def _arrays(tensors: Mapping[str, Tensor]) -> Intermediates:
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


@dataclass(frozen=True)
class IntermediateRow:
    """One intermediate of one run. `parts_at` is the first place on the last axis (token, frame,
    sample) where the two part.

    None: not compared (all figures), equal (snr_db), constant (correlation), nowhere (parts_at).
    """

    name: str
    verdict: str
    limit_db: float
    snr_db: float | None = None
    max_abs: float | None = None
    correlation: float | None = None
    parts_at: int | None = None
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        """For a table."""
        if self.max_abs is None:
            return (self.name, "", "", "", "", f"{self.verdict}: {self.note}")
        snr = "equal" if self.snr_db is None else f"{self.snr_db:.1f} dB"
        correlation = "" if self.correlation is None else f"{self.correlation:.6f}"
        return (
            self.name,
            f"{self.max_abs:.2e}",
            snr,
            correlation,
            "" if self.parts_at is None else str(self.parts_at),
            self.verdict,
        )


def compared(
    reference: Mapping[str, np.ndarray],
    other: Mapping[str, np.ndarray],
    limits: Mapping[str, float],
) -> list[IntermediateRow]:
    """One row an intermediate, in the order of the data's way. Durations must be equal; everything
    else keeps its limit in dB.
    """
    rows: dict[str, IntermediateRow] = {}
    for name in ORDER:
        upstream_of_it = [rows[source].verdict for source in FROM.get(name, ()) if source in rows]
        behind = any(verdict in (BAD, AFTER) for verdict in upstream_of_it)
        rows[name] = _row(name, reference.get(name), other.get(name), limits[name], behind)
    return list(rows.values())


def _row(
    name: str, wanted: np.ndarray | None, got: np.ndarray | None, limit: float, behind: bool
) -> IntermediateRow:
    if wanted is None or got is None:
        return IntermediateRow(
            name, ABSENT, limit, note="upstream has none" if wanted is None else "not given out"
        )
    if wanted.shape != got.shape:
        return IntermediateRow(
            name,
            REPORTED if name == "chain" else AFTER if behind else BAD,
            limit,
            note=f"shape {list(got.shape)}, upstream's {list(wanted.shape)}",
        )
    if name == "spectrum":
        wanted, got = rectangular(wanted), rectangular(got)
    wanted, got = wanted.astype(np.float64), got.astype(np.float64)
    difference, snr = np.abs(wanted - got), snr_db(wanted, got)
    good = not difference.any() if name == "durations" else snr >= limit
    verdict = REPORTED if name == "chain" else GOOD if good else AFTER if behind else BAD
    places = np.flatnonzero(
        (difference > PARTING * np.abs(wanted).max()).reshape(-1, wanted.shape[-1]).any(axis=0)
    )
    return IntermediateRow(
        name,
        verdict=verdict,
        limit_db=limit,
        snr_db=snr if np.isfinite(snr) else None,
        max_abs=float(difference.max()),
        correlation=_correlation(wanted, got),
        parts_at=int(places[0]) if len(places) else None,
    )


def _correlation(wanted: np.ndarray, got: np.ndarray) -> float | None:
    spread = wanted.std() * got.std()
    return (
        float(((wanted - wanted.mean()) * (got - got.mean())).mean() / spread) if spread else None
    )


def first_bad(rows: list[IntermediateRow]) -> str | None:
    """The first stage that is bad by itself."""
    return next((row.name for row in rows if row.verdict == BAD), None)
