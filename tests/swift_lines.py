"""Lines to chunks (phonemes, endings, pauses, paces) by the Swift package and by Python: prose, messages, names, numbers, markup, from a seed.

python -m tests.swift_lines [--lines 10000] [--seed 0]     # exit 0: 99.9 % equal or more; prints the shares and the lines that differ
"""

import argparse
import json
import os
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path

import onnxruntime
import pytest

from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.word_lists import DATA
from kokoro_ane.pipeline.text_tables import MARKED, spoken_chunks, write_text_tables
from tests.g2p_lines import PATTERNS, ROOT, filled, sentence
from tests.g2p_typed import FOLDER, read_lines, rows
from training.fit_statistics import lines as prose

SHARES = {"us": 0.8, "gb": 0.1, "es": 0.05, "it": 0.05}
READ = 'swift run -c release kokoro-speak "$KOKORO_BUNDLE" --read "$KOKORO_BUNDLE/lines" --language $1 -o /tmp/read >&2; cat /tmp/read'


def in_swift(script: str, bundle: Path, *more: str) -> "subprocess.CompletedProcess[bytes]":
    """What a shell says where Swift runs, in the package's folder; skipped where this machine cannot."""
    library = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"))
    given = os.environ | {"KOKORO_BUNDLE": str(bundle), "KOKORO_ONNXRUNTIME": str(library), "OMP_NUM_THREADS": "1"}
    command = [ROOT / "swift" / "toolchain.sh", "run", "sh", "-c", script, "sh", *more]
    done = subprocess.run(command, env=given, capture_output=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.decode().splitlines()[-1])
    return done


@cache
def pieces(language: str) -> list[str]:
    """Cases of the normalizer, messages, sentences with heteronyms: those of the dialect, or of the language."""
    english = [row[-1] for path in sorted(FOLDER.glob("heteronyms_*.tsv")) for row in rows(path.stem)[1:]] if language in ("us", "gb") else []
    cases = [row[3] for row in rows("normalize_cases") if row[2] == language]
    return cases + [line.text for line in read_lines() if line.dialect == language] + english + list(MARKED[:-1])


def lines(language: str, seed: int) -> Iterator[str]:
    """Without end. Half of what is not prose has other digits than it was written with."""
    rng, said = random.Random(f"{language}{seed}"), (line.text for line in prose(("af_heart",), seed))
    own = {"es": "spanish", "it": "italian"}.get(language)
    words = re.findall(r"[^\W\d_]{2,}", (DATA / f"{own}.json").read_text(encoding="utf-8")) if own else [row[2] for row in rows("names")]
    while True:
        kind = rng.random()
        if kind < 0.4 and own is None:
            yield next(said)
            continue
        if kind < 0.7:
            text = " ".join(rng.choices(pieces(language), k=rng.randint(1, 3)))
        elif kind < 0.85 or own:
            made = (filled(rng.choice(PATTERNS), rng) if rng.random() < 0.2 else rng.choice(words) for _ in range(rng.randint(2, 12)))
            text = rng.choice((" ", " ", ", ")).join(made) + rng.choice(".?!")
        else:
            text = sentence(rng)
        changed = re.sub(r"\d", lambda _: str(rng.randrange(10)), text) if rng.random() < 0.5 else text
        yield changed.encode("utf-8", "ignore").decode()


def differing(language: str, count: int, seed: int) -> list[tuple[str, object, object]]:
    """Lines, each once, with what Python and what Swift says of them."""
    texts = list(islice(dict.fromkeys(chain(MARKED, islice(lines(language, seed), 3 * count))), count))
    with tempfile.TemporaryDirectory() as folder:
        write_text_tables(Path(folder, "text"), language)
        Path(folder, "lines").write_text("".join(f"{json.dumps(text)}\n" for text in texts), encoding="utf-8")
        found = [json.loads(line) for line in in_swift(READ, Path(folder), language).stdout.decode().splitlines()]
    g2p = G2P.load(language)
    pairs = [(text, [[*chunk.values()] for chunk in spoken_chunks(g2p, text)], answer) for text, answer in zip(texts, found, strict=True)]
    return [pair for pair in pairs if pair[1] != pair[2]]


def main(argv: list[str] | None = None) -> int:
    """A share for each language, and of all."""
    parser = argparse.ArgumentParser(prog="tests.swift_lines", description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    wrong = {name: differing(name, round(share * arguments.lines), arguments.seed) for name, share in SHARES.items()}
    for name, (text, wanted, found) in ((name, one) for name, some in wrong.items() for one in some):
        print(f"{name}: {text!r}\n  Python {json.dumps(wanted, ensure_ascii=False)}\n  Swift  {json.dumps(found, ensure_ascii=False)}")
    share = 1 - sum(map(len, wrong.values())) / arguments.lines
    print(json.dumps({"lines": arguments.lines, "equal": share, "differing": {name: len(some) for name, some in wrong.items()}}))
    return int(share < 0.999)


if __name__ == "__main__":
    raise SystemExit(main())
