"""Fit the predictor of the streaming layout (vocoder/streaming/norm_statistics.py) to a checkpoint,
on speech that the checkpoint makes.

    # 10 s of one core a sentence; an interrupted run goes on where it stopped
    python -m training.fit_statistics --checkpoint kokoro-int8 --count 1500

The teacher is the network itself. It speaks COUNT texts in all of its voices and in random blends
of them, at several speeds, and what every norm of the generator's second stage measures is
recorded, with what enters that stage. The texts are prose of Python's documentation, cut and joined
anew, with words of the lexicon in it; none of them is in a set that tunes or judges. A quarter are
altered as no sentence is (ALTERATIONS), since a network of sentences alone is wrong by 8 dB about
a whisper. Speech shorter than FEWEST_FRAMES, which the layout measures itself, is left out. One
sentence in eight is held out, and the printed errors are those of these, by length and alteration.
Two processes that are started in one folder share the work. Exit 0: written. Exit 2: bad input. A
pipe's last line is one JSON object.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core import (
    EXIT_GOOD,
    FRAMES_PER_SECOND,
    CommandOptions,
    InputError,
    UtteranceTooLong,
    check_output,
    checkpoint_option,
    command,
    conclude,
    option,
    parse,
    print_table,
    run_steps,
    staged,
)
from kokoro_g2p import VOWELS
from training.taught_lines import ALTERATIONS, TaughtLine, draw_lines

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint
    from kokoro_ane.vocoder import StatisticsPredictor

PART = 20  # sentences in a file of records
HELD_OUT = 8  # one sentence in so many is not fitted on
# Two seconds. The layout predicts the statistics of what is longer than windows.MEASURED; shorter
# sentences are fitted too, so that the edge lies inside the data and may move.
FEWEST_FRAMES = 80
# frames: held-out errors are told below the first, between them, from the last on
LENGTHS = (180, 360)
# how much each group of inputs counts in the kernel's distance: the moments of the upsampler's
# result, those of what it reads, those of the source convolution's result, the style
SHARES = (1.0, 1.0, 0.25, 2.0)
# of the bells, in median squared distances; both chosen by held-out error on 481 sentences
WIDTH, RIDGE = 4.0, 1e-4
# principal axes of the landmarks on which inputs are compared with them: on real Kokoro they hold
# 99.95 % of the squares; 128 axes cost 0.03 dB of MCD in the worst judged sentence
AXES = 192
# How much the error of a norm counts: of one in the source's blocks, whose errors nobody hears, and
# of the others. With exact values MCD falls by 0 and by 43 %.
HEARD = (0.25, 1.0)


@dataclass(frozen=True, eq=False)
class Records:
    """Of n sentences: inputs [n, D] of the predictor; targets [n, 2R], what the second stage's
    norms measure, means before log variances; the first stage's means [n, R1], for its centres;
    their lengths in frames [n]; their alterations [n], "" of a sentence as it is.
    """

    inputs: np.ndarray
    targets: np.ndarray
    first_means: np.ndarray
    frames: np.ndarray
    alterations: np.ndarray

    @classmethod
    def join(cls, parts: "Iterable[Records]") -> "Records":
        """All of them, in order."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


class Teacher:
    """Responsibilities: 1. speak a line in PyTorch; 2. note what enters the generator and what its
    norms measure.
    """

    def __init__(self, checkpoint: "Checkpoint") -> None:
        from kokoro_ane.encoder import load_torch_encoder
        from kokoro_ane.vocoder import (
            EagerVocoder,
            EntryMoments,
            PooledMoments,
            Vocoder,
            compute_moments,
        )
        from kokoro_g2p import text_reader, voice_language

        vocoder = Vocoder.from_checkpoint(checkpoint)
        self.checkpoint = checkpoint
        self.encoder = load_torch_encoder(checkpoint)
        self.source = vocoder.generator.m_source.host
        self.readers = {
            language: text_reader(language)
            for language in {voice_language(v) for v in checkpoint.voices}
        }
        self.fast = EagerVocoder(vocoder)
        self.seen: list[Any] = []
        self.entered: dict[str, Any] = {}
        self.pooled = PooledMoments(vocoder.generator).eval()
        self.moments = EntryMoments(vocoder.generator)
        self.fast.generator.ups[1].register_forward_pre_hook(
            lambda _, inputs: self.entered.update(entering=inputs[0])
        )
        for norm in self._list_norms():
            norm.register_forward_pre_hook(
                lambda _, inputs: self.seen.append(compute_moments(inputs[0]))
            )

    def _list_norms(self) -> Iterator[Any]:
        """The norms as streaming_model.list_generator_norms orders them, as they are called."""
        generator = self.fast.generator
        for stage, source in enumerate(generator.noise_res):
            first = stage * generator.count
            for block in (source, *generator.resblocks[first : first + generator.count]):
                for before, between in zip(block.convs1, block.convs2, strict=True):
                    yield from (before.norm, between.norm)

    def __call__(self, line: TaughtLine, seed: int) -> Records | None:
        """The record of one line; None for a text that is too short or too long."""
        from kokoro_ane.core import Voice
        from kokoro_ane.encoder import STEPS as ENCODER_STEPS
        from kokoro_ane.pipeline import BEFORE_VOCODER, ROUNDED, Chain, begin
        from kokoro_ane.vocoder import FIELDS
        from kokoro_g2p import MAX_PHONEMES, voice_language

        phonemes = " ".join(
            read.phonemes for read in self.readers[voice_language(line.voice)](line.text)
        )
        if len(phonemes) > MAX_PHONEMES:
            return None
        # the teacher needs what enters the vocoder tensor by tensor, not packed
        steps = [step for step in BEFORE_VOCODER if step.name != "pack"]
        chain = Chain(
            self.checkpoint.config.vocab,
            Voice(np.asarray(self.checkpoint.blend(line.voice))),
            self.encoder,
            self,
        )  # type: ignore[arg-type]
        try:
            tensors = run_steps(ROUNDED, chain, begin(phonemes, line.speed, seed))
        except UtteranceTooLong:
            return None
        if line.alteration == "held":
            tensors["durations"] = hold_vowel(phonemes, tensors["durations"], line.strength)
        tensors = run_steps(ENCODER_STEPS, chain, tensors)
        if line.alteration == "whispered":
            tensors["f0_hz"] = np.zeros_like(tensors["f0_hz"])
        if line.alteration == "energy":
            tensors["energy"] = tensors["energy"] + np.float32(line.strength)
        # what is there is not computed again
        tensors = run_steps(steps, chain, tensors)
        if tensors["asr"].shape[-1] < FEWEST_FRAMES:
            return None
        return self._measure(
            [tensors["style_decoder" if name == "style" else name] for name in FIELDS],
            line.alteration,
        )

    def _measure(self, arrays: list[np.ndarray], alteration: str) -> Records:
        import torch

        from kokoro_ane.core import COLUMNS_PER_STEP, NORM_EPSILON, SPECTRUM_CHANNELS, Mask
        from kokoro_ane.vocoder import (
            SPECTRUM_ROWS,
            VocoderInputs,
            make_reference_arguments,
            pack_utterance,
        )

        inputs = VocoderInputs(
            *(torch.from_numpy(np.ascontiguousarray(array, np.float32)) for array in arrays)
        )
        self.seen.clear()
        with torch.no_grad():
            self.fast(*make_reference_arguments(inputs))
            entering = self.entered["entering"]
            rows = torch.from_numpy(pack_utterance(inputs, inputs.frames)[:, -SPECTRUM_ROWS:])
            rows = rows.reshape(1, SPECTRUM_CHANNELS * COLUMNS_PER_STEP, 1, -1)
            # the shares of frames and spectrum columns that are the utterance's: see EntryMoments
            whole = (
                torch.ones(1, 1, 1, 1),
                torch.full((1, 1, 1, 1), inputs.frames / (inputs.frames + 1)),
            )
            mask = Mask.from_values(torch.ones_like(entering[:, :1]))
            pooled = self.moments(self.pooled(entering, rows, mask), whole).flatten()
        half = len(self.seen) // 2  # of the norms: the first stage's
        first_means = torch.cat([mean for mean, _ in self.seen[:half]])
        means, variances = (torch.cat(part) for part in zip(*self.seen[half:], strict=True))
        arrays = (
            torch.cat([pooled, inputs.style.flatten()]),
            torch.cat([means, torch.log(variances + NORM_EPSILON)]),
            first_means,
        )
        return Records(
            *(array.numpy()[None] for array in arrays),
            np.array([inputs.frames]),
            np.array([alteration]),
        )


def hold_vowel(phonemes: str, durations: np.ndarray, seconds: float) -> np.ndarray:
    """Durations [n + 2] in frames, those of the boundary tokens included, with the longest vowel
    held for so long.
    """
    vowels = [place for place, sound in enumerate(phonemes, 1) if sound in VOWELS]
    longer = durations.copy()
    longer[max(vowels, key=lambda place: durations[place])] = round(seconds * FRAMES_PER_SECOND)
    return longer


def load_records(
    checkpoint: "Checkpoint",
    count: int,
    seed: int,
    folder: Path,
) -> Records:
    """Records of at least `count` sentences. Those that the folder lacks are spoken now."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{checkpoint.sha256[:12]}-{seed}"
    parts = [folder / f"{name}-{number:04d}.npz" for number in range(-(-count // PART))]
    if missing := {number: path for number, path in enumerate(parts) if not path.is_file()}:
        _speak(
            Teacher(checkpoint),
            lambda number: draw_lines(checkpoint.voices, seed * 100_003 + number),
            missing,
        )
    return Records.join(Records(**np.load(path)) for path in parts)


def _speak(
    teacher: Teacher, texts: Callable[[int], Iterator[TaughtLine]], missing: dict[int, Path]
) -> None:
    """Speak every missing part that no other process speaks, of the part's own texts. Then wait for
    the others' parts, and speak those whose process ended before it wrote them.
    """
    from filelock import FileLock, Timeout
    from rich.console import Console
    from rich.progress import track

    for timeout, doing in ((0, "spoken here"), (-1, "all there")):
        for number, path in track(missing.items(), doing, console=Console(stderr=True)):
            with suppress(Timeout), FileLock(path.with_suffix(".lock"), timeout=timeout):
                if not path.is_file():
                    _speak_part(teacher, texts(number), number, path)


def _speak_part(teacher: Teacher, texts: Iterator[TaughtLine], number: int, path: Path) -> None:
    records = (teacher(line, number * 1000 + place) for place, line in enumerate(texts))
    part = Records.join(islice((record for record in records if record), PART))
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez(stream, **vars(part))


def fit_predictor(
    inputs: np.ndarray,
    targets: np.ndarray,
    sizes: tuple[int, ...],
    heard: np.ndarray,
    landmarks: int,
    rank: int,
) -> "StatisticsPredictor":
    """Fit a radial basis network by ridge regression, with outputs of low rank.

    sizes: of the four groups of inputs.
    heard: [2R], how much a channel's error counts where the rank is too low for all.
    """
    from kokoro_ane.vocoder import StatisticsPredictor

    inputs, targets = inputs.astype(np.float64), targets.astype(np.float64)
    # a group counts by its share, however many inputs it has
    share = np.concatenate(
        [np.full(size, share / np.sqrt(size)) for size, share in zip(sizes, SHARES, strict=True)]
    )
    mean = inputs.mean(0)
    scale = share / (inputs.std(0) + 1e-6)
    scaled = (inputs - mean) * scale
    chosen = np.random.default_rng(0).permutation(len(inputs))[:landmarks]
    *_, input_axes = np.linalg.svd(scaled[chosen], full_matrices=False)
    input_axes = input_axes[:AXES].astype(np.float16).astype(np.float64)  # [k, D], as stored
    places = scaled @ input_axes.T  # [n, k]
    # rounded before the fit, which absorbs what is lost
    stored = places[chosen].astype(np.float16).astype(np.float64)  # [m, k]
    squares = np.square(scaled).sum(1)
    # squared distances [n, m], by |a - b|^2 = |a|^2 + |b|^2 - 2 a b
    distance = squares[:, None] + squares[chosen][None] - 2 * places @ stored.T
    width = WIDTH * float(np.median(distance))
    near = np.exp(-distance / width)
    units = compute_deviations(targets)
    usual = targets.mean(0)
    normalized = (targets - usual) / units
    # regularized least squares for the heights of the bells, [m, 2R]; the last term, far below the
    # first two, keeps the matrix regular where landmarks coincide
    solved = np.linalg.solve(
        near.T @ near + RIDGE * near[chosen] + 1e-9 * len(inputs) * np.eye(len(chosen)),
        near.T @ normalized,
    )
    # the outputs' principal axes, by what is heard of them
    *_, axes = np.linalg.svd(near @ (solved * heard), full_matrices=False)
    axes = axes[:rank]  # [r, 2R]
    arrays = {
        "mean": mean,
        "scale": scale,
        "axes": input_axes,
        "landmarks": stored,
        "squares": squares[chosen],
        "width": np.asarray(width),
        "hidden": axes @ (solved * heard).T,
        "outer": axes.T * (units / heard)[:, None],
        "bias": usual,
        "centres": usual[: len(usual) // 2],  # of these norms; the first stage's come before them
    }
    return StatisticsPredictor(
        **{name: array.astype(np.float32) for name, array in arrays.items()},
        checkpoint="",
        fitted={},
    )


def compute_deviations(targets: np.ndarray) -> np.ndarray:
    """The units of errors, [2R]: the usual deviation of its channel for a mean, 1 for a log
    variance.
    """
    channels = targets.shape[1] // 2
    return np.concatenate([np.exp(targets[:, channels:].mean(0) / 2), np.ones(channels)])


def measure_errors(
    predictor: "StatisticsPredictor", records: Records, held: np.ndarray, counted: np.ndarray
) -> dict[str, float]:
    """RMS errors in deviations, of the sentences `held` [n] out, over the channels `counted` [2R]:
    of all, of the unaltered by length, of the altered by kind, and of the average of those that
    were not held out.
    """
    targets = records.targets[held]
    frames = records.frames[held]
    kinds = records.alterations[held]
    units = compute_deviations(records.targets)
    deviation = (predictor(records.inputs[held].astype(np.float64)) - targets) / units
    parts = {"all": deviation}
    for low, high in pairwise((0, *LENGTHS, int(frames.max()) + 1)):
        chosen = (low <= frames) & (frames < high) & (kinds == "")
        parts[f"{low} to {high - 1} frames"] = deviation[chosen]
    parts |= {kind: deviation[kinds == kind] for kind in ALTERATIONS}
    parts["the average"] = (records.targets[~held].mean(0) - targets) / units
    return {
        name: round(float(np.sqrt(np.square(part[:, counted]).mean())), 4)
        for name, part in parts.items()
        if len(part)
    }


@dataclass(frozen=True)
class FitOptions(CommandOptions):
    """What is spoken, and the size of the network."""

    checkpoint: str | None = checkpoint_option()
    count: int = option("sentences to speak", 1500)
    seed: int = option("of texts, voices and noise", 1)
    landmarks: int = option("bells of the network", 1000)
    rank: int = option("of its outputs", 192)
    data: Path = option("folder of the records", Path("build/statistics"))
    out: Path | None = option(
        "the predictor, .npz (default: in the checkpoint's folder, where the layout looks)"
    )


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(FitOptions, "training.fit_statistics", __doc__, argv)
    if options.count < 2 * HELD_OUT or min(options.landmarks, options.rank) < 1:
        raise InputError(f"--count must be {2 * HELD_OUT} or more, the other counts 1 or more")
    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.vocoder import (
        Vocoder,
        list_stage_norms,
        name_predictor_file,
        save_predictor,
    )

    checkpoint = open_checkpoint(options.checkpoint)
    out = check_output(
        options.out or checkpoint.folder / name_predictor_file(checkpoint.sha256),
        suffixes=(".npz",),
        arguments=options,
    )
    records = load_records(checkpoint, options.count, options.seed, options.data)
    generator = Vocoder.from_checkpoint(checkpoint).generator
    norms = list_stage_norms(generator, 1)
    up = generator.ups[1]
    style_dim = checkpoint.config.style_dim
    sizes = (2 * up.out_channels, 2 * up.in_channels, 2 * up.out_channels, style_dim)
    held = np.arange(len(records.frames)) % HELD_OUT == 0
    heard = np.concatenate(
        [np.full(norm.channels, HEARD[norm.path.startswith("resblocks")]) for norm in norms] * 2
    )
    fit_to = records.inputs[~held], records.targets[~held]
    predictor = fit_predictor(*fit_to, sizes, heard, options.landmarks, options.rank)
    figures: dict[str, Any] = {
        "sentences": int((~held).sum()),
        "held_out": int(held.sum()),
        "seed": options.seed,
        "python": sys.version.split()[0],
        "errors": measure_errors(predictor, records, held, heard == max(HEARD)),
    }
    first_means = records.first_means[~held].mean(0)
    whole = replace(
        predictor,
        centres=np.concatenate([first_means, predictor.centres]).astype(np.float32),
        checkpoint=checkpoint.sha256,
        fitted=figures,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    save_predictor(whole, out)
    print_table(
        f"{checkpoint.name}: statistics of {figures['held_out']} sentences held out, RMS error in"
        " deviations",
        ("by", "error"),
        [(name, f"{error:.4f}") for name, error in figures["errors"].items()],
    )
    report = figures | {"out": str(out), "bytes": out.stat().st_size}
    return conclude(options, report, EXIT_GOOD, f"fitted: {out}")


if __name__ == "__main__":
    raise SystemExit(main())
