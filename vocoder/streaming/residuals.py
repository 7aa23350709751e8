"""How far the statistics of the second stage's norms lie from what is predicted for them.

    residuals = Residuals(make_streaming_modules(vocoder, predictor))
    residuals(inputs) - predictor.usual  # [2R] float64, of one utterance

Their mean over a few sentences is what a voice, other weights or a level's rounding add to every
prediction.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_ane.core import DECODER, NORM_EPSILON, UTTERANCE
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.streaming.streaming_model import AffineConv
from kokoro_ane.vocoder.streaming.streaming_package import SIZES, Lengths
from kokoro_ane.vocoder.streaming.streaming_stage import make_torch_chain


class Residuals:
    """What the second stage's norms measure in an utterance, less the predictor's product for it:
    means, then log variances, [2R] float64. Constants of a channel are left out of both.
    """

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        """`modules`: of streaming_stage.make_streaming_modules."""
        self.means: list[Tensor] = []
        self.powers: list[Tensor] = []
        self.products: list[Tensor] = []
        outer = modules[DECODER].get_submodule("outer")
        norms = [m for m in modules[UTTERANCE].modules() if isinstance(m, AffineConv)]
        # functions, which copies of the modules share; a method would be copied with its object
        handles = [
            outer.register_forward_hook(lambda _, inputs, product: self.products.append(product)),
            *(
                norm.register_forward_pre_hook(lambda _, inputs: self._record(inputs[0]))
                for norm in norms
            ),
        ]
        # its modules are copies, their hooks with them; it is given the lengths of each utterance
        self.chain = make_torch_chain(modules, Lengths((), (), SIZES))
        for handle in handles:
            handle.remove()

    def _record(self, x: Tensor) -> None:
        # at once: what all norms of a long sentence read takes gigabytes
        columns = x[0, :, 0].double()  # [C, S]
        self.means.append(mean := columns.mean(1))
        # As a norm takes it: the biased variance, with its epsilon; `var` takes four times as long.
        self.powers.append(torch.log(columns.square().mean(1) - mean**2 + NORM_EPSILON))

    def __call__(self, inputs: VocoderInputs) -> np.ndarray:
        """Render the utterance as a measured one at exact length."""
        for parts in (self.means, self.powers, self.products):
            parts.clear()
        # At exactly this length nothing is padded, and nothing is cut into windows.
        exact = Lengths((inputs.frames,), (inputs.frames,), SIZES)
        replace(self.chain, lengths=exact).render(inputs)
        # norms are called in the order of the predictor's rows
        measured = torch.cat([*self.means, *self.powers])
        (product,) = self.products
        return (measured - product.flatten()).numpy()
