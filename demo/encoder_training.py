"""The demo voice's encoder: symbols for the vocoder, durations, F0 and energy, learned from aligned speech in one loop.

    trainer = EncoderTrainer(EncoderPlan(steps=6000, seed=0), pairs, DEMO_FOLDER)
    trainer.run(Path("build/demo/encoder_state.pt"), minutes=None)
    trainer.export(Path("build/demo/checkpoint"))

The text encoder imitates, frame by frame, what the vocoder was trained with: the features that the vocoder's own text encoder makes of
flite's phones. The vocoder stays as it is. Durations: binary cross-entropy of "lasts one frame more" (StyleTTS 2, Li et al. 2023,
train_second.py) and L1 of their sum; F0 and energy: L1.
"""

import copy
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.checkpoint import Checkpoint
from core.corpus import VOICES
from core.errors import InputError
from core.layers import Mask
from core.training.loop import trained
from core.training.state import put_back, read_state, recent_loss, write_log, write_state
from demo.encoder_batches import EncoderBatch, EncoderBatches, Pair
from demo.model import PITCH_UNIT_HZ, put_parts, put_styles, unit_gains
from encoder.model import PARTS, Encoder
from encoder.predictor import with_style
from encoder.text_encoder import TextEncoder

LOG_EVERY_STEPS = 50
LOG_NAME = "encoder_log.jsonl"
WEIGHT = {"symbols": 2.0, "bins": 0.5, "durations": 0.3, "f0": 3.0, "energy": 0.5}
STYLE_SPREAD, EMBEDDING_SPREAD = 0.5, 0.1
FIRST_BIN, BIN_SLOPE, LAST_BIN = 3.0, -1.0, -8.0  # start logits of "lasts one frame more": three frames or so


@dataclass(frozen=True)
class EncoderPlan:
    """A run in numbers."""

    steps: int
    seed: int
    rate: float = 2e-3
    warmup_steps: int = 200
    falling_part: float = 0.4
    count: int = 12
    average: float = 0.998
    gradient_limit: float = 5.0

    def pace(self, step: int) -> float:
        """Linear warm-up, flat, then a fall to 2 % along 1 - sqrt."""
        start = self.steps * (1 - self.falling_part)
        fallen = max(0.0, (step - start) / (self.steps - start))
        return min(1.0, (step + 1) / self.warmup_steps) * max(0.02, 1 - math.sqrt(fallen))


class Learner(nn.Module):
    """The encoder and one prosody style a voice. F0 is learned in units of 100 Hz; `export` scales its projection."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.encoder = Encoder(checkpoint.config)
        self.styles = nn.Parameter(torch.randn(len(VOICES), checkpoint.config.style_dim) * STYLE_SPREAD)
        self._initialize(checkpoint.config.max_dur)
        checkpoint.load_part(self.encoder.text_encoder, "text_encoder")

    def _initialize(self, max_dur: int) -> None:
        """Start values that torch's defaults miss: three frames a token, quiet embeddings, unit gains."""
        self.encoder.predictor.duration_proj.linear_layer.bias.data = (FIRST_BIN + BIN_SLOPE * torch.arange(max_dur)).clamp(min=LAST_BIN)
        for module in self.encoder.bert.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=EMBEDDING_SPREAD)
        unit_gains(self.encoder)

    def forward(self, batch: EncoderBatch) -> dict[str, Tensor]:
        """symbols [B, C, 1, F], bins [B, T, max_dur], f0 and energy [B, 2F]."""
        rows, style, inside = batch.spelled, self.styles[batch.voices], batch.spelled.inside()
        symbols = rows.per_frame(self.encoder.text_encoder(rows.input_ids, inside=inside))
        bins, hidden = self.timing(rows.input_ids, inside, style)
        f0, energy = self.melody(rows.per_frame(hidden.transpose(1, 2).unsqueeze(2)), style, batch.inside)
        return {"symbols": symbols, "bins": bins, "f0": f0, "energy": energy}

    def timing(self, ids: Tensor, inside: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """encoder.model.Timing on a batch, up to the logits [B, T, max_dur]; hidden [B, T, C]."""
        encoder, predictor = self.encoder, self.encoder.predictor
        one = torch.vmap(lambda row, mask: encoder.bert(row[None], mask[None])[0])  # ALBERT is written for one utterance
        d_en = encoder.bert_encoder(one(ids, inside))
        hidden = predictor.text_encoder(d_en, style, inside)
        return predictor.duration_proj.linear_layer(predictor.lstm(with_style(hidden, style, inside), inside)), hidden

    def melody(self, en: Tensor, style: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        """encoder.model.ProsodyFunction on a batch: en [B, C, 1, F] -> F0 (100 Hz) and energy [B, 2F]."""
        predictor, rows = self.encoder.predictor, inside[:, 0].transpose(1, 2)  # [B, F, 1]
        x = predictor.shared(with_style(en.squeeze(2).transpose(1, 2), style, rows), rows).transpose(1, 2).unsqueeze(2)  # [B, C, 1, F]
        column = style[..., None, None]
        curves = []
        for blocks, projection in ((predictor.F0, predictor.F0_proj), (predictor.N, predictor.N_proj)):
            y, mask = x, Mask.of(inside)
            for block in blocks:
                y, mask = block(y, column, mask)
            curves.append(projection(y)[:, 0, 0])  # [B, 1, 1, 2F] -> [B, 2F]
        return curves[0], curves[1]


class EncoderTrainer:
    """Responsibilities: 1. steps; 2. state on disk; 3. the averaged weights added to a checkpoint folder."""

    def __init__(self, plan: EncoderPlan, pairs: list[Pair], start: Path) -> None:
        self.plan, self.step, self.log = plan, 0, []
        checkpoint = Checkpoint.from_folder(start)
        if "predictor" in checkpoint.part_names:
            raise InputError(f"{start} has an encoder already: this stage starts from what `demo.train --stage vocoder` wrote")
        self.imitated = checkpoint.load_part(TextEncoder(checkpoint.config), "text_encoder").eval().requires_grad_(False)
        torch.manual_seed(plan.seed)
        self.learner = Learner(checkpoint).train()
        self.average = copy.deepcopy(self.learner).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.learner.parameters(), lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.01)
        self.batches = EncoderBatches(pairs, plan.seed)

    def run(self, state: Path, minutes: float | None) -> bool:
        """Train to the end of the plan or of the time; True when the plan is finished."""
        return trained(self, "encoder", state, minutes, LOG_EVERY_STEPS)

    def train_step(self) -> dict[str, float]:
        """One batch; returns the loss and its parts."""
        self.optimizer.param_groups[0]["lr"] = self.plan.rate * self.plan.pace(self.step)
        batch = self.batches.draw(self.step, self.plan.count)
        parts = losses(self.learner(batch), self.wanted(batch), batch)
        loss = sum(WEIGHT[name] * part for name, part in parts.items())
        self.learner.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.learner.parameters(), self.plan.gradient_limit)
        if bool(torch.isfinite(norm)):
            self.optimizer.step()
        self.step += 1
        keep = min(self.plan.average, self.step / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.learner.parameters()), 1 - keep)
        return {name: round(value.item(), 5) for name, value in {"loss": loss, **parts, "gradient": norm}.items()}

    @torch.no_grad()
    def wanted(self, batch: EncoderBatch) -> Tensor:
        """What the vocoder knows: features [B, C, 1, F] of flite's own phones."""
        rows = batch.spoken
        return rows.per_frame(self.imitated(rows.input_ids, rows.lengths))

    def recent_loss(self) -> float | None:
        """Mean of the last ten logged losses."""
        return recent_loss(self.log)

    def save(self, state: Path) -> None:
        """All a resumed run needs, renamed into place."""
        content = {"step": self.step, "seed": self.plan.seed, "log": self.log, "optimizer": self.optimizer.state_dict()}
        write_state(state, content | {name: dict(getattr(self, name).named_parameters()) for name in ("learner", "average")})

    def resume(self, state: Path) -> None:
        """Go on where `save` stopped; the plan may have another length."""
        content = read_state(state, self.plan.seed)
        for name in ("learner", "average"):
            put_back(getattr(self, name), content[name])
        self.optimizer.load_state_dict(content["optimizer"])
        self.step, self.log = content["step"], content["log"]

    def export(self, folder: Path) -> None:
        """Add the averaged encoder and the voices' prosody styles to the checkpoint in `folder`; its vocoder stays."""
        encoder = copy.deepcopy(self.average.encoder)
        projection = encoder.predictor.F0_proj
        projection.weight.mul_(PITCH_UNIT_HZ)
        projection.bias.mul_(PITCH_UNIT_HZ)
        put_parts(folder, {name: getattr(encoder, name) for name in PARTS})
        half = self.average.styles.shape[1]
        put_styles(folder, self.average.styles, slice(half, 2 * half))
        write_log(folder / LOG_NAME, self.log)


def losses(made: dict[str, Tensor], wanted: Tensor, batch: EncoderBatch) -> dict[str, Tensor]:
    """Means over what is inside: features, "one frame more" bins, durations in frames, F0 in 100 Hz, energy."""
    rows, inside = batch.spelled, batch.spelled.inside()[..., 0]  # [B, T]
    bins = made["bins"]
    lasts = (torch.arange(bins.shape[2]) < rows.durations[..., None]).float()  # [B, T, max_dur]
    more = F.binary_cross_entropy_with_logits(bins, lasts, reduction="none").sum(2)
    frames = torch.sigmoid(bins).sum(2)
    f0, energy = (made["f0"] - batch.f0_hz / PITCH_UNIT_HZ).abs(), (made["energy"] - batch.energy).abs()
    difference = made["symbols"] - wanted
    return {
        "symbols": _mean((difference.square() + difference.abs()).sum(1)[:, 0], batch.inside[:, 0, 0]) / wanted.shape[1],
        "bins": _mean(more, inside),
        "durations": _mean((frames - rows.durations).abs(), inside),
        "f0": _mean(f0, batch.inside_prosody),
        "energy": _mean(energy, batch.inside_prosody),
    }


def _mean(values: Tensor, inside: Tensor) -> Tensor:
    """Mean of [B, N] where `inside` is 1."""
    return (values * inside).sum() / inside.sum()
