"""Does better reading help the listener? Word error rate of pocketsphinx on names, numbers and heteronyms, g2p before and now.

    python -m bench.g2p_voice [--checkpoint kokoro-int8] [--voices af_heart,am_adam] [--keep heard.json]

40 sentences of bench/data/voice_sentences.tsv, written first and frozen; every word is in the recognizer's dictionary or is a name of many
origins. `before` are the phonemes of commit 2abcdbb (misaki's lists and the network, no list of names), `now` those of this g2p. Both are
said by PyTorch in the same voice with the same noise, so sentences are pairs; equal phonemes are said once. `--keep`: what was heard,
written after every sentence and not said again. Exit 1 when now is worse. The last line of stdout is one JSON object.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.arguments import checkpoint_argument
from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    from bench.recognizer import Count
    from core.checkpoint import Checkpoint

SENTENCES = Path(__file__).parent / "data" / "voice_sentences.tsv"
BEFORE, NOW = "before", "now"
KINDS = ("name", "number", "heteronym")


@dataclass(frozen=True)
class Line:
    """One sentence: written, as it should be heard, and the phonemes it had before."""

    kind: str
    written: str
    spoken: str
    before: str


def lines_of(path: Path = SENTENCES) -> list[Line]:
    """The frozen sentences."""
    rows = (row.split("\t") for row in path.read_text(encoding="utf-8").splitlines() if row and row[0] != "#")
    return [Line(*row) for row in rows]


def speaker(checkpoint: "Checkpoint", seed: int, keep: Path | None) -> "Callable[[str, str, str], Count]":
    """(phonemes, voice, what should be heard) -> what the recognizer makes of it; remembered in `keep`."""
    import numpy as np

    from bench.recognizer import Count, heard
    from core.staging import read_json, write_json
    from eval.metrics.framing import at_16_khz
    from pipeline.conductor import Pipeline, SpeechOptions
    from pipeline.reading import PhonemeReader
    from pipeline.runtimes import Request, open_runtime

    opened = open_runtime("torch", Request(checkpoint, Path("build"), "fp16", "literal"))
    pipeline = Pipeline(PhonemeReader(), opened.encoder, opened.vocoder, checkpoint.config.vocab)

    known: dict[str, Any] = read_json(keep, "what was heard") if keep is not None and keep.is_file() else {}

    def said(phonemes: str, voice: str, spoken: str) -> "Count":
        key = f"{checkpoint.sha256[:12]} {voice} {seed} {phonemes}"
        if key not in known:
            known[key] = vars(listened(phonemes, voice, spoken))
            if keep is not None:
                write_json(keep, known)
        return Count(**known[key])

    def listened(phonemes: str, voice: str, spoken: str) -> "Count":
        speeches = pipeline.speak(phonemes, checkpoint.voice(voice), SpeechOptions(seed=seed))
        return heard(spoken, voice, phonemes, at_16_khz(np.concatenate([speech.audio for speech in speeches])))

    return said


def confusions(lines: Sequence[Line], counts: "Sequence[Count]") -> Counter[tuple[str, str]]:
    """What should have been heard and what was, wherever they differ."""
    found: Counter[tuple[str, str]] = Counter()
    for line, count in zip(lines, counts, strict=True):
        wanted, got = line.spoken.split(), count.heard.split()
        for tag, a, b, c, d in SequenceMatcher(None, wanted, got, autojunk=False).get_opcodes():
            if tag != "equal":
                found[" ".join(wanted[a:b]), " ".join(got[c:d])] += 1
    return found


def figures(lines: Sequence[Line], counts: "dict[str, list[Count]]") -> dict[str, dict[str, float]]:
    """Word error rate before and now by kind, how many sentences changed, and where the difference lies (paired bootstrap)."""
    from bench.recognizer import difference_interval, rate

    found = {}
    for kind in (*dict.fromkeys(line.kind for line in lines), "all"):
        places = [place for place, line in enumerate(lines) if kind in (line.kind, "all")]
        before, now = ([counts[side][place] for place in places] for side in (BEFORE, NOW))
        low, high = difference_interval(before, now)
        changed = sum(one.reading != other.reading for one, other in zip(before, now, strict=True))
        found[kind] = {"sentences": len(places), "changed": changed, BEFORE: rate(before), NOW: rate(now)}
        found[kind] |= {"difference_low": round(low, 4), "difference_high": round(high, 4)}
    return found


def print_table(found: dict[str, dict[str, float]], voice: str) -> None:
    """Human table."""
    from rich.console import Console
    from rich.table import Table

    table = Table("sentences", "changed", "before", "now", "difference, 95 %", title=f"pocketsphinx en-us, word error rate, {voice}")
    for kind, row in found.items():
        shares = (f"{100 * row[side]:.1f} %" for side in (BEFORE, NOW))
        low, high = 100 * row["difference_low"], 100 * row["difference_high"]
        table.add_row(f"{kind} ({row['sentences']:.0f})", f"{row['changed']:.0f}", *shares, f"{low:+.1f} to {high:+.1f}")
    Console().print(table)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.g2p_voice", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--voices", type=lambda text: tuple(text.split(",")), help="American, in turn (default: the checkpoint's first)")
    parser.add_argument("--kinds", type=lambda text: tuple(text.split(",")), default=KINDS, help="default: " + ",".join(KINDS))
    parser.add_argument("--sentences", type=int, help="only so many of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the source noise (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="a .json for what was heard")
    arguments = parser.parse_args(argv)
    if arguments.sentences is not None and arguments.sentences < 1:
        raise InputError(f"--sentences {arguments.sentences}: at least 1")
    if not set(arguments.kinds) <= set(KINDS):
        raise InputError(f"--kinds {','.join(arguments.kinds)}: of {', '.join(KINDS)}")
    from rich.console import Console
    from rich.progress import track

    from core.checkpoint import open_checkpoint
    from g2p import G2P

    checkpoint, g2p = open_checkpoint(arguments.checkpoint), G2P.load("us")
    lines: list[Line] = []
    seen: Counter[str] = Counter()
    for line in lines_of():
        seen[line.kind] += 1
        wanted = line.kind in arguments.kinds and (arguments.sentences is None or seen[line.kind] <= arguments.sentences)
        lines += [line] if wanted else []
    voices, said = arguments.voices or checkpoint.voices[:1], speaker(checkpoint, arguments.seed, arguments.keep)
    counts: dict[str, list[Any]] = {BEFORE: [], NOW: []}
    for place, line in enumerate(track(lines, "speaking", console=Console(stderr=True))):
        voice, now = voices[place % len(voices)], g2p.phonemize(line.written).phonemes
        counts[BEFORE].append(said(line.before, voice, line.spoken))
        counts[NOW].append(counts[BEFORE][-1] if now == line.before else said(now, voice, line.spoken))
    found = figures(lines, counts)
    print_table(found, f"{checkpoint.name}, {', '.join(voices)}")
    for side in (BEFORE, NOW):
        listed = confusions(lines, counts[side]).most_common()
        print(f"{side}, wanted and heard: " + "; ".join(f"{wanted or '-'} = {got or '-'}" for (wanted, got), _ in listed))
    better = found["all"][NOW] <= found["all"][BEFORE]
    print(json.dumps({"checkpoint": checkpoint.name, "better": better, **found}))
    return EXIT_GOOD if better else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
