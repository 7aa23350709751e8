"""The two functions of the encoder computed by programs that take and give NumPy arrays: no PyTorch.

functions = array_functions({DURATION: program, PROSODY: other})
"""

from collections.abc import Mapping

import numpy as np

from core.contract import DURATION, DURATIONS, ENERGY, F0_HZ, FRAMES, HIDDEN, INPUT_IDS, PROSODY, SPEED, STYLE, TEXT
from core.portable import PortableProgram
from encoder.functions import Functions


def array_functions(programs: Mapping[str, PortableProgram]) -> Functions:
    """Programs by function name."""

    def duration(ids: np.ndarray, style: np.ndarray, speed: np.ndarray) -> tuple[np.ndarray, ...]:
        given = programs[DURATION]({INPUT_IDS: ids, STYLE: style, SPEED: speed})
        return given[DURATIONS], given[HIDDEN], given[TEXT]

    def prosody(frames: np.ndarray, style: np.ndarray) -> tuple[np.ndarray, ...]:
        given = programs[PROSODY]({FRAMES: frames, STYLE: style})
        return given[F0_HZ], given[ENERGY]

    return Functions(duration, prosody)  # type: ignore[arg-type]  # arrays where tensors stand: EncoderBackend.arrays
