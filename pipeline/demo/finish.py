"""The last stage of the demo voice: vocoder, decoder styles and text encoder together, at half the rate, on the encoder's longer corpus.

    Finish(steps=2600, seed=0, utterances=load_recorded(LESSONS), device="cpu", folder=folder, compiled=True).run(state, minutes=None)

It hears 2,328 sentences in g2p's symbols where the first stage heard 780 in flite's phones. Durations and prosody stay as they are.
"""

import json
from pathlib import Path

import torch

from pipeline.checkpoint import read_tensors
from pipeline.config import KokoroConfig
from pipeline.demo.data import VOICES, Utterance
from pipeline.demo.model import PACK_ROWS, PARTS, PREFIX, WEIGHTS, DemoVoice
from pipeline.demo.training import Plan, Trainer
from pipeline.layers import upstream_state

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
        state = read_tensors(folder / WEIGHTS)
        for name in PARTS:
            state[name] = {PREFIX + key: tensor.half() for key, tensor in upstream_state(getattr(self.average, name)).items()}
        torch.save(state, folder / WEIGHTS)
        for voice, style in zip(VOICES, self.average.styles, strict=True):
            path = folder / "voices" / f"{voice}.pt"
            row = read_tensors(path)[0, 0].clone()  # [256]: decoder style, prosody style
            row[: len(style)] = style.half()
            torch.save(row.view(1, 1, -1).expand(PACK_ROWS, 1, -1), path)
        (folder / LOG_NAME).write_text("".join(json.dumps(entry) + "\n" for entry in self.log), encoding="utf-8")
