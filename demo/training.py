"""The training loop of the demo voice: optimizer, schedule, averaged weights, resume, export.

trainer = Trainer(Plan(steps=3200, seed=0), utterances, "cpu", compiled=False)
trainer.run(Path("build/demo/state.pt"), minutes=None)
trainer.export(Path("build/demo/checkpoint"))
"""

import copy
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from core.checkpoint import DEMO_FOLDER
from core.config import KokoroConfig
from core.corpus import Utterance
from core.errors import InputError
from core.layers import Conv, ConvTranspose, Snake
from core.training.loop import trained
from core.training.muon import Muon
from core.training.state import put_back, read_state, recent_loss, write_log, write_state
from demo.batches import Batch, Batches
from demo.losses import SpectralLoss, range_penalty
from demo.model import DemoVoice

LOG_EVERY_STEPS = 20
LOG_NAME = "training_log.jsonl"


@dataclass(frozen=True)
class Plan:
    """A run in numbers."""

    steps: int
    seed: int
    rate: float = 1.5e-3  # Adam: biases, gains, styles, the LSTM
    kernel_rate: float = 3e-3  # Muon: convolution kernels
    warmup_steps: int = 200
    falling_part: float = 0.35
    crop_count: int = 2
    crop_frames: int = 80
    average: float = 0.998
    gradient_limit: float = 5.0
    alpha_range: tuple[float, float] = (0.05, 20.0)

    def progress(self, step: int) -> float:
        """How far the falling part has come, 0 to 1."""
        start = self.steps * (1 - self.falling_part)
        return max(0.0, (step - start) / (self.steps - start))

    def pace(self, step: int) -> float:
        """Linear warm-up, flat, then a fall to 2 % along 1 - sqrt; times `rate` or `kernel_rate`."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        return warm * max(0.02, 1 - math.sqrt(self.progress(step)))


class Trainer:
    """Responsibilities: 1. steps; 2. state on disk; 3. the averaged weights as a checkpoint folder."""

    def __init__(self, plan: Plan, utterances: list[Utterance], device: str, *, compiled: bool, config: KokoroConfig | None = None) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise InputError("--device cuda: torch sees no CUDA device here")
        self.plan, self.device, self.step, self.log = plan, torch.device(device), 0, []
        torch.manual_seed(plan.seed)
        self.voice = DemoVoice(config or KokoroConfig.load(DEMO_FOLDER / "config.json"))
        self.voice.initialize()
        self.voice.to(self.device).train()
        self.average = copy.deepcopy(self.voice).requires_grad_(False)
        kernels, others = kernels_and_others(self.voice)
        self.optimizers = {"adam": torch.optim.Adam(others, lr=plan.rate, betas=(0.9, 0.99)), "muon": Muon(kernels, lr=plan.kernel_rate)}
        self.loss = SpectralLoss().to(self.device)
        self.batches = Batches(utterances, plan.seed)
        self.conv_post: list[Tensor] = []
        self.voice.decoder.generator.conv_post.register_forward_hook(lambda _m, _i, output: self.conv_post.append(output))
        self.vocoder = torch.compile(self.voice.decoder, dynamic=False) if compiled else self.voice.decoder

    def run(self, state: Path, minutes: float | None) -> bool:
        """Train to the end of the plan or of the time; True when the plan is finished."""
        return trained(self, "training", state, minutes, LOG_EVERY_STEPS)

    def train_step(self) -> dict[str, float]:
        """One batch; returns the loss and its parts."""
        pace = self.plan.pace(self.step)
        for name, rate in (("adam", self.plan.rate), ("muon", self.plan.kernel_rate)):
            self.optimizers[name].param_groups[0]["lr"] = rate * pace
        batch = self.batches.draw(self.step, self.plan.crop_count, self.plan.crop_frames).to(self.device)
        self.conv_post.clear()
        parts = self.loss(self.render(batch), batch.audio)
        parts["range"] = range_penalty(self.conv_post[-1].float())
        loss = sum(parts.values())
        self.voice.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.voice.parameters(), self.plan.gradient_limit)
        if bool(torch.isfinite(norm)):
            for optimizer in self.optimizers.values():
                optimizer.step()
        self._after_step()
        return {name: round(value.item(), 5) for name, value in {"loss": loss, **parts, "gradient": norm}.items()}

    def render(self, batch: Batch) -> Tensor:
        """Waveform [B, 600F] in float32; the convolutions run in bfloat16."""
        text = self.voice.text_encoder(batch.input_ids, batch.lengths)  # [B, C, 1, T]
        index = batch.token_of_frame[:, None, None].expand(-1, text.shape[1], 1, -1)
        asr = text.gather(3, index)  # [B, C, 1, F]
        spectrum = self.voice.decoder.generator.m_source(batch.f0_hz, batch.noise).float()
        style = self.voice.styles[batch.voices][..., None, None]
        with torch.autocast(self.device.type, torch.bfloat16):
            wave = self.vocoder(asr, batch.f0_hz[:, None, None], batch.energy[:, None, None], style, spectrum)
        return wave[:, 0, 0].float()

    @torch.no_grad()
    def _after_step(self) -> None:
        for module in self.voice.modules():
            if isinstance(module, Snake):
                module.alpha.clamp_(*self.plan.alpha_range)
        self.step += 1
        keep = min(self.plan.average, self.step / (self.step + 10))
        mean, new = list(self.average.parameters()), list(self.voice.parameters())
        torch._foreach_lerp_(mean, new, 1 - keep)

    def recent_loss(self) -> float | None:
        """Mean of the last ten logged losses."""
        return recent_loss(self.log)

    def save(self, state: Path) -> None:
        """All a resumed run needs, renamed into place."""
        content = {"step": self.step, "seed": self.plan.seed, "log": self.log}
        content |= {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        write_state(state, content | {name: dict(getattr(self, name).named_parameters()) for name in ("voice", "average")})

    def resume(self, state: Path) -> None:
        """Go on where `save` stopped; the plan may have another length."""
        content = read_state(state, self.plan.seed, self.device)
        for name in ("voice", "average"):
            put_back(getattr(self, name), content[name])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(content[name])
        self.step, self.log = content["step"], content["log"]

    def export(self, folder: Path) -> None:
        """The averaged weights, config.json and the log as a checkpoint folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.average.save(folder)
        config = DEMO_FOLDER / "config.json"
        if folder.resolve() != DEMO_FOLDER.resolve():
            shutil.copyfile(config, folder / "config.json")
        write_log(folder / LOG_NAME, self.log)


def kernels_and_others(voice: DemoVoice) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Trainable parameters: convolution kernels of more than one input, and the rest."""
    convolutions = (m.weight for m in voice.modules() if isinstance(m, Conv | ConvTranspose))
    kernels = [weight for weight in convolutions if weight.requires_grad and weight.shape[1] > 1]
    known = {id(kernel) for kernel in kernels}
    return kernels, [p for p in voice.parameters() if p.requires_grad and id(p) not in known]
