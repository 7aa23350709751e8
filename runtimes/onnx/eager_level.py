"""A level in the layout for a processor (vocoder/eager.py): the same integers, with what that
layout folds into its weights put beside them. ONNX files are exported from it.

    attach_to_eager(eager, vocoder, level)
"""

import torch
from torch import Tensor

from kokoro_ane.quantize.fits import rows_of
from kokoro_ane.quantize.level import Level
from kokoro_ane.quantize.stored_forms import Integers, StoredWeight, store
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.eager import EagerVocoder, Norm, places


class Divided(StoredWeight):
    """A form whose input channels are divided by what the layer before them multiplies: integers
    that held both would have a row of channels of very different sizes (16.6 dB on real Kokoro).
    """

    inverse: Tensor

    def __init__(self, form: StoredWeight, divisor: Tensor) -> None:
        super().__init__(form.label, half=False)
        self.form = form
        self.register_buffer("inverse", (1 / divisor.double()).float().view(1, -1, 1, 1))

    def forward(self, _: Tensor | None = None) -> Tensor:
        weight: Tensor = self.form() * self.inverse
        return weight


def attach_to_eager(eager: EagerVocoder, vocoder: Vocoder, level: Level) -> None:
    """Give the layers of `eager`, which was made from `vocoder`, the level's forms. Those with int8
    inputs are left to the caller.
    """
    for name, place in places(eager).items():
        form = level.forms.get(place.path)
        if form is None or place.path in level.ranges:
            continue
        form, alpha = form.times(place.outer), place.alpha
        if alpha is not None and bool((alpha == alpha[0]).all()):
            form, alpha = form.times(1 / float(alpha[0])), None
        store(eager.get_submodule(name), form if alpha is None else Divided(form, alpha))
    _attach_styles(eager, vocoder, level)


def _attach_styles(eager: EagerVocoder, vocoder: Vocoder, level: Level) -> None:
    """The one product of all styles: the affines' rows, times what Snake multiplies."""
    rows: list[Integers] = []
    factors: list[Tensor] = []
    for norm, path in _norms(eager):
        form = level.forms.get(f"{path}.fc") or rows_of(vocoder.get_submodule(f"{path}.fc"))
        assert isinstance(form, Integers)  # this runtime has levels of integers only
        rows.append(form)
        factors.append(norm.scale)
    every = torch.cat([factor.repeat(2) for factor in factors])[:, None]  # [rows, 1]
    values = torch.cat([form.values.flatten(1) for form in rows])  # [rows, style_dim]
    scale = torch.cat([form.scale.flatten(1) for form in rows]).double() * every
    store(eager, Integers(values.numpy(), scale.float().numpy(), "style_weight"), "style_weight")


def _norms(eager: EagerVocoder) -> list[tuple[Norm, str]]:
    """Norms in the order of their rows, each with its path in the vocoder."""
    norms = [
        (module, name.replace(".convs", ".adain").removesuffix(".norm"))
        for name, module in eager.named_modules()
        if isinstance(module, Norm)
    ]
    return sorted(norms, key=lambda entry: entry[0].begin)
