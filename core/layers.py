"""Layers in (B, C, 1, S) that load upstream's state-dict keys: convolution, transposed convolution,
AdaIN, Snake, masks.

    mask = Mask.from_values(torch.ones(1, 1, 1, frames))
    y = AdaIN1d(style_dim=128, channels=512)(x, style, mask)

Three ideas: time is the last and contiguous axis; a Linear is a 1x1 convolution; whatever can be
folded (weight norm, the instance norm's affine, the 1 of `1 + gamma`, 1/alpha) is folded when the
state dict is loaded, by a hook beside the layer that needs it.
"""

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mlprogram import can_convolve_row, convolve_row

Module = TypeVar("Module", bound=nn.Module)


class Modules(nn.ModuleList, Generic[Module]):
    """torch's ModuleList of modules of one class."""

    if TYPE_CHECKING:

        def __init__(self, modules: Iterable[Module] = ()) -> None: ...

        def __iter__(self) -> Iterator[Module]: ...

        def __getitem__(self, idx: int | slice) -> Any: ...


def replace_module(root: nn.Module, path: str, module: nn.Module) -> None:
    """Put `module` where `path` leads from `root`."""
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, module)


NORM_EPSILON = 1e-5  # torch.nn.InstanceNorm1d's default, which upstream uses
_WEIGHT_NORM_NAMES = (
    ("weight_g", "weight_v"),
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
)


class Mask(NamedTuple):
    """A prefix mask [B, 1, 1, S] (1 inside the utterance, 0 in the padding) and its mean [B, 1, 1,
    1].
    """

    values: Tensor
    mean: Tensor

    @classmethod
    def from_values(cls, values: Tensor) -> "Mask":
        return cls(values, values.mean(dim=3, keepdim=True))

    def upsampled(self, factor: int) -> "Mask":
        """The same mask at `factor` times the rate; factor is a constant of the exported graph."""
        return Mask(
            F.interpolate(self.values, scale_factor=(1.0, float(factor)), mode="nearest"), self.mean
        )


def read_by(layer: nn.Module, x: Tensor) -> Tensor:
    """What a layer multiplies: x, rounded where a level says so (quantize/stored_forms.py)."""
    rounding = layer.rounding
    return rounding(x) if isinstance(rounding, nn.Module) else x


def masked(x: Tensor, mask: Mask | None) -> Tensor:
    """Zero the padding; `mask=None` means exact length, nothing to zero."""
    return x if mask is None else x * mask.values


class Uninitialized(TorchFunctionMode):
    """Within it, a new module's weights have no values yet: for one that is loaded at once."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        # Every initializer gives its tensor back as it is.
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def weight_norm_folded(g: Tensor, v: Tensor) -> Tensor:
    """g v / |v| with the norm over all axes but the first (torch.nn.utils.weight_norm, dim=0),
    computed in float64.
    """
    wide = v.to(torch.float64, copy=True)
    norm = wide.flatten(1).norm(dim=1).view(-1, *[1] * (v.dim() - 1))
    return wide.mul_(g.double()).div_(norm).to(v.dtype)


class _UpstreamWeight(nn.Module):
    """Load hook shared by both convolutions: fold weight norm, insert the height axis.

    `weight_norm=True` means upstream stores g and v; the folded weight is then not accepted in
    their place, and the other way round.
    """

    weight_norm: bool
    weight: Tensor
    bias: Tensor | None
    upstream_dim: int

    def _load_from_state_dict(
        self,
        state: dict[str, Tensor],
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: list[str],
        unexpected: list[str],
        errors: list[str],
    ) -> None:
        key = prefix + "weight"
        entry = self._take(state, prefix)
        if entry is None:
            state.pop(key, None)
        else:
            name, value = entry
            if tuple(value.shape) != self.upstream_shape():
                errors.append(
                    f"{prefix}{name} has shape {list(value.shape)}, expected"
                    f" {list(self.upstream_shape())}"
                )
                value = self.weight.detach()
            # [out, in, k] or a Linear's [out, in] -> [out, in, 1, k]
            state[key] = value.reshape(self.weight.shape)
        super()._load_from_state_dict(state, prefix, metadata, strict, missing, unexpected, errors)
        if self.weight_norm:
            missing[:] = [f"{prefix}weight_v" if name == key else name for name in missing]

    def _take(self, state: dict[str, Tensor], prefix: str) -> tuple[str, Tensor] | None:
        """Name and value of the weight in upstream's shape, its keys taken out of `state`; None
        where it is missing.
        """
        if not self.weight_norm:
            value = state.pop(prefix + "weight", None)
            return None if value is None else ("weight", value)
        for g_name, v_name in _WEIGHT_NORM_NAMES:
            if prefix + g_name in state and prefix + v_name in state:
                g, v = state.pop(prefix + g_name), state.pop(prefix + v_name)
                return (
                    (v_name, weight_norm_folded(g, v)) if g.shape == (len(v), 1, 1) else (g_name, g)
                )
        return None

    def upstream_shape(self) -> tuple[int, ...]:
        """Shape of the tensor as upstream stores it."""
        out, inner, _, k = self.weight.shape
        return (out, inner, k) if self.upstream_dim == 3 else (out, inner)


class Conv(_UpstreamWeight, nn.Conv2d):
    """Conv1d as Conv2d (1, k) on [B, C, 1, S]."""

    upstream_dim = 3
    padding: tuple[int, ...]

    def __init__(
        self,
        inner: int,
        out: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = True,
        weight_norm: bool = True,
    ) -> None:
        super().__init__(
            inner,
            out,
            (1, kernel),
            stride=(1, stride),
            padding=(0, padding),
            dilation=(1, dilation),
            bias=bias,
        )
        self.weight_norm = weight_norm
        self.rounding: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(read_by(self, x))

    # torch's own, in fewer products; its caller read the weight, which a level computes each time
    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if can_convolve_row(x, weight, self.stride[1], self.groups):
            return convolve_row(x, weight, bias, self.padding[1], self.dilation[1])
        return super()._conv_forward(x, weight, bias)


class ConvTranspose(_UpstreamWeight, nn.ConvTranspose2d):
    """ConvTranspose1d as ConvTranspose2d (1, k) on [B, C, 1, S], weight-normed upstream.

    Upstream's `output_padding` becomes as many zero taps at the kernel's end: the same sum, without
    the crop that coremltools adds for it.
    """

    upstream_dim = 3
    weight_norm = True
    bias: Tensor
    padding: tuple[int, ...]

    def __init__(
        self,
        inner: int,
        out: int,
        kernel: int,
        *,
        stride: int,
        padding: int,
        output_padding: int = 0,
        groups: int = 1,
    ) -> None:
        super().__init__(
            inner, out, (1, kernel), stride=(1, stride), padding=(0, padding), groups=groups
        )
        self.zero_taps = output_padding
        self.rounding: nn.Module | None = None

    # no output_size: the length follows from the stride
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """[B, inner, 1, S] -> [B, out, 1, stride * S] for the paddings used here."""
        weight = self.weight
        x = read_by(self, x)
        weight = F.pad(weight, (0, self.zero_taps)) if self.zero_taps else weight
        return F.conv_transpose2d(x, weight, self.bias, self.stride, self.padding, 0, self.groups)


def with_zero_taps(module: Module) -> Module:
    """The module with all zero taps in its weights: a weight that is padded while the graph runs is
    no constant.
    """
    for layer in module.modules():
        if isinstance(layer, ConvTranspose) and layer.zero_taps:
            layer.weight = nn.Parameter(F.pad(layer.weight.detach(), (0, layer.zero_taps)))
            layer.zero_taps = 0
    return module


class Linear(_UpstreamWeight, nn.Conv2d):
    """Linear as a 1x1 convolution on [B, C, 1, S]."""

    upstream_dim = 2
    weight_norm = False
    bias: Tensor

    def __init__(self, inner: int, out: int) -> None:
        super().__init__(inner, out, (1, 1))


class StyleAffine(Linear):
    """AdaIN's `fc`: style -> gain and shift. The 1 of `1 + gamma` lives in the bias of the gain
    half.
    """

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__(style_dim, 2 * channels)
        self.channels = channels

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        key = prefix + "bias"
        if key in state and state[key].shape == self.bias.shape:
            state[key] = torch.cat([state[key][: self.channels] + 1, state[key][self.channels :]])
        super()._load_from_state_dict(state, prefix, *rest)


class SnakeList(Modules["Snake"]):
    """Upstream's ParameterList of alphas: key `alpha1.0` there is `alpha1.0.alpha` here."""

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        for index in range(len(self)):
            if f"{prefix}{index}" in state:
                state[f"{prefix}{index}.alpha"] = state.pop(f"{prefix}{index}")
        super()._load_from_state_dict(state, prefix, *rest)


class AdaIN1d(nn.Module):
    """Adaptive instance norm: (x - mean) / std * gain(style) + shift(style), statistics inside the
    mask only.

    Made for fp16: the rounded mean is subtracted first and what it missed is taken from the shift,
    because means of real Kokoro are up to 117 deviations; the squares are those of `scale` * (x -
    mean), `scale` a power of two that keeps them inside fp16's range. Upstream's `norm.weight` and
    `norm.bias`, absent in the released checkpoint, are folded into the affine when a state dict has
    them.
    """

    def __init__(self, style_dim: int, channels: int, scale: float = 1.0) -> None:
        super().__init__()
        self.fc = StyleAffine(style_dim, channels)
        self.scale = scale

    def forward(self, x: Tensor, style: Tensor, mask: Mask | None) -> Tensor:
        """x [B, C, 1, S] and style [B, style_dim, 1, 1] -> [B, C, 1, S]; the padding of the result
        is not zero.
        """
        gain, shift = self.fc(style).chunk(2, dim=1)  # [B, C, 1, 1] each
        if mask is None:
            return F.instance_norm(x, eps=NORM_EPSILON) * gain + shift
        # a ratio of means: a sum over S overflows fp16
        mean = masked(x, mask).mean(dim=3, keepdim=True) / mask.mean
        centered = (x - mean) * (mask.values * self.scale)
        rest = centered.mean(dim=3, keepdim=True) / mask.mean  # what the rounding of the mean left
        power = (centered * centered).mean(dim=3, keepdim=True) / mask.mean
        factor = torch.rsqrt(F.relu(power - rest * rest) + NORM_EPSILON * self.scale**2) * gain
        return centered * factor + (shift - rest * factor)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        weight, bias = (state.pop(f"{prefix}norm.{name}", None) for name in ("weight", "bias"))
        fc_weight, fc_bias = prefix + "fc.weight", prefix + "fc.bias"
        if weight is not None and bias is not None and fc_weight in state and fc_bias in state:
            gamma_w, beta_w = state[fc_weight].chunk(2)
            gamma_b, beta_b = state[fc_bias].chunk(2)
            state[fc_weight] = torch.cat(
                [gamma_w * weight[:, None], beta_w + gamma_w * bias[:, None]]
            )
            # The 1 of `1 + gamma` is taken off again here, because StyleAffine's hook adds it.
            state[fc_bias] = torch.cat([(1 + gamma_b) * weight - 1, beta_b + (1 + gamma_b) * bias])
        super()._load_from_state_dict(state, prefix, *rest)


class Snake(nn.Module):
    """x + sin(alpha x)^2 / alpha per channel, with 1/alpha stored: coremltools turns `1 / alpha`
    into inverse(epsilon=1e-4).

    Source: Ziyin et al., arXiv 2006.08195. In training the quotient follows alpha; `eval()` and
    loading freeze it.
    """

    inverse_alpha: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.register_buffer("inverse_alpha", torch.ones(1, channels, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.sin(self.alpha * x)
        inverse = 1 / self.alpha if self.training else self.inverse_alpha
        return x + inverse * (wave * wave)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        key = prefix + "alpha"
        if key in state and state[key].dim() == 3:
            state[key] = state[key].unsqueeze(-1)  # [1, C, 1] -> [1, C, 1, 1]
        super()._load_from_state_dict(state, prefix, *rest)
        self.freeze()

    @torch.no_grad()
    def freeze(self) -> None:
        """Recompute the stored quotient from alpha."""
        self.inverse_alpha.copy_((1 / self.alpha.double()).to(self.inverse_alpha.dtype))

    def train(self, mode: bool = True) -> "Snake":
        self.freeze()
        return super().train(mode)


LEAKY_SLOPE = 0.2
HALF_POWER = 1 / math.sqrt(2)


class AdainResBlk1d(nn.Module):
    """Residual block of two AdaIN convolutions of width 3; `upsample=True` doubles the rate."""

    def __init__(self, inner: int, out: int, style_dim: int, *, upsample: bool = False) -> None:
        super().__init__()
        self.conv1 = Conv(inner, out, 3, padding=1)
        self.conv2 = Conv(out, out, 3, padding=1)
        self.norm1 = AdaIN1d(style_dim, inner)
        self.norm2 = AdaIN1d(style_dim, out)
        self.conv1x1 = Conv(inner, out, 1, bias=False) if inner != out else None
        self.pool = (
            ConvTranspose(inner, inner, 3, stride=2, padding=1, output_padding=1, groups=inner)
            if upsample
            else None
        )

    def forward(self, x: Tensor, style: Tensor, mask: Mask | None) -> tuple[Tensor, Mask | None]:
        """x [B, inner, 1, S] -> [B, out, 1, S or 2S] and the mask at the new rate."""
        # A convolution reads beyond the utterance, so the padding is zeroed before each one.
        h = masked(F.leaky_relu(self.norm1(x, style, mask), LEAKY_SLOPE), mask)
        if self.pool is not None:
            h = self.pool(h)  # [B, inner, 1, 2S]
            x = F.interpolate(x, scale_factor=(1.0, 2.0), mode="nearest")
            mask = mask.upsampled(2) if mask is not None else None
            h = masked(h, mask)
        h = self.norm2(self.conv1(h), style, mask)
        h = self.conv2(masked(F.leaky_relu(h, LEAKY_SLOPE), mask))
        shortcut = x if self.conv1x1 is None else self.conv1x1(x)
        return (h + shortcut) * HALF_POWER, mask


def concatenate(*parts: Tensor) -> Tensor:
    """Join [B, C_i, 1, S] along channels."""
    return torch.cat(parts, dim=1)
