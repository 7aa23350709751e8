"""A blinded A/B listening pack: WAV pairs, a sheet to fill, and a sealed key.

    write_pack(Path("build/release/listening"), heard, levels=["w8"], seed=0)

In each pair one file is the fp32 reference and one a level, in an order that only the key knows; some pairs are the reference twice, so a
listener who hears differences everywhere is found out. The key is base64, and the sheet carries its SHA-256: it cannot be changed unseen.
"""

import base64
import csv
import hashlib
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path

from core.contract import SAMPLE_RATE_HZ
from core.output import strangers
from core.staging import staged
from eval.audition import REFERENCE, Heard

KEY, SHEET = "key.sealed", "sheet.csv"
COLUMNS = ("pair", "closer to a person: A, B or same", "how sure, 1 to 5", "what you heard")
README = """Blinded listening pack

1. For each pair play NN-A.wav and NN-B.wav, headphones, as often as you like.
2. Fill a row of sheet.csv: which sounds more like a person, or "same".
3. Some pairs are the same file twice. That is meant.
4. Only then open the key: base64 -d key.sealed
   Its SHA-256 is {digest}.
"""


def pairs(heard: Sequence[Heard], levels: Sequence[str], seed: int) -> list[dict[str, str]]:
    """Every clip against every level, and each clip once against itself, shuffled; A and B drawn by the seed."""
    drawn = random.Random(seed)
    found = []
    for clip in heard:
        for level in (*levels, REFERENCE):
            sides = [REFERENCE, level]
            drawn.shuffle(sides)
            found.append({"clip": clip.utterance.id, "A": sides[0], "B": sides[1]})
    drawn.shuffle(found)
    return [{"pair": f"{number:02d}"} | pair for number, pair in enumerate(found, 1)]


def _sheet(numbers: Sequence[str]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([COLUMNS, *([number, "", "", ""] for number in numbers)])
    return text.getvalue()


def pack_of_ours(folder: Path) -> str | None:
    """Why a folder is not a pack that nobody has filled in yet, or None: for core.staging.staged."""
    numbers = sorted({path.name[:-6] for path in folder.glob("*-[AB].wav")}, key=lambda number: (len(number), number))
    sheet = folder / SHEET
    if not (folder / KEY).is_file() or not sheet.is_file():
        return f"it is not a listening pack: it holds no {KEY} and {SHEET}"
    if sheet.read_bytes() != _sheet(numbers).encode():
        return f"somebody has written into {sheet}"
    return strangers(folder, {KEY, SHEET, "README.txt", *(f"{number}-{side}.wav" for number in numbers for side in "AB")})


def write_pack(folder: Path, heard: Sequence[Heard], levels: Sequence[str], seed: int) -> int:
    """Write the pack by rename; returns the number of pairs."""
    import soundfile

    chosen = pairs(heard, levels, seed)
    signals = {clip.utterance.id: clip.signals for clip in heard}
    key = json.dumps({"seed": seed, "pairs": chosen}, indent=1).encode()
    with staged(folder, pack_of_ours) as aside:
        aside.mkdir()
        for pair in chosen:
            for side in "AB":
                samples = signals[pair["clip"]][pair[side]].clip(-1.0, 1.0)
                soundfile.write(aside / f"{pair['pair']}-{side}.wav", samples, SAMPLE_RATE_HZ, subtype="PCM_16")
        (aside / SHEET).write_text(_sheet([pair["pair"] for pair in chosen]), encoding="utf-8", newline="")
        (aside / KEY).write_bytes(base64.b64encode(key) + b"\n")
        (aside / "README.txt").write_text(README.format(digest=hashlib.sha256(key).hexdigest()), encoding="utf-8")
    return len(chosen)
