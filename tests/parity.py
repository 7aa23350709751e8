"""Upstream beside ours, exact length beside padded, with random weights: what the parity tests
compare.

theirs, ours = both_renders(upstream, vocoder, frames=40, dtype=torch.float64)
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import COLUMNS_PER_FRAME, FRAME_SAMPLES
from kokoro_ane.core.layers import Mask
from kokoro_ane.encoder.encoder_steps import (
    AlignmentLimits,
    Buckets,
    Encoded,
    EncoderBackend,
    encode,
)
from kokoro_ane.encoder.functions import PARTS, Encoder, make_torch_functions
from kokoro_ane.pipeline.upstream import (
    Silence,
    collect_intermediates,
    empty_model,
    import_upstream,
    inject_noise,
)
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.scaled_conv import ScaledConv
from kokoro_ane.vocoder.source import draw_noise
from tests.random_checkpoint import enliven_encoder

__all__ = [
    "inject_noise",
    "import_upstream",
    "upstream_decoder",
    "upstream_model",
    "collect_intermediates",
]


def upstream_decoder(config, seed):
    """Upstream's Decoder (complex path) with random weights; alphas are drawn in 0.05 to 2 so that
    Snake's quotient matters.
    """
    torch.manual_seed(seed)
    decoder = (
        import_upstream("istftnet")
        .Decoder(
            config.hidden_dim,
            config.style_dim,
            80,
            **asdict(config.istftnet),
            disable_complex=False,
        )
        .eval()
    )
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if ".alpha" in name:
                parameter.uniform_(0.05, 2.0)
            elif name.endswith("weight_g"):
                parameter.mul_(torch.empty_like(parameter).uniform_(0.5, 1.5))
        scale = decoder.generator.conv_post.weight_g
        scale.mul_(0.5 / scale.mean())
    return decoder


def upstream_model(config, seed, style, decoder=True):
    """Upstream's KModel with random weights that speak under `style` [1, 256].

    `decoder=False` puts one in its place that returns silence, for the encoder's seams alone.
    """
    torch.manual_seed(seed)
    model = empty_model(config)
    generator, model.decoder = model.decoder, Silence()
    enliven_encoder(model)
    _spread_durations(model, style)
    if decoder:
        model.decoder = generator
    return model


@torch.no_grad()
def _spread_durations(model, style):
    """Turn the duration projection to where its input varies most, so that symbols differ; a random
    one gives all the same length.
    """
    projection, seen = model.predictor.duration_proj.linear_layer, []
    hook = projection.register_forward_pre_hook(lambda _m, inputs: seen.append(inputs[0][0]))
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, model.bert.config.vocab_size, (1, 200), generator=generator)
    model.forward_with_tokens(ids, style)
    hook.remove()
    middle = seen[0].mean(dim=0)  # [C]
    varied = torch.linalg.svd(seen[0] - middle, full_matrices=False)
    # two standard deviations of logit to one of input
    direction = varied.Vh[0] * (2.0 * len(seen[0]) ** 0.5 / varied.S[0])
    projection.weight.copy_(projection.weight + direction)
    # the first frames are likely, the last are rare
    steps = torch.linspace(3.0, -12.0, len(projection.bias))
    projection.bias.copy_(steps - projection.weight @ middle)


STYLES = Path(__file__).parent / "data" / "kokoro_styles.npz"


def real_styles():
    """Six rows of real Kokoro voices, [1, 256] each; the decoder's half comes first."""
    with np.load(STYLES) as styles:
        return [torch.from_numpy(styles[name]).reshape(1, 256).float() for name in sorted(styles)]


def random_features(frames, hidden):
    """Speech-like ranges: unvoiced for the first third, F0 80 to 280 Hz after it, the style of a
    real Kokoro voice.
    """
    generator = torch.Generator().manual_seed(frames)
    f0_hz = torch.rand(1, 2 * frames, generator=generator) * 200 + 80
    f0_hz[:, : 2 * frames // 3] = 0
    return {
        "asr": torch.randn(1, hidden, frames, generator=generator),
        "f0_hz": f0_hz,
        "energy": torch.randn(1, 2 * frames, generator=generator),
        "style": real_styles()[frames % 6][:, :128],
    }


def random_inputs(vocoder, frames, hidden):
    """The same with the spectrum of the vocoder's own source, noise from seed 0."""
    features = random_features(frames, hidden)
    spectrum = vocoder.generator.m_source.compute_spectrum(
        features["f0_hz"], draw_noise(frames, seed=0)
    )
    return VocoderInputs(**features, spectrum=spectrum)


@torch.no_grad()
def both_renders(upstream, vocoder, hidden, frames, dtype):
    """Upstream's and our waveform [600F] in `dtype`, the same noise injected into both."""
    x = {name: value.to(dtype) for name, value in random_features(frames, hidden).items()}
    noise = draw_noise(frames, seed=1)
    upstream, vocoder = upstream.to(dtype), vocoder.to(dtype)
    with inject_noise(lambda _frames: torch.from_numpy(noise)):
        theirs = upstream(x["asr"], x["f0_hz"].clone(), x["energy"], x["style"])
    spectrum = vocoder.generator.m_source.compute_spectrum(x["f0_hz"], noise)[:, :, None]
    asr, f0, energy = x["asr"][:, :, None], x["f0_hz"][:, None, None], x["energy"][:, None, None]
    return theirs.flatten().numpy(), vocoder(
        asr, f0, energy, x["style"][:, :, None, None], spectrum
    ).flatten().numpy()


@torch.no_grad()
def padded_render(vocoder, x, bucket, masked=True):
    """Render in `bucket` frames with noise five times as loud as the features in the padding:
    [600F].
    """
    extra = bucket - x.frames
    generator = torch.Generator().manual_seed(bucket)

    def fill(tensor, length):
        return torch.cat(
            [tensor, 5 * torch.randn(*tensor.shape[:-1], length, generator=generator)], dim=-1
        )

    mask = torch.ones(1, 1, 1, bucket)
    mask[..., x.frames :] = 0 if masked else 1
    asr, f0, energy = (
        fill(x.asr[:, :, None], extra),
        fill(x.f0_hz[:, None, None], 2 * extra),
        fill(x.energy[:, None, None], 2 * extra),
    )
    spectrum = fill(x.spectrum[:, :, None], COLUMNS_PER_FRAME * extra)
    return (
        vocoder(asr, f0, energy, x.style[:, :, None, None], spectrum, Mask.from_values(mask))
        .flatten()[: FRAME_SAMPLES * x.frames]
        .numpy()
    )


def input_factor(layer, x):
    """What a prepared layer multiplies its input by before the product: [1, C or 1, R or 1, W or
    1].
    """
    factor = torch.ones(1, 1, 1, 1)
    if isinstance(layer, ScaledConv):
        factor = factor if layer.reciprocal is None else layer.reciprocal
        if layer.envelope is not None:
            factor = factor * torch.exp(-layer.envelope(x * factor))
    return factor


SPEEDS = (1.0, 1.0, 0.8, 1.3)
SEAMS = ("hidden", "text", "asr", "f0_hz", "energy")


@dataclass(frozen=True)
class Case:
    """ids with boundary tokens, style [1, 256] float32, speed, padding in tokens and in frames."""

    ids: tuple[int, ...]
    style: torch.Tensor
    speed: float
    extra_tokens: int
    extra_frames: int


def cases(texts, seed):
    """`texts` cases; lengths spread evenly over the logarithm of 1 to 510, the two ends first."""
    generator, styles = torch.Generator().manual_seed(seed), real_styles()
    for index in range(texts):
        drawn = torch.rand(3, generator=generator)
        length = (510, 1)[index] if index < 2 else round(510 ** float(drawn[0]))
        symbols = torch.randint(1, 178, (length,), generator=generator).tolist()
        extra_tokens = round(float(drawn[1]) ** 2 * (510 - length))
        yield Case(
            (0, *symbols, 0),
            styles[index % 6],
            SPEEDS[index % 4],
            extra_tokens,
            round(float(drawn[2]) * 400),
        )


def both_models(config, seed, decoder=False):
    """Upstream's KModel with random weights, and ours with the same."""
    upstream = upstream_model(config, seed, real_styles()[0], decoder)
    encoder = Encoder(KokoroConfig.from_dict(config, "bench")).eval()
    for name in PARTS:
        getattr(encoder, name).load_state_dict(
            {key: value.clone() for key, value in getattr(upstream, name).state_dict().items()}
        )
    return upstream, encoder


def encoded_by_upstream(upstream, case):
    """Upstream's seams, dynamic and packed, in the model's dtype; it gives no `raw`."""
    style = case.style.to(next(upstream.parameters()).dtype)
    seams = collect_intermediates(upstream, torch.tensor([case.ids]), style, case.speed)
    fields = [name for name in Encoded.__dataclass_fields__ if name != "raw"]
    return Encoded(seams["durations"], **{name: seams[name] for name in fields})


def encoded_by_us(encoder, case, durations):
    """Ours, static and masked, padded as the case says; `durations` (upstream's) give the frame
    padding its length.
    """
    total = int(durations.sum())
    buckets = Buckets(
        (len(case.ids) + case.extra_tokens,), (total + case.extra_frames + len(case.ids),)
    )
    style = case.style[:, 128:].to(next(encoder.parameters()).dtype)
    backend = EncoderBackend(
        make_torch_functions(encoder), AlignmentLimits(10_000, 1_000_000), buckets
    )
    return encode(backend, case.ids, style, case.speed)


def row(upstream, ours, case):
    """One text: tokens, durations that differ, SNR of each seam, those behind the alignment where
    durations agree.
    """
    theirs = encoded_by_upstream(upstream, case)
    encoded = ours(case, theirs.durations)
    changed = int((theirs.durations != encoded.durations).sum())
    frames = encoded.asr.shape[-1]  # a package's longest bucket cuts a long text
    alike = not changed and frames == theirs.asr.shape[-1]
    seams = SEAMS if alike else SEAMS[:2]  # those before the alignment
    figures = {
        name: snr_db(getattr(theirs, name).numpy(), getattr(encoded, name).numpy())
        for name in seams
    }
    return {"tokens": len(case.ids), "changed": changed, "snr_db": figures}
