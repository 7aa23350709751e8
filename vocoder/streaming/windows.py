"""Where the windows of an utterance begin and which samples of each are kept: any cut gives the
same samples.

    cut = windows(frames=200, first=20)     # starts, lengths and own frames, in frames

No operation of the generator's second stage reduces over time, so a window of frames is rendered as
the utterance is, but for the columns near its edges that would read beyond it. The first window
begins where the utterance begins and the last ends where it ends: there the zero padding of the
convolutions is upstream's own. At every other edge HALO frames are computed twice and dropped.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from kokoro_ane.core.errors import InputError

# frames a side: the second stage spoils 124 columns of 120 a frame, the inverse STFT two more
HALO = 2
# frames, at any length: an early first sound, 0.3 s of it; throughput, with a tenth of halo
FIRST, LONGEST = 20, 160
# frames, of a package: the same two and one between; 120 columns a frame stay within the 16,384
# that an engine takes
SIZES = (24, 64, 128)
# frames: what is no longer is rendered at once with its own statistics, in less time than its sound
# lasts
MEASURED = 180


@dataclass(frozen=True)
class Window:
    """`frames` from `start` on are rendered, those from `begin` to `end` are kept; all of the
    utterance.
    """

    start: int
    frames: int
    begin: int
    end: int


def windows(frames: int, first: int | None = None, longest: int = LONGEST) -> tuple[Window, ...]:
    """Windows of about equal length, `longest` frames at most, that cover the utterance. `first`:
    frames that the first one renders, each one behind it twice as many, so that what has been heard
    is time enough for the next.

    Raises InputError for windows that hold nothing but halo.
    """
    if min(longest, longest if first is None else first) <= 2 * HALO:
        raise InputError(
            f"a window of {min(longest, first or longest)} frames is no longer than what its edges"
            f" spoil, {2 * HALO}"
        )
    if frames <= (longest if first is None else first):
        return (Window(0, frames, 0, frames),)
    ends = [] if first is None else list(_growing(first, min(longest, frames)))
    begin = ends[-1] if ends else 0
    count = math.ceil((frames - begin) / (longest - 2 * HALO))
    ends += [begin + round((frames - begin) * number / count) for number in range(1, count + 1)]
    begins = [0, *ends[:-1]]
    shown = [
        (max(0, begin - HALO), min(frames, end + HALO))
        for begin, end in zip(begins, ends, strict=True)
    ]
    return tuple(
        Window(low, high - low, begin, end)
        for (low, high), begin, end in zip(shown, begins, ends, strict=True)
    )


def _growing(first: int, longest: int) -> Iterator[int]:
    """Where the windows end that are shorter than `longest`."""
    end, size = first - HALO, 2 * first
    yield end
    while size < longest - end:
        end, size = end + size - 2 * HALO, 2 * size
        yield end


def fixed_windows(frames: int, sizes: tuple[int, ...], early: bool) -> tuple[Window, ...]:
    """Windows of these lengths only, rising, of an utterance that fills the shortest. With `early`
    each length has its turn before the longest is used throughout; the last window may be shorter.

    Raises InputError for windows that hold nothing but halo, and for a shorter utterance.
    """
    if sizes[0] <= 2 * HALO or frames < sizes[0]:
        raise InputError(
            f"windows of {', '.join(map(str, sizes))} frames for an utterance of {frames}:"
            f" {2 * HALO} are spoiled by edges"
        )
    sizes = tuple(size for size in sizes if size <= frames)
    windows: list[Window] = []
    begin, used = 0, 0 if early else len(sizes) - 1
    while begin < frames:
        halo = HALO if begin else 0
        last = next((size for size in sizes[: used + 1] if size - halo >= frames - begin), None)
        size = last or sizes[used]
        start = frames - size if last else begin - halo
        end = frames if last else start + size - HALO
        windows.append(Window(start, size, begin, end))
        begin, used = end, min(used + 1, len(sizes) - 1)
    return tuple(windows)
