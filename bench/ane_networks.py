"""The networks of mlprogram/data/published_times.json, written down from their publications.

    networks(content)["resnet50"].build("w8a8")  # a Profile

In the data file `gmacs` is what a publication counts (multiply-accumulates, 10^9), `assumed` what
it leaves open. A family holds networks that would help each other: errors are taken with a whole
family left out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.ane_graph import Graph
from mlprogram.examine.profile import Profile, Tensor


def _eight(value: float) -> int:
    """The next multiple of 8 as MobileNet rounds channels."""
    new = max(8, int(value + 4) // 8 * 8)
    return new + 8 if new < 0.9 * value else new


def resnet_body(g: Graph, x: Tensor, depths: tuple[int, ...], wide: int) -> Tensor:
    """torchvision's ResNet before its head; `wide` 4 is the bottleneck."""
    x = g.pool(g.conv(x, 64, 7, 2, act="relu"), 3, 2)
    for stage, depth in enumerate(depths):
        channels = 64 * 2**stage
        for i in range(depth):
            stride = 2 if stage and not i else 1
            if wide == 4:
                y = g.conv(
                    g.conv(g.conv(x, channels, act="relu"), channels, 3, stride, act="relu"),
                    4 * channels,
                )
            else:
                y = g.conv(g.conv(x, channels, 3, stride, act="relu"), channels, 3)
            x = g.add(y, x if y.shape == x.shape else g.conv(x, channels * wide, 1, stride), "relu")
    return x


def resnet(g: Graph, depths: tuple[int, ...] = (3, 4, 6, 3), wide: int = 4) -> Tensor:
    """ResNet at 224."""
    return g.head(resnet_body(g, g.input(1, 3, 224, 224), depths, wide))


def centernet(g: Graph) -> None:
    """ResNet-34, three transposed convolutions, three heads."""
    x = resnet_body(g, g.input(1, 3, 512, 512), (3, 4, 6, 3), 1)
    for _ in range(3):
        x = g.conv_transpose(x, 256, 4, 2, "relu")
    g.concat(*(g.conv(g.conv(x, 64, 3, act="relu"), out) for out in (80, 2, 2)))


def mobilenet_v2(g: Graph, width: float = 1.0) -> None:
    """Inverted residuals."""
    x = g.conv(g.input(1, 3, 224, 224), _eight(32 * width), 3, 2, act="relu6")
    for expand, channels, count, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for i in range(count):
            y = g.conv(x, x.shape[1] * expand, act="relu6") if expand > 1 else x
            y = g.conv(g.depthwise(y, 3, 1 if i else stride, "relu6"), _eight(channels * width))
            x = g.add(x, y) if y.shape == x.shape else y
    g.head(g.conv(x, max(1280, _eight(1280 * width)), act="relu6"))


def mobilenet_v3_small(g: Graph) -> None:
    """Inverted residuals with squeeze-excite and hard swish."""
    x = g.conv(g.input(1, 3, 224, 224), 16, 3, 2, act="hswish")
    for kernel, wide, channels, se, act, stride in (
        (3, 16, 16, 1, "relu", 2),
        (3, 72, 24, 0, "relu", 2),
        (3, 88, 24, 0, "relu", 1),
        (5, 96, 40, 1, "hswish", 2),
        (5, 240, 40, 1, "hswish", 1),
        (5, 240, 40, 1, "hswish", 1),
        (5, 120, 48, 1, "hswish", 1),
        (5, 144, 48, 1, "hswish", 1),
        (5, 288, 96, 1, "hswish", 2),
        (5, 576, 96, 1, "hswish", 1),
        (5, 576, 96, 1, "hswish", 1),
    ):
        y = g.depthwise(g.conv(x, wide, act=act) if wide != x.shape[1] else x, kernel, stride, act)
        y = g.conv(g.squeeze_excite(y, _eight(wide / 4), "sigmoid_hard") if se else y, channels)
        x = g.add(x, y) if y.shape == x.shape else y
    x = g.mean(g.conv(x, 576, act="hswish"))
    g.linear(g.act(g.linear(g.reshape(x, (1, 576)), 1024), "hswish"), 1000)


def mobileone(g: Graph, widths: tuple[float, ...], se: bool = False) -> None:
    """Depthwise and pointwise convolutions in a row, branches merged."""
    x = g.conv(g.input(1, 3, 224, 224), min(64, int(64 * widths[0])), 3, 2, act="relu")
    for stage, (base, depth) in enumerate(((64, 2), (128, 8), (256, 10), (512, 1))):
        gated = {2: 5, 3: 1}.get(stage, 0) if se else 0  # how many blocks, at the end of the stage
        for i in range(depth):
            for pointwise in (False, True):
                channels = int(base * widths[stage]) if pointwise else x.shape[1]
                block = g.conv(x, channels) if pointwise else g.depthwise(x, 3, 1 if i else 2)
                x = g.act(
                    g.squeeze_excite(block, channels // 16) if i >= depth - gated else block, "relu"
                )
    g.head(x)


def _conv_ffn(g: Graph, x: Tensor, ratio: float, kernel: int = 7) -> Tensor:
    """Depthwise, two pointwise with GELU, a scale a channel, a residual."""
    y = g.depthwise(x, kernel) if kernel else x
    return g.add(x, g.mul(g.conv(g.conv(y, int(ratio * x.shape[1]), act="gelu"), x.shape[1])))


def _tokens(g: Graph, x: Tensor) -> Tensor:
    """[1, C, H, W] -> [1, HW, C]."""
    return g.transpose(g.reshape(x, (1, x.shape[1], math.prod(x.shape[2:]))), 0, 2, 1)


def _image(g: Graph, x: Tensor, like: Tensor) -> Tensor:
    """[1, HW, C] -> [1, C, H, W]."""
    return g.reshape(g.transpose(x, 0, 2, 1), like.shape)


def fastvit(
    g: Graph,
    depths: tuple[int, ...],
    widths: tuple[int, ...],
    ratio: float,
    attention: bool = False,
    se: bool = False,
) -> None:
    """RepMixer stages, with attention in the last where asked; the form for inference, 256 x
    256.
    """
    x = g.conv(g.input(1, 3, 256, 256), widths[0], 3, 2, act="gelu")
    x = g.conv(g.depthwise(x, 3, 2, "gelu"), widths[0], act="gelu")
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            # each input channel makes two
            x = g.conv(x, width, 7, 2, groups=math.gcd(x.shape[1], width))
            x = g.conv(
                g.squeeze_excite(x, width // 16) if se and stage > 1 else x, width, act="gelu"
            )
        if attention and stage == 3:
            x = g.depthwise(x, 7)  # conditional position
        for _ in range(depth):
            if attention and stage == 3:
                mixed = g.attention(_tokens(g, x), width // 32)
                x = g.add(x, g.mul(_image(g, mixed, x)))
            else:
                x = g.depthwise(x, 3)
            x = _conv_ffn(g, x, ratio)
    x = g.conv(x, 2 * widths[-1], 3, groups=widths[-1])
    g.head(g.act(g.squeeze_excite(x, x.shape[1] // 16), "gelu"))


def efficientformer(
    g: Graph, depths: tuple[int, ...], widths: tuple[int, ...], attentive: int
) -> None:
    """Pooling blocks, then the last blocks of the last stage on tokens."""
    x = g.conv(
        g.conv(g.input(1, 3, 224, 224), widths[0] // 2, 3, 2, act="relu"),
        widths[0],
        3,
        2,
        act="relu",
    )
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        x = g.conv(x, width, 3, 2) if stage else x
        for _ in range(depth - (attentive if stage == 3 else 0)):
            x = g.add(x, g.mul(g._binary("sub", g.pool(x, 3, 1, "avg_pool"), x)))
            x = _conv_ffn(g, x, 4, kernel=0)
    t = _tokens(g, x)
    for _ in range(attentive):
        t = g.add(t, g.attention(g.norm(t), 8, 32, value_width=128))
        t = g.add(t, g.linear(g.linear(g.norm(t), 4 * widths[-1], "gelu"), widths[-1]))
    g.linear(
        g.op("reduce_mean", (1, widths[-1]), {"x": g.norm(t)}, axes=[1], keep_dims=False), 1000
    )


def repvit(g: Graph, depths: tuple[int, ...], widths: tuple[int, ...]) -> None:
    """A depthwise convolution, every other time with squeeze-excite, and two pointwise ones."""
    x = g.conv(g.conv(g.input(1, 3, 224, 224), widths[0] // 2, 3, 2, act="gelu"), widths[0], 3, 2)
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            x = _conv_ffn_plain(g, g.depthwise(x, 3))
            x = _conv_ffn_plain(g, g.conv(g.depthwise(x, 3, 2), width))
        for i in range(depth):
            x = g.depthwise(x, 3)
            x = _conv_ffn_plain(g, g.squeeze_excite(x, _eight(width / 4)) if i % 2 == 0 else x)
    g.head(x)


def _conv_ffn_plain(g: Graph, x: Tensor) -> Tensor:
    return g.add(x, g.conv(g.conv(x, 2 * x.shape[1], act="gelu"), x.shape[1]))


def swiftformer(g: Graph, depths: tuple[int, ...], widths: tuple[int, ...]) -> None:
    """Convolutional blocks; the last of each stage has additive attention."""
    x = g.conv(
        g.conv(g.input(1, 3, 224, 224), widths[0] // 2, 3, 2, act="relu"),
        widths[0],
        3,
        2,
        act="relu",
    )
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        x = g.conv(x, width, 3, 2) if stage else x
        for i in range(depth):
            last = i == depth - 1
            y = g.conv(g.conv(g.depthwise(x, 3), width if last else 4 * width, act="gelu"), width)
            x = g.add(x, g.mul(y))
            if last:
                t = _tokens(g, x)
                q, k = g.linear(t, width), g.linear(t, width)
                gathered = g.op(
                    "reduce_sum",
                    (1, 1, width),
                    {"x": g.mul(q, g.softmax(g.linear(q, 1)))},
                    axes=[1],
                    keep_dims=True,
                )
                x = g.add(
                    x,
                    g.mul(
                        _image(g, g.linear(g.linear(g.add(g.mul(k, gathered), q), width), width), x)
                    ),
                )
                x = g.add(x, g.mul(g.conv(g.conv(x, 4 * width, act="gelu"), width)))
    g.head(x)


def mobilevit_v2(g: Graph) -> None:
    """Inverted residuals, then blocks of separable self-attention on four patches; width 1.0 at
    256.
    """

    def residual(x: Tensor, channels: int, stride: int) -> Tensor:
        y = g.conv(g.depthwise(g.conv(x, 2 * x.shape[1], act="silu"), 3, stride, "silu"), channels)
        return g.add(x, y) if y.shape == x.shape else y

    x = residual(g.conv(g.input(1, 3, 256, 256), 32, 3, 2, act="silu"), 64, 1)
    for i in range(2):
        x = residual(x, 128, 1 if i else 2)
    for channels, width, depth in ((256, 128, 2), (384, 192, 4), (512, 256, 3)):
        x = residual(x, channels, 2)
        t = g.conv(g.depthwise(x, 3, act="silu"), width)
        t = g.reshape(t, (1, width, 4, math.prod(t.shape[2:]) // 4))  # [1, d, patch, N]
        for _ in range(depth):
            y = g.norm(t, "instance_norm")
            context = g.mul(g.conv(y, width), g.softmax(g.conv(y, 1)))
            context = g.op(
                "reduce_sum", (*context.shape[:3], 1), {"x": context}, axes=[-1], keep_dims=True
            )
            t = g.add(t, g.conv(g.mul(g.conv(y, width, act="relu"), context), width))
            t = g.add(t, g.conv(g.conv(g.norm(t, "instance_norm"), 2 * width, act="silu"), width))
        t = g.norm(t, "instance_norm")
        x = g.conv(g.reshape(t, (1, width, *x.shape[2:])), channels)
    g.head(x)


def densenet(g: Graph) -> None:
    """DenseNet-121: every layer reads all before it."""
    x = g.pool(g.conv(g.input(1, 3, 224, 224), 64, 7, 2, act="relu"), 3, 2)
    for stage, depth in enumerate((6, 12, 24, 16)):
        for _ in range(depth):
            y = g.act(g.norm_constant(x), "relu")
            x = g.concat(x, g.conv(g.conv(y, 128, act="relu"), 32, 3))
        if stage < 3:
            x = g.pool(g.conv(g.act(g.norm_constant(x), "relu"), x.shape[1] // 2), 2, 2, "avg_pool")
    g.head(g.act(g.norm_constant(x), "relu"))


def encoder(
    g: Graph,
    t: Tensor,
    layers: int,
    heads: int,
    inner: int,
    glu: bool = False,
    conv: int = 0,
    kv_heads: int = 0,
    head_width: int = 0,
) -> Tensor:
    """Transformer layers on [1, N, D]; `glu` gates the inner layer, `conv` adds a Conformer's
    convolution and second feed-forward.
    """
    width, tokens = t.shape[-1], t.shape[1]

    def feed_forward(t: Tensor) -> Tensor:
        y = g.norm(t)
        y = (
            g.mul(g.linear(y, inner, "gelu"), g.linear(y, inner))
            if glu
            else g.linear(y, inner, "silu" if conv else "gelu")
        )
        return g.add(t, g.linear(y, width))

    for _ in range(layers):
        t = feed_forward(t) if conv else t
        t = g.add(t, g.attention(g.norm(t), heads, head_width, kv_heads))
        if conv:
            y = g.reshape(g.transpose(g.norm(t), 0, 2, 1), (1, width, 1, tokens))
            y = g.mul(g.conv(y, width), g.conv(y, width, act="sigmoid"))
            y = g.conv(g.conv(y, width, (1, conv), groups=width, act="silu"), width)
            t = g.add(t, g.transpose(g.reshape(y, (1, width, tokens)), 0, 2, 1))
        t = feed_forward(t)
    return g.norm(t)


def transformer(
    g: Graph, tokens: int, width: int, layers: int, heads: int, inner: int = 0, **options: int
) -> None:
    """An encoder on embedded tokens."""
    encoder(g, g.input(1, tokens, width), layers, heads, inner or 4 * width, **options)


def vit(g: Graph, patch: int = 16, stem: bool = False) -> None:
    """ViT-B at 224; `stem` is MobileCLIP-B's convolutions in place of the patches."""
    x = g.input(1, 3, 224, 224)
    if stem:
        x = g.conv(g.conv(g.conv(x, 192, 4, 4, act="gelu"), 192, 2, 2, act="gelu"), 768, 2, 2)
    else:
        x = g.conv(x, 768, patch, patch)
    g.linear(encoder(g, _tokens(g, x), 12, 12, 3072), 1000)


def depth_anything(g: Graph) -> None:
    """DINOv2's ViT-S/14 on 518 x 392 and DPT's convolutions."""
    x = g.conv(g.input(1, 3, 392, 518), 384, 14, 14)  # [1, 384, 28, 37]
    t = _tokens(g, x)
    maps = []
    for scale, channels in ((4, 48), (2, 96), (1, 192), (-2, 384)):
        t = encoder(g, t, 3, 6, 1536)
        y = g.conv(_image(g, t, x), channels)
        y = (
            g.conv_transpose(y, channels, scale, scale)
            if scale > 1
            else g.conv(y, channels, 3, 2)
            if scale < 0
            else y
        )
        maps.append(g.conv(y, 64, 3))

    def unit(y: Tensor) -> Tensor:
        return g.add(y, g.conv(g.conv(g.act(y, "relu"), 64, 3, act="relu"), 64, 3))

    y = maps[-1]
    for i in (3, 2, 1, 0):
        y = unit(g.add(y, unit(maps[i]))) if i < 3 else unit(y)
        size = maps[i - 1].shape[2:] if i else tuple(2 * n for n in y.shape[2:])
        y = g.conv(g.op("upsample_bilinear", (1, 64, *size), {"x": y}), 64)
    y = g.op("upsample_bilinear", (1, 32, 392, 518), {"x": g.conv(y, 32, 3)})
    g.conv(g.conv(y, 32, 3, act="relu"), 1, act="relu")


def llama_mlp(g: Graph) -> None:
    """Gate, up and down projections of Llama 2 7B, four times, as 1 x 1 convolutions."""
    x = g.input(1, 4096, 1, 64)
    for _ in range(4):
        x = g.conv(g.mul(g.conv(x, 11008, act="silu"), g.conv(x, 11008)), 4096)


def gemm(g: Graph, rows: int, inner: int, columns: int) -> None:
    """One product with a constant."""
    g.linear(g.input(1, rows, inner), columns)


def conv_stack(g: Graph, channels: int, side: int, depth: int = 1, batch: int = 1) -> None:
    """Convolutions of 3 x 3 in a row."""
    x = g.input(batch, channels, side, side)
    for _ in range(depth):
        x = g.conv(x, channels, 3)


def attention(g: Graph, tokens: int) -> None:
    """Multi-head attention of width 768 with its four projections."""
    g.attention(g.input(1, tokens, 768), 12)


def norm(g: Graph, shape: list[int], kind: str = "layer_norm") -> None:
    """One norm."""
    g.norm(g.input(*shape), kind)


DEFINITIONS = (
    resnet,
    centernet,
    mobilenet_v2,
    mobilenet_v3_small,
    mobileone,
    fastvit,
    efficientformer,
    repvit,
    swiftformer,
    mobilevit_v2,
    densenet,
    transformer,
    vit,
    depth_anything,
    llama_mlp,
    gemm,
    conv_stack,
    attention,
    norm,
)


@dataclass(frozen=True)
class Network:
    """A network of a family, as the data file has it: which definition here, with which
    arguments.
    """

    family: str
    define: str
    arguments: Mapping[str, Any]
    gmacs: float | None = None
    assumed: str = ""

    def build(self, level: str = "fp16") -> Profile:
        """Its profile at a level."""
        graph = Graph(level)
        next(f for f in DEFINITIONS if f.__name__ == self.define)(graph, **self.arguments)
        return graph.profile()


def networks(content: Mapping[str, Any]) -> dict[str, Network]:
    """By name, of the parsed data file."""
    return {name: Network(**entry) for name, entry in content["networks"].items()}
