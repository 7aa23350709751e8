"""Run one utterance by upstream (dynamic, packed), by our PyTorch (static, masked) and by executed
packages, and compare the tensors that cross from stage to stage.

    reference = upstream_run(checkpoint, spoken, torch.float32)
    ours = torch_run(checkpoint, spoken, torch.float32, reference)
    rows = compared_runs(reference, ours, limits=FLOAT32)
    first_bad(rows)                     # its name, or None: pipeline/step_comparison.py

All runs return tensors of the same names (ORDER), with time on the last axis, cut to length; ours
come from the steps of the chain. A tensor that is computed from a bad one is not judged: it differs
because its input does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core import (
    COLUMNS_PER_FRAME,
    DEFAULT_BUCKETS,
    EQUAL,
    FRAMES_PER_SECOND,
    TOKEN_BUCKETS,
    Checkpoint,
    InputError,
    PackedLayout,
    Tensors,
    Voice,
    bucket_for,
    levels_db,
    run_steps,
    snr_db,
    style_row,
)
from kokoro_ane.encoder import (
    FROM_IDS,
    AlignmentLimits,
    Buckets,
    Encoder,
    EncoderBackend,
    check_speed,
    input_ids,
    torch_functions,
)
from kokoro_ane.pipeline.step_comparison import (
    ABSENT,
    AFTER,
    BAD,
    REPORTED,
    StepRow,
    compared,
    rectangular,
)
from kokoro_ane.pipeline.synthesis import Chain
from kokoro_ane.pipeline.upstream import (
    Silence,
    injected_noise,
    upstream_intermediates,
    upstream_of,
)
from kokoro_ane.vocoder import (
    SOURCE,
    VOCODER,
    PackedVocoder,
    StreamingPackage,
    Vocoder,
    VocoderBackend,
    VocoderInputs,
    gaussian_noise,
    pack,
)
from kokoro_ane.vocoder import STEPS as VOCODER_STEPS

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
    "waveform",
    "chain",
)
# The tensors that each one is computed from; it is judged only when these hold.
FROM = {
    "bert_encoder": ("bert",),
    "durations": ("bert_encoder",),
    "frames": ("durations", "bert_encoder"),
    "f0_hz": ("frames",),
    "energy": ("frames",),
    "asr": ("durations", "text"),
}
# dB. spectrum and waveform run on upstream's own inputs; `chain` is the waveform of the
# whole chain on its own inputs, and has no limit: the last bits of F0 decide the phase of nearly
# silent bins. Upstream sums the source's phase in float32: 40 for its spectrum.
FLOAT64 = dict.fromkeys(ORDER, 80.0) | {"durations": EQUAL}
FLOAT32 = FLOAT64 | {"spectrum": 40.0}
# fp16 there: docs/models.md
PACKAGE = FLOAT32 | {"text": 40.0, "asr": 40.0, "energy": 40.0, "waveform": 40.0}

Intermediates = dict[str, np.ndarray]
SOURCE_STEPS = tuple(step for step in VOCODER_STEPS if step.stage == SOURCE)
RENDER_STEPS = tuple(step for step in VOCODER_STEPS if step.stage == VOCODER)
BUCKETS = Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)
OF_THE_ENCODER = ("durations", "text", "frames", "asr", "f0_hz", "energy")


@dataclass(frozen=True)
class UtteranceInputs:
    """The inputs of one utterance: ids with boundary tokens, style [1, 256], speed, and the seed of
    the noise.
    """

    ids: tuple[int, ...]
    style: Tensor
    speed: float
    seed: int

    @classmethod
    def from_phonemes(
        cls, checkpoint: Checkpoint, phonemes: str, pack: Tensor, speed: float = 1.0, seed: int = 0
    ) -> "UtteranceInputs":
        """Return the inputs for phonemes of the vocabulary in the voice of a pack [510, 1, 256].
        Raises InputError.
        """
        ids = input_ids(phonemes, checkpoint.config.vocab)
        return cls(ids, style_row(pack, len(phonemes)), check_speed(speed), seed)

    def inputs(self, dtype: torch.dtype) -> Tensors:
        """Return the tensors that the first steps read, in the dtype to compute in."""
        half = self.style.shape[1] // 2
        style = self.style.to(dtype).numpy()
        return {
            "ids": np.array(self.ids, np.int32),
            "speed": np.array([self.speed], np.float32),
            "seed": np.array([self.seed], np.int64),
            "style_decoder": style[:, :half],
            "style_prosody": style[:, half:],
        }


class TorchBackend:
    """A VocoderBackend of the module that is exported, padded to the default buckets and masked, in
    any dtype.
    """

    arrays, predictor = False, ""

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        self.source, self.buckets = vocoder.generator.m_source.host, BUCKETS.frames
        self.packed = PackedVocoder(vocoder, PackedLayout(hidden_dim)).eval()

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """Return features [1, channels, 1, B + 1]."""
        return torch.from_numpy(pack(inputs, bucket_for(inputs.frames, BUCKETS.frames)))

    def run(self, features: Tensor, style: Tensor, statistics: Tensor, frames: int) -> Tensor:
        """Return the waveform [600F]; `statistics` is not read."""
        return self.packed(features, style).flatten()[: 5 * COLUMNS_PER_FRAME * frames]


def is_predicted(vocoder: VocoderBackend, frames: int) -> bool:
    """Whether the vocoder predicts its statistics of an utterance that is so long."""
    return isinstance(vocoder, StreamingPackage) and frames > vocoder.chain.lengths.utterance[-1]


def compared_levels(
    reference: Intermediates, other: Intermediates, another_seed: Intermediates
) -> StepRow:
    """Compare the levels of two waveforms. Upstream with another noise seed has to differ more:
    predicted statistics are another draw of the same speech, not the same samples.
    """
    true, levels, drawn = (levels_db(run["waveform"]) for run in (reference, other, another_seed))
    return compared("levels", true, levels, snr_db(true, drawn))


@torch.no_grad()
def upstream_run(
    checkpoint: Checkpoint, spoken: UtteranceInputs, dtype: torch.dtype
) -> Intermediates:
    """Run upstream's unmodified KModel, complex path, with the noise of the seed injected."""
    model, longest = upstream_of(checkpoint).to(dtype), BUCKETS.frames[-1]

    # the noise is drawn by frames, because upstream alone knows how many there will be
    def noise(frames: int) -> Tensor:
        if frames > longest:
            spoken_s, most_s = frames / FRAMES_PER_SECOND, longest / FRAMES_PER_SECOND
            raise InputError(
                f"upstream speaks for {spoken_s:.1f} s, the longest bucket holds {most_s:.1f} s:"
                " split the text"
            )
        return torch.from_numpy(gaussian_noise(frames, spoken.seed))

    with injected_noise(noise):
        tensors = upstream_intermediates(
            model, torch.tensor([spoken.ids]), spoken.style.to(dtype), spoken.speed
        )
    if isinstance(model.decoder, Silence):
        del tensors["waveform"]
    else:
        tensors["chain"] = tensors["waveform"]
    for name in ("bert", "bert_encoder", "frames"):
        tensors[name] = tensors[name].transpose(1, 2)
    # without the style that upstream appends
    tensors["frames"] = tensors["frames"][:, : checkpoint.config.hidden_dim]
    return _arrays({name: tensors[name] for name in ORDER if name in tensors})


@torch.no_grad()
def torch_run(
    checkpoint: Checkpoint, spoken: UtteranceInputs, dtype: torch.dtype, reference: Intermediates
) -> Intermediates:
    """Run our PyTorch, padded to the default buckets and masked."""
    encoder, count = Encoder.from_checkpoint(checkpoint).to(dtype), len(spoken.ids)
    outputs: dict[str, Tensor] = {}

    def keep(name: str, _module: torch.nn.Module, _inputs: tuple, out: Tensor) -> None:
        outputs[name] = out[:, :count].transpose(1, 2)

    # these two never leave the module: hooks read them
    for name in ("bert", "bert_encoder"):
        getattr(encoder, name).register_forward_hook(partial(keep, name))
    limits = AlignmentLimits.from_config(checkpoint.config, BUCKETS.frames[-1])
    backend = EncoderBackend(torch_functions(encoder), limits, BUCKETS)
    vocoder = TorchBackend(
        Vocoder.from_checkpoint(checkpoint).to(dtype), checkpoint.config.hidden_dim
    )
    speaker = Voice(np.zeros(0, np.float32))  # its style is in `spoken`
    tensors = chain_run(backend, vocoder, spoken, dtype, reference, speaker)
    return _arrays(outputs) | tensors


@torch.no_grad()
def chain_run(
    encoder: EncoderBackend,
    vocoder: VocoderBackend,
    spoken: UtteranceInputs,
    dtype: torch.dtype,
    reference: Intermediates,
    speaker: Voice,
) -> Intermediates:
    """Run the chain of PyTorch or of packages on its own tensors, then source and vocoder again on
    the reference's, spectrum included.

    The phase of a nearly silent bin is decided by the last bits of F0, and the vocoder reads
    phases, so a stage can be judged only on equal inputs.
    """
    chain = Chain({}, speaker, encoder, vocoder)
    inputs = spoken.inputs(dtype)
    free = run_steps((*FROM_IDS, *VOCODER_STEPS), chain, inputs)
    frames = free["asr"].shape[-1]
    tensors = {name: free[name] for name in OF_THE_ENCODER} | {"chain": free["waveform"]}
    # without the mask and the padding
    tensors["text"] = free["text"][:, :, 0]
    tensors["frames"] = free["frames"][:, :-1, 0, :frames]
    if "spectrum" not in reference:
        return tensors
    # upstream's own tensors, so that the second run differs by this stage alone
    names = ("asr", "f0_hz", "energy", "spectrum")
    features = {name: reference[name].astype(inputs["style_decoder"].dtype) for name in names}
    rendered = run_steps(RENDER_STEPS, chain, inputs | features)
    del features["spectrum"]
    excited = run_steps(SOURCE_STEPS, chain, inputs | features)
    return tensors | {"spectrum": excited["spectrum"], "waveform": rendered["waveform"]}


def _arrays(tensors: Mapping[str, Tensor]) -> Intermediates:
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def compared_runs(
    reference: Mapping[str, np.ndarray],
    other: Mapping[str, np.ndarray],
    limits: Mapping[str, float],
    reported: Collection[str] = ("chain",),
) -> list[StepRow]:
    """Compare two runs: one row a tensor of ORDER, in that order. `reported`: those without a
    verdict; the whole chain runs on its own inputs.
    """
    rows: dict[str, StepRow] = {}
    for name in ORDER:
        expected, tensor = reference.get(name), other.get(name)
        if name == "spectrum" and expected is not None and tensor is not None:
            expected, tensor = rectangular(expected), rectangular(tensor)
        # a tensor that was computed from a bad one says nothing of its own stage
        sources = [rows[source].verdict for source in FROM.get(name, ()) if source in rows]
        behind = any(verdict in (BAD, AFTER) for verdict in sources)
        row = compared(name, expected, tensor, limits[name], behind)
        if name in reported and row.verdict != ABSENT:
            row = replace(row, verdict=REPORTED)
        rows[name] = row
    return list(rows.values())
