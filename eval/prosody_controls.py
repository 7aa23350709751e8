"""Negative controls of the encoder, each the fp32 model with one thing wrong, judged as if it were
a level; and what must pass.

    for name, say in controls(bench).items(): bench.judged(name, say).decision.verdict  # REJECT
    for name, say in harmless(bench).items(): bench.judged(name, say).decision.verdict  # SHIP
"""

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn

from kokoro_ane.encoder.encoder_steps import Encoded, EncoderBackend
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.eval.prosody_judge import ROW_STEPS, ProsodyBench, Say
from kokoro_ane.quantize.corpus import Utterance

FAR_ROW = 50  # phonemes
FASTER = 1.03


class Dropped(nn.Module):
    """A block that is not there: a curve's block passes x and its mask on, an LSTM the part of x
    [1, T, C + S] without the style.
    """

    def __init__(self, width: int | None = None) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor, *others: Tensor) -> object:
        """x and the last of the others; with a width x [1, T, width]."""
        return (x, others[-1]) if self.width is None else x[..., : self.width]


def without(bench: ProsodyBench, block: str) -> Say:
    """The fp32 model without its first block of F0 or energy, or without the second layer of the
    duration encoder.
    """
    encoder = deepcopy(bench.encoder)
    if block == "duration":
        encoder.predictor.text_encoder.lstms[2] = Dropped(encoder.bert_encoder.out_features)
    else:
        (encoder.predictor.F0 if block == "F0" else encoder.predictor.N)[0] = Dropped()  # type: ignore[assignment]
    return _said(bench, encoder)


@torch.no_grad()
def exchanged(bench: ProsodyBench) -> Say:
    """The two letters that the sentences say most take each other's embeddings, in ALBERT and in
    the text encoder.
    """
    encoder, vocab = deepcopy(bench.encoder), bench.checkpoint.config.vocab
    letters = {number for symbol, number in vocab.items() if symbol.isalpha()}
    counts = Counter(int(i) for clip in bench.clips for i in clip.input_ids if int(i) in letters)
    (one, _), (other, _) = counts.most_common(2)
    for weight in (
        encoder.bert.embeddings.word_embeddings.weight,
        encoder.text_encoder.embedding.weight,
    ):
        assert isinstance(weight, Tensor)
        weight[[one, other]] = weight[[other, one]]
    return _said(bench, encoder)


def _said(bench: ProsodyBench, encoder: Encoder) -> Say:
    return bench.said_by(EncoderBackend(torch_functions(encoder), bench.limits))


def swapped(bench: ProsodyBench) -> Say:
    """Two different symbols behind the sentence's middle change places."""

    def other(clip: Utterance) -> Encoded:
        ids = clip.input_ids.copy()
        at = next((i for i in range(len(ids) // 2, len(ids) - 2) if ids[i] != ids[i + 1]), 1)
        ids[[at, at + 1]] = ids[[at + 1, at]]
        return bench.said_by()(replace(clip, input_ids=ids))

    return other


def controls(bench: ProsodyBench) -> Mapping[str, Say]:
    """Each must be rejected."""
    return {
        **{
            f"a block of {name} dropped": without(bench, name)
            for name in ("F0", "energy", "duration")
        },
        "two tokens swapped": swapped(bench),
        "a style row 50 away": bench.said_by(step=FAR_ROW),
        "speed 3 % off": lambda clip: bench.said_by()(replace(clip, speed=clip.speed * FASTER)),
        "two phonemes' embeddings exchanged": exchanged(bench),
    }


def harmless(bench: ProsodyBench) -> Mapping[str, Say]:
    """Each must pass."""
    return {
        "fp32 itself": bench.said_by(),
        **{f"style row n {step:+d}": bench.said_by(step=step) for step in ROW_STEPS},
    }
