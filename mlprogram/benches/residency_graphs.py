"""PyTorch modules written after published descriptions, for comparing a forecast with what others
measured. Weights are random.

    # mlprogram.benches.residency holds the shapes and the published figures
    LaiVocoder(), MagpieBody(), DecoderJoint()

LAI: laishere/kokoro-coreml (README and tensor shapes of its seven models). Magpie:
FluidInference/mobius, nanocodec_experiments/results /PHASE_A.md. Joint: FluidInference/FluidAudio,
Documentation/ANE_Profiler.md. Only structure matters here: no weight of theirs is used.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STYLE = 128


class AdaIN(nn.Module):
    """Instance norm whose gain and shift come from the style."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc, self.norm = (
            nn.Linear(STYLE, 2 * channels),
            nn.InstanceNorm1d(channels, affine=True),
        )

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        gain, shift = self.fc(style).unsqueeze(-1).chunk(2, dim=1)  # [1, C, 1] each
        return (1 + gain) * self.norm(x) + shift


class CosSnakeBlock(nn.Module):
    """LAI's residual block: three pairs of AdaIN, Snake in its cosine form and convolution."""

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...] = (1, 3, 5)) -> None:
        super().__init__()
        self.first = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2)
            for d in dilations
        )
        self.second = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=kernel // 2) for _ in dilations
        )
        self.norms = nn.ModuleList(AdaIN(channels) for _ in range(2 * len(dilations)))
        self.register_buffer("alpha", torch.rand(2 * len(dilations), 1, channels, 1) + 0.5)
        # in the graph, coremltools would fold 1 / (alpha + 1e-4)
        self.register_buffer("inverse", 1 / self.alpha)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        for i, convs in enumerate(zip(self.first, self.second, strict=True)):
            h = x
            for j, conv in enumerate(convs):
                h, alpha, inverse = (
                    self.norms[2 * i + j](h, style),
                    self.alpha[2 * i + j],
                    self.inverse[2 * i + j],
                )
                h = conv(h + (torch.cos(h * (2 * alpha)) * -0.5 + 0.5) * inverse)
            x = x + h
        return x


class DecodeBlock(nn.Module):
    """Two AdaIN convolutions with a shortcut; the last of the decoder doubles the rate."""

    def __init__(self, wide_in: int, wide_out: int, doubles: bool = False) -> None:
        super().__init__()
        self.norm1, self.norm2 = AdaIN(wide_in), AdaIN(wide_out)
        self.conv1, self.conv2 = (
            nn.Conv1d(wide_in, wide_out, 3, padding=1),
            nn.Conv1d(wide_out, wide_out, 3, padding=1),
        )
        self.shortcut = nn.Conv1d(wide_in, wide_out, 1, bias=False)
        self.pool = (
            nn.ConvTranspose1d(wide_in, wide_in, 3, 2, padding=1, output_padding=1, groups=wide_in)
            if doubles
            else nn.Identity()
        )
        self.doubles = doubles

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        h = self.conv1(self.pool(F.leaky_relu(self.norm1(x, style), 0.2)))
        h = self.conv2(F.leaky_relu(self.norm2(h, style), 0.2))
        skip = F.interpolate(x, scale_factor=2.0, mode="nearest") if self.doubles else x
        return (h + self.shortcut(skip)) * math.sqrt(0.5)


class LaiVocoder(nn.Module):
    """Decoder and generator trunk; noise comes in as two tensors; outputs an anchor (a mean,
    discarded) and the features for the tail.
    """

    def __init__(self) -> None:
        super().__init__()
        self.f0, self.energy = nn.Conv1d(1, 1, 3, 2, 1), nn.Conv1d(1, 1, 3, 2, 1)
        self.residual, self.encode = nn.Conv1d(512, 64, 1), DecodeBlock(514, 1024)
        self.decode = nn.ModuleList(
            [*(DecodeBlock(1090, 1024) for _ in range(3)), DecodeBlock(1090, 512, doubles=True)]
        )
        self.ups = nn.ModuleList(
            [nn.ConvTranspose1d(512, 256, 20, 10, 5), nn.ConvTranspose1d(256, 128, 12, 6, 3)]
        )
        self.blocks = nn.ModuleList(CosSnakeBlock(c, k) for c in (256, 128) for k in (3, 7, 11))

    def forward(
        self,
        asr: Tensor,
        f0: Tensor,
        energy: Tensor,
        noise_0: Tensor,
        noise_1: Tensor,
        style: Tensor,
    ) -> tuple[Tensor, Tensor]:
        f0, energy = self.f0(f0.unsqueeze(1)), self.energy(energy.unsqueeze(1))
        residual, x = self.residual(asr), self.encode(torch.cat([asr, f0, energy], 1), style)
        for block in self.decode:
            x = block(torch.cat([x, residual, f0, energy], 1), style)
        for i, noise in enumerate((noise_0, noise_1)):
            x = self.ups[i](F.leaky_relu(x, 0.1))
            x = (torch.cat([x[:, :, 1:2], x], 2) if i else x) + noise
            x = (
                self.blocks[3 * i](x, style)
                + self.blocks[3 * i + 1](x, style)
                + self.blocks[3 * i + 2](x, style)
            ) / 3
        x = F.leaky_relu(x)
        return x.mean().unsqueeze(0), x


class LaiNoise(nn.Module):
    """Sine source, spectrum by convolution, the two noise branches; all in fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.merge, self.real, self.imaginary = (
            nn.Linear(9, 1),
            nn.Conv1d(1, 11, 20, 5, bias=False),
            nn.Conv1d(1, 11, 20, 5, bias=False),
        )
        self.convs = nn.ModuleList([nn.Conv1d(22, 256, 12, 6, 3), nn.Conv1d(22, 128, 1)])
        self.blocks = nn.ModuleList([CosSnakeBlock(256, 7), CosSnakeBlock(128, 11)])
        self.register_buffer("harmonics", torch.arange(1.0, 10.0).view(1, 9, 1))

    def forward(self, f0: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        f0 = F.interpolate(f0.unsqueeze(1), scale_factor=300.0, mode="nearest")  # [1, 1, 600 F]
        turns = torch.cumsum(F.avg_pool1d(f0 * self.harmonics / 24000, 300, 300), 2) * (
            2 * math.pi * 300
        )
        voiced = (f0 > 10).float()
        sines = (
            torch.sin(F.interpolate(turns, scale_factor=300.0, mode="linear")) * 0.1 * voiced
            + (1 - voiced) * 0.0003
        )
        wave = torch.tanh(self.merge(sines.transpose(1, 2))).transpose(1, 2)
        wave = F.pad(wave, (10, 10), mode="reflect")
        real, imaginary = self.real(wave), self.imaginary(wave)
        spectrum = torch.cat(
            [torch.sqrt(real * real + imaginary * imaginary + 1e-14), torch.atan2(imaginary, real)],
            1,
        )
        return tuple(
            block(conv(spectrum), style)
            for conv, block in zip(self.convs, self.blocks, strict=True)
        )


class LaiTail(nn.Module):
    """conv_post, exp, sin and the inverse spectrum by transposed convolutions; all in fp32."""

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.post = nn.Conv1d(channels, 22, 7, padding=3)
        self.real, self.imaginary = (nn.ConvTranspose1d(11, 1, 20, 5, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.post(x)
        magnitude, phase = torch.exp(x[:, :11]), torch.sin(x[:, 11:])
        return (
            self.real(magnitude * torch.cos(phase)) - self.imaginary(magnitude * torch.sin(phase))
        )[..., 10:-10]


class PolySnake(nn.Module):
    """x + sin^2(a x) / a as a clipped polynomial, 1 / a folded into its coefficients: nine
    operations, as in the published counts.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        alpha = torch.rand(1, channels, 1) + 0.5
        for name, value in (
            ("alpha", alpha),
            ("c1", 1 / alpha),
            ("c2", -1 / (3 * alpha)),
            ("c3", 2 / (45 * alpha)),
        ):
            self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.clamp(self.alpha * x, -math.pi / 2, math.pi / 2)
        y = y * y
        return x + ((y * self.c3 + self.c2) * y + self.c1) * y


class MagpieBlock(nn.Module):
    """Residual pairs with dilations 1, 3, 5."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2)
            for dilation in (1, 3, 5)
            for d in (dilation, 1)
        )
        self.snakes = nn.ModuleList(PolySnake(channels) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        for i in range(0, 6, 2):
            x = x + self.convs[i + 1](self.snakes[i + 1](self.convs[i](self.snakes[i](x))))
        return x


class MagpieBody(nn.Module):
    """Five upsampling stages, 864 to 27 channels, each followed by three blocks of kernel 3, 7,
    11.
    """

    def __init__(self) -> None:
        super().__init__()
        stages = ((864, 8), (432, 8), (216, 4), (108, 2), (54, 2))
        self.snakes = nn.ModuleList(PolySnake(c) for c, _ in stages)
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(c, c // 2, 2 * s, s, padding=s // 2) for c, s in stages
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(MagpieBlock(c // 2, k) for k in (3, 7, 11)) for c, _ in stages
        )

    def forward(self, x: Tensor) -> Tensor:
        for snake, up, blocks in zip(self.snakes, self.ups, self.blocks, strict=True):
            x = up(snake(x))
            x = (blocks[0](x) + blocks[1](x) + blocks[2](x)) / 3.0
        return x


class DecoderJoint(nn.Module):
    """Prediction network (embedding, two LSTMs) and joint of a transducer in one graph."""

    def __init__(self, width: int = 640, vocabulary: int = 13088) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(1024, width), nn.LSTM(width, width, 2)
        self.encoder, self.predictor, self.out = (
            nn.Linear(1024, width),
            nn.Linear(width, width),
            nn.Linear(width, vocabulary),
        )

    def forward(
        self, token: Tensor, encoded: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, (hidden, cell) = self.lstm(self.embedding(token), (hidden, cell))
        return self.out(torch.relu(self.encoder(encoded) + self.predictor(x))), hidden, cell


class Joint(nn.Module):
    """The joint alone."""

    def __init__(self, width: int = 640, vocabulary: int = 13088) -> None:
        super().__init__()
        self.encoder, self.predictor, self.out = (
            nn.Linear(1024, width),
            nn.Linear(width, width),
            nn.Linear(width, vocabulary),
        )

    def forward(self, encoded: Tensor, predicted: Tensor) -> Tensor:
        return self.out(torch.relu(self.encoder(encoded) + self.predictor(predicted)))


class SnakeConvs(nn.Module):
    """Convolution, Snake, convolution: the smallest graph of the Magpie probe that shows what sin
    does.
    """

    def __init__(self, sine: int, channels: int = 64) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(channels, channels, 7, padding=3) for _ in range(2))
        self.register_buffer("alpha", torch.rand(1, channels, 1) + 0.5)
        self.sine = bool(sine)

    def forward(self, x: Tensor) -> Tensor:
        x = self.convs[0](x)
        y = self.alpha * x
        if self.sine:
            return self.convs[1](x + torch.sin(y) ** 2 * (1 / self.alpha))
        return self.convs[1](x + y * x - y * y * y * x * 0.333)
