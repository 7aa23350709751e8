"""Forecast of a vocoder package on each chip's Neural Engine: latency bands per second of audio, share of the work that stays on it.

    forecast_of(profile, frames=80)["m4"]["low_ms"]

A forecast from the program alone, not a measurement: it orders levels, with wide bands.
"""

from core.contract import FRAMES_PER_SECOND
from mlprogram.examine.forecast import forecast_residency
from mlprogram.examine.latency import latency_bands
from mlprogram.examine.profile import Profile
from mlprogram.examine.rules import load_rules


def forecast_of(profile: Profile, frames: int) -> dict[str, dict[str, float]]:
    """By chip: `low_ms` and `high_ms` per second of audio, from the optimistic reading's low end to the pessimistic reading's high end;
    `engine_low` and `engine_high`, the shares of multiply-accumulates on the engine in those readings."""
    rules, seconds, found = load_rules(), frames / FRAMES_PER_SECOND, {}
    for name, chip in rules.chips.items():
        residency = forecast_residency(profile, rules, name)
        bands = latency_bands(residency, chip)
        times = {"low_ms": bands.optimistic.low_ms / seconds, "high_ms": bands.pessimistic.high_ms / seconds}
        found[name] = times | {"engine_low": residency.lowest_share("macs"), "engine_high": residency.optimistic.share("macs")}
    return found
