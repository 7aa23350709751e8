"""Train the G2P network on misaki's word lists. The same seed and steps give the same weights, on
one machine and one version of PyTorch.

    # the recipe of the bundled weights
    python -m kokoro_g2p.training.g2p_network --seed 0 --until 6851
    python -m kokoro_g2p.training.g2p_network --seed 0 --resume build/g2p/state.pt   # go on
    # the British weights
    python -m kokoro_g2p.training.g2p_network --dialect gb --steps 1000
    # two numbers that make the American network's confidence the share of right words
    python -m kokoro_g2p.training.g2p_network --calibrate

Writes the averaged weights as g2p/data/model.npz with their manifest (or to --out). Exit 0:
finished, or at --until. Exit 1: stopped early by --minutes; state and weights are written. Exit 2:
bad input. A pipe's last line is one JSON object.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_g2p.alphabet import ALPHABETS, AMERICAN, BRITISH
from kokoro_g2p.commands import EXIT_GOOD, EXIT_REJECTED, CommandParser, command, conclude
from kokoro_g2p.errors import InputError
from kokoro_g2p.result import GB
from kokoro_g2p.training.g2p_words import (
    WORDS_HELD_OUT,
    Split,
    order_by_hash,
    read_pronunciations,
    select_testable,
)
from kokoro_g2p.word_lists import read

if TYPE_CHECKING:
    import numpy as np

    from kokoro_g2p.alphabet import Alphabet
    from kokoro_g2p.network import LetterToSound

ROUNDS = 50  # Newton's steps of the calibration; five are enough
STEPS = 10600
SAMPLE = 500  # held-out words of each kind in the log; no choice depends on them


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The flags of this command."""
    parser = CommandParser("kokoro_g2p.training.g2p_network", __doc__)
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of the split, the first weights, the order of words and the dropout",
    )
    parser.add_argument(
        "--dialect",
        choices=("us", "gb"),
        default="us",
        help="whose lists and sounds; gb begins with the American weights",
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="length of the plan")
    parser.add_argument(
        "--until",
        type=int,
        help="stop at this step of the plan and keep the state; default: its end",
    )
    parser.add_argument(
        "--minutes", type=float, help="stop after so many minutes and keep the state"
    )
    parser.add_argument(
        "--state", type=Path, default=Path("build/g2p/state.pt"), help="kept every two minutes"
    )
    parser.add_argument("--resume", type=Path, help="a state to go on from")
    parser.add_argument(
        "--out",
        type=Path,
        help="where the weights go; default: into the package, g2p/data/model.npz",
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="fit the confidence of the bundled American weights; train nothing",
    )
    arguments = parser.parse_args(argv)
    if arguments.steps < 1:
        raise InputError(f"--steps {arguments.steps}: at least 1")
    if arguments.until is not None and not 1 <= arguments.until <= arguments.steps:
        raise InputError(f"--until {arguments.until}: a step of the plan, 1 to {arguments.steps}")
    if arguments.minutes is not None and arguments.minutes <= 0:
        raise InputError(f"--minutes {arguments.minutes:g}: more than 0")
    return arguments


def measure_errors(model: "LetterToSound", split: Split, alphabet: "Alphabet") -> dict[str, float]:
    """The percentages of wrong sounds and words, without stress, on samples of the held-out
    lists.
    """
    from kokoro_g2p.neural import NeuralG2P
    from kokoro_g2p.training.error_rates import compute_error_rates

    reader = NeuralG2P(model.run, alphabet)
    errors: dict[str, float] = {}
    for name, words in (("word", split.word), ("family", split.family)):
        if not words:
            continue
        # Every so many words, so that the sample is spread over the whole list
        sample = dict(list(words.items())[:: max(1, len(words) // SAMPLE)])
        guesses = [guess.phonemes for guess in reader.predict(list(sample))]
        rates = compute_error_rates(guesses, list(sample.values()))
        errors |= {f"{name}_per": round(rates.per, 2), f"{name}_wer": round(rates.wer, 2)}
    return errors


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.calibrate:
        return calibrate(arguments)
    from kokoro_g2p.network import LetterToSound, save_weights
    from kokoro_g2p.neural import WEIGHTS_OF, Config
    from kokoro_g2p.training.loop import Trainer, TrainingPlan, copy_weights, make_examples

    print("drawing the split", file=sys.stderr)
    alphabet = ALPHABETS[arguments.dialect]
    config = Config(sounds=len(alphabet.sounds))
    if arguments.dialect == GB:
        split = draw_british_split(arguments.seed)
        # It begins with the American weights, so that smaller steps and a short warm-up do.
        plan = TrainingPlan(
            arguments.steps,
            arguments.seed,
            rate=1e-3,
            matrix_rate=2e-3,
            warmup_steps=50,
            falling_part=0.7,
            average=0.99,
        )
        trainer = Trainer(plan, make_examples(split.training, alphabet), config)
        trainer.begin(lambda model: copy_weights(model, LetterToSound.load(), AMERICAN, alphabet))
    else:
        split = Split.draw(arguments.seed)
        trainer = Trainer(
            TrainingPlan(arguments.steps, arguments.seed),
            make_examples(split.training, alphabet),
            config,
        )
    if arguments.resume is not None:
        trainer.resume(arguments.resume)
    started = time.monotonic()

    def report(entry: dict[str, Any]) -> None:
        print(
            json.dumps(entry | measure_errors(trainer.average, split, alphabet)),
            file=sys.stderr,
            flush=True,
        )

    finished = trainer.run(arguments.state, report, arguments.until, arguments.minutes)
    training = {
        "dialect": arguments.dialect,
        "seed": arguments.seed,
        "steps": trainer.step,
        "plan": arguments.steps,
        "examples": len(trainer.examples),
    }
    out = arguments.out or WEIGHTS_OF[arguments.dialect]
    save_weights(trainer.average, out, training)
    figures = {
        "weights": out.name,
        "finished": finished,
        "seconds": round(time.monotonic() - started),
        **training,
    }
    if finished:
        return conclude(arguments, figures, EXIT_GOOD, "trained to the end of the plan")
    return conclude(arguments, figures, EXIT_REJECTED, "stopped before the end of the plan")


def calibrate(arguments: argparse.Namespace) -> int:
    """Fit p' = sigmoid(slope * logit(p) + shift) by maximum likelihood (Platt 1999, in logits) and
    write it into the manifest.

    The words are the gold ones that the split took out as relatives of the held-out families, so
    neither the weights nor the held-out lists have them. The British network has no such words: all
    of its lists are trained on or held out. It needs no fit.
    """
    import numpy as np

    from kokoro_g2p.files import write_json
    from kokoro_g2p.neural import WEIGHTS, NeuralG2P, load_arrays, make_network, read_manifest

    manifest = read_manifest(WEIGHTS)
    words = list_tuning_words(Split.draw(manifest["training"]["seed"]))
    guesses = NeuralG2P(make_network(*load_arrays())).predict(list(words))
    right = np.array(
        [
            guess.phonemes == phonemes
            for guess, phonemes in zip(guesses, words.values(), strict=True)
        ],
        dtype=float,
    )
    # These are uncalibrated, since the network was built without its confidence.
    chances = np.array([guess.confidence for guess in guesses])
    slope, shift = fit_confidence(chances, right)
    confidence = {"slope": round(slope, 4), "shift": round(shift, 4), "words": len(words)}
    write_json(WEIGHTS.with_suffix(".json"), {**manifest, "confidence": confidence})
    print(
        f"{len(words)} words: said {100 * chances.mean():.1f} %, right {100 * right.mean():.1f} %"
    )
    figures = {**confidence, "said": float(chances.mean()), "right": float(right.mean())}
    return conclude(arguments, figures, EXIT_GOOD, "calibrated")


def list_tuning_words(split: Split) -> dict[str, str]:
    """American gold words that are neither trained on nor held out, with their phonemes."""
    entries = read("us_gold")
    out = {*split.word, *split.family}
    return {
        word: phonemes
        for word, phonemes in select_testable(entries, read_pronunciations(entries)).items()
        if word not in split.trained | out
    }


def fit_confidence(chances: "np.ndarray", right: "np.ndarray") -> tuple[float, float]:
    """The slope and shift of largest likelihood. `chances` [words] are the network's probabilities,
    `right` [words] says which words were right.
    """
    import numpy as np

    from kokoro_g2p.ctc import logit

    x = np.stack([logit(chances), np.ones(len(chances))])  # [2, words]
    weights = np.array([1.0, 0.0])
    # Newton's method on the log likelihood, which is concave
    for _ in range(ROUNDS):
        shares = 1 / (1 + np.exp(-weights @ x))
        # The second derivatives of the negative log likelihood
        slopes = (x * (shares * (1 - shares))) @ x.T  # [2, 2]
        weights = weights - np.linalg.solve(slopes, x @ (shares - right))
    return float(weights[0]), float(weights[1])


def draw_british_split(seed: int) -> Split:
    """The British split: gold words that the American network never saw are held out, and both
    British lists without them are trained on.
    """
    entries = read("us_gold")
    # The American split draws by the same hash: these words are held out there too, alone or with
    # their family.
    unseen = set(
        order_by_hash(select_testable(entries, read_pronunciations(entries)), seed, "word")[
            :WORDS_HELD_OUT
        ]
    )
    gold = read(BRITISH.tags[0])
    readings = read_pronunciations(gold, BRITISH)
    held_out = {
        word: phonemes
        for word, phonemes in sorted(select_testable(gold, readings).items())
        if word in unseen
    }
    training = {
        tag: {w: p for w, p in read_pronunciations(read(tag), BRITISH).items() if w not in unseen}
        for tag in BRITISH.tags
    }
    return Split(word=held_out, family={}, training=training, neither=0)


if __name__ == "__main__":
    raise SystemExit(main())
