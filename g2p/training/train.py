"""Train the neural model from misaki's word lists: same seed, same steps, same weights (on one machine and one torch).

    python -m g2p.training.train --seed 0 --until 6851                   # the recipe of the bundled weights
    python -m g2p.training.train --seed 0 --resume build/g2p/state.pt    # go on after a stop
    python -m g2p.training.train --dialect gb --start --steps 440 --until 240    # the British weights
    python -m g2p.training.train --start --steps 3000                            # American weights trained on with CMUdict's names

Writes the averaged weights as g2p/data/model.npz with their manifest (or to --out). Exit 0: finished, or at --until; 1: stopped early by
--minutes, the state is kept and the weights are written; 2: bad input. The last line of stdout is one JSON object.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    from g2p.alphabet import Alphabet
    from g2p.model import LetterToSound
    from g2p.training.split import Split

STEPS = 10600
SAMPLE = 500  # held-out words of each kind the log is about; no choice hangs on them


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="g2p.training.train", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the split, the first weights, the order of words and the dropout")
    parser.add_argument("--dialect", choices=("us", "gb"), default="us", help="whose lists and sounds")
    parser.add_argument(
        "--start", action="store_true", help="begin with the American weights (g2p/training/start.py): British sounds, or CMUdict besides"
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="length of the plan")
    parser.add_argument("--until", type=int, help="stop at this step of the plan and keep the state; default: its end")
    parser.add_argument("--minutes", type=float, help="stop after so many minutes and keep the state")
    parser.add_argument("--state", type=Path, default=Path("build/g2p/state.pt"), help="kept every two minutes")
    parser.add_argument("--resume", type=Path, help="a state to go on from")
    parser.add_argument("--out", type=Path, help="where the weights go; default: into the package, g2p/data/model.npz")
    arguments = parser.parse_args(argv)
    if arguments.steps < 1:
        raise InputError(f"--steps {arguments.steps}: at least 1")
    if arguments.until is not None and not 1 <= arguments.until <= arguments.steps:
        raise InputError(f"--until {arguments.until}: a step of the plan, 1 to {arguments.steps}")
    if arguments.minutes is not None and arguments.minutes <= 0:
        raise InputError(f"--minutes {arguments.minutes:g}: more than 0")
    return arguments


def errors_on(model: "LetterToSound", split: "Split", alphabet: "Alphabet") -> dict[str, float]:
    """Percent of sounds and of words wrong without stress, on samples of both held-out lists."""
    from g2p.neural import NeuralG2P
    from g2p.rates import error_rates

    reader = NeuralG2P(model, alphabet=alphabet)
    found: dict[str, float] = {}
    for name, words in (("word", split.word), ("family", split.family), ("names", split.names)):
        if not words:
            continue
        sample = dict(list(words.items())[:: max(1, len(words) // SAMPLE)])
        guesses = [guess.phonemes for guess in reader.predict(list(sample))]
        rates = error_rates(guesses, list(sample.values()))
        found |= {f"{name}_per": round(rates.per, 2), f"{name}_wer": round(rates.wer, 2)}
    return found


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from g2p.alphabet import ALPHABETS, AMERICAN
    from g2p.sizes import Config
    from g2p.training.batches import examples_of
    from g2p.training.split import Split
    from g2p.training.start import SPLIT_OF
    from g2p.training.start import started as begun
    from g2p.training.trainer import Plan, Trainer
    from g2p.weights import WEIGHTS_OF, load_model, save_weights

    print("drawing the split", file=sys.stderr)
    alphabet = ALPHABETS[arguments.dialect]
    config = Config(sounds=len(alphabet.sounds))
    if arguments.start:
        split = SPLIT_OF[arguments.dialect](arguments.seed)
        plan = Plan(arguments.steps, arguments.seed, rate=1e-3, matrix_rate=2e-3, warmup_steps=50, falling_part=0.7, average=0.99)
        trainer = Trainer(plan, examples_of(split.training, alphabet), config)
        trainer.begin(lambda model: begun(model, load_model(), AMERICAN, alphabet))
    else:
        split = Split.draw(arguments.seed, dialect=arguments.dialect)
        trainer = Trainer(Plan(arguments.steps, arguments.seed), examples_of(split.training, alphabet), config)
    if arguments.resume is not None:
        trainer.resume(arguments.resume)
    started = time.monotonic()

    def report(entry: dict[str, Any]) -> None:
        print(json.dumps(entry | errors_on(trainer.average, split, alphabet)), file=sys.stderr, flush=True)

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
    print(json.dumps({"weights": out.name, "finished": finished, "seconds": round(time.monotonic() - started), **training}))
    return EXIT_GOOD if finished else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
