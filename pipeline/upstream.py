"""Import and run unmodified upstream as the reference: kokoro.istftnet and kokoro.model without the
package's __init__, which imports loguru and spaCy.

    # KModel, complex path; needs `kokoro` and `transformers`
    model = load_upstream(checkpoint)
    with inject_noise(lambda frames: noise[:, : 600 * frames]):
        tensors = collect_intermediates(model, input_ids, style, speed=1.0)
"""

import importlib
import importlib.util
import logging
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

import torch

from kokoro_ane.core import (
    FRAME_SAMPLES,
    HARMONICS,
    Checkpoint,
    DecoderConfig,
    InputError,
    KokoroConfig,
    read_json,
    require_installed,
    scratch,
)

KModel = Any  # kokoro.model.KModel: upstream has no types
OURS_ONLY = ("decoder", "name", "releasable")  # sections of config.json that upstream does not know
# AdaIN's unit affine, which the released checkpoint lacks, and ALBERT's numbers of positions,
# which upstream's own library has dropped
ONE_SIDED = (".norm.weight", ".norm.bias", "position_ids")


def import_upstream(name: str) -> types.ModuleType:
    """Import kokoro.istftnet or kokoro.model as released on PyPI, with the standard logger in place
    of loguru's. Raises InputError where it is not installed.
    """
    require_installed("upstream's KModel, the reference,", "upstream")
    spec = importlib.util.find_spec("kokoro")
    assert spec is not None
    # The module is not executed: its __init__ imports loguru and spaCy.
    sys.modules.setdefault("kokoro", importlib.util.module_from_spec(spec))
    stand_in = types.ModuleType("loguru")
    vars(stand_in)["logger"] = logging.getLogger("kokoro")
    loguru = sys.modules.setdefault("loguru", stand_in)
    try:
        return importlib.import_module(f"kokoro.{name}")
    finally:
        # only this import sees the stand-in
        if loguru is stand_in:
            del sys.modules["loguru"]


def empty_model(config: dict[str, Any]) -> KModel:
    """Return KModel as its constructor leaves it when the weights file is empty."""
    with scratch() as folder:
        empty = folder / "empty.pth"
        torch.save({}, empty)
        config = {key: value for key, value in config.items() if key not in OURS_ONLY}
        # A name that no repository has, so that nothing is downloaded.
        model = import_upstream("model").KModel(repo_id="none", config=config, model=str(empty))
    return model.eval()


def has_upstreams_widths(config: KokoroConfig) -> bool:
    """Whether the checkpoint has the widths that upstream's decoder writes as literals."""
    return (
        config.decoder == DecoderConfig()
        and config.hidden_dim == 512
        and config.istftnet.upsample_initial_channel == 512
    )


def load_upstream(checkpoint: Checkpoint) -> KModel:
    """Return KModel with the checkpoint's weights, strictly loaded; Silence in place of a decoder
    of other widths.
    """
    # As it stands in the file, because upstream takes a dictionary.
    model = empty_model(read_json(checkpoint.folder / "config.json", "a checkpoint has one"))
    parts = ["bert", "bert_encoder", "predictor", "text_encoder", "decoder"]
    if not has_upstreams_widths(checkpoint.config):
        model.decoder = Silence()
        parts.remove("decoder")
    for name in parts:
        # Not strict, because either side has parameters that the other lacks.
        keys = getattr(model, name).load_state_dict(checkpoint.part(name), strict=False)
        for key in (*keys.missing_keys, *keys.unexpected_keys):
            if not key.endswith(ONE_SIDED):
                raise InputError(f"{checkpoint.weights}: {name}.{key} does not fit upstream")
    return model


def inject_noise(noise: Callable[[int], torch.Tensor]) -> AbstractContextManager[Any]:
    """Replace upstream's three draws: the initial phase and the unused third by constants, the sine
    noise [1, 600F, 9] by `noise` of F frames.
    """

    def draw(like: torch.Tensor, **_: Any) -> torch.Tensor:
        # Only the sine noise has nine values over whole frames.
        if like.dim() == 3 and like.shape[2] == HARMONICS and like.shape[1] % FRAME_SAMPLES == 0:
            return noise(like.shape[1] // FRAME_SAMPLES).to(like.dtype)
        return torch.zeros_like(like)

    def fill(*shape: int, **_: Any) -> torch.Tensor:
        # Any constant: the initial phase is never heard.
        return torch.full(shape, 0.37)

    return mock.patch.multiple(torch, rand=fill, randn_like=draw)


class Silence(torch.nn.Module):
    """A module in place of the decoder, which returns silence; it takes the decoder's inputs."""

    def forward(
        self, asr: torch.Tensor, f0: torch.Tensor, energy: torch.Tensor, style: torch.Tensor
    ) -> torch.Tensor:
        return asr.new_zeros(1)


@torch.no_grad()
def collect_intermediates(
    model: KModel, input_ids: torch.Tensor, style: torch.Tensor, speed: float = 1.0
) -> dict[str, torch.Tensor]:
    """Run KModel.forward_with_tokens; return the tensors between its parts by our names and in our
    layout. input_ids [1, n] with boundary tokens, style [1, 256]; the dtype is the model's.

    Returns hidden [1, C, n], durations [n], text [1, C, n], frames [1, C, F], asr [1, C, F], f0_hz
    and energy [1, 2F]; where the decoder is not Silence, also spectrum [1, 22, 120F + 1] and
    waveform [600F]. Upstream calls hidden d, text t_en, frames en, spectrum har.
    """
    tensors: dict[str, torch.Tensor] = {}

    def keep(*names: str) -> Callable[..., None]:
        """Return a hook that stores a module's output or, as a pre-hook, its first inputs."""
        # A pre-hook has no output, so that its inputs are kept.
        return lambda _, inputs, *out: tensors.update(zip(names, out or inputs, strict=False))

    predictor = model.predictor
    decoder = model.decoder
    with ExitStack() as stack:
        hooks = [
            predictor.text_encoder.register_forward_hook(keep("hidden")),
            model.text_encoder.register_forward_hook(keep("text")),
            predictor.shared.register_forward_pre_hook(keep("frames")),
            decoder.register_forward_pre_hook(keep("asr", "f0_hz", "energy")),
        ]
        if not isinstance(decoder, Silence):
            convolution = decoder.generator.noise_convs[0]
            hooks.append(convolution.register_forward_pre_hook(keep("spectrum")))
        for hook in hooks:
            stack.enter_context(hook)
        # upstream writes its alignment in the default type
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(style.dtype)
        waveform, durations = model.forward_with_tokens(input_ids, style, speed)
    for name in ("hidden", "frames"):
        # [1, n, C + S] -> [1, C, n], without the style that upstream appends
        tensors[name] = tensors[name][..., : tensors["text"].shape[1]].transpose(1, 2)
    if "spectrum" in tensors:
        tensors["waveform"] = waveform.flatten()
    return tensors | {"durations": durations.flatten()}
