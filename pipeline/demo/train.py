"""Train the demo voice: text encoder, style vectors and vocoder together, from flite's speech (`make demo`).

    python -m pipeline.demo.train --out build/demo/checkpoint              # whole run
    python -m pipeline.demo.train --minutes 10 --compile                    # stop early; the state is kept for --resume

Every step's batch and noise follow from (seed, step). The learning rate is flat and falls over the last part of --steps.
"""

if __package__ in (None, ""):  # run as a file: put the repo root, not pipeline/demo/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])

import argparse
import json
import sys
from pathlib import Path

from pipeline.errors import InputError, run_cli

STEPS = 3200
CORPUS, STATE = Path("build/demo/corpus"), Path("build/demo/state.pt")


def main(argv: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    return run_cli(_main, argv)


def _main(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and noise (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=STEPS, help="length of the whole schedule (default: %(default)s)")
    parser.add_argument("--minutes", type=float, help="stop after this time, whatever is left of the schedule")
    parser.add_argument("--compile", action="store_true", help="torch.compile: twice as fast, needs a C++ compiler")
    parser.add_argument("--out", type=Path, default=Path("build/demo/checkpoint"), help="checkpoint folder (default: %(default)s)")
    parser.add_argument("--state", type=Path, default=STATE, help="training state, saved every two minutes (default: %(default)s)")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from this training state")
    args = parser.parse_args(argv)
    if args.steps < 1 or (args.minutes is not None and args.minutes <= 0):
        raise InputError("--steps and --minutes must be positive")
    from pipeline.demo import corpus
    from pipeline.demo.data import load_folder
    from pipeline.demo.training import Plan, Trainer

    corpus.build(CORPUS, corpus.SENTENCES, corpus.SEED)
    plan = Plan(steps=args.steps, seed=args.seed)
    trainer = Trainer(plan, load_folder(CORPUS), args.device, compiled=args.compile)
    if args.resume is not None:
        trainer.resume(args.resume)
    done = trainer.run(args.state, args.minutes)
    trainer.export(args.out)
    result = {"checkpoint": str(args.out), "seed": args.seed, "steps": trainer.step, "finished": done, "loss": trainer.recent_loss()}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    from pipeline.demo.train import main  # one module identity, however it was started

    raise SystemExit(main(sys.argv[1:]))
