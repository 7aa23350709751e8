"""The encoder's layers as compression sees them: LSTMs whose weights can be stored, the plan that a
method makes for each weight, and what fitted palettes are fitted to.

    encoder = with_stored_lstms(Encoder.from_checkpoint(checkpoint))
    plan = plan_encoder(STAGE_METHODS["encoder"]["mixed"], encoder)
    plan["predictor.lstm.weight_ih"].weights                # a PaletteWeights of 6 bits
    fits = collect_encoder_fits(checkpoint, encoder, plan)

Weights alone are compressed; the arithmetic stays as it was. Layers have upstream's names.
"""

import copy
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from kokoro_ane.core import TUNING, Checkpoint, Conv, replace_module, style_row
from kokoro_ane.encoder import (
    KEEP_FP32,
    Encoder,
    OneLSTM,
    PrefixLSTM,
    add_flag,
    encode,
    make_torch_backend,
    make_torch_functions,
)
from kokoro_ane.quantize.methods import SCHEMES, Method
from kokoro_ane.quantize.palettes import Fit, Unfolded
from kokoro_ane.quantize.plan import (
    LayerPlan,
    LayerSpec,
    can_save,
    is_fitted,
    plan_layer,
    require_same,
)
from kokoro_ane.quantize.statistics import ActivationStatistics, use_one_thread_each
from kokoro_ane.quantize.stored_forms import LSTMWeight, OrderedLSTM
from kokoro_ane.speech import load_own_speech

# not in the exported functions, or there a constant row
LEFT_OUT = ("bert.pooler", "bert.embeddings.token_type_embeddings")
FEWEST = 2  # columns of a sentence: a layer that reads the style alone has one


class StoredPrefixLSTM(OneLSTM, OrderedLSTM):
    """encoder/lstm.py's PrefixLSTM in Core ML's order, the column that marks the padding in its
    weights.
    """

    # the padding is an input of its own
    def forward(self, x: Tensor, inside: Tensor) -> Tensor:  # type: ignore[override]
        """x [1, T, inner], inside [1, T, 1] -> [1, T, 2 hidden], zero in the padding."""
        return super().forward(add_flag(x, inside).transpose(0, 1)).transpose(0, 1) * inside


def with_stored_lstms(encoder: Encoder) -> Encoder:
    """A copy whose LSTMs hold their weights one by one."""
    copied = copy.deepcopy(encoder)
    # A list, because modules are replaced while they are walked.
    for path, layer in list(copied.named_modules()):
        if isinstance(layer, PrefixLSTM):
            replace_module(copied, path, StoredPrefixLSTM(layer.make_flag_weights()))
    return copied.eval()


def plan_encoder(
    method: Method, encoder: Encoder, levels: Mapping[str, str] | None = None
) -> dict[str, LayerPlan]:
    """The plan of every weight that the method compresses, by name. `levels`: a recipe's, for a
    method that follows one. Raises InputError for one of other weights.
    """
    layers = list_encoder_layers(encoder)
    if method.by_recipe:
        require_same("encoder", set(layers), set(levels or ()))
    plan = {
        path: plan_layer(
            layer, SCHEMES[levels[path]].weights if levels else method.find_weights(path), False
        )
        for path, layer in layers.items()
    }
    return {path: entry for path, entry in plan.items() if entry.weights is not None}


def list_encoder_layers(encoder: Encoder) -> dict[str, LayerSpec]:
    """Every weight that is large enough to pay, by name; of an LSTM as in
    predictor.lstm.weight_ih.
    """
    functions = make_torch_functions(encoder)
    # What a 16-bit package computes in fp32 has its weights in fp32 too.
    in_fp32 = {
        module
        for function, scopes in KEEP_FP32.items()
        for scope in scopes
        for module in getattr(functions, function).get_submodule(scope).modules()
    }
    layers = {}
    for path, layer in encoder.named_modules():
        stored = isinstance(layer, nn.Linear | nn.Conv2d | nn.Embedding | LSTMWeight)
        if not stored or path.startswith(LEFT_OUT) or ".bias" in path:
            continue
        shape = layer.weight.shape
        half = layer not in in_fp32
        entry = LayerSpec(path, False, shape.numel(), shape[1], shape[0], 0, False, False, half)
        if can_save(entry):
            layers[path] = entry
    return layers


@torch.no_grad()
def collect_encoder_fits(
    checkpoint: Checkpoint, encoder: Encoder, plan: Mapping[str, LayerPlan]
) -> dict[str, Fit]:
    """What the plan's fitted palettes need, by path: the second moments of what each weight
    multiplies in the tuning set, at exact length in fp32.

    An LSTM multiplies its inputs and, one step later, its outputs. A layer that reads the style
    alone has one column a sentence and gets no fit. An embedding multiplies nothing and gets none
    either.
    """
    fitted = {path for path, entry in plan.items() if is_fitted(entry.weights)}
    if not fitted:
        return {}
    read: dict[str, ActivationStatistics] = {}

    def record_inputs(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        for path, columns in _list_products(paths[layer], layer, inputs, output):
            if path in fitted and len(columns) >= FEWEST:
                read.setdefault(path, ActivationStatistics()).add_columns(columns)

    paths = {layer: path for path, layer in encoder.named_modules()}
    backend = make_torch_backend(encoder, checkpoint.config)
    hooks = [layer.register_forward_hook(record_inputs) for layer in paths]
    with use_one_thread_each():
        for one in load_own_speech(checkpoint, TUNING):
            # the second half of a style row is the encoder's, the first the vocoder's
            style = style_row(checkpoint.blend(one.voice), len(one.phonemes))
            style = style[:, checkpoint.config.style_dim :]
            encode(backend, tuple(map(int, one.input_ids)), style, one.speed, one.durations)
    # The encoder is the caller's, and stays as it was.
    for hook in hooks:
        hook.remove()
    return {
        path: Fit(Unfolded.from_layer(encoder.get_submodule(path)), reading.moments)
        for path, reading in read.items()
    }


def _list_products(
    path: str, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """The names of a layer's weights and what each multiplies, [n, I taps]."""
    if isinstance(layer, StoredPrefixLSTM):
        x = add_flag(*inputs)[0]  # [T, I]
        # the outputs [1, T, 2 H] hold the forward half, then the backward one: weight_hh multiplies
        # the state before the step, weight_hh_back the state after it
        ahead, back = output[0].chunk(2, dim=1)
        yield from ((f"{path}.weight_ih{end}", x) for end in ("", "_back"))
        yield from ((f"{path}.weight_hh", ahead[:-1]), (f"{path}.weight_hh_back", back[1:]))
    elif isinstance(layer, nn.Linear):
        # [n, I]
        yield path, inputs[0].flatten(0, -2)
    elif isinstance(layer, Conv):
        yield path, Unfolded.from_layer(layer).gather_inputs(inputs[0])
