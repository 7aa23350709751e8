"""How far the statistics of the second stage's norms lie from what is predicted for them.

    residuals = Residuals(make_streaming_modules(vocoder, predictor))
    residuals(inputs) - predictor.usual  # [2R] float64, of one utterance

Their mean over a few sentences is what a voice, other weights or a level's rounding add to every
prediction.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import DECODER, NORM_EPSILON, UTTERANCE, Mask
from kokoro_ane.vocoder.eager import compute_moments, put_channels_last
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.streaming.streaming_functions import DecoderFunction, UtteranceFunction
from kokoro_ane.vocoder.streaming.streaming_model import GivenNorms
from kokoro_ane.vocoder.streaming.streaming_package import SIZES, Lengths
from kokoro_ane.vocoder.streaming.streaming_stage import make_torch_chain


class ExactNorms(GivenNorms):
    """Measures every column, in three fifths of MeasuredNorms' time: as vocoder/eager.py does, with
    channels contiguous in memory. What was measured stands in `means` and `variances`.
    """

    def __init__(self, affine: Tensor, sizes: list[int], scales: list[float], mask: Mask) -> None:
        """`scales`, which keep squares inside fp16, and `mask` are not used: all is inside."""
        super().__init__(affine, sizes)
        self.means: list[Tensor] = []
        self.variances: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        gain, shift = (part.flatten() for part in next(self._pairs))
        x = put_channels_last(x)
        mean, variance = compute_moments(x)
        self.means.append(mean)
        self.variances.append(variance)
        return F.batch_norm(x, mean, variance, gain, shift, training=False, eps=NORM_EPSILON)


class Residuals:
    """What the second stage's norms measure in an utterance, less the predictor's product for it:
    means, then log variances, [2R] float64. Constants of a channel are left out of both.
    """

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        """`modules`: of streaming_stage.make_streaming_modules."""
        self.norms: list[ExactNorms] = []
        self.products: list[Tensor] = []
        copies = copy.deepcopy(dict(modules))
        for layer in nn.ModuleDict(copies).modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                # a level's weights, which are computed at each call, stay as they are
                layer.weight.data = put_channels_last(layer.weight.data)

        # functions, which the chain's copies of the modules share; a method would be copied with
        # its object
        def make_norms(*parts: Any) -> ExactNorms:
            self.norms.append(norms := ExactNorms(*parts))
            return norms

        for module in (copies[DECODER], copies[UTTERANCE]):
            assert isinstance(module, DecoderFunction | UtteranceFunction)
            module.make_norms = make_norms
        copies[DECODER].get_submodule("outer").register_forward_hook(
            lambda _, inputs, product: self.products.append(product)
        )
        # it is given the lengths of each utterance
        self.chain = make_torch_chain(copies, Lengths((), (), SIZES))

    def __call__(self, inputs: VocoderInputs) -> np.ndarray:
        """Render the utterance as a measured one at exact length."""
        self.norms.clear()
        self.products.clear()
        # At exactly this length nothing is padded, and nothing is cut into windows.
        exact = Lengths((inputs.frames,), (inputs.frames,), SIZES)
        replace(self.chain, lengths=exact).render(inputs)
        # norms are called in the order of the predictor's rows; the first stage's are not predicted
        _, second = self.norms
        variances = torch.cat(second.variances).double()
        # As a norm takes it: the biased variance, with its epsilon.
        measured = torch.cat([torch.cat(second.means), torch.log(variances + NORM_EPSILON)])
        (product,) = self.products
        return (measured - product.flatten()).numpy()
