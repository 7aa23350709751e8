"""What people listen to: a blinded A/B pack (WAV pairs, a sheet to fill, a sealed key), and the
player of the report's page.

    write_pack(Path("build/release/listening"), auditions, levels=["w8"], seed=0)

In each pair one file is the fp32 reference and one a level, in an order that only the key knows;
some pairs are the reference twice, so a listener who hears differences everywhere is found out. The
key is base64, and the sheet carries its SHA-256: it cannot be changed unseen.
"""

import base64
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core import (
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    InputError,
    scratch,
    staged,
    strangers,
)
from kokoro_ane.eval.judge import SHIP
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.report_figures import (
    Record,
    choose_digits,
    list_gated_metrics,
    list_judged_levels,
)
from kokoro_ane.speech import Utterance

REFERENCE = "fp32 reference"
# of a clip that is compared by ear: long enough for a sentence, short enough to remember
SHORTEST_S, LONGEST_S = 2.0, 7.0
FULL_SCALE = 32767
BUDGET_BYTES = 2_100_000  # of all sound of a page, which stays under 3 MB


@dataclass(frozen=True, eq=False)
class Audition:
    """One sentence as the reference and each level render it: name to [600 F] float32."""

    utterance: Utterance
    signals: Mapping[str, np.ndarray]


def render_auditions(
    reference: Reference, packages: Mapping[str, Callable[[], Any]], clips: Sequence[Utterance]
) -> list[Audition]:
    """Render each clip by the reference and by every package. `packages`: what opens each. One is
    open at a time: fourteen took 6 GB.
    """
    signals = {
        clip.id: {REFERENCE: reference.get_renders(clip).reference.astype(np.float32)}
        for clip in clips
    }
    inputs = {clip.id: reference.compute_inputs(clip) for clip in clips}
    for name, open_vocoder in packages.items():
        package = open_vocoder()
        for clip in clips:
            settled = reference.with_statistics(inputs[clip.id], clip, package.predictor)
            signals[clip.id][name] = package.render(settled)
    return [Audition(clip, signals[clip.id]) for clip in clips]


def choose_clips(
    record: Mapping[str, Any], clips: Sequence[Utterance], count: int = 3
) -> list[Utterance]:
    """Clips to listen to: the one where the named level (else the first judged) scores worst, then
    others of other voices, short ones.

    Only judged clips of SHORTEST_S to LONGEST_S; the shortest where none is that short.
    """
    # The named level decides what is worth hearing: where it is worst.
    judged = next(
        level
        for level in record["levels"]
        if level.get("clips") and record["level"] in (None, level["method"])
    )
    pesq = {clip["id"]: clip["figures"].get("pesq", 0.0) for clip in judged["clips"]}
    judged_clips = sorted((clip for clip in clips if clip.id in pesq), key=lambda clip: clip.frames)
    if not judged_clips:
        raise InputError(
            "no clip of the decision is one that this checkpoint says: run `kokoro-ane release`"
            " again"
        )
    left = [
        clip for clip in judged_clips if SHORTEST_S <= clip.frames / FRAMES_PER_SECOND <= LONGEST_S
    ] or judged_clips[:count]
    chosen: list[Utterance] = []

    def weigh_clip(clip: Utterance) -> tuple[float, int]:
        same_voice = [other.voice for other in chosen].count(clip.voice)
        # The first clip is the worst; each further one is of a voice not heard yet, then short.
        return (same_voice, clip.frames) if chosen else (pesq[clip.id], 0)

    while left and len(chosen) < count:
        chosen.append(min(left, key=weigh_clip))
        left.remove(chosen[-1])
    return chosen


def encode_sound(signal: np.ndarray, reference: np.ndarray | None = None) -> dict[str, Any]:
    """A signal [600 F] in as few letters as lossless 16 bits take: FLAC as base64, of itself or of
    its difference to `reference`.

    "difference": the player adds the reference's samples and gets the signal's samples.
    """
    # Both ways give the same samples back, so the shorter one is taken.
    ways = [{"flac": _encode_flac(_round_samples(signal)), "difference": False}]
    if reference is not None:
        # In 32 bits, because a difference of two 16-bit samples needs 17.
        difference = _round_samples(signal).astype(np.int32) - _round_samples(reference)
        if np.abs(difference).max(initial=0) <= FULL_SCALE:
            ways.append({"flac": _encode_flac(difference.astype(np.int16)), "difference": True})
    return min(ways, key=lambda way: len(str(way["flac"])))


def _round_samples(signal: np.ndarray) -> np.ndarray:
    """Round a signal to 16 bits [n] int16."""
    return np.round(np.clip(signal, -1.0, 1.0) * FULL_SCALE).astype(np.int16)


def _encode_flac(samples: np.ndarray) -> str:
    import soundfile

    with scratch() as folder:  # a stream of Python's would swallow Ctrl-C in its callbacks
        path = folder / "x.flac"
        soundfile.write(path, samples, SAMPLE_RATE_HZ, compression_level=1.0)
        return base64.b64encode(path.read_bytes()).decode()


def order(record: Record, auditions: Sequence[Audition]) -> list[str]:
    """Levels to hear, the most wanted first: the one named, the other bests, those that ship, then
    the rejected from the smallest.
    """
    levels = [level for level in record["levels"] if level["method"] in auditions[0].signals]
    names = [record["level"], *(best["level"] for best in record["bests"])]
    names += [level["method"] for level in levels if level["verdict"] == SHIP]
    names += [level["method"] for level in sorted(levels, key=lambda level: level["bytes"])]
    playable = {level["method"] for level in levels}
    # dict.fromkeys keeps the first place of a level that is wanted twice.
    return [name for name in dict.fromkeys(names) if name in playable]


def build_player(record: Record, auditions: Sequence[Audition]) -> tuple[str, list[str]]:
    """Sounds, levels and metrics for the page's player, as JSON that no HTML reader takes for a
    tag; and the levels that do not fit into the budget.
    """
    sounds = [{REFERENCE: encode_sound(clip.signals[REFERENCE])} for clip in auditions]
    spent = sum(len(clip[REFERENCE]["flac"]) for clip in sounds)
    levels, left_out = list[str](), list[str]()
    for name in order(record, auditions):
        renditions = [
            encode_sound(clip.signals[name], clip.signals[REFERENCE]) for clip in auditions
        ]
        size = sum(len(rendition["flac"]) for rendition in renditions)
        # A later level may be smaller and still fit.
        if spent + size > BUDGET_BYTES:
            left_out.append(name)
            continue
        spent += size
        levels.append(name)
        for clip, rendition in zip(sounds, renditions, strict=True):
            clip[name] = rendition
    clips = []
    for one, sound in zip(auditions, sounds, strict=True):
        results = {
            level["method"]: clip
            for level in list_judged_levels(record)
            for clip in level["clips"]
            if clip["id"] == one.utterance.id
        }
        clips.append(
            {
                "id": one.utterance.id,
                "voice": one.utterance.voice,
                "text": one.utterance.text,
                "sounds": sound,
                "figures": {
                    name: clip["figures"] for name, clip in results.items() if name in sound
                },
                "seed": next(iter(results.values()))["variation"],
            }
        )
    data = {
        "clips": clips,
        "levels": levels,
        "metrics": describe_metrics(list_gated_metrics(record)),
    }
    return format_player_json(data), left_out


def describe_metrics(names: Sequence[str]) -> list[dict[str, Any]]:
    """What the player writes beside the figures of these metrics."""
    return [
        {
            "name": name,
            "title": METRICS[name].title,
            "unit": METRICS[name].unit,
            "digits": choose_digits(name),
        }
        for name in names
    ]


def format_player_json(data: Mapping[str, Any]) -> str:
    """JSON that no HTML reader takes for a tag."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


KEY, SHEET = "key.sealed", "sheet.csv"
COLUMNS = 'pair,"closer to a person: A, B or same","how sure, 1 to 5",what you heard'
README = """Blinded listening pack

1. For each pair play NN-A.wav and NN-B.wav, headphones, as often as you like.
2. Fill a row of sheet.csv: which sounds more like a person, or "same".
3. Some pairs are the same file twice. That is meant.
4. Only then open the key: base64 -d key.sealed
   Its SHA-256 is {digest}.
"""


def draw_pairs(
    auditions: Sequence[Audition], levels: Sequence[str], seed: int
) -> list[dict[str, str]]:
    """Every clip against every level, and each clip once against itself, shuffled; A and B drawn by
    the seed.
    """
    # A clip against itself finds the listener who hears a difference everywhere.
    drawn = random.Random(seed)
    listed = []
    for clip in auditions:
        for level in (*levels, REFERENCE):
            sides = [REFERENCE, level]
            drawn.shuffle(sides)
            listed.append({"clip": clip.utterance.id, "A": sides[0], "B": sides[1]})
    drawn.shuffle(listed)
    return [{"pair": f"{number:02d}"} | pair for number, pair in enumerate(listed, 1)]


def _format_sheet(numbers: Sequence[str]) -> str:
    return "\r\n".join([COLUMNS, *(f"{number},,," for number in numbers), ""])


def pack_of_ours(folder: Path) -> str | None:
    """Return why a folder is no listening pack with an empty sheet, or None. core.staging.staged
    calls it.
    """
    numbers = sorted(
        {path.name[:-6] for path in folder.glob("*-[AB].wav")},
        key=lambda number: (len(number), number),
    )
    sheet = folder / SHEET
    if not (folder / KEY).is_file() or not sheet.is_file():
        return f"it is not a listening pack: it holds no {KEY} and {SHEET}"
    # Bytes are compared, so that even one letter of a listener's is never overwritten.
    if sheet.read_bytes() != _format_sheet(numbers).encode():
        return f"somebody has written into {sheet}"
    return strangers(
        folder,
        {
            KEY,
            SHEET,
            "README.txt",
            *(f"{number}-{side}.wav" for number in numbers for side in "AB"),
        },
    )


def write_pack(
    folder: Path, auditions: Sequence[Audition], levels: Sequence[str], seed: int
) -> int:
    """Write the pack by rename; returns the number of pairs."""
    import soundfile

    chosen = draw_pairs(auditions, levels, seed)
    signals = {clip.utterance.id: clip.signals for clip in auditions}
    key = json.dumps({"seed": seed, "pairs": chosen}, indent=1).encode()
    with staged(folder, pack_of_ours) as aside:
        aside.mkdir()
        for pair in chosen:
            for side in "AB":
                samples = signals[pair["clip"]][pair[side]].clip(-1.0, 1.0)
                soundfile.write(
                    aside / f"{pair['pair']}-{side}.wav", samples, SAMPLE_RATE_HZ, subtype="PCM_16"
                )
        (aside / SHEET).write_text(
            _format_sheet([pair["pair"] for pair in chosen]), encoding="utf-8", newline=""
        )
        # base64 keeps a curious eye from reading it by chance; the digest keeps it unchanged.
        (aside / KEY).write_bytes(base64.b64encode(key) + b"\n")
        (aside / "README.txt").write_text(
            README.format(digest=hashlib.sha256(key).hexdigest()), encoding="utf-8"
        )
    return len(chosen)
