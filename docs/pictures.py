"""Draw the pictures of the pages, and render their recordings.

    python docs/pictures.py spectrograms               # of the recordings in docs/samples
    python docs/pictures.py levels                     # size and distance, of docs/figures.json
    python docs/pictures.py chips                      # shares on the engine, of the same file
    python docs/pictures.py recordings --build build   # render the recordings anew: needs packages

The recordings are one judged sentence of kokoro-int8 by the 32-bit model and by executed packages,
from the same features and noise. All but `recordings` read committed files alone and need
matplotlib, and each picture holds the figures that it shows as text, which a test compares with the
file. The drawing on README's first screen, docs/pictures/pipeline.svg, is edited by hand. A
pipe's last line is one JSON object.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kokoro_ane.core import (
    EXIT_GOOD,
    REQUIRED,
    SAMPLE_RATE_HZ,
    CommandOptions,
    InputError,
    build_option,
    command,
    conclude,
    option,
    parse,
)

DOCS = Path(__file__).resolve().parent
PICTURES, SAMPLES = DOCS / "pictures", DOCS / "samples"
# File in docs/samples -> level, noise seed, title of its panel.
RECORDINGS = MappingProxyType(
    {
        "original": (None, 0, "original: 32-bit PyTorch model"),
        "seed-1": (None, 1, "the same model, another noise seed"),
        "mixed18": ("mixed18", 0, "mixed18: ships"),
        "p6": ("p6", 0, "p6: ships"),
        "p4": ("p4", 0, "p4: rejected"),
    }
)
CLIP = "judged-19"
LINE = "#5b6b7a"  # color of lines and of their text
SEED = "another noise seed"
CHIPS = ("M1", "A14", "A15", "M4")  # columns of the table in docs/devices.md


def read_recording(name: str) -> Any:
    """Read a recording: samples [n] float64. Raises InputError where it is missing."""
    import soundfile

    path = SAMPLES / f"{name}.flac"
    if not path.is_file():
        raise InputError(f"{path}: missing; `python docs/pictures.py recordings` renders it")
    return soundfile.read(path)[0]


def compute_spectrum_db(samples: Any) -> Any:
    """Return the power spectrum [513, frames] in dB below the loudest bin, a column each 5 ms."""
    import numpy as np
    from scipy.signal import stft

    _, _, bins = stft(samples, SAMPLE_RATE_HZ, nperseg=1024, noverlap=1024 - 120)
    # Silence has a logarithm, too.
    power_db = 20 * np.log10(np.abs(bins) + 1e-9)
    return power_db - power_db.max()


def compute_spectra_db() -> dict[str, Any]:
    """Return the spectrum of each recording that is drawn, at least -70 dB."""
    import numpy as np

    # mixed18 is a recording without a panel.
    names = [name for name in RECORDINGS if name != "mixed18"]
    # What is weaker nobody hears, and differences there would be of rounding.
    return {name: np.maximum(compute_spectrum_db(read_recording(name)), -70) for name in names}


def compute_distances_db() -> dict[str, str]:
    """Return how far each recording is from the original, in dB as the picture says it."""
    spectra = compute_spectra_db()
    original = spectra.pop("original")
    return {name: f"{abs(each - original).mean():.1f}" for name, each in spectra.items()}


def draw_spectrograms() -> Path:
    """Write docs/pictures/spectrograms.png: each recording, and its distance to the original."""
    import numpy as np

    plots = import_pyplot()
    spectra = compute_spectra_db()
    distances = compute_distances_db()
    names = list(spectra)
    seconds = len(read_recording("original")) / SAMPLE_RATE_HZ
    figure, axes = plots.subplots(len(names), 2, figsize=(11, 9), sharex=True, sharey=True)
    for row, name in enumerate(names):
        left, right = axes[row]
        difference = np.abs(spectra[name] - spectra["original"])
        distance = f"distance to the original: {distances.get(name)} dB"
        panels = (
            (left, spectra[name], "magma", -70, 0, RECORDINGS[name][2]),
            (right, difference, "viridis", 0, 20, distance),
        )
        # The original has no distance to itself.
        for axis, values, colors, low, high, title in panels[: 1 if name == "original" else 2]:
            image = axis.imshow(
                values, origin="lower", aspect="auto", cmap=colors, vmin=low, vmax=high,
                extent=(0, seconds, 0, SAMPLE_RATE_HZ / 2000),
            )  # fmt: skip
            axis.set_title(title, fontsize=10)
            axis.tick_params(labelsize=8)
            figure.colorbar(image, ax=axis, label="dB", pad=0.01)
        left.set_ylabel("kHz")
    axes[0][1].set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("seconds")
    return save_picture(figure, "spectrograms", distances)


def read_level_points() -> dict[str, tuple[float, float, str]]:
    """Read MB, MCD in dB and verdict of each level in the padded layout that has a verdict, and the
    MCD of another noise seed.
    """
    from figures import read_measurements

    points = {}
    for one in read_measurements():
        if one.table == "padded":
            size_mb, _, mcd_db, verdict = one.figure
            # Levels stand in backticks, and have a verdict.
            name = one.what.split("`")[1] if verdict.isupper() else SEED
            points[name] = (float(size_mb or 0), float(mcd_db.strip("*")), verdict)
    del points["p6a8"]  # undecided
    return points


def draw_levels() -> Path:
    """Write docs/pictures/levels.png: size and distance of each level, beside another seed's."""
    plots = import_pyplot()
    points = read_level_points()
    _, seed_mcd_db, _ = points[SEED]
    figure, axis = plots.subplots(figsize=(8, 4.2))
    for name, (size_mb, mcd_db, verdict) in points.items():
        # The other seed is the dashed line.
        if name == SEED:
            continue
        ships = verdict == "SHIP"
        color = "#1a7f4b" if ships else "#b3261e"
        axis.scatter(size_mb, mcd_db, color=color, marker="o" if ships else "x", s=50, zorder=3)
        # beside the dashed line, or beside another level of the same size
        below = 15 if name == "mixed18" else 8 if name in ("p8", "w8a8") else -4
        axis.annotate(name, (size_mb, mcd_db), xytext=(8, -below), textcoords="offset points")
    axis.axhline(seed_mcd_db, color=LINE, linestyle="--", linewidth=1)
    scale = "the 32-bit model, another noise seed"
    axis.text(112, seed_mcd_db + 0.04, scale, ha="right", color=LINE)
    axis.set_xlabel("vocoder package, MB")
    axis.set_ylabel("distance to the original, MCD in dB")
    axis.set(xlim=(20, 114), ylim=(-0.1, 2.6))
    axis.set_title("green dot: ships; red cross: rejected", fontsize=10)
    axis.grid(alpha=0.3)
    return save_picture(figure, "levels", points)


def read_chip_shares() -> dict[str, list[int]]:
    """Read for each layout the percentage of the arithmetic that stays on the engine of CHIPS."""
    from figures import read_measurements

    return {
        one.what.strip("`"): [int(cell.strip(" %")) for cell in one.figure]
        for one in read_measurements()
        if one.table == "chips"
    }


def draw_chips() -> Path:
    """Write docs/pictures/chips.png: shares on the engine, a group of bars for each chip."""
    plots = import_pyplot()
    shares = read_chip_shares()
    figure, axis = plots.subplots(figsize=(8, 3.4))
    for place, (layout, percents) in enumerate(shares.items()):
        # The middle bar of three stands over the chip's name.
        bars = axis.bar(
            [chip + 0.27 * (place - 1) for chip in range(len(CHIPS))], percents, 0.25, label=layout
        )
        axis.bar_label(bars, fontsize=8)
    axis.set_xticks(range(len(CHIPS)), CHIPS)
    axis.set(ylabel="% of the arithmetic", ylim=(0, 100))
    axis.set_title("forecast, pessimistic: stays on the Neural Engine at 13.5 s", fontsize=10)
    axis.legend(ncols=3, loc="upper center")
    return save_picture(figure, "chips", shares)


def import_pyplot() -> Any:
    """Import pyplot without a screen. Raises InputError where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        raise InputError('no matplotlib: pip install "kokoro-ane[plot]"') from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_picture(figure: Any, name: str, values: Any) -> Path:
    """Write the figure with the values that it shows, without the version of matplotlib."""
    from PIL import Image, PngImagePlugin

    path = PICTURES / f"{name}.png"
    shown = PngImagePlugin.PngInfo()
    shown.add_text("figures", json.dumps(values))
    figure.tight_layout()
    figure.savefig(path, dpi=80, metadata={"Software": None})
    # 256 colors: half the size
    colors = Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
    colors.save(path, optimize=True, pnginfo=shown)
    return path


def render_recordings(build: Path) -> list[Path]:
    """Write docs/samples: one judged sentence, rendered by each of RECORDINGS."""
    import soundfile

    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.eval import DECLARED, Reference, list_judged_clips, open_executable
    from kokoro_ane.quantize import PackageRequest
    from kokoro_ane.vocoder import render_reference

    checkpoint = open_checkpoint("kokoro-int8")
    reference = Reference(checkpoint, seed=0)
    clip = next(clip for clip in list_judged_clips(checkpoint) if clip.id == CLIP)
    paths = []
    for name, (method, other_seed, _) in RECORDINGS.items():
        inputs = reference.compute_inputs(clip, other_seed)
        if method is None:
            samples = render_reference(reference.vocoder, inputs)
        else:
            # A recording of a package that changed would not be what it is called.
            manifest = PackageRequest(checkpoint, build, method).load_verified()
            samples = open_executable(manifest.path, DECLARED).render(inputs)
        paths.append(SAMPLES / f"{name}.flac")
        soundfile.write(paths[-1], samples, SAMPLE_RATE_HZ, subtype="PCM_16")
    (SAMPLES / "SOURCE.txt").write_text(
        f"Real Kokoro weights (kokoro-int8, Apache-2.0), voice {clip.voice}, sentence {clip.id}:"
        f" “{clip.text}” Made by `python docs/pictures.py recordings`.\n",
        encoding="utf-8",
    )
    return paths


# what it shows, and how it is drawn
DRAWINGS: MappingProxyType[str, tuple[Callable[[], Any], Callable[[], Path]]] = MappingProxyType(
    {
        "spectrograms": (compute_distances_db, draw_spectrograms),
        "levels": (read_level_points, draw_levels),
        "chips": (read_chip_shares, draw_chips),
    }
)


@dataclass(frozen=True)
class PictureOptions(CommandOptions):
    """Which picture is made, and of which packages."""

    what: str = option("which of them to make", REQUIRED, "what", choices=(*DRAWINGS, "recordings"))
    build: Path = build_option()


@command
def main(argv: Sequence[str] | None = None) -> int:
    """The command itself."""
    options = parse(PictureOptions, "docs/pictures.py", __doc__, argv)
    if options.what == "recordings":
        paths = render_recordings(options.build)
    else:
        paths = [DRAWINGS[options.what][1]()]
    for path in paths:
        print(path.relative_to(DOCS.parent))
    report = {"files": [str(path.relative_to(DOCS.parent)) for path in paths]}
    return conclude(options, report, EXIT_GOOD, f"{len(paths)} written")


if __name__ == "__main__":
    raise SystemExit(main())
