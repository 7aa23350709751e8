"""How close the demo voice comes to flite's recordings: STOI and wide-band PESQ on the 24 held-out sentences.

    python -m demo.judge                                  # the bundled checkpoint
    python -m demo.judge --checkpoint build/demo/checkpoint --pictures build/demo/spectrograms

True durations, F0 and energy go in, fp32 PyTorch renders, seed 0; then how far the encoder's own durations, F0 and energy are from the true
ones. Exit 1 when a target is missed.
"""

if __package__ in (None, ""):  # run as a file: put the repo root, not demo/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.checkpoint import DEMO_FOLDER, Checkpoint
from core.errors import EXIT_GOOD, EXIT_REJECTED, run_cli
from core.staging import staged

if TYPE_CHECKING:
    import numpy as np

    from core.corpus import Utterance
    from demo.model import DemoVoice

TARGETS = {"stoi": 0.90, "pesq_wb": 1.8}  # means over the held-out sentences
FIGURES_NAME = "figures.json"


@dataclass(frozen=True)
class Score:
    """One sentence against its recording, both at 16 kHz."""

    id: str
    voice: str
    stoi: float
    pesq_wb: float


def main(argv: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    return run_cli(_main, argv)


def _main(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, default=DEMO_FOLDER, help="folder to judge (default: the bundled one)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the figures go (default: figures.json in that folder)")
    parser.add_argument("--seed", type=int, default=0, help="of the source noise (default: %(default)s)")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="write spectrograms (recording above, render below) here")
    args = parser.parse_args(argv)
    from rich.console import Console
    from rich.progress import track

    from core.contract import FRAMES_PER_SECOND
    from core.corpus import heldout
    from demo.model import DemoVoice
    from demo.prosody_error import prosody_errors

    voice, utterances = DemoVoice.load(args.checkpoint), heldout()
    scores, spent = [], 0.0
    for utterance in track(utterances, "judging", console=Console(stderr=True)):
        started = time.perf_counter()
        wave = rendered(voice, utterance, args.seed)
        spent += time.perf_counter() - started
        scores.append(score(utterance, wave))
        if args.pictures is not None:
            picture(utterance, wave, args.pictures)
    errors = asdict(prosody_errors(Checkpoint.from_folder(args.checkpoint), utterances))
    figures = summary(scores) | {
        "seed": args.seed,
        "targets": TARGETS,
        "prosody": {name: round(error, 4) for name, error in errors.items()},
    }
    print_table(figures)
    print(f"rendered at {spent / sum(u.frames / FRAMES_PER_SECOND for u in utterances):.2f} s for a second of audio", file=sys.stderr)
    with staged(args.out or args.checkpoint / FIGURES_NAME) as aside:
        aside.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    reached = all(figures["all"][name]["mean"] >= target for name, target in TARGETS.items())
    print(json.dumps({"reached": reached, **{key: figures[key] for key in ("all", "prosody", "seed", "targets")}}))
    return EXIT_GOOD if reached else EXIT_REJECTED


def rendered(voice: "DemoVoice", utterance: "Utterance", seed: int) -> "np.ndarray":
    """The sentence at 16 kHz, [400 F]."""
    from core.contract import SAMPLE_RATE_HZ
    from core.corpus import RECORDING_RATE_HZ
    from demo.features import resampled

    return resampled(voice.render(utterance, seed).numpy(), SAMPLE_RATE_HZ, RECORDING_RATE_HZ)


def score(utterance: "Utterance", wave: "np.ndarray") -> Score:
    """STOI (0 to 1) and wide-band PESQ (1 to 4.64) of `wave` against the recording."""
    from pesq import pesq
    from pystoi import stoi

    from core.corpus import RECORDING_RATE_HZ

    recording = utterance.recording
    return Score(
        utterance.id,
        utterance.voice,
        float(stoi(recording, wave, RECORDING_RATE_HZ)),
        float(pesq(RECORDING_RATE_HZ, recording, wave.astype("float32"), "wb")),
    )


def summary(scores: list[Score]) -> dict:
    """Mean and worst of all and of each voice, and every sentence."""
    groups = {"all": scores} | {name: [s for s in scores if s.voice == name] for name in dict.fromkeys(s.voice for s in scores)}
    figures: dict = {group: _both(members) for group, members in groups.items()}
    return figures | {"sentences": [asdict(s) for s in scores]}


def print_table(figures: dict) -> None:
    """One line a voice."""
    from rich.console import Console
    from rich.table import Table

    table = Table("voice", "STOI mean", "worst", "PESQ-WB mean", "worst", title="held-out recordings against the demo voice")
    for group in (g for g in figures if isinstance(figures[g], dict) and "stoi" in figures[g] and g != "targets"):
        stoi, pesq = figures[group]["stoi"], figures[group]["pesq_wb"]
        table.add_row(group, f"{stoi['mean']:.3f}", f"{stoi['worst']:.3f}", f"{pesq['mean']:.2f}", f"{pesq['worst']:.2f}")
    Console().print(table)
    prosody = figures["prosody"]
    print(
        f"encoder: durations off by {prosody['duration_frames']:.2f} frames ({prosody['duration_exact']:.0%} exact), sentences by "
        f"{prosody['length']:.1%}; F0 RMSE {prosody['f0_rmse_hz']:.1f} Hz, voicing off in {prosody['voicing']:.1%}; energy off by "
        f"{prosody['energy']:.2f} (ln)"
    )


def picture(utterance: "Utterance", wave: "np.ndarray", folder: Path) -> None:
    """folder/ID.png: spectrogram of the recording above that of the render, 0 to 8 kHz, 80 dB."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from core.corpus import RECORDING_RATE_HZ

    figure = Figure(figsize=(14, 8), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, samples, name in zip(figure.subplots(2, 1), (utterance.recording, wave), ("recording", "render"), strict=True):
        axis.specgram(samples + 1e-6, NFFT=512, noverlap=384, Fs=RECORDING_RATE_HZ, vmin=-120, vmax=-35, cmap="magma")
        axis.set(title=f"{name}: {utterance.id}: {utterance.text}", ylabel="Hz")
    with staged(folder / f"{utterance.id}.png") as aside:
        figure.savefig(aside, dpi=70)


def _both(scores: list[Score]) -> dict[str, dict[str, float]]:
    return {name: _mean_and_worst([getattr(s, name) for s in scores]) for name in TARGETS}


def _mean_and_worst(values: list[float]) -> dict[str, float]:
    return {"mean": round(sum(values) / len(values), 4), "worst": round(min(values), 4)}


if __name__ == "__main__":
    from demo.judge import main  # one module identity, however it was started

    raise SystemExit(main(sys.argv[1:]))
