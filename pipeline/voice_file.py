"""A voice as a bundle stores it, voices/NAME.style: the mean row of its style pack, and the few
directions in which the rows differ from it.

    # pack [510, 1, 256] float32; 26 to 68 kB for kokoro-int8's voices, whose packs have 522 kB
    content = encode_pack(pack)
    is_near(pack, content)             # whether the rows that it gives are near enough

Rows of neighbouring lengths differ little, and an utterance said with its neighbour's row is as
good (docs/models.md). The file has the fewest directions with which every row errs by less than
`SHARE` of its distance from the nearer neighbour. It is little-endian float32: the mean row [256],
directions [K, 256], and the lengths of each row along them [510, K]; K follows from the size. A row
is the mean plus the sum over k of length[k] direction[k].
"""

import numpy as np

from kokoro_ane.core import VOICE_SHAPE, CheckFailed, Checkpoint, InputError

SUFFIX = ".style"
SHARE = 1 / 50
# beside it, where a layout predicts statistics: what the voice adds to them, [2, 2R] fp16
# little-endian (core.voices.Voice)
STATISTICS_SUFFIX = ".statistics"
# the share of a row's size that float32 arithmetic may change where neighbours are equal
ROUNDING = 2.0**-20
ROWS, _, WIDTH = VOICE_SHAPE


def encode_pack(pack: np.ndarray) -> bytes:
    """The smallest encoding of a style pack that keeps the voice."""
    rows: np.ndarray = pack.reshape(ROWS, WIDTH).astype(np.float64)
    # Rounded first, so that the directions make up for its rounding.
    mean = rows.mean(0).astype("<f4")
    # directions by how much rows differ along them, the largest first
    lengths, sizes, directions = np.linalg.svd(rows - mean, full_matrices=False)
    # the first count that keeps the voice is the smallest file
    for count in range(WIDTH + 1):
        # [256], [count, 256], [510, count]
        parts = (mean, directions[:count], (lengths * sizes)[:, :count])
        content = b"".join(np.ascontiguousarray(part, "<f4").tobytes() for part in parts)
        if is_near(pack, content):
            return content
    raise CheckFailed("a voice whose rows no directions give back")


def first_voice_bytes(checkpoint: Checkpoint) -> int:
    """What one voice adds to a product: the checkpoint's first, as stored."""
    return len(encode_pack(checkpoint.voice(checkpoint.voices[0]).numpy()))


def is_near(pack: np.ndarray, content: bytes) -> bool:
    """Whether every row of the encoding is near enough to the pack's."""
    rows: np.ndarray = pack.reshape(ROWS, WIDTH).astype(np.float64)
    steps = _rms(np.diff(rows, axis=0))
    # Each row's step to its nearer neighbour; the rows at the ends have one.
    nearer = np.minimum(np.append(steps, steps[-1]), np.append(steps[0], steps))  # [510]
    return bool((_rms(decode_pack(content) - rows) <= SHARE * nearer + ROUNDING * _rms(rows)).all())


def decode_pack(content: bytes) -> np.ndarray:
    """The rows [510, 256] float32. Raises InputError for bytes of another size than a voice's."""
    # 4 bytes a number: the mean row, then 256 + 510 numbers for each direction.
    count, rest = divmod(len(content) - 4 * WIDTH, 4 * (ROWS + WIDTH))
    if rest or count < 0:
        raise InputError(f"{len(content)} bytes are no voice of a bundle: bundle again")
    mean, directions, lengths = np.split(
        np.frombuffer(content, "<f4"), [WIDTH, WIDTH * (1 + count)]
    )
    return (
        mean + lengths.reshape(ROWS, count).astype(np.float64) @ directions.reshape(count, WIDTH)
    ).astype(np.float32)


def _rms(rows: np.ndarray) -> np.ndarray:
    return np.sqrt((rows**2).mean(-1))
