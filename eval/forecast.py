"""Forecast latency of a vocoder package on each chip's Neural Engine: mlprogram's bands, per second of audio.

    forecast_bands(Path("build/KokoroVocoder-w8.mlpackage"), frames=80)["m4"].text

A forecast from the program alone, not a measurement: it orders levels, with wide bands.
"""

from dataclasses import dataclass
from pathlib import Path

from core.contract import FEATURES, FRAMES_PER_SECOND
from mlprogram.examine.forecast import forecast_residency
from mlprogram.examine.latency import latency_bands
from mlprogram.examine.profile import open_program, profile_program
from mlprogram.examine.rules import load_rules


@dataclass(frozen=True)
class ForecastBand:
    """Milliseconds per second of audio: from the optimistic reading's low end to the pessimistic reading's high end."""

    low_ms: float
    high_ms: float

    @property
    def text(self) -> str:
        """For tables."""
        return f"{self.low_ms:.2g}-{self.high_ms:.2g}"


def forecast_bands(package: Path, frames: int) -> dict[str, ForecastBand]:
    """Band by chip, for the package's input of `frames` frames."""
    program, rules = open_program(package), load_rules()
    fitting = [shapes for shapes in program.all_shapes() if shapes[FEATURES][-1] == frames + 1]
    profile = profile_program(program, fitting[0])
    seconds, bands = frames / FRAMES_PER_SECOND, {}
    for name, chip in rules.chips.items():
        found = latency_bands(forecast_residency(profile, rules, name), chip)
        bands[name] = ForecastBand(found.optimistic.low_ms / seconds, found.pessimistic.high_ms / seconds)
    return bands
