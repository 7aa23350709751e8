"""One utterance three ways, every seam kept: upstream (dynamic, packed), our PyTorch (static, masked), the executed packages.

    spoken = Spoken(ids, style, speed, seed)
    reference = upstream_run(checkpoint, spoken, torch.float32)
    ours = torch_run(checkpoint, spoken, torch.float32, reference)

All give the same names (pipeline.seams.ORDER), time on the last axis, cut to length. Ours are the chain's own steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from core.checkpoint import Checkpoint
from core.contract import COLUMNS_PER_FRAME, DEFAULT_BUCKETS, TOKEN_BUCKETS, PackedLayout, bucket_for
from core.steps import Tensors, run
from encoder.alignment import AlignmentLimits
from encoder.functions import Buckets, torch_functions
from encoder.model import Encoder
from encoder.package import EncoderPackage
from encoder.steps import FROM_IDS, EncoderBackend, Encoding
from pipeline.steps import Chain
from pipeline.upstream import Silence, injected_noise, upstream_of, upstream_seams
from vocoder.decoder import Vocoder
from vocoder.package import VocoderPackage
from vocoder.packing import PackedVocoder, VocoderInputs, pack
from vocoder.source import gaussian_noise
from vocoder.steps import SOURCE, VOCODER, VocoderBackend
from vocoder.steps import STEPS as VOCODER_STEPS

Seams = dict[str, np.ndarray]
SOURCE_STEPS = tuple(step for step in VOCODER_STEPS if step.stage == SOURCE)
RENDER_STEPS = tuple(step for step in VOCODER_STEPS if step.stage == VOCODER)
BUCKETS = Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)
OF_THE_ENCODER = ("durations", "text", "frames", "asr", "f0_hz", "energy")


@dataclass(frozen=True)
class Spoken:
    """ids with boundary tokens, style [1, 256], speed, and the seed of the noise."""

    ids: tuple[int, ...]
    style: Tensor
    speed: float
    seed: int

    def given(self, dtype: torch.dtype) -> Tensors:
        """What the steps start from, in the dtype to compute in."""
        half = self.style.shape[1] // 2
        style = self.style.to(dtype).numpy()
        start: Tensors = {"ids": np.array(self.ids, np.int32), "speed": np.array([self.speed], np.float32)}
        start["seed"] = np.array([self.seed], np.int64)
        return start | {"style_decoder": style[:, :half], "style_prosody": style[:, half:]}


class TorchBackend:
    """A VocoderBackend: the module that is exported, padded to the default buckets and masked, in any dtype; the trunk is kept."""

    arrays = False

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        self.source, self.packed = vocoder.generator.m_source, PackedVocoder(vocoder, PackedLayout(hidden_dim)).eval()
        self.buckets = BUCKETS.frames
        self.trunk: Tensor | None = None
        vocoder.generator.conv_post.register_forward_pre_hook(self._keep)

    def _keep(self, _: torch.nn.Module, given: tuple[Tensor, ...]) -> None:
        self.trunk = given[0]  # [1, C, 1, 120 B + 1]

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """features [1, channels, 1, B + 1]."""
        return pack(inputs, bucket_for(inputs.frames, BUCKETS.frames))

    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """Waveform [600F]."""
        return self.packed(features, style).flatten()[: 5 * COLUMNS_PER_FRAME * frames]


@torch.no_grad()
def upstream_run(checkpoint: Checkpoint, spoken: Spoken, dtype: torch.dtype) -> Seams:
    """KModel.forward_with_tokens, unmodified, complex path, with the noise of the seed injected."""
    model = upstream_of(checkpoint).to(dtype)
    with injected_noise(partial(gaussian_noise, seed=spoken.seed), BUCKETS.frames[-1]):
        seams = upstream_seams(model, torch.tensor([spoken.ids]), spoken.style.to(dtype), spoken.speed)
    width = checkpoint.config.hidden_dim
    kept = {name: seams[name].transpose(1, 2) for name in ("bert", "bert_encoder")}
    kept["frames"] = seams["frames"][..., :width].transpose(1, 2)  # without the style that upstream appends
    names: tuple[str, ...] = ("durations", "text", "asr", "f0_hz", "energy")
    if not isinstance(model.decoder, Silence):
        names += ("spectrum", "trunk", "waveform")
    arrays = _arrays(kept | {name: seams[name] for name in names})
    return arrays | {"chain": arrays["waveform"]} if "waveform" in arrays else arrays


@torch.no_grad()
def torch_run(checkpoint: Checkpoint, spoken: Spoken, dtype: torch.dtype, reference: Seams) -> Seams:
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
        return _arrays(kept) | _encoded(run(FROM_IDS, Encoding(backend), spoken.given(dtype)))
    vocoder = TorchBackend(Vocoder.of(checkpoint).to(dtype), checkpoint.config.hidden_dim)
    seams = chain_run(_chain(backend, vocoder), spoken, dtype, reference)
    columns = seams["spectrum"].shape[-1]
    assert vocoder.trunk is not None  # the chain has just run
    return _arrays(kept) | seams | {"trunk": vocoder.trunk[:, :, 0, :columns].numpy()}


@torch.no_grad()
def package_run(checkpoint: Checkpoint, spoken: Spoken, encoder: EncoderPackage, vocoder: VocoderPackage | None, reference: Seams) -> Seams:
    """The executed artifacts; what they do not give out (bert, bert_encoder, trunk) is left out."""
    if vocoder is None:
        return _encoded(run(FROM_IDS, Encoding(encoder.backend), spoken.given(torch.float32)))
    return chain_run(_chain(encoder.backend, vocoder), spoken, torch.float32, reference)


@torch.no_grad()
def runtime_run(spoken: Spoken, encoder: EncoderBackend, vocoder: VocoderBackend, reference: Seams) -> Seams:
    """Any runtime of pipeline.runtimes, opened."""
    return chain_run(_chain(encoder, vocoder), spoken, torch.float32, reference)


def chain_run(chain: Chain, spoken: Spoken, dtype: torch.dtype, reference: Seams) -> Seams:
    """The chain on its own tensors, then source and vocoder again on the reference's, spectrum included.

    The phase of a nearly silent bin is decided by the last bits of F0, and the vocoder reads phases, so a stage can be judged only on equal
    inputs. The second run comes last: what a backend keeps (the trunk) is of that.
    """
    given = spoken.given(dtype)
    free = run((*FROM_IDS, *VOCODER_STEPS), chain, given)
    found = _encoded(free) | {"chain": free["waveform"]}
    if "spectrum" not in reference:
        return found
    theirs = {name: reference[name].astype(given["style_decoder"].dtype) for name in ("asr", "f0_hz", "energy")}
    source = run(SOURCE_STEPS, chain, given | theirs)
    theirs["spectrum"] = reference["spectrum"].astype(given["style_decoder"].dtype)
    return found | {"spectrum": source["spectrum"], "waveform": run(RENDER_STEPS, chain, given | theirs)["waveform"]}


def _chain(encoder: EncoderBackend, vocoder: VocoderBackend) -> Chain:
    return Chain({}, np.zeros(0, np.float32), encoder, vocoder)


def _encoded(tensors: Tensors) -> Seams:
    frames = tensors["asr"].shape[-1]
    found = {name: tensors[name] for name in OF_THE_ENCODER}
    return found | {"text": found["text"][:, :, 0], "frames": found["frames"][:, :-1, 0, :frames]}  # without the mask and the padding


def _arrays(seams: Mapping[str, Tensor]) -> Seams:
    return {name: tensor.detach().numpy() for name, tensor in seams.items()}
