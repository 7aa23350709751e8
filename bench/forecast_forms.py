"""Four forms of the vocoder at full size, random weights, ready to forecast: literal, engine variant, and two after published descriptions.

    samples = build_samples("mm-30", Path("aside"))     # converted into that folder; JOBS names all

A sample is one form holding one length of audio, as one program or several that run one after another.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.forecast import SECONDS
from mlprogram.examine.profile import OpProfile, Profile, open_program, profile_program
from mlprogram.examine.rules import load_rules
from pipeline.contract import FRAMES_PER_SECOND
from pipeline.errors import InputError

LITERAL, ENGINE, LAI, MM = FORMS = ("literal", "engine", "LAI", "MM")


@dataclass(frozen=True)
class Part:
    """One program at one shape; `tail` holds indices of the operations from conv_post on, which are not the trunk."""

    profile: Profile
    tail: frozenset[int]


@dataclass(frozen=True)
class Sample:
    """A form asked for `seconds` of audio and holding `held_s`, on the chips it was built for."""

    form: str
    seconds: int
    held_s: float
    parts: tuple[Part, ...]
    chips: tuple[str, ...]


def build_samples(job: str, folder: Path) -> list[Sample]:
    """Convert one job's programs and profile them. InputError for a job that JOBS lacks."""
    if job not in JOBS:
        raise InputError(f"job {job!r} is unknown; one of {', '.join(JOBS)}")
    return JOBS[job](folder)


def fp32_operations(profile: Profile) -> frozenset[int]:
    """The tail of this project's forms: all that takes or gives fp32."""
    return _where(profile, lambda op: any(t.dtype == "fp32" for t in (*op.activations, *op.outputs)))


def from_last_convolution(profile: Profile) -> frozenset[int]:
    """The tail where everything is fp16: conv_post is the last `conv` of the program, and what follows is made of its result."""
    last = max(i for i, op in enumerate(profile.ops) if op.op_type == "conv")
    return frozenset(range(last, len(profile.ops)))


def _where(profile: Profile, holds: Callable[[OpProfile], bool]) -> frozenset[int]:
    return frozenset(i for i, op in enumerate(profile.ops) if holds(op))


def _all_chips() -> tuple[str, ...]:
    return tuple(load_rules().chips)


def _ours(form: str, polynomial: bool, folder: Path) -> list[Sample]:
    """The literal form, or the engine variant for the chips that need the polynomial or for those that do not."""
    from bench.forecast import build_vocoder, held_seconds
    from bench.random_checkpoint import kokoro_config
    from vocoder.engine.options import EngineOptions, chips_without_sine

    without = chips_without_sine(load_rules())
    chips = _all_chips() if form == LITERAL else tuple(chip for chip in _all_chips() if (chip in without) == polynomial)
    options = None if form == LITERAL else EngineOptions.of(chips)
    program = open_program(build_vocoder(kokoro_config(), tuple(s * FRAMES_PER_SECOND for s in SECONDS), folder, options))
    held = sorted((held_seconds(shapes["features"]), i) for i, shapes in enumerate(program.all_shapes()))
    samples = []
    for seconds in SECONDS:
        held_s, index = next(pair for pair in held if pair[0] >= seconds)
        profile = profile_program(program, program.all_shapes()[index])
        samples.append(Sample(form, seconds, held_s, (Part(profile, fp32_operations(profile)),), chips))
    return samples


def _lai(folder: Path) -> list[Sample]:
    """Three programs: noise and tail, all fp32, at fixed lengths (their placement hangs on nothing else), the vocoder with ranges."""
    from bench.residency import build
    from bench.residency_cases import lai_shapes, vocoder_cases

    cases = vocoder_cases()
    vocoder = open_program(build(cases["lai-vocoder"], folder, "lai-vocoder"))
    samples = []
    for seconds in SECONDS:
        shapes = lai_shapes(seconds * FRAMES_PER_SECOND)
        fixed = {name: replace(cases[name], shapes=cases[name].shapes | shapes[name]) for name in ("lai-noise", "lai-tail")}
        noise, tail = (open_program(build(case, folder, f"{name}-{seconds}")) for name, case in fixed.items())
        noise, tail = (profile_program(program, program.shapes({})) for program in (noise, tail))
        middle = profile_program(vocoder, vocoder.shapes(shapes["lai-vocoder"]))
        parts = (Part(noise, frozenset()), Part(middle, frozenset()), Part(tail, frozenset(range(len(tail.ops)))))
        samples.append(Sample(LAI, seconds, seconds, parts, _all_chips()))
    return samples


def mm_parts(frames: int, folder: Path, narrow: int = 1) -> tuple[Part, Part]:
    """Both packages of a bucket."""
    import torch

    from bench import comparison_graphs
    from bench.residency import save_graph

    torch.manual_seed(0)
    profiles = []
    for name, shapes in comparison_graphs.mm_shapes(frames, narrow).items():
        program = open_program(save_graph(getattr(comparison_graphs, name)(narrow), shapes, "fp16", folder / f"{name}-{frames}.mlpackage"))
        profiles.append(profile_program(program, program.shapes({})))
    return Part(profiles[0], frozenset()), Part(profiles[1], from_last_convolution(profiles[1]))


def _mm(bucket_s: int, folder: Path) -> list[Sample]:
    from bench.comparison_graphs import mm_bucket_s

    parts = mm_parts(bucket_s * FRAMES_PER_SECOND, folder)
    return [Sample(MM, seconds, bucket_s, parts, _all_chips()) for seconds in SECONDS if mm_bucket_s(seconds) == bucket_s]


JOBS: dict[str, Callable[[Path], list[Sample]]] = {
    "mm-30": lambda folder: _mm(30, folder),
    "lai": _lai,
    "engine": lambda folder: _ours(ENGINE, False, folder),
    "engine-poly": lambda folder: _ours(ENGINE, True, folder),
    "mm-15": lambda folder: _mm(15, folder),
    "literal": lambda folder: _ours(LITERAL, False, folder),
    "mm-7": lambda folder: _mm(7, folder),
    "mm-3": lambda folder: _mm(3, folder),
}
