"""The last stage of the demo voice: vocoder, decoder styles and text encoder together, at half the rate, on the encoder's longer corpus.

    Finish(steps=2600, seed=0, utterances=load_recorded(LESSONS), device="cpu", folder=folder, compiled=True).run(state, minutes=None)

It hears 2,328 sentences in g2p's symbols where the first stage heard 780 in flite's phones. Durations and prosody stay as they are.
"""

from pathlib import Path

import torch

from core.config import KokoroConfig
from core.corpus import Utterance
from core.training.state import write_log
from demo.model import PARTS, DemoVoice, put_parts, put_styles
from demo.training import Plan, Trainer

LOG_NAME = "finish_log.jsonl"
SEEDS_APART = 1  # the first stage's batches are of the seed itself


class Finish(Trainer):
    """Responsibilities: 1. start from a whole checkpoint; 2. write back only what was trained."""

    def __init__(self, steps: int, seed: int, utterances: list[Utterance], device: str, folder: Path, *, compiled: bool) -> None:
        plan = Plan(steps, seed + SEEDS_APART, rate=8e-4, kernel_rate=1.6e-3, warmup_steps=60, falling_part=0.6)
        super().__init__(plan, utterances, device, compiled=compiled, config=KokoroConfig.load(folder / "config.json"))
        start = DemoVoice.load(folder).to(self.device)
        with torch.no_grad():
            for voice in (self.voice, self.average):
                for own, given in zip(voice.parameters(), start.parameters(), strict=True):
                    own.copy_(given)

    def export(self, folder: Path) -> None:
        """Put the averaged vocoder, text encoder and decoder styles into the checkpoint in `folder`; its other parts stay."""
        put_parts(folder, {name: getattr(self.average, name) for name in PARTS})
        put_styles(folder, self.average.styles, slice(0, self.average.styles.shape[1]))
        write_log(folder / LOG_NAME, self.log)
