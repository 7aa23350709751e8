"""Train the demo voice from flite's speech (`make demo`): the vocoder with a text encoder of its own, the encoder, then a finish of both.

    python -m demo.train                                          # all stages, into build/demo/checkpoint
    python -m demo.train --stage vocoder --minutes 10 --compile   # stop early; the state is kept for --resume
    python -m demo.train --stage encoder                          # on the vocoder that build/demo/vocoder holds
    python -m demo.train --stage finish --compile                 # on the checkpoint that build/demo/checkpoint holds

Every step's batch and noise follow from (seed, step). The learning rate is flat and falls over the last part of the schedule.
"""

if __package__ in (None, ""):  # run as a file: put the repo root, not demo/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from core.errors import InputError, run_cli

STAGES = ("vocoder", "encoder", "finish")
STEPS = {"vocoder": 3200, "encoder": 2600, "finish": 2600}
CORPUS, STATE, VOCODER = Path("build/demo/corpus"), Path("build/demo/{stage}_state.pt"), Path("build/demo/vocoder")


def main(argv: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    return run_cli(_main, argv)


def _main(argv: list[str] | None) -> int:
    args = parse_arguments(argv)
    if args.minutes is not None and args.minutes <= 0:
        raise InputError(f"--minutes {args.minutes:g}: more than 0")
    if args.steps is not None and args.steps < 1:
        raise InputError(f"--steps {args.steps}: at least 1")
    if args.stage == "all" and (args.resume is not None or args.steps is not None):
        raise InputError(f"--resume and --steps belong to one stage: add --stage {', '.join(STAGES[:-1])} or {STAGES[-1]}")
    result = {}
    for stage in STAGES if args.stage == "all" else (args.stage,):
        result[stage] = {"vocoder": train_vocoder, "encoder": train_encoder, "finish": train_finish}[stage](args)
        if not result[stage]["finished"]:
            break
    print(json.dumps({"seed": args.seed, "stages": result}))
    return 0


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", choices=(*STAGES, "all"), default="all", help="default: %(default)s")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="of the vocoder stage and the finish (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and noise (default: %(default)s)")
    parser.add_argument("--steps", type=int, help=f"length of the whole schedule (default: {STEPS})")
    parser.add_argument("--minutes", type=float, help="stop a stage after this time, whatever is left of its schedule")
    parser.add_argument("--compile", action="store_true", help="torch.compile the vocoder: twice as fast, needs a C++ compiler")
    parser.add_argument(
        "--vocoder", type=Path, default=VOCODER, help="what the first stage makes and the second reads (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=Path("build/demo/checkpoint"), help="checkpoint folder (default: %(default)s)")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from this training state of the stage")
    return parser.parse_args(argv)


def train_vocoder(args: argparse.Namespace) -> dict[str, Any]:
    """Vocoder, decoder styles, and the text encoder of flite's phones, into --vocoder."""
    from core.corpus import load_folder
    from demo import corpus
    from demo.training import Plan, Trainer

    corpus.build(CORPUS, corpus.SENTENCES, corpus.SEED)
    plan = Plan(steps=args.steps or STEPS["vocoder"], seed=args.seed)
    return _run(Trainer(plan, load_folder(CORPUS), args.device, compiled=args.compile), "vocoder", args.vocoder, args)


def train_encoder(args: argparse.Namespace) -> dict[str, Any]:
    """Text encoder of g2p's symbols, durations and prosody: --vocoder copied to --out, and these added."""
    import shutil

    from demo import lessons
    from demo.encoder_batches import load_pairs
    from demo.encoder_training import EncoderPlan, EncoderTrainer

    plan = EncoderPlan(steps=args.steps or STEPS["encoder"], seed=args.seed)
    lessons.build(lessons.LESSONS, lessons.SENTENCES, lessons.SEED)
    trainer = EncoderTrainer(plan, load_pairs(lessons.LESSONS), args.vocoder)
    shutil.copytree(args.vocoder, args.out, dirs_exist_ok=True)
    return _run(trainer, "encoder", args.out, args)


def train_finish(args: argparse.Namespace) -> dict[str, Any]:
    """Vocoder, decoder styles and text encoder of --out together, at a low rate, on the encoder's lessons; durations and prosody stay."""
    from demo import lessons
    from demo.encoder_batches import load_recorded
    from demo.finish import Finish

    lessons.build(lessons.LESSONS, lessons.SENTENCES, lessons.SEED)
    finish = Finish(args.steps or STEPS["finish"], args.seed, load_recorded(lessons.LESSONS), args.device, args.out, compiled=args.compile)
    return _run(finish, "finish", args.out, args)


def _run(trainer: Any, stage: str, out: Path, args: argparse.Namespace) -> dict[str, Any]:
    if args.resume is not None:
        trainer.resume(args.resume)
    done = trainer.run(Path(str(STATE).format(stage=stage)), args.minutes)
    trainer.export(out)
    return {"checkpoint": str(out), "steps": trainer.step, "finished": done, "loss": trainer.recent_loss()}


if __name__ == "__main__":
    from demo.train import main  # one module identity, however it was started

    raise SystemExit(main(sys.argv[1:]))
