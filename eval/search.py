"""The level of a size, and the smallest level that ships: a recipe is chosen, judged in PyTorch on
tuning sentences before anything is converted, and mended where a gate is nearest.

    search = Search.start(context, METHODS["mixed18"], manifest)
    best = search.find_within(40e6)   # the best of at most 40 MB
    best = search.find_smallest()     # the smallest that keeps every gate with room
    search.build(best)                # its recipe becomes the build folder's, and its package

Whatever is chosen here is chosen on the tuning set; eval/release.py asks the judged sets, once for
what is taken. What was measured is kept in BUILD/search and the store of figures, so that an
interrupted search goes on where it stopped. docs/quantization.md says how well it forecasts.
"""

import hashlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kokoro_ane.core import (
    CORPUS,
    TUNING,
    Checkpoint,
    InputError,
    Manifest,
    QuantizeOptions,
    discard,
    release_memory,
    sha256_of_json,
)
from kokoro_ane.eval.gates import MEAN
from kokoro_ane.eval.judge import BROKEN, LONG_S, SHIP, WORDS
from kokoro_ane.eval.levels import (
    LevelRecord,
    judge_file,
    judge_method,
    judge_package,
)
from kokoro_ane.eval.report_figures import compute_used_share, parse_metric, parse_statistic
from kokoro_ane.eval.session import JudgeContext
from kokoro_ane.eval.subjects import VOCODER
from kokoro_ane.pipeline import build_package
from kokoro_ane.quantize import HALF, METHODS, Candidates, Method, Point, ensure_vocoder
from kokoro_ane.speech import Utterance, load_own_speech

# How much of a limit a choice may use on the tuning set. Its worst of 24 clips is milder than the
# worst of 60, and a mean has an interval.
ROOM = 0.75
# The gates that the distance in pauses speaks for; the distance in speech speaks for all others.
PAUSE_GATES = ("pause_peak_db", "pause_floor_db")
# What the layout takes of a limit is added where distances add up.
ADDED = "mcd_increase_db"
# Figures that are counted, so that a share of their limit says little: words flip at any change,
# and two steps of pitch, which other seeds reach, are 81 % of the limit. Broken gates alone count.
COUNTED = (*WORDS, "local_pitch_cents")
MENDED = 2  # choices of one size
HARDER = 4.0  # what the weight of a distance is multiplied by where a gate of its kind is nearest
STEP = 0.05  # of a size: two that are nearer are not told apart
TRIES = 5  # sizes
# how often the judged sets are asked for the smallest, each time for one that is so much larger
ASKS, LARGER = 3, 0.06
LONG = f"clips longer than {LONG_S:g} s"
EVEN = MappingProxyType({"speech": 1.0, "pauses": 1.0})


@dataclass(frozen=True)
class SearchTrial:
    """A choice that was judged on the tuning set. `share`: of the limit of the nearest gate that it
    uses, beside what the layout itself uses; weights: of the distances that it was chosen by.
    """

    point: Point
    size_bytes: float
    weights: Mapping[str, float]
    gate: str
    share: float
    distance_db: float

    @property
    def holds(self) -> bool:
        """Whether every gate is kept with room."""
        return self.share <= ROOM

    @property
    def line(self) -> str:
        """What was tried and how it went."""
        outcome = "holds" if self.holds else "too near"
        return (
            f"{self.size_bytes / 1e6:.1f} MB: {outcome}, {self.share:.0%} of {self.gate},"
            f" MCD {self.distance_db:.2f} dB"
        )

    def record(self) -> dict[str, Any]:
        """The trial as plain data."""
        return {
            "bytes": round(self.size_bytes),
            "gate": self.gate,
            "share": self.share,
            "mcd_db": self.distance_db,
            "weights": dict(self.weights),
            "levels": dict(self.point.levels),
        }


@dataclass(eq=False)
class Search:
    """Responsibilities: 1. judge a choice on the tuning set; 2. mend it where a gate is nearest;
    3. go from size to size.
    """

    context: JudgeContext
    method: Method
    layout: str
    candidates: Candidates
    taken: Mapping[str, float]  # of limits by the layout itself, on the tuning set
    trials: list[SearchTrial] = field(default_factory=list)

    @classmethod
    def start(cls, context: JudgeContext, method: Method, parent: Manifest) -> "Search":
        """Measure what the uncompressed package takes of each limit, and what every layer loses at
        every level.
        """
        tuning = make_tuning_context(context)
        print(
            f"what {parent.level} takes of each limit, on {len(tuning.clips)} tuning clips",
            file=sys.stderr,
        )
        whole = judge_package(METHODS[parent.method], parent, tuning)
        candidates = Candidates.measure(
            context.checkpoint, method, parent, context.options.build / "search"
        )
        release_memory()  # workers need it now
        shares = compute_shares(whole)
        taken = {name: share for name, share in shares.items() if name.startswith(ADDED)}
        return cls(tuning, method, parent.layout, candidates, taken)

    def find_within(self, most_bytes: float) -> SearchTrial:
        """The best choice of at most that size. Raises InputError for a size out of reach."""
        weights = dict(EVEN)
        tried = list[SearchTrial]()
        # Each round moves weight to the kind of sound whose gate is nearest.
        for _ in range(MENDED):
            tried.append(self._judge(most_bytes, weights))
            if tried[-1].holds:
                break
            kind = "pauses" if tried[-1].gate.split()[0] in PAUSE_GATES else "speech"
            weights[kind] *= HARDER
        return min(tried, key=lambda trial: trial.share)

    def find_smallest(self, most_bytes: float | None = None) -> SearchTrial:
        """The smallest choice that holds, by halving the span of sizes. Raises InputError where
        none does.
        """
        low = self.candidates.least_bytes
        high = most_bytes or self.candidates.whole_bytes
        best = None
        for _ in range(TRIES):
            # Halved by ratio: sizes differ by factors, not by megabytes.
            trial = self.find_within((low * high) ** 0.5)
            if trial.holds:
                best = trial
                high = trial.size_bytes
            else:
                low = (low * high) ** 0.5
            # The span is small enough: another trial would cost minutes and save little.
            if high / low < 1 + STEP:
                break
        if best is None:
            raise InputError(f"no choice of these levels holds: {self.trials[-1].line}")
        return best

    def build(self, trial: SearchTrial, most_bytes: float = math.inf) -> SearchTrial:
        """Make the choice the recipe of the build folder, and its package. Where that is larger
        than `most_bytes`, because what stands beside the weights takes more than was forecast, a
        smaller choice is built. Returns what was built; raises as `find_within` does.
        """
        source = self.context.options.checkpoint
        build = self.context.options.build
        self.candidates.save(trial.point, trial.size_bytes, build, with_level=True)
        # the level's file is there: it is only converted
        name = self.method.name
        layout = self.layout
        build_package(QuantizeOptions(name, layout=layout, checkpoint=source, build=build))
        over = self.context.make_request(name, layout).load_verified().package_bytes - most_bytes
        if over <= 0:
            return trial
        print(f"{over / 1e6:.2f} MB above the forecast: a smaller one", file=sys.stderr)
        # The forecast was off by `over`, so the next one aims lower by as much.
        return self.build(self.find_within(trial.size_bytes - over), most_bytes)

    def _judge(self, most_bytes: float, weights: Mapping[str, float]) -> SearchTrial:
        point, size_bytes = self.candidates.find_within(most_bytes, weights)
        start = time.monotonic()
        # a folder for each: workers keep a file open by its name
        level = judge_trial(
            (self.method.name, VOCODER),
            self.context,
            self.candidates.folder,
            point.levels,
            lambda folder: self.candidates.save(point, size_bytes, folder, with_level=True),
        )
        shares = compute_shares(level)
        # What the layout alone takes comes on top, because the level is judged without a layout.
        shares = {name: share + self.taken.get(name, 0.0) for name, share in shares.items()}
        # The limit that is used most decides whether a choice holds.
        gate = max(shares, key=lambda name: shares[name])
        distance_db = level["summary"]["mcd_db"][MEAN] or 0.0
        trial = SearchTrial(point, size_bytes, dict(weights), gate, shares[gate], distance_db)
        print(f"{trial.line} ({time.monotonic() - start:.0f} s)", file=sys.stderr)
        self.trials.append(trial)
        return trial


def judge_trial(
    level: tuple[str, str],
    context: JudgeContext,
    parent: Path,
    levels: Mapping[str, str],
    save: Callable[[Path], object],
) -> LevelRecord:
    """Judge a choice in PyTorch by the name and stage of its `level`. Its recipe and file, which
    `save` writes, are gone afterwards, and its figures are kept.
    """
    # a folder for each: workers keep a file open by its name
    folder = parent / f"trial-{sha256_of_json(dict(sorted(levels.items())))[:16]}"
    save(folder)
    record = judge_file(*level, replace(context, options=replace(context.options, build=folder)))
    discard(folder)  # 30 MB
    return record


def list_tuning_clips(checkpoint: Checkpoint) -> tuple[Utterance, ...]:
    """The tuning set with ids as a corpus has them, so that its natural variation is kept."""
    clips = []
    for clip in load_own_speech(checkpoint, TUNING):
        said = f"{clip.voice}\t{clip.speed:g}\t{clip.phonemes}"
        digest = hashlib.sha256(said.encode()).hexdigest()
        clips.append(replace(clip, id=f"{CORPUS}-{digest[:16]}"))
    return tuple(clips)


def make_tuning_context(context: JudgeContext) -> JudgeContext:
    """The same with the tuning set's clips."""
    options = replace(context.options, set=TUNING)
    return replace(context, clips=list_tuning_clips(context.checkpoint), options=options)


def search_level(
    method: Method,
    layout: str,
    context: JudgeContext,
    most_mb: float | None,
    record: dict[str, Any],
) -> LevelRecord:
    """Search a level of at most `most_mb`, or the smallest, build and judge it. Where the judged
    sets reject the smallest, the next larger one that holds is asked, ASKS times at most. `record`
    gets every trial, and how often the judged sets were asked.
    """
    parent = ensure_vocoder(context.make_request(HALF, layout), build_package)
    search = Search.start(context, method, parent)
    asked = 0
    most_bytes = math.inf if most_mb is None else 1e6 * most_mb
    trial = search.find_smallest() if most_mb is None else search.find_within(most_bytes)
    # The judged sets are asked rarely: a choice by them would be tuned on them.
    while True:
        trial = search.build(trial, most_bytes)
        level = judge_method(method, layout, context)
        asked += 1
        if level["verdict"] == SHIP or most_mb is not None or asked == ASKS:
            break
        print(f"the judged sets: {level['verdict']}; a larger one is tried", file=sys.stderr)
        trial = search.find_within(trial.size_bytes * (1 + LARGER))
    trials = [one.record() for one in search.trials]
    record["search"] = {"asked": asked, "room": ROOM, "trials": trials, "taken": trial.record()}
    return level


def compute_shares(level: LevelRecord) -> dict[str, float]:
    """How much of each limit a level uses, by the gate's name; the long clips' means have their
    own.
    """
    shares = {}
    long = level["means_of"].get(LONG, {})
    for check in level["checks"]:
        metric = parse_metric(check)
        share = compute_used_share(check)
        if share is None or (metric in COUNTED and check["state"] != BROKEN):
            continue
        shares[check["gate"]] = share
        value = long.get(metric)
        if parse_statistic(check) == MEAN and value is not None and metric not in COUNTED:
            shares[f"{check['gate']}, {LONG}"] = (
                compute_used_share({**check, "value": value}) or 0.0
            )
    return shares
