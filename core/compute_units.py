"""Where Core ML computes a stage, by what was reported of a system and a chip.

    units_for("encoder", "macOS", [26, 5], "Apple M5 Pro")   # CPU_ONLY

The table (core/data/compute_units.json) is the only one: every bundle of packages carries it, and
the Swift package reads it there.
"""

from pathlib import Path

from kokoro_ane.core.data_files import read_json

UNITS_TABLE = Path(__file__).with_name("data") / "compute_units.json"


def units_for(stage: str, system: str, version: list[int], chip: str) -> str:
    """The compute units of a stage on a system, by the first row of the table that holds. chip: a
    Mac's, as "Apple M5 Pro".
    """
    for row in read_json(UNITS_TABLE, "a part of kokoro-ane is missing")["rows"]:
        # Lists compare number by number, so [26, 5] lies between [26] and [27].
        is_of_version = row["from"] <= version < (row["below"] or [99])
        # "" in a row stands for any chip; else one word of the chip's name has to be there.
        is_of_chip = {"", *chip.split()}.intersection(row["chips"])
        if stage == row["stage"] and system in row["systems"] and is_of_version and is_of_chip:
            return str(row["units"])
    return "CPU_ONLY"
