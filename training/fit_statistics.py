"""Fit the predictor of the streaming layout (vocoder/streaming/norm_statistics.py) to a checkpoint,
on speech that the checkpoint makes.

    # 10 s of one core a sentence; an interrupted run goes on where it stopped
    python -m training.fit_statistics --checkpoint kokoro-int8 --count 1500

The teacher is the network itself. It speaks COUNT texts in all of its voices and in random blends
of them, at several speeds, and what every norm of the generator measures is recorded. The texts are
prose of Python's documentation, cut and joined anew, with words of the lexicon in it; none of them
is in a set that tunes or judges. Speech shorter than FEWEST_FRAMES, which the layout measures
itself, is left out. One sentence in eight is held out, and the printed error is that of those. Two
processes that are started in one folder share the work. Exit 0: written. Exit 2: bad input. A
pipe's last line is one JSON object.
"""

import gzip
import random
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core.commands import checkpoint_argument, conclude, print_table
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, UtteranceTooLong, command
from kokoro_ane.core.staging import check_output, staged
from kokoro_ane.core.steps import run_steps
from kokoro_ane.vocoder.streaming.windows import MEASURED

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor

PART = 20  # sentences in a file of records
HELD_OUT = 8  # one sentence in so many is not fitted on
# The layout predicts the statistics of what is longer than MEASURED. Sentences a little shorter
# are fitted too, so that the edge lies inside the data.
FEWEST_FRAMES = MEASURED - 30
WORDS = (8, 90)  # of a text: as many have 8 to 16 as have 16 to 32
# how much each group of inputs counts in the kernel's distance: the moments of the upsampler, those
# of both source convolutions, the style
SHARES = (1.0, 0.5, 0.5, 2.0)
# of the bells, in median squared distances; both chosen by held-out error on 380 sentences
WIDTH, RIDGE = 4.0, 1e-3
# How much the error of a norm counts: of one in the source's blocks, whose errors nobody hears, and
# of the others. With exact values MCD falls by 0 and by 43 %.
HEARD = (0.25, 1.0)
Record = tuple[np.ndarray, np.ndarray]  # inputs [D], means and log variances [2R]


@dataclass(frozen=True)
class Line:
    """A text to be spoken."""

    text: str
    voice: str
    speed: float


def prose() -> list[str]:
    """The plain sentences of Python's documentation, sorted."""
    import pydoc_data.topics

    paragraphs = (
        " ".join(part.split())
        for topic in pydoc_data.topics.topics.values()
        for part in re.split(r"\n\s*\n", topic)
    )
    sentences = {
        sentence for paragraph in paragraphs for sentence in re.split(r"(?<=[.!?])\s+", paragraph)
    }
    # no code, no markup: letters and the signs of prose, at least three words
    return sorted(
        s
        for s in sentences
        if re.fullmatch(r"[A-Z][A-Za-z ,;:'\-]{14,260}[.!?]", s) and len(s.split()) >= 3
    )


def lines(voices: tuple[str, ...], seed: int) -> Iterator[Line]:
    """Yield texts without end. Three in ten are whole sentences; the others are pieces of several,
    with a fifth of the words exchanged for words of the lexicon.
    """
    from kokoro_ane.g2p.bundled import DATA

    rng, sentences = random.Random(seed), prose()
    with gzip.open(DATA / "cmudict.txt.gz", "rt", encoding="latin-1") as stream:
        words = [line.split()[0].lower() for line in stream if re.match(r"[A-Za-z]{3,12}\s", line)]
    pieces = list(_pieces(sentences, rng))
    while True:
        yield Line(
            _text(rng, sentences, pieces, words),
            _voice(rng, voices),
            1.0 if rng.random() < 0.6 else round(rng.uniform(0.6, 2.0), 2),
        )


def _pieces(sentences: list[str], rng: random.Random) -> Iterator[str]:
    for sentence in sentences:
        words = sentence[:-1].split()
        while words:
            count = rng.randint(2, 7)
            yield " ".join(words[:count])
            words = words[count:]


def _text(rng: random.Random, sentences: list[str], pieces: list[str], lexicon: list[str]) -> str:
    # even in the logarithm, see WORDS
    count = round(np.exp(rng.uniform(*np.log(WORDS))))
    if rng.random() < 0.3:
        return _whole(rng, sentences, count)
    words: list[str] = []
    while len(words) < count:
        words += rng.choice(pieces).split()
        # punctuation at the seams, because it shapes prosody
        if rng.random() < 0.25:
            words[-1] = words[-1].rstrip(",;:") + rng.choice((",", ",", ";", ":", " -"))
    chosen = [rng.choice(lexicon) if rng.random() < 0.2 else word for word in words[:count]]
    text = " ".join(chosen).rstrip(",;:- ")
    return text[:1].upper() + text[1:] + rng.choice("....?!")


def _whole(rng: random.Random, sentences: list[str], count: int) -> str:
    """Unchanged sentences of about `count` words, at six characters each."""
    chosen: list[str] = []
    while sum(map(len, chosen)) < 6 * count:
        chosen.append(rng.choice(sentences))
    return " ".join(chosen)


def _voice(rng: random.Random, voices: tuple[str, ...]) -> str:
    """One voice, or a blend of two or three."""
    count = min(len(voices), rng.choices((1, 2, 3), (0.55, 0.3, 0.15))[0])
    names = rng.sample(voices, count)
    return (
        names[0] if count == 1 else ",".join(f"{name}:{rng.random() + 0.05:.2f}" for name in names)
    )


class Teacher:
    """Responsibilities: 1. speak a line in PyTorch; 2. note what enters the generator and what its
    norms measure.
    """

    def __init__(self, checkpoint: "Checkpoint") -> None:
        from kokoro_ane.g2p.alphabet import voice_language
        from kokoro_ane.pipeline.text import TextReader
        from kokoro_ane.runtimes.torch_runtime import torch_encoder
        from kokoro_ane.vocoder.decoder import Vocoder
        from kokoro_ane.vocoder.eager import EagerVocoder, moments
        from kokoro_ane.vocoder.streaming.streaming_functions import EntryMoments, PooledMoments

        vocoder = Vocoder.of(checkpoint)
        self.checkpoint, self.encoder = checkpoint, torch_encoder(checkpoint)
        self.source = vocoder.generator.m_source.host
        self.readers = {
            language: TextReader.load(language, None)
            for language in {voice_language(v) for v in checkpoint.voices}
        }
        self.fast = EagerVocoder(vocoder)
        self.seen: list[Any] = []
        self.entered: dict[str, Any] = {}
        self.pooled = PooledMoments(vocoder.generator).eval()
        self.moments = EntryMoments(vocoder.generator)
        self.fast.generator.register_forward_pre_hook(
            lambda _, inputs: self.entered.update(frames=inputs[0])
        )
        for norm in self._norms():
            norm.register_forward_pre_hook(lambda _, inputs: self.seen.append(moments(inputs[0])))

    def _norms(self) -> Iterator[Any]:
        """The norms in the order of streaming_model.generator_norms, which is that of the calls."""
        generator = self.fast.generator
        for source, blocks in zip(generator.noise_res, generator.stages, strict=True):
            for block in (source, *blocks):
                for first, second in zip(block.first, block.second, strict=True):
                    yield from (first.norm, second.norm)

    def __call__(self, line: Line, seed: int) -> Record | None:
        """The record of one line; None for a text that is too short or too long."""
        from kokoro_ane.core.contract import MAX_PHONEMES
        from kokoro_ane.g2p.alphabet import voice_language
        from kokoro_ane.pipeline.synthesis import BEFORE_VOCODER, Chain, begin
        from kokoro_ane.vocoder.packing import FIELDS

        phonemes = " ".join(
            read.phonemes for read in self.readers[voice_language(line.voice)].sentences(line.text)
        )
        if len(phonemes) > MAX_PHONEMES:
            return None
        # the teacher needs what enters the vocoder tensor by tensor, not packed
        steps = [step for step in BEFORE_VOCODER if step.name != "pack"]
        chain = Chain(
            self.checkpoint.config.vocab,
            np.asarray(self.checkpoint.blend(line.voice)),
            self.encoder,
            self,
        )  # type: ignore[arg-type]
        try:
            tensors = run_steps(steps, chain, begin(phonemes, line.speed, seed))
        except UtteranceTooLong:
            return None
        if tensors["asr"].shape[-1] < FEWEST_FRAMES:
            return None
        return self._measured(
            [tensors["style_decoder" if name == "style" else name] for name in FIELDS]
        )

    def _measured(self, arrays: list[np.ndarray]) -> Record:
        import torch
        import torch.nn.functional as F

        from kokoro_ane.core.layers import NORM_EPSILON, Mask
        from kokoro_ane.vocoder.decoder import STAGE_SLOPE
        from kokoro_ane.vocoder.packing import VocoderInputs
        from kokoro_ane.vocoder.render import reference_arguments
        from kokoro_ane.vocoder.streaming.streaming_package import SPECTRUM_ROWS, pack_utterance

        inputs = VocoderInputs(
            *(torch.from_numpy(np.ascontiguousarray(array, np.float32)) for array in arrays)
        )
        self.seen.clear()
        with torch.no_grad():
            self.fast(*reference_arguments(inputs))
            frames = F.leaky_relu(self.entered["frames"], STAGE_SLOPE)
            spectrum = torch.from_numpy(pack_utterance(inputs, inputs.frames)[:, -SPECTRUM_ROWS:])
            # the shares of frames and spectrum columns that are the utterance's: see EntryMoments
            whole = (
                torch.ones(1, 1, 1, 1),
                torch.full((1, 1, 1, 1), inputs.frames / (inputs.frames + 1)),
            )
            pooled = self.moments(
                self.pooled(frames, spectrum, Mask.of(torch.ones_like(frames[:, :1]))), whole
            ).flatten()
        means = torch.cat([mean for mean, _ in self.seen])
        variances = torch.cat([variance for _, variance in self.seen])
        targets = torch.cat([means, torch.log(variances + NORM_EPSILON)])
        return torch.cat([pooled, inputs.style.flatten()]).numpy(), targets.numpy()


def recorded(checkpoint: "Checkpoint", count: int, seed: int, folder: Path) -> Record:
    """Inputs [n, D] and targets [n, 2R] of at least `count` sentences. Those that the folder lacks
    are spoken now.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = [
        folder / f"{checkpoint.sha256[:12]}-{seed}-{number:04d}.npz"
        for number in range(-(-count // PART))
    ]
    if missing := {number: path for number, path in enumerate(parts) if not path.is_file()}:
        _speak(Teacher(checkpoint), seed, missing)
    archives = [np.load(path) for path in parts]
    return np.concatenate([part["inputs"] for part in archives]), np.concatenate(
        [part["targets"] for part in archives]
    )


def _speak(teacher: Teacher, seed: int, missing: dict[int, Path]) -> None:
    """Speak every missing part that no other process speaks. Then wait for the others' parts, and
    speak those whose process ended before it wrote them.
    """
    from filelock import FileLock, Timeout
    from rich.console import Console
    from rich.progress import track

    for timeout, doing in ((0, "spoken here"), (-1, "all there")):
        for number, path in track(missing.items(), doing, console=Console(stderr=True)):
            with suppress(Timeout), FileLock(path.with_suffix(".lock"), timeout=timeout):
                if not path.is_file():
                    _speak_part(teacher, seed, number, path)


def _speak_part(teacher: Teacher, seed: int, number: int, path: Path) -> None:
    texts = enumerate(lines(teacher.checkpoint.voices, seed * 100_003 + number))
    records = (teacher(line, number * 1000 + place) for place, line in texts)
    inputs, targets = zip(*islice((record for record in records if record), PART), strict=True)
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez(stream, inputs=np.stack(inputs), targets=np.stack(targets))


def fitted(
    inputs: np.ndarray,
    targets: np.ndarray,
    sizes: tuple[int, ...],
    heard: np.ndarray,
    landmarks: int,
    rank: int,
    earlier: "StatisticsPredictor | None" = None,
) -> "StatisticsPredictor":
    """Fit a radial basis network by ridge regression, with outputs of low rank.

    sizes: of the four groups of inputs.
    heard: [2R], how much a channel's error counts where the rank is too low for all.
    earlier: a predictor whose values at its landmarks stand for the sentences that it was fitted
    to.
    """
    from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor

    inputs, targets = inputs.astype(np.float64), targets.astype(np.float64)
    counts = np.ones(len(inputs))
    if earlier is not None:
        earlier_inputs = earlier.landmarks / earlier.scale + earlier.mean
        inputs, targets = (
            np.concatenate([inputs, earlier_inputs]),
            np.concatenate([targets, earlier(earlier_inputs)]),
        )
        counts = np.concatenate(
            [
                counts,
                np.full(len(earlier_inputs), earlier.fitted["sentences"] / len(earlier_inputs)),
            ]
        )
    # a group counts by its share, however many inputs it has
    share = np.concatenate(
        [np.full(size, share / np.sqrt(size)) for size, share in zip(sizes, SHARES, strict=True)]
    )
    mean, scale = inputs.mean(0), share / (inputs.std(0) + 1e-6)
    scaled = (inputs - mean) * scale
    chosen = np.random.default_rng(0).permutation(len(inputs))[:landmarks]
    places = scaled[chosen]
    # squared distances [n, m], by |a - b|^2 = |a|^2 + |b|^2 - 2 a b
    distance = (
        np.square(scaled).sum(1)[:, None] + np.square(places).sum(1)[None] - 2 * scaled @ places.T
    )
    width = WIDTH * float(np.median(distance))
    near, units, usual = np.exp(-distance / width), deviations(targets), targets.mean(0)
    normalized = (targets - usual) / units
    weighed = near.T * counts  # [m, n]
    # regularized least squares for the heights of the bells, [m, 2R]; the last term, far below the
    # first two, keeps the matrix regular where landmarks coincide
    solved = np.linalg.solve(
        weighed @ near + RIDGE * near[chosen] + 1e-9 * len(inputs) * np.eye(len(places)),
        weighed @ normalized,
    )
    # the outputs' principal axes, by what is heard of them
    *_, axes = np.linalg.svd(near @ (solved * heard), full_matrices=False)
    axes = axes[:rank]  # [r, 2R]
    arrays = {
        "mean": mean,
        "scale": scale,
        "landmarks": places,
        "width": np.asarray(width),
        "hidden": axes @ (solved * heard).T,
        "outer": axes.T * (units / heard)[:, None],
        "bias": usual,
        "centres": usual[: len(usual) // 2],
    }
    return StatisticsPredictor(
        **{name: array.astype(np.float32) for name, array in arrays.items()},
        checkpoint="",
        voices=(),
        fitted={},
    )


def deviations(targets: np.ndarray) -> np.ndarray:
    """The units of errors, [2R]: the usual deviation of its channel for a mean, 1 for a log
    variance.
    """
    channels = targets.shape[1] // 2
    return np.concatenate([np.exp(targets[:, channels:].mean(0) / 2), np.ones(channels)])


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("training.fit_statistics", __doc__)
    checkpoint_argument(parser)
    parser.add_argument(
        "--count", type=int, default=1500, help="sentences to speak (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of texts, voices and noise (default: %(default)s)"
    )
    parser.add_argument(
        "--earlier", type=Path, help="a predictor of these weights, whose sentences count too"
    )
    parser.add_argument(
        "--landmarks", type=int, default=1000, help="bells of the network (default: %(default)s)"
    )
    parser.add_argument(
        "--rank", type=int, default=192, help="of its outputs (default: %(default)s)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("build/statistics"),
        help="folder of the records (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="the predictor, .npz (default: in the user's cache, where the streaming layout looks)",
    )
    arguments = parser.parse_args(argv)
    if arguments.count < 2 * HELD_OUT or min(arguments.landmarks, arguments.rank) < 1:
        raise InputError(
            f"--count must be {2 * HELD_OUT} or more, --landmarks and --rank 1 or more"
        )

    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.vocoder.decoder import Vocoder
    from kokoro_ane.vocoder.streaming.norm_statistics import (
        load_predictor,
        predictor_path,
        save_predictor,
    )
    from kokoro_ane.vocoder.streaming.streaming_model import generator_norms

    checkpoint = open_checkpoint(arguments.checkpoint)
    out = check_output(
        arguments.out or predictor_path(checkpoint), suffixes=(".npz",), arguments=arguments
    )
    earlier = load_predictor(arguments.earlier, checkpoint) if arguments.earlier else None
    inputs, targets = recorded(checkpoint, arguments.count, arguments.seed, arguments.data)
    norms = generator_norms(Vocoder.of(checkpoint).generator)
    widths = [
        next(norm.channels for norm in norms if norm.path == f"noise_res.{stage}.adain1.0")
        for stage in (0, 1)
    ]
    sizes = (
        2 * widths[0],
        2 * widths[0],
        2 * widths[1],
        inputs.shape[1] - 4 * widths[0] - 2 * widths[1],
    )
    held = np.arange(len(inputs)) % HELD_OUT == 0
    heard = np.concatenate(
        [np.full(norm.channels, HEARD[norm.path.startswith("resblocks")]) for norm in norms] * 2
    )
    predictor = fitted(
        inputs[~held], targets[~held], sizes, heard, arguments.landmarks, arguments.rank, earlier
    )
    predictions = predictor(inputs[held].astype(np.float64)), targets[~held].mean(0)
    error, average = (
        ((one - targets[held]) / deviations(targets))[:, heard == max(HEARD)] for one in predictions
    )
    spoken, before = int((~held).sum()), earlier.fitted["sentences"] if earlier else 0
    figures: dict[str, Any] = {
        "sentences": spoken + before,
        "spoken": spoken,
        "held_out": int(held.sum()),
        "seed": arguments.seed,
        "python": sys.version.split()[0],
        "error": round(float(np.sqrt(np.square(error).mean())), 4),
        "error_of_the_average": round(float(np.sqrt(np.square(average).mean())), 4),
    }
    whole = replace(
        predictor, checkpoint=checkpoint.sha256, voices=checkpoint.voices, fitted=figures
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    save_predictor(whole, out)
    rows = [
        ("predicted", f"{figures['error']:.4f}"),
        ("the average of all", f"{figures['error_of_the_average']:.4f}"),
    ]
    print_table(
        f"{checkpoint.name}: statistics of {figures['held_out']} sentences held out, RMS error in"
        " deviations",
        ("by", "error"),
        rows,
    )
    report = figures | {"out": str(out), "bytes": out.stat().st_size}
    return conclude(arguments, report, EXIT_GOOD, f"fitted: {out}")


if __name__ == "__main__":
    raise SystemExit(main())
