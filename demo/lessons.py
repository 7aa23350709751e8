"""The encoder's corpus under build/demo/lessons/: prose that flite spoke, each utterance in two spellings with one F0 and one energy.

    python -m demo.lessons                       # 2,400 sentences; cached

`spoken/` has flite's own phones (what the vocoder was trained with) and the recording, `spelled/` the symbols that g2p writes, stress marks
and spaces included, with their frames from `alignment.align`. A sentence whose two spellings differ too much is left out.
"""

if __package__ in (None, ""):  # run as a file: put the repo root, not demo/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError, run_cli

if TYPE_CHECKING:
    from core.corpus import Utterance
    from demo.spelling import Speller

SENTENCES, SEED = 2400, 7
LESSONS = Path("build/demo/lessons")
LARGEST_COST = 0.2  # alignment cost a symbol above which two lexicons said different words
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
    from g2p.misaki_data import read

    spell, counts = american_speller(), {"kept": 0, "misaligned": 0, "unknown": 0}
    texts = list(enumerate(prose(sentences, seed, rare_words(read("us_gold")))))[part[0] :: part[1]]
    for i, text in track(texts, "flite speaks", console=Console(stderr=True)):
        counts[_one(folder, f"p{seed}-{i:05d}", text, VOICES[i % len(VOICES)], spell)] += 1
    return counts


def american_speller() -> "Speller":
    """misaki's two American word lists, the hand-edited one first."""
    from demo.spelling import Speller
    from g2p.misaki_data import read

    return Speller(read("us_silver") | read("us_gold"))


def _one(folder: Path, name: str, text: str, voice: str, spell: "Speller") -> str:
    from dataclasses import replace

    from core.corpus import save

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
    folder.mkdir(parents=True, exist_ok=True)
    left_out.write_text(verdict, encoding="utf-8")
    return verdict


def spelled(
    name: str, text: str, voice: str, spell: "Speller", keep: "Callable[[Utterance], None] | None" = None
) -> "tuple[Utterance, float]":
    """`text` spoken, in the symbols of its spelling, and the alignment's cost a symbol; `keep` is given the same in flite's phones.

    Raises InputError where the lexicon does not know a word.
    """
    from dataclasses import replace

    import numpy as np

    from demo.alignment import align
    from demo.corpus import measured, speak
    from demo.phones import vocabulary
    from demo.prose import spoken_text

    phonemes, vocab = spell(text), vocabulary()
    if phonemes is None:
        raise InputError(f"misaki's lexicon lacks a word of {text!r}")
    recording, phones = speak(spoken_text(text), voice)
    utterance = measured(name, text, voice, recording, phones)
    aligned = align(phonemes, phones, utterance.frames)
    if keep is not None and aligned.cost <= LARGEST_COST:
        keep(utterance)
    ids = np.array([0, *(vocab[symbol] for symbol in phonemes), 0], dtype=np.int32)
    durations = np.array(aligned.durations, dtype=np.int32)
    return replace(utterance, phonemes=phonemes, input_ids=ids, durations=durations), aligned.cost


if __name__ == "__main__":
    from demo.lessons import main  # one module identity, however it was started

    raise SystemExit(main(sys.argv[1:]))
