"""Run one utterance by upstream, by our PyTorch and by the files of a runtime, and compare the
tensors that cross from stage to stage.

    inputs = begin(phonemes, speed=1.0, seed=0)
    reference = run_upstream(checkpoint, inputs, pack)
    ours = run_torch(checkpoint, inputs, pack, reference)
    rows = compare_runs(reference, ours, EXACT)
    find_first_bad(rows)                     # its name, or None: pipeline/step_comparison.py

All runs return tensors of the same names (ORDER), with time on the last axis, cut to length; ours
come from the steps of the chain. Behind the first bad tensor others are bad because their inputs
are.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from kokoro_ane.core import EQUAL, Checkpoint, Tensors, Voice, run_steps, style_row
from kokoro_ane.encoder import STEPS as ENCODER_STEPS
from kokoro_ane.encoder import Encoder, encode_phonemes, make_torch_backend
from kokoro_ane.pipeline.step_comparison import (
    ABSENT,
    LEAST_DB,
    REPORTED,
    StepRow,
    compare_tensor,
    convert_to_rectangular,
)
from kokoro_ane.pipeline.synthesis import Chain
from kokoro_ane.pipeline.upstream import collect_intermediates, inject_noise, load_upstream
from kokoro_ane.runtimes import EagerBackend
from kokoro_ane.vocoder import SOURCE, Vocoder, draw_noise
from kokoro_ane.vocoder import STEPS as VOCODER_STEPS

# The compared tensors, each behind those that it is computed from.
ORDER = [
    *("hidden", "durations", "text", "frames", "f0_hz", "energy", "asr"),
    *("spectrum", "waveform", "chain"),
]
# dB that PyTorch has to reach in 64 bits. `chain`, the waveform of the whole chain on its own
# inputs, has no limit: the last bits of F0 decide the phase of nearly silent bins. All others of
# the source and the vocoder run on upstream's tensors.
EXACT = dict.fromkeys(ORDER[:-1], 80.0) | {"durations": EQUAL}
# F0 in 32 bits moves the phase of the source
FLOAT32 = EXACT | {"spectrum": 40.0}
# fp16 there: docs/models.md
PACKAGE = FLOAT32 | {"text": 40.0, "asr": 40.0, "energy": 40.0, "waveform": 40.0}
# what upstream gives our source and vocoder, so that each is judged on equal inputs
FEATURES = ("asr", "f0_hz", "energy", "durations")


@torch.no_grad()
def run_upstream(checkpoint: Checkpoint, inputs: Tensors, pack: np.ndarray) -> Tensors:
    """Run upstream's unmodified KModel in float64, complex path, with the noise of the seed
    injected. `inputs` as `begin` gives them, the voice's pack [510, 1, 256].
    """
    # Among tensors, phonemes are code points.
    phonemes = "".join(map(chr, inputs["phonemes"]))
    ids = torch.tensor([encode_phonemes(phonemes, checkpoint.config.vocab)])
    style = torch.from_numpy(style_row(pack, len(phonemes))).double()
    model = load_upstream(checkpoint).double()
    # the noise is drawn by frames, because upstream alone knows how many there will be
    with inject_noise(lambda frames: torch.from_numpy(draw_noise(frames, *inputs["seed"]))):
        tensors = collect_intermediates(model, ids, style, float(inputs["speed"][0]))
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def run_torch(
    checkpoint: Checkpoint, inputs: Tensors, pack: np.ndarray, reference: Tensors
) -> Tensors:
    """Run our PyTorch in float64, at exact length and without predictions."""
    config = checkpoint.config
    encoder = make_torch_backend(Encoder.from_checkpoint(checkpoint).double(), config)
    vocoder = EagerBackend(Vocoder.from_checkpoint(checkpoint).double(), config.hidden_dim)
    # the style's dtype is the one that all steps compute in
    voice = Voice(pack.astype(np.float64))
    return run_chain(Chain(config.vocab, voice, encoder, vocoder), inputs, reference)


def run_chain(chain: Chain, inputs: Tensors, reference: Tensors) -> Tensors:
    """Run the chain of PyTorch or of packages on its own tensors, then source and vocoder again on
    the reference's, spectrum included.

    The phase of a nearly silent bin is decided by the last bits of F0, and the vocoder reads
    phases, so a stage can be judged only on equal inputs.
    """
    own = run_steps((*ENCODER_STEPS, *VOCODER_STEPS), chain, inputs)
    style = own["style_decoder"]
    frames = own["asr"].shape[-1]
    # without the mask and the padding: [1, C, n] and [1, C, F]
    own |= {name: own[name][:, :, 0] for name in ("hidden", "text")}
    own |= {"frames": own["frames"][:, :-1, 0, :frames], "chain": own["waveform"]}
    # Of its own inputs the chain keeps one waveform, as `chain`.
    del own["spectrum"], own["waveform"]
    if "spectrum" in reference:
        given = {name: reference[name].astype(style.dtype) for name in (*FEATURES, "spectrum")}
        given |= {"style_decoder": style, "seed": inputs["seed"]}
        own["waveform"] = run_steps(VOCODER_STEPS, chain, given)["waveform"]
        source = [step for step in VOCODER_STEPS if step.stage == SOURCE]
        # A step whose tensors are given is skipped: this one has to compute.
        del given["spectrum"]
        own["spectrum"] = run_steps(source, chain, given)["spectrum"]
    return own


def compare_runs(reference: Tensors, other: Tensors, limits: Mapping[str, float]) -> list[StepRow]:
    """Compare two runs: one row a tensor of ORDER, in that order; without a verdict where `limits`
    has none.
    """
    rows = []
    for name in ORDER:
        one, two = reference.get(name), other.get(name)
        if name == "chain":
            # The waveform of the chain has upstream's as its reference.
            one = reference.get("waveform")
        if name == "spectrum" and one is not None and two is not None:
            one, two = convert_to_rectangular(one), convert_to_rectangular(two)
        row = compare_tensor(name, one, two, limits.get(name, LEAST_DB))
        # Shown without a verdict, unless there was nothing to compare.
        if name not in limits and row.verdict != ABSENT:
            row = replace(row, verdict=REPORTED)
        rows.append(row)
    return rows
