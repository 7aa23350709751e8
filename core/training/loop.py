"""The loop of a training run: steps to the end of the plan or of the time, a line of log every so often, the state saved on the way.

finished = trained(trainer, "encoder", Path("build/demo/state.pt"), minutes=None, log_every=50)
"""

import time
from pathlib import Path
from typing import Any, Protocol

SAVE_EVERY_SECONDS = 120.0


class Plan(Protocol):
    """How long, and how fast."""

    @property
    def steps(self) -> int:
        """In all."""

    def pace(self, step: int) -> float:
        """What learning rates are multiplied by."""


class Trained(Protocol):
    """What the loop asks of a trainer."""

    @property
    def plan(self) -> Plan:
        """The run in numbers."""

    @property
    def step(self) -> int:
        """Steps done."""

    @property
    def log(self) -> list[dict[str, Any]]:
        """Lines so far."""

    def train_step(self) -> dict[str, float]:
        """One batch; returns the loss and its parts."""

    def save(self, state: Path) -> None:
        """All a resumed run needs."""


def trained(trainer: Trained, name: str, state: Path, minutes: float | None, log_every: int) -> bool:
    """Train to the end of the plan or of the time; True when the plan is finished. `seconds` of the log go on where a run was resumed."""
    from rich.console import Console
    from rich.progress import Progress

    plan, started = trainer.plan, time.monotonic()
    saved, before_seconds = started, trainer.log[-1]["seconds"] if trainer.log else 0.0
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=plan.steps, completed=trainer.step)
        while trainer.step < plan.steps:
            parts, now = trainer.train_step(), time.monotonic()
            if trainer.step % log_every == 0:
                seconds = round(before_seconds + now - started, 1)
                trainer.log.append({"step": trainer.step, "seconds": seconds, "pace": round(plan.pace(trainer.step), 4), **parts})
                bar.update(task, completed=trainer.step, description=f"loss {parts['loss']:.3f}")
            if now - saved > SAVE_EVERY_SECONDS:
                trainer.save(state)
                saved = now
            if minutes is not None and now - started > 60 * minutes:
                break
    trainer.save(state)
    return trainer.step >= plan.steps
