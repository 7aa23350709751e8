"""Examine an ML program without running it: what it holds, what it costs, what the Neural Engine
would take of it.

    python -m mlprogram describe KokoroVocoder.mlpackage
    python -m mlprogram ane KokoroVocoder.mlpackage --chip m1
"""

import argparse


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """'features=1,3157,1,81' -> ('features', (1, 3157, 1, 81))."""
    name, _, numbers = text.partition("=")
    try:
        shape = tuple(int(part) for part in numbers.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=n,n,... with sizes of at least 1, such as features=1,3157,1,81"
        )
    return name, shape
