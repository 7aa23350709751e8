"""The training loop: bfloat16 on the way, float32 weights, Muon and Adam, averaged weights, a schedule in steps.

trainer = Trainer(Plan(steps=22000, seed=0), examples)
trainer.run(Path("build/g2p/state.pt"), report=print)
save_weights(trainer.average, Path("g2p/data/model.npz"))
"""

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.training.muon import Muon
from core.training.state import read_state, write_state
from g2p.alphabet import BLANK, FRAMES, PADDING
from g2p.model import LetterToSound, frames_of
from g2p.sizes import Config
from g2p.training.batches import Batch, Example, batches

SAVE_EVERY_SECONDS, REPORT_EVERY_STEPS = 120.0, 500


@dataclass(frozen=True)
class Plan:
    """A run in numbers."""

    steps: int
    seed: int
    rate: float = 2e-3  # Adam: the embedding, gains, biases, the answer
    matrix_rate: float = 5e-3  # Muon: every other matrix
    warmup_steps: int = 300
    falling_part: float = 0.35
    symbols: int = 3584  # letters in a batch
    average: float = 0.999
    midway: float = 0.3  # weight of the answers before the last
    gradient_limit: float = 2.0

    def pace(self, step: int) -> float:
        """Linear warm-up, flat, then a fall to 1 % along 1 - sqrt; times `rate` or `matrix_rate`."""
        start = self.steps * (1 - self.falling_part)
        falling = max(0.0, (step - start) / (self.steps - start))
        return min(1.0, (step + 1) / self.warmup_steps) * max(0.01, 1 - math.sqrt(falling))


def ctc(logits: Tensor, batch: Batch) -> Tensor:
    """Mean negative log-likelihood of a sound; logits [B, S, 2 * sounds]."""
    chances = frames_of(logits).float().log_softmax(dim=2).transpose(0, 1)  # [2S, B, sounds]
    frames = FRAMES * (batch.symbols != PADDING).sum(dim=1)
    return F.ctc_loss(chances, batch.sounds, frames, batch.counts, blank=BLANK, reduction="sum") / batch.counts.sum()


class Trainer:
    """Responsibilities: 1. steps; 2. state on disk; 3. the averaged weights."""

    def __init__(self, plan: Plan, examples: Sequence[Example], config: Config | None = None) -> None:
        torch.manual_seed(plan.seed)
        self.plan, self.examples, self.step = plan, examples, 0
        self.log: list[dict[str, Any]] = []
        self.master = LetterToSound(config or Config()).train()
        self.average = copy.deepcopy(self.master).requires_grad_(False).eval()
        self.worker = copy.deepcopy(self.master).bfloat16()
        matrices, others = matrices_and_others(self.master)
        self.optimizers = {"adam": torch.optim.Adam(others, lr=plan.rate, betas=(0.9, 0.98)), "muon": Muon(matrices, lr=plan.matrix_rate)}

    def begin(self, change: Callable[[LetterToSound], object]) -> None:
        """Change the first weights; the average and the worker follow."""
        change(self.master)
        self.average.load_state_dict(self.master.state_dict())
        self.worker.load_state_dict(self.master.state_dict())

    def run(self, state: Path, report: Callable[[dict[str, Any]], None], until: int | None = None, minutes: float | None = None) -> bool:
        """Train to step `until` (default: the plan's end) or to the end of the time; True when the step is reached."""
        last = until or self.plan.steps
        started = saved = time.monotonic()
        losses: list[float] = []
        for batch in self._stream():
            losses.append(self.train_step(batch))
            now = time.monotonic()
            if self.step % REPORT_EVERY_STEPS == 0 or self.step == last:
                self.log.append({"step": self.step, "loss": round(sum(losses) / len(losses), 4)})
                report(self.log[-1] | {"seconds": round(now - started)})
                losses.clear()
            if now - saved > SAVE_EVERY_SECONDS:
                self.save(state)
                saved = now
            if self.step >= last or (minutes is not None and now - started > 60 * minutes):
                break
        self.save(state)
        return self.step >= last

    def _stream(self) -> Iterator[Batch]:
        """Epoch after epoch, from where `step` stands."""
        passed, epoch = 0, 0
        while True:
            for batch in batches(self.examples, self.plan.seed, epoch, self.plan.symbols):
                passed += 1
                if passed > self.step:
                    yield batch
            epoch += 1

    def train_step(self, batch: Batch) -> float:
        """One batch; returns the loss of the last answer."""
        pace = self.plan.pace(self.step)
        for name, rate in (("adam", self.plan.rate), ("muon", self.plan.matrix_rate)):
            self.optimizers[name].param_groups[0]["lr"] = rate * pace
        torch.manual_seed(self.plan.seed * 1_000_003 + self.step)  # the dropout of a resumed run is that of an unbroken one
        *midway, last = (ctc(logits, batch) for logits in self.worker.stages(batch.symbols))
        self.worker.zero_grad(set_to_none=True)
        (last + self.plan.midway * sum(midway)).backward()
        for master, worker in zip(self.master.parameters(), self.worker.parameters(), strict=True):
            master.grad = None if worker.grad is None else worker.grad.float()
        norm = torch.nn.utils.clip_grad_norm_(self.master.parameters(), self.plan.gradient_limit)
        if bool(torch.isfinite(norm)):
            for optimizer in self.optimizers.values():
                optimizer.step()
        self._after_step()
        return float(last.detach())

    @torch.no_grad()
    def _after_step(self) -> None:
        self.step += 1
        new: list[Tensor] = list(self.master.parameters())
        torch._foreach_copy_(list(self.worker.parameters()), new)
        keep = min(self.plan.average, self.step / (self.step + 10))
        torch._foreach_lerp_(list(self.average.parameters()), new, 1 - keep)

    def save(self, state: Path) -> None:
        """All a resumed run needs, renamed into place."""
        content = {"step": self.step, "seed": self.plan.seed, "log": self.log}
        content |= {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        write_state(state, content | {name: getattr(self, name).state_dict() for name in ("master", "average")})

    def resume(self, state: Path) -> None:
        """Go on where `save` stopped; the plan may have another length."""
        content = read_state(state, self.plan.seed)
        for name in ("master", "average"):
            getattr(self, name).load_state_dict(content[name])
        self.worker.load_state_dict(content["master"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(content[name])
        self.step, self.log = content["step"], content["log"]


def matrices_and_others(model: LetterToSound) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices inside the blocks, and the rest."""
    matrices = [parameter for parameter in model.blocks.parameters() if parameter.dim() == 2]
    known = {id(parameter) for parameter in matrices}
    return matrices, [parameter for parameter in model.parameters() if id(parameter) not in known]
