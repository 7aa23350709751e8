"""One utterance three ways, every seam kept: upstream (dynamic, packed), our PyTorch twin (static, masked), the executed packages.

    spoken = Spoken(ids, style, speed, seed)
    reference = upstream_run(checkpoint, spoken, torch.float32)
    ours = twin_run(checkpoint, spoken, torch.float32, reference)

All give the same names (pipeline.seams.ORDER), time on the last axis, cut to length.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.checkpoint import Checkpoint
from core.contract import COLUMNS_PER_FRAME, DEFAULT_BUCKETS, FRAME_SAMPLES, PROSODY_PER_FRAME, TOKEN_BUCKETS, bucket_for
from core.layers import Mask
from encoder.alignment import AlignmentLimits
from encoder.functions import Buckets, Encoded, encode, torch_functions
from encoder.model import Encoder
from encoder.package import EncoderPackage
from pipeline.upstream import Silence, injected_noise, upstream_of, upstream_seams
from vocoder.decoder import Vocoder
from vocoder.package import VocoderPackage
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise

Seams = dict[str, np.ndarray]
BUCKETS = Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)


@dataclass(frozen=True)
class Spoken:
    """ids with boundary tokens, style [1, 256], speed, and the seed of the noise."""

    ids: tuple[int, ...]
    style: Tensor
    speed: float
    seed: int


@torch.no_grad()
def upstream_run(checkpoint: Checkpoint, spoken: Spoken, dtype: torch.dtype) -> Seams:
    """KModel.forward_with_tokens, unmodified, complex path, with the noise of the seed injected."""
    model = upstream_of(checkpoint).to(dtype)
    noise = gaussian_noise(BUCKETS.frames[-1], spoken.seed)
    with injected_noise(noise):
        seams = upstream_seams(model, torch.tensor([spoken.ids]), spoken.style.to(dtype), spoken.speed)
    width = checkpoint.config.hidden_dim
    kept = {"bert": seams["bert"].transpose(1, 2), "d_en": seams["d_en"].transpose(1, 2), "en": seams["en"][..., :width].transpose(1, 2)}
    names = ("durations", "t_en", "asr", "f0_hz", "energy")
    if not isinstance(model.decoder, Silence):
        names += ("har", "trunk", "waveform")
    arrays = _arrays(kept | {name: seams[name] for name in names})
    return arrays | {"chain": arrays["waveform"]} if "waveform" in arrays else arrays


@torch.no_grad()
def twin_run(checkpoint: Checkpoint, spoken: Spoken, dtype: torch.dtype, reference: Seams) -> Seams:
    """Our PyTorch, padded to the default buckets and masked. Source and vocoder are fed with the reference's own inputs, see `Fed`."""
    encoder, count = Encoder.of(checkpoint).to(dtype), len(spoken.ids)
    kept: dict[str, Tensor] = {}
    for name in ("bert", "d_en"):
        module = getattr(encoder, "bert_encoder" if name == "d_en" else name)
        module.register_forward_hook(lambda _m, _i, out, name=name: kept.__setitem__(name, out[:, :count].transpose(1, 2)))
    limits = AlignmentLimits.of(checkpoint.config, BUCKETS.frames[-1])
    style = spoken.style[:, checkpoint.config.style_dim :].to(dtype)
    encoded = encode(torch_functions(encoder), spoken.ids, style, spoken.speed, BUCKETS, limits)
    if "har" not in reference:
        return _arrays(kept | _encoded(encoded))
    vocoder = Vocoder.of(checkpoint).to(dtype)
    chain, fed = Fed.free(vocoder, encoded, spoken), Fed.forced(vocoder, reference, spoken)
    kept["chain"] = rendered(vocoder, chain, spoken, {})
    kept["waveform"] = rendered(vocoder, fed, spoken, kept)
    return _arrays(kept | _encoded(encoded) | {"har": fed.own_spectrum})


@torch.no_grad()
def package_run(checkpoint: Checkpoint, spoken: Spoken, encoder: EncoderPackage, vocoder: VocoderPackage | None, reference: Seams) -> Seams:
    """The executed artifacts; what they do not give out (bert, d_en, trunk) is left out."""
    encoded = encoder.encode(spoken.ids, spoken.style[:, checkpoint.config.style_dim :], spoken.speed)
    if vocoder is None:
        return _arrays(_encoded(encoded))
    twin, style = Vocoder.of(checkpoint), spoken.style[:, : checkpoint.config.style_dim]
    seams, ways = _arrays(_encoded(encoded)), {"chain": Fed.free(twin, encoded, spoken)}
    if "har" in reference:
        ways["waveform"] = Fed.forced(twin, reference, spoken)
        seams["har"] = ways["waveform"].own_spectrum.numpy()
    for name, fed in ways.items():
        seams[name] = vocoder.render(VocoderInputs(fed.asr.float(), fed.f0_hz.float(), fed.energy.float(), style, fed.spectrum.float()))
    return seams


@dataclass(frozen=True)
class Fed:
    """What a vocoder is given: asr [1, C, F], f0_hz and energy [1, 2F], spectrum [1, 22, 120F + 1]; and the spectrum of our own source.

    `free`: what the run itself computed. `forced`: the reference's, spectrum included. The phase of a nearly silent bin is decided by the
    last bits of F0, and the vocoder reads phases, so a stage can be judged only on equal inputs.
    """

    asr: Tensor
    f0_hz: Tensor
    energy: Tensor
    spectrum: Tensor
    own_spectrum: Tensor

    @classmethod
    def free(cls, vocoder: Vocoder, encoded: Encoded, spoken: Spoken) -> "Fed":
        """Everything computed by the run itself."""
        spectrum = _source(vocoder, encoded.f0_hz, spoken)
        return cls(encoded.asr, encoded.f0_hz, encoded.energy, spectrum, spectrum)

    @classmethod
    def forced(cls, vocoder: Vocoder, reference: Seams, spoken: Spoken) -> "Fed":
        """Everything the reference's; our source runs on its F0."""
        asr, f0_hz, energy, spectrum = (torch.from_numpy(reference[name]) for name in ("asr", "f0_hz", "energy", "har"))
        return cls(asr, f0_hz, energy, spectrum, _source(vocoder, f0_hz, spoken))


def _source(vocoder: Vocoder, f0_hz: Tensor, spoken: Spoken) -> Tensor:
    samples = f0_hz.shape[1] // PROSODY_PER_FRAME * FRAME_SAMPLES
    noise = gaussian_noise(BUCKETS.frames[-1], spoken.seed)[:, :samples]
    return vocoder.generator.m_source(f0_hz, noise).squeeze(2).to(f0_hz.dtype)  # [1, 22, 120F + 1]


def rendered(vocoder: Vocoder, fed: Fed, spoken: Spoken, kept: dict[str, Tensor]) -> Tensor:
    """Waveform [600F], padded to a bucket and masked, in the vocoder's dtype; the trunk goes into `kept`."""
    frames, dtype = fed.asr.shape[-1], vocoder.F0_conv.weight.dtype
    extra, columns = bucket_for(frames, BUCKETS.frames) - frames, COLUMNS_PER_FRAME * frames + 1

    def padded(tensor: Tensor, rate: int) -> Tensor:
        return torch.nn.functional.pad(tensor.to(dtype), (0, rate * extra)).unsqueeze(2)  # [1, C, 1, rate * bucket]

    hook = vocoder.generator.conv_post.register_forward_pre_hook(
        lambda _m, given: kept.__setitem__("trunk", given[0][:, :, 0, :columns])  # [1, C, 120F + 1]
    )
    style = spoken.style[:, : spoken.style.shape[1] // 2]  # the decoder's half
    waveform = vocoder(
        padded(fed.asr, 1),
        padded(fed.f0_hz[:, None], PROSODY_PER_FRAME),
        padded(fed.energy[:, None], PROSODY_PER_FRAME),
        style.to(dtype)[:, :, None, None],
        padded(fed.spectrum, COLUMNS_PER_FRAME),
        Mask.of(padded(torch.ones(1, 1, frames), 1)),
    )
    hook.remove()
    return waveform.flatten()[: FRAME_SAMPLES * frames]


def _encoded(encoded: Encoded) -> dict[str, Tensor]:
    names = {"durations": "durations", "t_en": "text", "en": "en", "asr": "asr", "f0_hz": "f0_hz", "energy": "energy"}
    return {seam: getattr(encoded, field) for seam, field in names.items()}


def _arrays(seams: dict[str, Tensor]) -> Seams:
    return {name: tensor.detach().numpy() for name, tensor in seams.items()}
