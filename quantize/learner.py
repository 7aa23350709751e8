"""A reconstruction from a checkpoint and a level to what is kept: the student, the excerpts, the phases, the decision.

    outcome = Learner.of(checkpoint, METHODS["w8a8"].in_form(LITERAL), None, LearningPlan()).learned(Kept(folder, identity, plan.as_dict()))

The last sentences of the tuning set take no part and decide between the phases. Nothing here sees what judges.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from core.checkpoint import Checkpoint
from core.figures import snr_db
from quantize.activations import calibration_inputs
from quantize.damage import damage_db2
from quantize.features import excerpt
from quantize.gptq import fits_of, tuning_sentences
from quantize.learned import Student
from quantize.learned_folder import Kept
from quantize.measure import Ready
from quantize.methods import SCHEMES, Method, Scheme
from quantize.phases import LearningPlan
from quantize.plan import is_fitted
from quantize.recipe import Recipe
from quantize.reconstruction import Lesson, blocks, learn_block, learn_whole
from vocoder.decoder import Vocoder
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs

TAIL = "generator.conv_post"
START, BLOCKS, WHOLE = "rounded to the nearest", "block by block", "end to end"
LOSSES = "losses"


@dataclass(frozen=True)
class Phase:
    """What a phase has come to: its losses, and the sound of the sentences that took no part."""

    name: str
    before: float | None
    after: float | None
    damage_db2: float
    snr_db: float


@dataclass(frozen=True)
class Outcome:
    """All phases, the first without learning, and the one that is nearest."""

    phases: tuple[Phase, ...]

    @property
    def chosen(self) -> Phase:
        """The nearest."""
        return min(self.phases, key=lambda phase: phase.damage_db2)


@dataclass(frozen=True, eq=False)
class Learner:
    """Responsibilities: 1. the exact vocoder and its student; 2. excerpts to learn and to decide on; 3. the phases, resumed."""

    student: Student
    decoder: Lesson
    generator: Lesson
    held: tuple[VocoderInputs, ...]
    plan: LearningPlan

    @classmethod
    def of(cls, checkpoint: Checkpoint, method: Method, recipe: Recipe | None, plan: LearningPlan) -> "Learner":
        """Minutes on real Kokoro: ranges, and moments where palettes are fitted."""
        plain = Vocoder.of(checkpoint)
        exact, student = _student(checkpoint, plain, method, recipe)
        voices = [list(islice(tuning_sentences(checkpoint, plain, shift), plan.clips)) for shift in range(plan.voices)]
        last = max(1, len(voices[0]) // plan.held)
        learned = [clip for sentences in voices for clip in sentences[:-last]]
        held = tuple(excerpt(clip, 0, min(plan.held_frames, clip.frames)) for clip in voices[0][-last:])
        random = np.random.default_rng(plan.seed)
        decoder, generator = (Lesson(exact, _excerpts(learned, frames, random)) for frames in (plan.decoder_frames, plan.generator_frames))
        return cls(student, decoder, generator, held, plan)

    def learned(self, kept: Kept) -> Outcome:
        """All phases; `kept` gets each when it ends, and what is chosen."""
        paths = blocks(self.student.vocoder)
        phases, arrays = [self._heard(START, None)], [self.student.arrays(self.student.layers())]
        with _shown(len(paths) * self.plan.block_steps + self.plan.whole_steps) as note:
            if self.plan.block_steps:
                losses = [self._phase(kept, path, partial(self._learn, path, note)) for path in paths]
                phases.append(self._heard(BLOCKS, np.mean(losses, axis=0)))
                arrays.append(self.student.arrays(self.student.layers()))
            if self.plan.whole_steps:
                found = self._phase(kept, "whole", partial(learn_whole, self.student, self.generator, self.plan, note))
                phases.append(self._heard(WHOLE, found))
                arrays.append(self.student.arrays(self.student.layers()))
        outcome = Outcome(tuple(phases))
        if (best := phases.index(outcome.chosen)) > 0:
            kept.choose(arrays[best])
        return outcome

    def _learn(self, path: str, note: Callable[[float], None]) -> tuple[float, float]:
        lesson = self.generator if path.startswith("generator.") else self.decoder
        return learn_block(self.student, lesson, path, self.plan, note)

    def _phase(self, kept: Kept, name: str, learn: Callable[[], tuple[float, float]]) -> np.ndarray:
        """Losses before and after of a phase that is learned now or was before. What is kept is what goes on: a resumed run is the same."""
        under = self.student.layers("" if name == "whole" else name)
        found = kept.phase(name)
        if found is None:
            losses = np.asarray(learn())
            found = self.student.arrays(under) | {LOSSES: losses}
            kept.keep(name, found)
        self.student.load({key: value for key, value in found.items() if key != LOSSES})
        return found[LOSSES]

    def _heard(self, name: str, losses: np.ndarray | None) -> Phase:
        """Figures of the sentences that took no part."""
        pairs = [(render_reference(self.decoder.vocoder, clip), render_reference(self.student.vocoder, clip)) for clip in self.held]
        before, after = (None, None) if losses is None else map(float, losses)
        damage, snr = (float(np.mean([figure(*pair) for pair in pairs])) for figure in (damage_db2, snr_db))
        return Phase(name, before, after, damage, snr)


def _student(checkpoint: Checkpoint, plain: Vocoder, method: Method, recipe: Recipe | None) -> tuple[Vocoder, Student]:
    """The vocoder made ready for int8 inputs but exact, and the same on the level's grids."""
    settings = method.int8_activations()
    integers = recipe is None or recipe.multiplies_integers
    ready = Ready.of(plain, list(calibration_inputs(checkpoint, plain, settings.clips)), settings) if integers else None
    schemes = _schemes(ready, settings.takes, recipe)
    chosen = frozenset(path for path, scheme in schemes.items() if scheme.int8_input)
    exact = ready.vocoder(plain, chosen) if ready else plain
    fits = fits_of(checkpoint, plain, [path for path, scheme in schemes.items() if is_fitted(scheme.weights)])
    return exact, Student.of(exact, schemes, ready.ranges if ready else {}, fits, biases=integers)


def _schemes(ready: Ready | None, takes: Callable[[str], bool], recipe: Recipe | None) -> Mapping[str, Scheme]:
    """What each layer holds and reads; none that stay in fp16."""
    if recipe is not None:
        return {path: SCHEMES[level] for path, level in recipe.levels.items() if SCHEMES[level].weights is not None}
    assert ready is not None
    return {path: SCHEMES["w8a8" if takes(path) else "w8"] for path in ready.ranges if path != TAIL}


def _excerpts(clips: list[VocoderInputs], frames: int, random: np.random.Generator) -> tuple[VocoderInputs, ...]:
    """One of each clip, somewhere in it; all of a shorter one."""
    starts = (int(random.integers(max(clip.frames - frames, 0) + 1)) for clip in clips)
    return tuple(excerpt(clip, start, min(frames, clip.frames)) for clip, start in zip(clips, starts, strict=True))


@contextmanager
def _shown(steps: int) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr; what is given advances it by a step with its loss."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("learning", total=steps)
        yield lambda loss: progress.update(task, advance=1, description=f"loss {loss:.3g}")
