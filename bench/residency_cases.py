"""Published placements and the graphs rebuilt for them, as data.

cases()["lai-vocoder"].published
"""

from dataclasses import dataclass

LAI_FRAMES = 120  # a short sentence


@dataclass(frozen=True)
class Case:
    """A published observation and how to rebuild its graph. `shapes`: input name -> shape; an axis (low, default, high) is a range."""

    graph: str
    sizes: dict[str, int]
    shapes: dict[str, tuple]
    precision: str
    chip: str
    published: float
    published_ops: int
    source: str
    difference: str
    integers: tuple[str, ...] = ()


def _lai(graph: str, shapes: dict[str, tuple], precision: str, published: float, ops: int, difference: str) -> Case:
    return Case(graph, {}, shapes, precision, "m5", published, ops, "FluidAudio profiler", difference)


def _ranged(times: int, extra: int = 0) -> tuple[int, int, int]:
    return (times + extra, LAI_FRAMES * times + extra, 2000 * times + extra)


def lai_shapes(frames: int) -> dict[str, dict[str, tuple]]:
    """Input shapes of LAI's three models for that many frames, but for the style: {case: {input: shape}}."""
    prosody = (1, 2 * frames)
    return {
        "lai-vocoder": {
            "asr": (1, 512, frames),
            "f0": prosody,
            "energy": prosody,
            "noise_0": (1, 256, 20 * frames),
            "noise_1": (1, 128, 120 * frames + 1),
        },
        "lai-noise": {"f0": prosody},
        "lai-tail": {"x": (1, 128, 120 * frames + 1)},
    }


def _magpie(frames: int, published: float, difference: str) -> Case:
    return Case("MagpieBody", {}, {"x": (1, 864, frames)}, "fp16", "m2", published, 1006, "mobius, magpie probe", difference)


def cases() -> dict[str, Case]:
    """Every case by name."""
    return _vocoder_cases() | _small_cases()


def _vocoder_cases() -> dict[str, Case]:
    """LAI's three graphs and the Magpie probes."""
    whole, style = "every operation is fp32", (1, 128)
    return {
        "lai-vocoder": _lai(
            "LaiVocoder",
            {
                "asr": (1, 512, _ranged(1)),
                "f0": (1, _ranged(2)),
                "energy": (1, _ranged(2)),
                "noise_0": (1, 256, _ranged(20)),
                "noise_1": (1, 128, _ranged(120, 1)),
                "style": style,
            },
            "fp16",
            0.99,
            655,
            "which six are missing is not published; pessimistic counts dilated kernels of 11, the kernel of 20, short runs between",
        ),
        "lai-noise": _lai("LaiNoise", {"f0": (1, 2 * LAI_FRAMES), "style": style}, "fp32", 0.0, 239, whole),
        "lai-tail": _lai("LaiTail", {"x": (1, 128, 120 * LAI_FRAMES + 1)}, "fp32", 0.0, 13, whole),
        "magpie-t8": _magpie(8, 0.990, "optimistic misses the ten dilated convolutions; pessimistic has them, and short runs between them"),
        "magpie-t16": _magpie(16, 0.988, "width 16,384 exactly: two more convolutions were lowered to 16,386"),
        "magpie-t20": _magpie(20, 0.0, "width 20,480: the compiler gave up the whole graph, as graph-too-wide warns"),
    }


def _small_cases() -> dict[str, Case]:
    """Snake with and without sine, and the transducer's parts."""
    return {
        "snake-sine": Case(
            "SnakeConvs",
            {"sine": 1},
            {"x": (1, 64, 1024)},
            "fp16",
            "m2",
            0.0,
            6,
            "mobius, magpie probe",
            "sin is refused; the two convolutions beside it are too small to hand over alone",
        ),
        "snake-poly": Case(
            "SnakeConvs",
            {"sine": 0},
            {"x": (1, 64, 1024)},
            "fp16",
            "m2",
            1.0,
            8,
            "mobius, magpie probe",
            "optimistic is right; pessimistic holds the graph for too small",
        ),
        "decoder-joint": Case(
            "DecoderJoint",
            {},
            {"token": (1, 1), "encoded": (1, 1, 1024), "hidden": (2, 1, 640), "cell": (2, 1, 640)},
            "fp16",
            "m5",
            0.54,
            28,
            "FluidAudio profiler",
            "LSTM, index and glue are off; this graph has less glue than theirs",
            ("token",),
        ),
        "joint": Case(
            "Joint",
            {},
            {"encoded": (1, 1, 1024), "predicted": (1, 1, 640)},
            "fp16",
            "m5",
            1.0,
            12,
            "FluidAudio profiler",
            "19 MB of weights are worth handing over; theirs has reshapes and casts besides",
        ),
        "joint-small": Case(
            "Joint",
            {"vocabulary": 1024},
            {"encoded": (1, 1, 1024), "predicted": (1, 1, 640)},
            "fp16",
            "m5",
            0.0,
            12,
            "FluidAudio profiler",
            "the same with 4 MB of weights stayed on the CPU: only the pessimistic reading says so",
        ),
    }
