"""The negative controls of every stage, judged as if each were a level: known errors, which have to
be rejected, and changes that nobody hears, which have to pass.

    setting = Setting(reference, clips)
    CONTROLS[VOCODER]["mask dropped"].subject(setting).render(clip)
    ControlTrials(setting).outcome(CONTROLS[VOCODER]["mask dropped"]).right

A gate that rejects nothing proves nothing, and one that rejects what is harmless is wrong in the
other direction: `python -m tests.eval.controls` runs them all.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.encoder import (
    Encoded,
    Encoder,
    EncoderBackend,
    EncoderPackage,
    make_torch_functions,
)
from kokoro_ane.eval.comparisons import COMPARISONS, ROW_STEPS
from kokoro_ane.eval.execution import judge_clip
from kokoro_ane.eval.gates import FEWEST_CLIPS, select_gates
from kokoro_ane.eval.judge import SHIP, Judgement, judge_results
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import (
    ClipReader,
    EncoderSubject,
    ProductSubject,
    Subject,
    VocoderSubject,
)
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, VOCODER
from kokoro_ane.quantize import PackageRequest
from kokoro_ane.speech import Utterance
from kokoro_ane.vocoder import open_package
from tests.eval.controls.faults import Fault, drop
from tests.eval.controls.vocoder_controls import (
    HARMLESS,
    LATER,
    SHIPPED,
    THIRTEEN,
    UNKNOWN_RIGHT,
    UNSEEN_SEED,
)

FAR_ROW, FASTER = 50, 1.03  # phonemes; the speed that is asked for
# a product's vocoder and encoder, one of them rejected alone
PAIRS = (("p4", "w8g"), ("p6", "p6g"))
LOST = "a layer that is not loaded"
JUDGED_AS = "w8"  # the vocoder's common gates, without those that fp16 has beside them


@dataclass(frozen=True)
class Setting:
    """What controls are made from. `build`: the folder with the packages of a product."""

    reference: Reference
    clips: Sequence[Utterance]
    build: Path = Path("build")


@dataclass(frozen=True)
class Control:
    """A known error, which must be rejected, or a change that nobody hears, which must pass.

    `subject` makes what is judged; None where its packages are not built. `why`: where the error
    was seen, or why the change does no harm. `metric`: what is expected to catch the error; of a
    harmless change, the metric that may name it, where the graph is wrong.
    """

    name: str
    subject: Callable[[Setting], Subject | None]
    why: str
    metric: str = ""
    rejected: bool = True


def vocoder_control(
    name: str, metric: str, fault: Fault, why: str, rejected: bool = True
) -> Control:
    """The fp32 vocoder with a fault in it."""

    def subject(setting: Setting) -> Subject:
        return VocoderSubject(setting.reference, partial(fault, setting.reference))

    return Control(name, subject, why, metric, rejected)


def blunted(setting: Setting, block: str) -> ClipReader:
    """The fp32 encoder without its first block of F0 or energy, or without the second layer of the
    duration encoder.
    """
    encoder = Encoder.from_checkpoint(setting.reference.checkpoint)
    if block == "duration":
        # The LSTM's part of x [1, T, C + S] without the style.
        width = encoder.bert_encoder.out_features
        drop(encoder.predictor.text_encoder.lstms[2], lambda x, *_: x[..., :width])
    else:
        curve = encoder.predictor.F0 if block == "F0" else encoder.predictor.N
        drop(curve[0], lambda x, *others: (x, others[-1]))
    return ClipReader(setting.reference, _backend(setting, encoder))


@torch.no_grad()
def exchanged(setting: Setting) -> ClipReader:
    """The two letters that the sentences have most take each other's embeddings, in ALBERT and in
    the text encoder.
    """
    checkpoint = setting.reference.checkpoint
    encoder, vocab = Encoder.from_checkpoint(checkpoint), checkpoint.config.vocab
    letters = {number for symbol, number in vocab.items() if symbol.isalpha()}
    counts = Counter(int(i) for clip in setting.clips for i in clip.input_ids if int(i) in letters)
    (one, _), (other, _) = counts.most_common(2)
    for embedding in (encoder.bert.embeddings.word_embeddings, encoder.text_encoder.embedding):
        weight = embedding.weight
        assert isinstance(weight, Tensor)
        weight[[one, other]] = weight[[other, one]]
    return ClipReader(setting.reference, _backend(setting, encoder))


def _backend(setting: Setting, encoder: Encoder) -> EncoderBackend:
    return replace(setting.reference.encoder, functions=make_torch_functions(encoder))


class Swapped(ClipReader):
    """The fp32 encoder, which reads two different symbols behind the sentence's middle in the other
    order.
    """

    def encode_prosody(self, clip: Utterance, durations: np.ndarray | None = None) -> Encoded:
        """Read the swapped symbols."""
        ids = clip.input_ids.copy()
        at = next((i for i in range(len(ids) // 2, len(ids) - 2) if ids[i] != ids[i + 1]), 1)
        ids[[at, at + 1]] = ids[[at + 1, at]]
        return super().encode_prosody(replace(clip, input_ids=ids), durations)


def packages(vocoder: str, encoder: str, setting: Setting) -> Subject | None:
    """The executed chain of two packages; None where one is not built."""
    request = PackageRequest(setting.reference.checkpoint, setting.build, vocoder, encoder=encoder)
    if not all(path.is_file() for path in (request.vocoder, *request.encoders)):
        return None
    reader = ClipReader(setting.reference, EncoderPackage(request.encoders).backend)
    return ProductSubject(reader, open_package(request.vocoder).render)


def another_seed(setting: Setting) -> Subject:
    """The fp32 chain with the noise of another seed."""
    reference = setting.reference
    return ProductSubject(
        ClipReader(reference),
        lambda inputs: reference.render_clock(reference.with_noise(inputs, UNSEEN_SEED)),
    )


# Controls that are another reader: name, the reader, why, whether it has to be rejected. Encoder
# and product share the first ones.
Row = tuple[str, Callable[[Setting], ClipReader], str, bool]
READERS: tuple[Row, ...] = (
    *(
        (
            f"style row n {step:+d}",
            lambda setting, step=step: ClipReader(setting.reference, step=step),
            "a prosody that nobody could call wrong",
            False,
        )
        for step in ROW_STEPS
    ),
    (
        f"a style row {FAR_ROW} away",
        lambda setting: ClipReader(setting.reference, step=FAR_ROW),
        "row by another count",
        True,
    ),
    (
        "speed 3 % off",
        lambda setting: ClipReader(setting.reference, faster=FASTER),
        "a speed that is rounded",
        True,
    ),
    ("a block of F0 dropped", lambda setting: blunted(setting, "F0"), LOST, True),
)
ENCODER_READERS: tuple[Row, ...] = (
    ("a block of energy dropped", lambda setting: blunted(setting, "energy"), LOST, True),
    ("a block of duration dropped", lambda setting: blunted(setting, "duration"), LOST, True),
    (
        "two tokens swapped",
        lambda setting: Swapped(setting.reference),
        "ids in another order",
        True,
    ),
    (
        "two phonemes' embeddings exchanged",
        exchanged,
        "a row of a table at another's place",
        True,
    ),
    ("fp32 itself", lambda setting: ClipReader(setting.reference), "the same model", False),
)


def encoder_control(
    name: str, read: Callable[[Setting], ClipReader], why: str, rejected: bool
) -> Control:
    """A reader, judged by its prosody."""
    return Control(name, lambda setting: EncoderSubject(read(setting)), why, rejected=rejected)


def product_control(
    name: str, read: Callable[[Setting], ClipReader], why: str, rejected: bool
) -> Control:
    """A reader in front of the fp32 vocoder, judged by its sound."""

    def subject(setting: Setting) -> Subject:
        return ProductSubject(read(setting), setting.reference.render_clock)

    return Control(name, subject, why, rejected=rejected)


VOCODER_CONTROLS = (
    *(vocoder_control(*row) for row in (*THIRTEEN, *SHIPPED, *LATER)),
    *(vocoder_control(*row, rejected=False) for row in HARMLESS),
)
ENCODER_CONTROLS = tuple(encoder_control(*row) for row in (*READERS, *ENCODER_READERS))
PRODUCT_CONTROLS = (
    *(product_control(*row) for row in READERS),
    Control("another noise seed", another_seed, UNKNOWN_RIGHT, rejected=False),
    *(
        Control(
            f"vocoder {vocoder}, encoder {encoder}",
            partial(packages, vocoder, encoder),
            "one of them is rejected alone",
        )
        for vocoder, encoder in PAIRS
    ),
)
CONTROLS: Mapping[str, Mapping[str, Control]] = MappingProxyType(
    {
        stage: {control.name: control for control in controls}
        for stage, controls in (
            (VOCODER, VOCODER_CONTROLS),
            (ENCODER, ENCODER_CONTROLS),
            (PRODUCT, PRODUCT_CONTROLS),
        )
    }
)


@dataclass(frozen=True)
class Outcome:
    """How one control was judged."""

    control: Control
    judgement: Judgement

    @property
    def broken(self) -> tuple[str, ...]:
        """Clips without output, and gates that are broken."""
        silent = (f"{clip.id} {clip.defect}" for clip in self.judgement.clips if clip.defect)
        return (*silent, *self.judgement.broken)

    @property
    def right(self) -> bool:
        """An error breaks a gate; what is harmless breaks none, and ships where there are clips
        enough for that.
        """
        if self.control.rejected or len(self.judgement.clips) < FEWEST_CLIPS:
            return bool(self.broken) == self.control.rejected
        return self.judgement.verdict == SHIP

    def record(self) -> dict[str, Any]:
        """The outcome as plain data, with the figures that limits in variations are chosen by."""
        judgement, summary = self.judgement, self.judgement.compute_summary()
        checks = judgement.checks
        scaled = [check.gate.metric for check in checks if check.gate.multiple is not None]
        return {
            "name": self.control.name,
            "right": self.right,
            "verdict": judgement.verdict,
            "broken": list(self.broken),
            "figures": {name: summary[name] for name in scaled},
        }


class ControlTrials:
    """Controls of one stage against its gates. The natural variation of every clip is measured
    once. `only`: these metrics.
    """

    def __init__(self, setting: Setting, stage: str = VOCODER, only: Sequence[str] = ()) -> None:
        self._setting, self._stage = setting, stage
        self._comparison = COMPARISONS[stage](setting.reference, only)
        self._variations = {
            clip.id: self._comparison.get_natural(clip).figures for clip in setting.clips
        }

    def outcome(self, control: Control) -> Outcome | None:
        """Judge one control; None where its packages are not built. Of a harmless change the gates
        that may name it do not count.
        """
        subject = control.subject(self._setting)
        if subject is None:
            return None
        results = [
            judge_clip(self._comparison, subject, clip, self._variations[clip.id])
            for clip in self._setting.clips
        ]
        gates = select_gates(JUDGED_AS, stage=self._stage)
        if not control.rejected:
            gates = tuple(gate for gate in gates if gate.metric != control.metric)
        return Outcome(control, judge_results(gates, results))
