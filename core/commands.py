"""The commands that build packages, for a user to type: what every "not built" message names.

build_command("vocoder", form="windowed", checkpoint="demo")     # kokoro-ane build vocoder --form windowed --checkpoint demo
"""

from pathlib import Path

from core.contract import ENCODER_NAME, G2P_NAME, LITERAL

DEFAULT_BUILD = Path("build")


def build_command(
    stage: str,
    form: str = LITERAL,
    precision: str = "fp16",
    checkpoint: str | None = None,
    out: Path = DEFAULT_BUILD,
    runtime: str | None = None,
) -> str:
    """What builds an uncompressed package of g2p, encoder or vocoder, or the file of another runtime."""
    parts = ["kokoro-ane build", stage] + ([f"--runtime {runtime}"] if runtime else [])
    if form not in ("", LITERAL):
        parts.append(f"--form {form}")
    if precision != "fp16":
        parts.append(f"--precision {precision}")
    return " ".join(parts + _places(checkpoint, "--out", out))


def quantize_command(method: str, form: str = LITERAL, checkpoint: str | None = None, build: Path = DEFAULT_BUILD) -> str:
    """What builds a compressed one from it."""
    parts = [f"kokoro-ane quantize --method {method}"] + ([] if form in ("", LITERAL) else [f"--form {form}"])
    return " ".join(parts + _places(checkpoint, "--build", build))


def _places(checkpoint: str | None, flag: str, folder: Path) -> list[str]:
    given = [f"--checkpoint {checkpoint}"] if checkpoint else []
    return given + ([f"{flag} {folder}"] if folder != DEFAULT_BUILD else [])


def command_for(name: str) -> str:
    """What builds the package of that stage or file name."""
    rooms = {G2P_NAME: "g2p", ENCODER_NAME: "encoder"}
    return build_command(next((room for stage, room in rooms.items() if name.startswith(stage)), "vocoder"))
