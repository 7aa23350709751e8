"""Import and run unmodified upstream as the reference: kokoro.istftnet and kokoro.model without the
package's __init__, which imports loguru and spaCy.

    # KModel, complex path; needs `kokoro` and `transformers`
    model = upstream_of(checkpoint)
    with injected_noise(lambda frames: noise[:, : 600 * frames]):
        tensors = upstream_intermediates(model, input_ids, style, speed=1.0)
"""

import importlib
import importlib.util
import logging
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from kokoro_ane.core import (
    FRAME_SAMPLES,
    HARMONICS,
    DecoderConfig,
    InputError,
    KokoroConfig,
    read_json,
    scratch,
)

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint

KModel = Any  # kokoro.model.KModel: upstream has no types
OURS_ONLY = ("decoder", "name", "releasable")  # sections of config.json that upstream does not know
# AdaIN's unit affine: absent in the released checkpoint, ones and zeros upstream
_FOLDED = (".norm.weight", ".norm.bias")


def istftnet() -> types.ModuleType:
    """Import kokoro.istftnet as released on PyPI. Raises InputError that says how to install it."""
    if "kokoro" not in sys.modules:
        spec = importlib.util.find_spec("kokoro")
        if spec is None or spec.submodule_search_locations is None:
            raise InputError(
                "upstream is not installed: `make venv` does it (pip install --no-deps"
                " kokoro==0.9.4)"
            )
        # the package without its __init__, which imports loguru and spaCy
        bare = types.ModuleType("kokoro")
        bare.__path__ = list(spec.submodule_search_locations)
        sys.modules["kokoro"] = bare
    return importlib.import_module("kokoro.istftnet")


def kokoro_model() -> types.ModuleType:
    """Import kokoro.model, with the standard logger in place of loguru's. Raises InputError that
    says how to install transformers.
    """
    istftnet()
    if importlib.util.find_spec("transformers") is None:
        raise InputError(
            "transformers is not installed: `make venv` does it; upstream's KModel, the reference,"
            " needs it"
        )
    if "loguru" in sys.modules or importlib.util.find_spec("loguru") is not None:
        return importlib.import_module("kokoro.model")
    # only kokoro.model's import sees the stand-in
    stand_in = types.ModuleType("loguru")
    vars(stand_in)["logger"] = logging.getLogger("kokoro")
    sys.modules["loguru"] = stand_in
    try:
        return importlib.import_module("kokoro.model")
    finally:
        del sys.modules["loguru"]


def empty_model(config: dict[str, Any]) -> KModel:
    """Return KModel as its constructor leaves it when the weights file is empty."""
    with scratch() as folder:
        empty = folder / "empty.pth"
        torch.save({}, empty)
        config = {key: value for key, value in config.items() if key not in OURS_ONLY}
        return kokoro_model().KModel(repo_id="none", config=config, model=str(empty)).eval()


def has_upstreams_widths(config: KokoroConfig) -> bool:
    """Whether the checkpoint has the widths that upstream's decoder writes as literals."""
    return (
        config.decoder == DecoderConfig()
        and config.hidden_dim == 512
        and config.istftnet.upsample_initial_channel == 512
    )


def upstream_of(checkpoint: "Checkpoint") -> KModel:
    """Return KModel with the checkpoint's weights, strictly loaded; Silence in place of a decoder
    of other widths.
    """
    model = empty_model(read_json(checkpoint.folder / "config.json", "a checkpoint has one"))
    if not has_upstreams_widths(checkpoint.config):
        model.decoder = Silence()
    for name in ("bert", "bert_encoder", "predictor", "text_encoder", "decoder"):
        part = getattr(model, name)
        if isinstance(part, Silence):
            continue
        missing, extra = part.load_state_dict(checkpoint.part(name), strict=False)
        # a key that neither side is known to lack is an error
        lost = [key for key in missing if not key.endswith(_FOLDED)]
        lost += [key for key in extra if not key.endswith("position_ids")]
        if lost:
            raise InputError(
                f"{checkpoint.weights}: {name}.{lost[0]} does not fit upstream's KModel"
                f" ({len(lost)} in all)"
            )
    return model


@contextmanager
def injected_noise(noise: Callable[[int], torch.Tensor]) -> Iterator[None]:
    """Replace upstream's three draws: the initial phase and the unused third by constants, the sine
    noise [1, 600F, 9] by `noise` of F frames.
    """
    rand, randn_like = torch.rand, torch.randn_like

    def drawn(like: torch.Tensor, **_: Any) -> torch.Tensor:
        if like.dim() == 3 and like.shape[2] == HARMONICS and like.shape[1] % FRAME_SAMPLES == 0:
            return noise(like.shape[1] // FRAME_SAMPLES).to(like.dtype)
        return torch.zeros_like(like)

    torch.rand = lambda *shape, **_: torch.full(shape, 0.37)
    # of its overloads, the one that upstream calls
    torch.randn_like = drawn  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.rand, torch.randn_like = rand, randn_like


class Silence(torch.nn.Module):
    """A module in place of the decoder, which returns silence; it takes the decoder's inputs."""

    def forward(
        self, asr: torch.Tensor, f0: torch.Tensor, energy: torch.Tensor, style: torch.Tensor
    ) -> torch.Tensor:
        return asr.new_zeros(1)


@torch.no_grad()
def upstream_intermediates(
    model: KModel, input_ids: torch.Tensor, style: torch.Tensor, speed: float = 1.0
) -> dict[str, torch.Tensor]:
    """Run KModel.forward_with_tokens; return every tensor between its parts. input_ids [1, n] with
    boundary tokens, style [1, 256].

    Returns bert [1, n, 768], bert_encoder [1, n, C], d [1, n, C + S], raw [1, n] (frames before
    rounding), durations [n], text [1, C, n], frames [1, F, C + S], asr [1, C, F], f0_hz and energy
    [1, 2F], spectrum [1, 22, 120F + 1], waveform [600F]: our names of what upstream calls d_en,
    t_en, en and har. The dtype is the model's.
    """
    tensors: dict[str, torch.Tensor] = {}

    def keep(*names: str) -> Callable[..., None]:
        """Return a hook that stores a module's output or, as a pre-hook, its first inputs."""

        def hook(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...], *out: torch.Tensor) -> None:
            tensors.update(zip(names, out or inputs, strict=False))

        return hook

    predictor, decoder = model.predictor, model.decoder
    outputs = {
        "bert": model.bert,
        "bert_encoder": model.bert_encoder,
        "d": predictor.text_encoder,
        "logits": predictor.duration_proj,
        "text": model.text_encoder,
    }
    inputs = {("frames",): predictor.shared, ("asr", "f0_hz", "energy"): decoder}
    if not isinstance(decoder, Silence):
        inputs[("spectrum",)] = decoder.generator.noise_convs[0]
    hooks = [module.register_forward_hook(keep(name)) for name, module in outputs.items()]
    hooks += [module.register_forward_pre_hook(keep(*names)) for names, module in inputs.items()]
    before = torch.get_default_dtype()
    torch.set_default_dtype(style.dtype)  # upstream writes its alignment in the default type
    try:
        waveform, durations = model.forward_with_tokens(input_ids, style, speed)
    finally:
        torch.set_default_dtype(before)
        for hook in hooks:
            hook.remove()
    tensors["raw"] = torch.sigmoid(tensors.pop("logits")).sum(dim=-1) / speed
    return tensors | {"durations": durations.reshape(-1), "waveform": waveform.flatten()}
