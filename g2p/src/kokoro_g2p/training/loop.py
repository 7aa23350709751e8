"""The training loop of the G2P network: words to batches, steps, the state on disk, averaged
weights.

    trainer = Trainer(TrainingPlan(steps=10600, seed=0), make_examples(split.training))
    trainer.run(Path("build/g2p/state.pt"), report=print)
"""

import copy
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_g2p.alphabet import (
    AMERICAN,
    BLANK,
    FRAMES,
    PADDING,
    PRIMARY,
    SECONDARY,
    Alphabet,
    encode,
)
from kokoro_g2p.errors import InputError
from kokoro_g2p.files import open_aside
from kokoro_g2p.network import LetterToSound, split_frames
from kokoro_g2p.neural import Config
from kokoro_g2p.word_lists import parse_pairs

# How often an epoch has each word: of gold twice, of silver once. A list without a tag stands in an
# epoch once, with the tag of gold.
REPEATS = (2, 1)


class Example(NamedTuple):
    """The ids of a word's letters, with its tag in front, and of its sounds."""

    symbols: tuple[int, ...]
    sounds: tuple[int, ...]


class Batch(NamedTuple):
    """Letters [B, S] padded with 0, the sounds of all words in a row, and how many sounds each word
    has.
    """

    symbols: Tensor
    sounds: Tensor
    counts: Tensor


def can_align(example: Example) -> bool:
    """Whether CTC can write the sounds into the frames: it needs one frame a sound, and a blank
    between two equal ones.
    """
    equal = sum(a == b for a, b in zip(example.sounds, example.sounds[1:], strict=False))
    return len(example.sounds) + equal <= FRAMES * len(example.symbols)


def make_examples(
    training: Mapping[str, Mapping[str, str]], alphabet: Alphabet = AMERICAN
) -> list[Example]:
    """Every word of the lists, as often as an epoch has it. A word too short for its sounds is left
    out.
    """
    examples = []
    for name, entries in training.items():
        tag = alphabet.tags.index(name) if name in alphabet.tags else 0
        repeats = REPEATS[tag] if name in alphabet.tags else 1
        # Sorted, so that the order of a list's lines changes nothing.
        for word, phonemes in sorted(entries.items()):
            cut = alphabet.cut(phonemes)
            if cut is None:
                raise ValueError(
                    f"{word!r} of {name}: {phonemes!r} is outside the model's alphabet"
                )
            example = Example(encode(word, tag), tuple(alphabet.ids[sound] for sound in cut))
            examples += [example] * (repeats if can_align(example) else 0)
    return examples


def draw_batches(
    examples: Sequence[Example], seed: int, epoch: int, symbols: int
) -> Iterator[Batch]:
    """Yield one epoch: every example once, in batches of about `symbols` letters, padding
    counted.
    """
    order = random.Random(f"{seed} {epoch}")
    rows = list(range(len(examples)))
    order.shuffle(rows)
    # Batches of words of one length have no padding. The sort is stable, so such words stay
    # shuffled.
    rows.sort(key=lambda row: len(examples[row].symbols))
    chunks = []
    start = 0
    while start < len(rows):
        # Sized by its first word: the others are as long, or a little longer.
        size = max(1, symbols // len(examples[rows[start]].symbols))
        chunks.append(rows[start : start + size])
        start += size
    order.shuffle(chunks)
    for chunk in chunks:
        yield collect_batch([examples[row] for row in chunk])


def collect_batch(chunk: Sequence[Example]) -> Batch:
    """The batch of a chunk, padded to its longest word."""
    longest = max(len(example.symbols) for example in chunk)
    symbols = [
        (*example.symbols, *[PADDING] * (longest - len(example.symbols))) for example in chunk
    ]
    row = [sound for example in chunk for sound in example.sounds]
    return Batch(
        torch.tensor(symbols),
        torch.tensor(row),
        torch.tensor([len(example.sounds) for example in chunk]),
    )


# of Newton-Schulz, as in Muon's reference
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
ADAM_LIKE = 0.2  # Adam's usual root mean square of one step, in learning rates


class Muon(torch.optim.Optimizer):
    """The optimizer Muon, for tensors of two or more axes: momentum with Nesterov's look-ahead,
    then Newton-Schulz.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    # no closure: nothing evaluates the loss again
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                # The momentum is a running mean of gradients; Nesterov's step looks ahead along it.
                mean = state.setdefault("momentum", torch.zeros_like(parameter))
                mean.lerp_(parameter.grad, 1 - group["momentum"])
                ahead = parameter.grad.lerp(mean, group["momentum"]).flatten(1)  # [out, in k]
                change = orthogonalize(ahead)
                # a step as large as Adam's, so that both optimizers share one schedule
                scale = ADAM_LIKE * max(change.shape) ** 0.5
                parameter.add_(change.view_as(parameter), alpha=-group["lr"] * scale)


def orthogonalize(matrix: Tensor) -> Tensor:
    """The matrix with singular values near 1, by Newton-Schulz steps in bfloat16."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    # x x^T is the smaller of the two products
    x = (matrix.T if tall else matrix).bfloat16()
    # With a Frobenius norm of 1 no singular value is above 1, where the iteration converges.
    x = x / (x.norm() + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if tall else x).to(matrix.dtype)


def write_state(state: Path, content: dict[str, Any]) -> None:
    """Write the state aside and rename it."""
    with open_aside(state) as aside:
        torch.save(content, aside)


def read_state(state: Path, seed: int, device: torch.device | str = "cpu") -> dict[str, Any]:
    """What `write_state` wrote. Raises InputError for a missing file and for another seed's run."""
    try:
        # Only tensors and plain values are read, so that a state runs no code.
        content = torch.load(state, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise InputError(f"--resume {state}: no such file") from None
    if content["seed"] != seed:
        raise InputError(
            f"--resume {state}: it was trained with --seed {content['seed']}, not {seed}"
        )
    return content


SAVE_EVERY_SECONDS, REPORT_EVERY_STEPS = 120.0, 500


@dataclass(frozen=True)
class TrainingPlan:
    """The numbers of a training run."""

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

    def compute_pace(self, step: int) -> float:
        """The factor of both learning rates at a step: a linear warm-up, then 1, then a fall to 1 %
        along 1 - sqrt.
        """
        start = self.steps * (1 - self.falling_part)
        falling = max(0.0, (step - start) / (self.steps - start))
        return min(1.0, (step + 1) / self.warmup_steps) * max(0.01, 1 - math.sqrt(falling))


def compute_ctc(logits: Tensor, batch: Batch) -> Tensor:
    """The mean negative log-likelihood of a sound, for logits [B, S, 2 * sounds]."""
    chances = split_frames(logits).float().log_softmax(dim=2).transpose(0, 1)  # [2S, B, sounds]
    frames = FRAMES * (batch.symbols != PADDING).sum(dim=1)
    return (
        F.ctc_loss(chances, batch.sounds, frames, batch.counts, blank=BLANK, reduction="sum")
        / batch.counts.sum()
    )


class Trainer:
    """Responsibilities: 1. steps; 2. state on disk; 3. the averaged weights."""

    def __init__(
        self, plan: TrainingPlan, examples: Sequence[Example], config: Config | None = None
    ) -> None:
        torch.manual_seed(plan.seed)
        self.plan, self.examples, self.step = plan, examples, 0
        self.log: list[dict[str, Any]] = []
        self.master = LetterToSound(config or Config()).train()
        self.average = copy.deepcopy(self.master).requires_grad_(False).eval()
        self.worker = copy.deepcopy(self.master).bfloat16()
        matrices, others = split_parameters(self.master)
        self.optimizers = {
            "adam": torch.optim.Adam(others, lr=plan.rate, betas=(0.9, 0.98)),
            "muon": Muon(matrices, lr=plan.matrix_rate),
        }

    def begin(self, change: Callable[[LetterToSound], object]) -> None:
        """Change the initial weights. The average and the worker get the same."""
        change(self.master)
        self.average.load_state_dict(self.master.state_dict())
        self.worker.load_state_dict(self.master.state_dict())

    def run(
        self,
        state: Path,
        report: Callable[[dict[str, Any]], None],
        until: int | None = None,
        minutes: float | None = None,
    ) -> bool:
        """Train to step `until`, by default the plan's end, or until the time is over. Returns
        whether the step was reached.
        """
        last = until or self.plan.steps
        started = saved = time.monotonic()
        losses: list[float] = []
        for batch in self._stream():
            losses.append(self.train_step(batch))
            now = time.monotonic()
            if self.step % REPORT_EVERY_STEPS == 0 or self.step == last:
                # The mean loss since the last report
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
        """Yield batches, epoch after epoch, from `step` on."""
        passed, epoch = 0, 0
        while True:
            for batch in draw_batches(self.examples, self.plan.seed, epoch, self.plan.symbols):
                # A resumed run draws what it had before and passes it over, so that the order goes
                # on.
                passed += 1
                if passed > self.step:
                    yield batch
            epoch += 1

    def train_step(self, batch: Batch) -> float:
        """Train on one batch; returns the loss of the last answer."""
        pace = self.plan.compute_pace(self.step)
        for name, rate in (("adam", self.plan.rate), ("muon", self.plan.matrix_rate)):
            self.optimizers[name].param_groups[0]["lr"] = rate * pace
        # so that a resumed run has the same dropout as an unbroken one
        torch.manual_seed(self.plan.seed * 1_000_003 + self.step)
        # Answers of the middle of the network are trained as well, with a smaller weight.
        *midway, last = (compute_ctc(logits, batch) for logits in self.worker.stages(batch.symbols))
        self.worker.zero_grad(set_to_none=True)
        (last + self.plan.midway * sum(midway)).backward()
        # the worker computes in bfloat16, the master keeps fp32 weights that small steps can move
        for master, worker in zip(self.master.parameters(), self.worker.parameters(), strict=True):
            master.grad = None if worker.grad is None else worker.grad.float()
        norm = torch.nn.utils.clip_grad_norm_(self.master.parameters(), self.plan.gradient_limit)
        # a batch that overflowed is skipped
        if bool(torch.isfinite(norm)):
            for optimizer in self.optimizers.values():
                optimizer.step()
        self._update_copies()
        return float(last.detach())

    @torch.no_grad()
    def _update_copies(self) -> None:
        self.step += 1
        new: list[Tensor] = list(self.master.parameters())
        # Rounded to bfloat16 on the way
        torch._foreach_copy_(list(self.worker.parameters()), new)
        # a short memory at first, so that the average forgets the initial weights
        keep = min(self.plan.average, self.step / (self.step + 10))
        torch._foreach_lerp_(list(self.average.parameters()), new, 1 - keep)

    def save(self, state: Path) -> None:
        """Write all that a resumed run needs."""
        content = {"step": self.step, "seed": self.plan.seed, "log": self.log}
        content |= {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        write_state(
            state,
            content | {name: getattr(self, name).state_dict() for name in ("master", "average")},
        )

    def resume(self, state: Path) -> None:
        """Continue from what `save` wrote. The plan may have another length."""
        content = read_state(state, self.plan.seed)
        for name in ("master", "average"):
            getattr(self, name).load_state_dict(content[name])
        self.worker.load_state_dict(content["master"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(content[name])
        self.step, self.log = content["step"], content["log"]


def split_parameters(model: LetterToSound) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices inside the blocks, and all other parameters."""
    matrices = [parameter for parameter in model.blocks.parameters() if parameter.dim() == 2]
    ids = {id(parameter) for parameter in matrices}
    return matrices, [parameter for parameter in model.parameters() if id(parameter) not in ids]


# sounds of the British alphabet -> the American one that each begins as
COUNTERPART = parse_pairs("iː:i uː:u ɑː:ɑ ɔː:ɔ ɜː:ɜ ɛː:ɛ əː:ə Q:O a:æ ɒ:ɑ")


def find_counterpart(sound: str, ids: Mapping[str, int]) -> int | None:
    """The place of the sound that a new one begins as; None where there is none."""
    mark = sound[:1] if sound[:1] in (PRIMARY, SECONDARY) else ""
    bare = sound.removeprefix(mark)
    return ids.get(sound, ids.get(mark + COUNTERPART.get(bare, bare)))


@torch.no_grad()
def copy_weights(
    model: LetterToSound, source: LetterToSound, theirs: Alphabet, ours: Alphabet
) -> LetterToSound:
    """`model` with the weights of `source`. The answers [2 * sounds, C] and the condition [C, 2 *
    sounds] are copied sound by sound.
    """
    # These are the model's own tensors: copying into them changes it.
    state = model.state_dict()
    for name, array in source.state_dict().items():
        if state[name].shape == array.shape:
            state[name].copy_(array)
    # The second frame's answers stand behind all of the first one's.
    for frame in range(FRAMES):
        for place, sound in enumerate(ours.sounds):
            like = find_counterpart(sound, theirs.ids)
            if like is not None:
                here, there = frame * len(ours.sounds) + place, frame * len(theirs.sounds) + like
                state["answer.weight"][here] = source.answer.weight[there]
                state["answer.bias"][here] = source.answer.bias[there]
                state["condition.weight"][:, here] = source.condition.weight[:, there]
    state["condition.bias"].copy_(source.condition.bias)
    return model
