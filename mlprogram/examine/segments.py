"""Runs of operations on one unit: how many the engine gets, and which tensors cross between the engine and the rest.

    cut = cut_segments(profile, frozenset(names_off_the_engine))
    cut.engine_segments, cut.crossings, cut.crossing_bytes

Operations are grouped by dependency, not by their order in the file: two that need nothing of each other's unit share a segment. So the
count is the smallest a scheduler can reach with this placement.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlprogram.examine.profile import OpProfile, Profile


@dataclass(frozen=True)
class Segment:
    """Operations that run one after another on one unit, as indices into the profile."""

    level: int
    on_engine: bool
    ops: tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """Segments in the order they can run, and what passes between the engine and the rest, inputs and outputs of the program included."""

    segments: tuple[Segment, ...]
    crossings: int
    crossing_bytes: int

    @property
    def engine_segments(self) -> int:
        """Segments on the engine."""
        return sum(s.on_engine for s in self.segments)


def cut_segments(profile: Profile, off: frozenset[int]) -> Cut:
    """Segments when the operations with these indices are off the engine and all others on it. Inputs and outputs are off it."""
    made_by = {t.name: i for i, op in enumerate(profile.ops) for t in op.outputs}
    levels: list[int] = []
    for i, op in enumerate(profile.ops):
        levels.append(_level(i, op, off, made_by, levels))
    groups: dict[tuple[int, bool], list[int]] = {}
    for i, level in enumerate(levels):
        groups.setdefault((level, i not in off), []).append(i)
    crossing = _crossing(profile, off, made_by)
    segments = tuple(Segment(level, on, tuple(ops)) for (level, on), ops in sorted(groups.items()))
    return Cut(segments, len(crossing), sum(crossing.values()))


def _level(i: int, op: OpProfile, off: frozenset[int], made_by: dict[str, int], levels: list[int]) -> int:
    """Even levels are off the engine, odd ones on it; a value of the other unit costs a step up."""
    level = int(i not in off)
    for tensor in op.activations:
        producer = made_by.get(tensor.name)
        if producer is not None and producer < i:
            level = max(level, levels[producer] + ((producer in off) != (i in off)))
    return level


def _crossing(profile: Profile, off: frozenset[int], made_by: dict[str, int]) -> dict[str, int]:
    """{tensor: bytes} of every value that is made on one side and read on the other."""
    crossing = {}
    for i, op in enumerate(profile.ops):
        for tensor in op.activations:
            made_off = tensor.name not in made_by or made_by[tensor.name] in off
            if made_off != (i in off):
                crossing[tensor.name] = tensor.bytes
    for tensor in profile.outputs:
        if tensor.name in made_by and made_by[tensor.name] not in off:
            crossing[tensor.name] = tensor.bytes
    return crossing
