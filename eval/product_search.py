"""A whole product under one budget: the smallest encoder whose parts keep every limit with room,
and the vocoder that is found in what the encoder leaves.

    search_product(["searched", "w8g"], (METHODS["mixed18"], "streaming"), context, 65.0, record)

Each part of the encoder is measured at each level by itself, on tuning sentences, and the choice
that should hold is judged whole before it is built and the judged sets are asked.

Parts err independently, so the shares of a limit that they use beyond what all use at the finest
level are taken to add up as squares do. Where the whole uses more, they are added as they are.
"""

import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kokoro_ane.core import (
    InputError,
    Manifest,
    QuantizeOptions,
    release_memory,
)
from kokoro_ane.eval.judge import SHIP
from kokoro_ane.eval.levels import (
    LevelRecord,
    count_parts_beside,
    judge_encoder_alone,
    judge_product,
)
from kokoro_ane.eval.search import (
    ROOM,
    compute_shares,
    judge_trial,
    make_tuning_context,
    search_level,
)
from kokoro_ane.eval.session import JudgeContext
from kokoro_ane.eval.subjects import ENCODER
from kokoro_ane.pipeline import build_package
from kokoro_ane.quantize import (
    CHOICES,
    HALF,
    Choice,
    EncoderCandidates,
    Method,
    ensure_encoder,
    find_method,
)

SEARCHED = "searched"
# of what all parts save: less is not worth a measurement
LEAST = 0.01
Shares = Mapping[str, float]  # of each limit, by the gate's name


@dataclass(eq=False)
class EncoderSearch:
    """Responsibilities: 1. judge a choice on the tuning set; 2. forecast what parts use together;
    3. the smallest choice that holds.
    """

    context: JudgeContext
    candidates: EncoderCandidates
    trials: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, context: JudgeContext) -> "EncoderSearch":
        """Make every part at every level."""
        candidates = EncoderCandidates.make(context.checkpoint, find_method(SEARCHED, ENCODER))
        release_memory()  # workers need it now
        return cls(make_tuning_context(context), candidates)

    def find_smallest(self) -> Choice | None:
        """The smallest choice that holds with room, judged whole. None where none does."""
        finest, *coarser = CHOICES[SEARCHED]
        candidates = self.candidates
        every = candidates.choose_all(finest)
        base = self._judge(every)
        alone = {(part, finest): base for part in candidates.parts}
        most = candidates.count_saved(candidates.choose_all(coarser[-1]))
        least = candidates.count_saved(every)
        for part in candidates.parts:
            shares = base
            for level in coarser:
                choice = {**every, part: level}
                gained = candidates.count_saved(choice) - least
                # where a finer level is too coarse already, no coarser one is measured
                if gained <= LEAST * (most - least) or max(shares.values()) > ROOM:
                    break
                shares = alone[part, level] = self._judge(choice)
        for power in (2, 1):
            found = self._choose(base, alone, power)
            if found is not None and max(self._judge(found).values()) <= ROOM:
                return found
        return every if max(base.values()) <= ROOM else None

    def _choose(
        self, base: Shares, alone: Mapping[tuple[str, str], Shares], power: int
    ) -> Choice | None:
        """The choice that saves most of those that are forecast to hold."""
        parts = self.candidates.parts

        def forecast(choice: Choice, gate: str) -> float:
            """What the choice uses of a limit, as the powers of its parts' shares add up."""
            least = base[gate] ** power
            gains = (alone[one].get(gate, 0.0) ** power - least for one in choice.items())
            return float((least + sum(max(gain, 0.0) for gain in gains)) ** (1 / power))

        options = [[level for part, level in alone if part == each] for each in parts]
        choices = (dict(zip(parts, levels, strict=True)) for levels in itertools.product(*options))
        holding = [
            choice for choice in choices if all(forecast(choice, gate) <= ROOM for gate in base)
        ]
        return max(holding, key=self.candidates.count_saved, default=None)

    def _judge(self, choice: Choice) -> Shares:
        """What a choice uses of each limit on the tuning set."""
        start = time.monotonic()
        level = judge_trial(
            (SEARCHED, ENCODER),
            self.context,
            self.context.options.build / "search",
            choice,
            lambda folder: self.candidates.save(choice, folder),
        )
        shares = compute_shares(take_far_ends(level))
        gate = max(shares, key=lambda name: shares[name])
        saved = self.candidates.count_saved(choice)
        self.trials.append(
            {"levels": dict(choice), "saved": saved, "gate": gate, "share": shares[gate]}
        )
        print(
            f"encoder, {saved / 1e6:.1f} MB saved: {shares[gate]:.0%} of {gate}"
            f" ({time.monotonic() - start:.0f} s)",
            file=sys.stderr,
        )
        return shares


def take_far_ends(level: LevelRecord) -> LevelRecord:
    """The level with the far end of each mean's interval in the mean's place, which a verdict asks
    for: in few sentences a reading tips, and their means are wide.
    """
    checks = [
        check if check["high"] is None else {**check, "value": check["high"]}
        for check in level["checks"]
    ]
    return {**level, "checks": checks}


def build_searched(context: JudgeContext, record: dict[str, Any]) -> bool:
    """Search the smallest encoder and build it; False where nothing holds. `record` gets every
    trial.
    """
    search = EncoderSearch.start(context)
    choice = search.find_smallest()
    record["encoder_search"] = {"room": ROOM, "trials": search.trials, "taken": choice}
    if choice is None:
        print("no choice of the encoder's parts holds", file=sys.stderr)
        return False
    build = context.options.build
    search.candidates.save(choice, build)
    source = context.options.checkpoint
    # a package that is there may be of another choice
    ensure_encoder(context.make_request(HALF), build_package)
    build_package(QuantizeOptions(SEARCHED, stage=ENCODER, checkpoint=source, build=build))
    return True


def measure_encoder(encoder: str, context: JudgeContext) -> int:
    """The bytes of an encoder's packages, which are built where they are missing."""
    request = replace(context.make_request(HALF), encoder=encoder)
    return sum(Manifest.load(path).package_bytes for path in ensure_encoder(request, build_package))


def search_product(
    encoders: Sequence[str],
    vocoder: tuple[Method, str],
    context: JudgeContext,
    most_mb: float | None,
    record: dict[str, Any],
) -> LevelRecord:
    """The smallest of the encoders that ships alone, with the vocoder that is found in what the
    others leave of `most_mb`. Raises InputError where no encoder ships, or where nothing is left.
    """
    built = [name for name in encoders if name != SEARCHED or build_searched(context, record)]
    for encoder in sorted(built, key=lambda name: measure_encoder(name, context)):
        if judge_encoder_alone(encoder, context)["verdict"] == SHIP:
            break
    else:
        raise InputError(f"no encoder of {', '.join(encoders)} ships")
    if most_mb is not None:
        beside_mb = sum(count_parts_beside(encoder, context).values()) / 1e6
        # What text, encoder and voice take of the budget is not the vocoder's.
        most_mb -= beside_mb
        print(f"{encoder}: {beside_mb:.1f} MB beside the vocoder", file=sys.stderr)
    level = search_level(*vocoder, context, most_mb, record)
    if level["verdict"] != SHIP:
        # the product says no more than that its vocoder does not ship
        print(f"{level['method']}: {'; '.join(level['reasons'])}", file=sys.stderr)
    return judge_product(level["method"], encoder, context, SHIP, level["verdict"])
