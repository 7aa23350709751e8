"""The negative controls of every stage: those of the vocoder (eval/vocoder_controls.py), and errors
and harmless changes of the encoder and of the whole chain.

    CONTROLS[VOCODER]["mask dropped"].subject(Setting(reference, clips)).render(clip)

A gate that rejects nothing proves nothing, and one that rejects what is harmless is wrong in the
other direction: `kokoro-ane controls` runs them all.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.encoder.encoder_stage import EncoderPackage
from kokoro_ane.encoder.encoder_steps import EncoderBackend
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.eval import ENCODER, PRODUCT, VOCODER
from kokoro_ane.eval.control_trials import Control, Setting
from kokoro_ane.eval.faults import Dropped
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import (
    ROW_STEPS,
    EncoderSubject,
    ProductSubject,
    Reader,
    Rendition,
    Subject,
)
from kokoro_ane.eval.vocoder_controls import UNKNOWN_RIGHT, UNSEEN_SEED, VOCODER_CONTROLS
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.quantize.locator import Request
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import open_package

FAR_ROW, FASTER = 50, 1.03  # phonemes; the speed that is asked for
# a product's vocoder and encoder, one of them rejected alone
PAIRS = (("p4", "w8g"), ("p6", "p6g"))
LOST = "a layer that is not loaded"


@dataclass(frozen=True)
class Altered:
    """A subject that is given another clip."""

    subject: Subject
    change: Callable[[Utterance], Utterance]

    def render(self, clip: Utterance) -> Rendition:
        """Render the changed clip."""
        return self.subject.render(self.change(clip))


@dataclass(frozen=True)
class Fp32:
    """The fp32 vocoder, with the noise of another seed."""

    reference: Reference
    other_seed: int = 0

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Render [600 F] with the noise of the other seed."""
        if self.other_seed:
            inputs = self.reference.with_noise(inputs, self.other_seed)
        return self.reference.clock(inputs)


def blunted(setting: Setting, block: str) -> EncoderBackend:
    """The fp32 encoder without its first block of F0 or energy, or without the second layer of the
    duration encoder.
    """
    encoder = Encoder.of(setting.reference.checkpoint)
    if block == "duration":
        # The LSTM's part of x [1, T, C + S] without the style.
        width = encoder.bert_encoder.out_features
        encoder.predictor.text_encoder.lstms[2] = Dropped(lambda x, *_: x[..., :width])
    else:
        curve = encoder.predictor.F0 if block == "F0" else encoder.predictor.N
        curve[0] = Dropped(lambda x, *others: (x, others[-1]))  # type: ignore[assignment]
    return replace(setting.reference.encoder, functions=torch_functions(encoder))


@torch.no_grad()
def exchanged(setting: Setting) -> EncoderBackend:
    """The two letters that the sentences have most take each other's embeddings, in ALBERT and in
    the text encoder.
    """
    checkpoint = setting.reference.checkpoint
    encoder, vocab = Encoder.of(checkpoint), checkpoint.config.vocab
    letters = {number for symbol, number in vocab.items() if symbol.isalpha()}
    counts = Counter(int(i) for clip in setting.clips for i in clip.input_ids if int(i) in letters)
    (one, _), (other, _) = counts.most_common(2)
    for weight in (
        encoder.bert.embeddings.word_embeddings.weight,
        encoder.text_encoder.embedding.weight,
    ):
        assert isinstance(weight, Tensor)
        weight[[one, other]] = weight[[other, one]]
    return replace(setting.reference.encoder, functions=torch_functions(encoder))


def swapped(clip: Utterance) -> Utterance:
    """Exchange two different symbols behind the sentence's middle."""
    ids = clip.input_ids.copy()
    at = next((i for i in range(len(ids) // 2, len(ids) - 2) if ids[i] != ids[i + 1]), 1)
    ids[[at, at + 1]] = ids[[at + 1, at]]
    return replace(clip, input_ids=ids)


def read(setting: Setting, backend: EncoderBackend | None = None, **how: float) -> EncoderSubject:
    """Return the fp32 encoder, or another, as a subject; `how` goes to Reader."""
    return EncoderSubject(Reader(setting.reference, backend, **how))  # type: ignore[arg-type]


def spoken(
    setting: Setting, backend: EncoderBackend | None = None, other_seed: int = 0, **how: float
) -> ProductSubject:
    """Return the fp32 chain as a subject; `how` goes to Reader."""
    reader = Reader(setting.reference, backend, **how)  # type: ignore[arg-type]
    return ProductSubject(reader, Fp32(setting.reference, other_seed))


def packages(setting: Setting, method: str, level: str) -> ProductSubject | None:
    """Return the executed chain of two packages; None where one is not built."""
    request = Request(setting.reference.checkpoint, setting.build, method, encoder=level)
    if not all(path.is_file() for path in (request.vocoder, *request.encoders)):
        return None
    reader = Reader(setting.reference, EncoderPackage(request.encoders).backend)
    return ProductSubject(reader, open_package(request.vocoder))


def reading_controls(make: Callable[..., Subject]) -> tuple[Control, ...]:
    """Controls of whatever reads: `make` takes the setting, and step and faster as Reader."""
    neighbours = [
        Control(
            f"style row n {step:+d}",
            partial(make, step=step),
            "a prosody that nobody could call wrong",
            rejected=False,
        )
        for step in ROW_STEPS
    ]
    return (
        *neighbours,
        Control(f"a style row {FAR_ROW} away", partial(make, step=FAR_ROW), "row by another count"),
        Control("speed 3 % off", partial(make, faster=FASTER), "a speed that is rounded"),
    )


ENCODER_CONTROLS = (
    *reading_controls(read),
    *(
        Control(
            f"a block of {block} dropped",
            partial(lambda setting, block: read(setting, blunted(setting, block)), block=block),
            LOST,
        )
        for block in ("F0", "energy", "duration")
    ),
    Control("two tokens swapped", lambda s: Altered(read(s), swapped), "ids in another order"),
    Control(
        "two phonemes' embeddings exchanged",
        lambda s: read(s, exchanged(s)),
        "a row of a table at another's place",
    ),
    Control("fp32 itself", read, "the same model", rejected=False),
)
PRODUCT_CONTROLS = (
    *reading_controls(spoken),
    Control(
        "another noise seed",
        partial(spoken, other_seed=UNSEEN_SEED),
        UNKNOWN_RIGHT,
        rejected=False,
    ),
    Control("a block of F0 dropped", lambda s: spoken(s, blunted(s, "F0")), LOST),
    *(
        Control(
            f"vocoder {method}, encoder {level}",
            partial(packages, method=method, level=level),
            "one of them is rejected alone",
        )
        for method, level in PAIRS
    ),
)
CONTROLS: Mapping[str, Mapping[str, Control]] = MappingProxyType(
    {
        stage: MappingProxyType({control.name: control for control in controls})
        for stage, controls in (
            (VOCODER, VOCODER_CONTROLS),
            (ENCODER, ENCODER_CONTROLS),
            (PRODUCT, PRODUCT_CONTROLS),
        )
    }
)
