"""Reconstruction: block by block until a compressed block gives what the exact one gave, then end to end until the sound is nearest.

    lesson = Lesson(vocoder, excerpts)
    for block in blocks(vocoder):
        learn_block(student, lesson, block, plan)
    learn_whole(student, lesson, plan)

Each block reads what the student has made of an excerpt so far and is held against the exact one's output (BRECQ, Li et al. 2021, arXiv
2102.05426). Errors count relative to the quarter frame that they fall in, because pauses are heard as well as syllables; end to end it is
the squared difference of log spectra at three resolutions, and the waveform's.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from core.errors import CheckFailed
from quantize.learned import Learnable, Student
from quantize.losses import relative_error, sound_error
from quantize.phases import LearningPlan
from vocoder.decoder import Vocoder
from vocoder.package import reference_arguments
from vocoder.packing import VocoderInputs


@dataclass(frozen=True, eq=False)
class Heard:
    """What one block reads and makes of an excerpt: its arguments, and its output [1, C, 1, S]."""

    given: tuple[Tensor, ...]
    output: Tensor


@dataclass(frozen=True)
class Schedule:
    """One descent."""

    steps: int
    rate: float
    seed: int


class _HeardEnough(Exception):
    """What comes after the block is not needed."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """The excerpts, and what the exact vocoder makes of them."""

    vocoder: Vocoder
    excerpts: tuple[VocoderInputs, ...]

    @cached_property
    @torch.no_grad()
    def waveforms(self) -> tuple[Tensor, ...]:
        """[samples] of each excerpt."""
        return tuple(self.vocoder(*reference_arguments(clip)).flatten() for clip in self.excerpts)

    @torch.no_grad()
    def heard(self, vocoder: Vocoder, block: str) -> list[Heard]:
        """What a block of `vocoder` reads and makes, excerpt by excerpt."""
        found: list[Heard] = []

        def note(_: nn.Module, given: tuple[Tensor, ...], output: Tensor | tuple[Tensor, ...]) -> None:
            found.append(Heard(given, _tensor(output)))
            raise _HeardEnough

        handle = vocoder.get_submodule(block).register_forward_hook(note)
        try:
            for clip in self.excerpts:
                with suppress(_HeardEnough):
                    vocoder(*reference_arguments(clip))
        finally:
            handle.remove()
        return found


def blocks(vocoder: Vocoder) -> tuple[str, ...]:
    """Paths of the residual blocks, in the order in which they are executed."""
    generator = vocoder.generator
    paths = ["encode", *(f"decode.{number}" for number in range(len(vocoder.decode)))]
    for stage in range(len(generator.ups)):
        first = stage * generator.blocks_per_stage
        numbers = range(first, first + generator.blocks_per_stage)
        paths += [f"generator.noise_res.{stage}", *(f"generator.resblocks.{number}" for number in numbers)]
    return tuple(paths)


def learn_block(student: Student, lesson: Lesson, block: str, plan: LearningPlan, note: Callable[[float], None]) -> tuple[float, float]:
    """Learn the layers of one block; the loss before and after. `note` hears each step's."""
    layers = student.layers(block)
    wanted, read = lesson.heard(lesson.vocoder, block), lesson.heard(student.vocoder, block)
    module = student.vocoder.get_submodule(block)

    def loss(number: int) -> Tensor:
        frames = lesson.excerpts[number].frames
        return relative_error(_tensor(module(*read[number].given)), wanted[number].output, frames)

    before = _mean(loss, len(read))
    with student.dropping(plan.dropped, plan.seed):
        _descend(student.parameters(layers), loss, len(read), Schedule(plan.block_steps, plan.block_rate, plan.seed), note)
    return before, _mean(loss, len(read))


def learn_whole(student: Student, lesson: Lesson, plan: LearningPlan, note: Callable[[float], None]) -> tuple[float, float]:
    """Learn all layers together; the loss before and after."""

    def loss(number: int) -> Tensor:
        made = student.vocoder(*reference_arguments(lesson.excerpts[number])).flatten()
        return sound_error(made, lesson.waveforms[number])

    count = len(lesson.excerpts)
    before = _mean(loss, count)
    _descend(student.parameters(student.layers()), loss, count, Schedule(plan.whole_steps, plan.whole_rate, plan.seed), note)
    return before, _mean(loss, count)


def _descend(parameters: Learnable, loss: Callable[[int], Tensor], count: int, schedule: Schedule, note: Callable[[float], None]) -> None:
    """Adam over the excerpts in a seeded order. Raises CheckFailed where the loss is no number."""
    for parameter, _ in parameters:
        parameter.requires_grad_(True)
    groups = [{"params": [parameter], "lr": schedule.rate * unit} for parameter, unit in parameters]
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99))
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, schedule.steps)
    order = torch.Generator().manual_seed(schedule.seed)
    for _ in range(schedule.steps):
        optimizer.zero_grad(set_to_none=True)
        value = loss(int(torch.randint(count, (), generator=order)))
        if not bool(torch.isfinite(value)):
            raise CheckFailed(f"reconstruction: the loss became {float(value.detach())}; a smaller rate is needed")
        value.backward()
        optimizer.step()
        falling.step()
        note(float(value.detach()))
    for parameter, _ in parameters:
        parameter.requires_grad_(False)


@torch.no_grad()
def _mean(loss: Callable[[int], Tensor], count: int) -> float:
    return float(torch.stack([loss(number) for number in range(count)]).mean())


def _tensor(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    """A decoder's block gives its mask too."""
    return output[0] if isinstance(output, tuple) else output
