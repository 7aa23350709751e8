"""Words per second of the whole path on text whose words are in the lists, start-up time, and memory on long text; others in the same run.

    OMP_NUM_THREADS=1 python -m bench.g2p_speed [--runs 5] [--megabytes 10]
    python -m bench.g2p_speed --start    # only what one unknown word costs a fresh process; exit 1 over 0.6 s of CPU or 120 MB

CPU seconds of one thread, best of the runs (the machine is shared); `cold` is the first pass, before any reading is remembered. misaki is
its own front end over the stand-in tokenizer (bench/misaki_stand_in.py) and its Lexicon alone, word by word; espeak-ng runs through
phonemizer on the same text; g2p_en is the network it runs for every word outside CMUdict (bench/g2p_readers.py). Exit 0: at least 20,000
words/s; 1: fewer. The last line of stdout is one JSON object.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import EXIT_GOOD, EXIT_REJECTED, run_cli

if TYPE_CHECKING:
    from g2p import G2P

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "core" / "data"
LEAST = 20_000  # words a second
START_LIMITS = {"cpu_s": 0.6, "most_mb": 120.0}  # one unknown word, a process of its own
UNKNOWN = "from g2p import phonemize; phonemize('a blorptangle here')"
LISTED = ("rule", "gold", "silver", "morphology", "punctuation")
MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
FEW = 200  # words for the slow ones


def cpu_s(work: Callable[[], object], runs: int = 1) -> float:
    """Least CPU seconds of `work` over the runs."""
    best = float("inf")
    for _ in range(runs):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def listed_text(g2p: "G2P") -> tuple[str, int]:
    """The demo's sentences whose words all come from lists and rules, and how many words they hold."""
    kept, words = [], 0
    for path in sorted(TEXTS.glob("*.txt")):
        for result in g2p.sentences(path.read_text(encoding="utf-8")):
            if all(word.source in LISTED for word in result.words):
                kept.append(" ".join(result.text.split()))
                words += sum(word.source != "punctuation" for word in result.words)
    return "\n\n".join(kept), words


def ours(runs: int) -> tuple[dict[str, float], str, list[str]]:
    """Words a second of our path and of its stages; the text and its words for the others."""
    from g2p import G2P
    from g2p.normalize import normalize
    from g2p.stream import segments

    text, words = listed_text(G2P.load())
    loading = cpu_s(lambda: G2P.load(), runs)
    g2p = G2P.load()
    cold = cpu_s(lambda: g2p.phonemize(text))
    warm = cpu_s(lambda: g2p.phonemize(text), runs)
    cut = [sentence for _, sentence in segments(text)]
    rates = {"words": words, "load_s": round(loading, 3), "cold": round(words / cold), "warm": round(words / warm)}
    rates["sentence splitting alone"] = round(words / cpu_s(lambda: list(segments(text)), runs))
    rates["normalizer alone"] = round(words / cpu_s(lambda: [normalize(sentence) for sentence in cut], runs))
    spoken = [word.spoken for result in g2p.sentences(text) for word in result.words if word.source != "punctuation"]
    return rates, text, spoken


def others(text: str, spoken: list[str], runs: int) -> dict[str, float]:
    """Words a second of misaki, espeak-ng and g2p_en on the same text."""
    from bench.g2p_readers import G2pEn, espeak_ng
    from bench.misaki_stand_in import Misaki

    misaki, lines = Misaki(british=False), text.split("\n\n")
    from misaki import en

    context = en.TokenContext(future_vowel=False)
    rates = {"misaki, stand-in tokenizer": len(spoken) / cpu_s(lambda: [misaki._g2p(line) for line in lines], runs)}
    rates["misaki's Lexicon alone"] = len(spoken) / cpu_s(
        lambda: [misaki._g2p.lexicon.get_word(word, "NN", None, context) for word in spoken], runs
    )
    espeak_ng(["start"])
    rates["espeak-ng"] = len(spoken) / cpu_s(lambda: espeak_ng(lines), runs)
    network, few = G2pEn.load(), sorted(set(spoken))[:FEW]
    rates["g2p_en's network"] = len(few) / cpu_s(lambda: [network.read(word) for word in few])
    return {name: round(rate) for name, rate in rates.items()}


def measured(command: list[str]) -> tuple[float, float]:
    """CPU seconds and most memory (MB) of a command in a process of its own, one thread."""
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], cwd=ROOT, capture_output=True, text=True, check=True, env=alone)
    seconds, most = map(float, done.stdout.split())
    return seconds, most


def start(runs: int) -> int:
    """The cost of one unknown word from a cold start, by call and by command: least of the runs; printed, judged."""
    commands = {"call": ["-c", UNKNOWN], "command": ["-m", "g2p", "a blorptangle here"], "listed words alone": ["-m", "g2p", "a cat"]}
    found = {}
    for name, arguments in commands.items():
        seconds, most = (min(column) for column in zip(*(measured([sys.executable, *arguments]) for _ in range(runs)), strict=True))
        found[name] = {"cpu_s": round(seconds, 3), "most_mb": round(most, 1)}
        print(f"{name:20s} {seconds:.2f} s of CPU, at most {most:.0f} MB")
    good = all(figures[key] <= limit for figures in found.values() for key, limit in START_LIMITS.items())
    print(json.dumps({"start": found, "limits": START_LIMITS, "good": good}))
    return EXIT_GOOD if good else EXIT_REJECTED


def streamed(megabytes: float) -> tuple[float, float]:
    """CPU seconds and most memory (MB) of the command on a file of that size, in a process of its own."""
    line = (ROOT / "docs" / "log.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.txt"
        path.write_text((line + "\n\n") * max(round(megabytes * 1e6 / len(line.encode())), 1), encoding="utf-8")
        return measured([sys.executable, "-m", "g2p", "--file", str(path)])


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.g2p_speed", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=10.0, help="size of the long text; 0 leaves it out")
    parser.add_argument("--start", action="store_true", help="only the cost of one unknown word from a cold start")
    arguments = parser.parse_args(argv)
    if arguments.start:
        return start(arguments.runs)
    rates, text, spoken = ours(arguments.runs)
    found = {"ours": rates, "others": others(text, spoken, arguments.runs), "threads": os.environ.get("OMP_NUM_THREADS", "default")}
    print(f"{rates['words']} words, {rates['load_s']:.2f} s to load")
    for name, rate in {**{f"ours, {key}": rates[key] for key in list(rates)[2:]}, **found["others"]}.items():
        print(f"{name:32s} {rate:9,.0f} words/s")
    if arguments.megabytes:
        sizes = (0.1, 1.0, arguments.megabytes)
        found["streamed"] = {f"{size:g} MB": dict(zip(("cpu_s", "most_mb"), streamed(size), strict=True)) for size in sizes}
        for size, figures in found["streamed"].items():
            print(f"{size} of text: {figures['cpu_s']:.1f} CPU seconds, at most {figures['most_mb']:.0f} MB of memory")
    print(json.dumps(found))
    return EXIT_GOOD if rates["cold"] >= LEAST else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
