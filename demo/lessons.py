"""The encoder's corpus under build/demo/lessons/: prose that flite spoke, each utterance in two spellings with one F0 and one energy.

    python -m demo.lessons                       # 2,400 sentences; cached

`spoken/` has flite's own phones (what the vocoder was trained with) and the recording, `spelled/` the symbols that g2p writes, stress marks
and spaces included, with their frames from `alignment.align`. A sentence whose two spellings differ too much is left out.
"""

if __package__ in (None, ""):  # run as a file: put the repo root, not demo/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import run_cli

if TYPE_CHECKING:
    from demo.spelling import Speller

SENTENCES, SEED = 2400, 7
LESSONS = Path("build/demo/lessons")
SPOKEN, SPELLED = "spoken", "spelled"


def main(argv: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    return run_cli(_main, argv)


def _main(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=LESSONS, help="folder (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="how many to write (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the text (default: %(default)s)")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"), help="only every N-th sentence from I on")
    args = parser.parse_args(argv)
    print(json.dumps({"folder": str(args.out), **build(args.out, args.sentences, args.seed, tuple(args.part))}))
    return 0


def build(folder: Path, sentences: int, seed: int, part: tuple[int, int] = (0, 1)) -> dict[str, int]:
    """Speak and align what is not yet in `folder`; return how many sentences are kept, misaligned and not in the lexicon."""
    from rich.console import Console
    from rich.progress import track

    from core.corpus import VOICES
    from demo.prose import prose, rare_words
    from demo.spelling import american_speller
    from g2p.misaki_data import read

    spell, counts = american_speller(), {"kept": 0, "misaligned": 0, "unknown": 0}
    texts = list(enumerate(prose(sentences, seed, rare_words(read("us_gold")))))[part[0] :: part[1]]
    for i, text in track(texts, "flite speaks", console=Console(stderr=True)):
        counts[_one(folder, f"p{seed}-{i:05d}", text, VOICES[i % len(VOICES)], spell)] += 1
    return counts


def _one(folder: Path, name: str, text: str, voice: str, spell: "Speller") -> str:
    from dataclasses import replace

    from core.corpus import save
    from core.staging import staged
    from demo.corpus import LARGEST_COST, spelled

    left_out = folder / f"{name}.left_out"
    if (folder / SPELLED / f"{name}.npz").exists():
        return "kept"
    if left_out.exists():
        return left_out.read_text(encoding="utf-8")
    verdict = "unknown" if spell(text) is None else "misaligned"
    if verdict != "unknown":
        utterance, cost = spelled(name, text, voice, spell, keep=lambda u: save(u, folder / SPOKEN))
        if cost <= LARGEST_COST:
            save(replace(utterance, recording=None), folder / SPELLED)
            return "kept"
    with staged(left_out) as aside:
        aside.write_text(verdict, encoding="utf-8")
    return verdict


if __name__ == "__main__":
    from demo.lessons import main  # one module identity, however it was started

    raise SystemExit(main(sys.argv[1:]))
