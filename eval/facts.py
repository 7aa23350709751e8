"""What a package or file is made of, for the release table and the report: bytes by kind of weight,
operations, and where the rules of a chip place them.

    facts = read_facts(manifest)
    facts.stored_bytes, facts.forecast["m1"]["engine_low"]
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.core import DECODER, FEATURES, UTTERANCE, WINDOW, Manifest, open_functions
from kokoro_ane.runtimes import PACKAGE, RUNTIMES
from mlprogram import OpenProgram, Profile, Storage, forecast_placement, load_rules, profile_program

# two seconds: the shape that placement is forecast for, where the package has it
FORECAST_FRAMES = 80


def compute_forecast(
    programs: Mapping[str, OpenProgram], frames: int
) -> dict[str, dict[str, float]]:
    """By chip: `engine_low` and `engine_high`, the shares of multiply-accumulates on the engine in
    the pessimistic and the optimistic reading of the rules, of an utterance of about `frames`.
    """
    # A share is one of multiply-accumulates, since operations differ by orders of magnitude.
    rules = load_rules()
    runs = list_runs(programs, frames)
    # Each run counts by its multiply-accumulates, times how often it is run.
    macs = [count * sum(op.macs for op in profile.ops) for profile, count in runs]
    shares = {}
    for chip in rules.chips:
        low = high = 0.0
        for (profile, _), weight in zip(runs, macs, strict=True):
            placed = forecast_placement(profile, rules, chip)
            low += placed.lowest_share("macs") * weight
            high += placed.optimistic.share("macs") * weight
        shares[chip] = {"engine_low": low / sum(macs), "engine_high": high / sum(macs)}
    return shares


def list_runs(programs: Mapping[str, OpenProgram], frames: int) -> list[tuple[Profile, int]]:
    """Return the programs that an utterance of about `frames` frames runs, each with its count: at
    the shape nearest to it; in the streaming layout the decoder and its windows.
    """

    def find_nearest(program: OpenProgram, frames: int) -> dict[str, tuple[int, ...]]:
        return min(program.all_shapes(), key=lambda shapes: abs(count_frames(shapes) - frames))

    def run(name: str, frames: int, count: int = 1) -> tuple[Profile, int]:
        return profile_program(programs[name], find_nearest(programs[name], frames)), count

    if WINDOW not in programs:
        return [run(name, frames) for name in programs]
    frames = count_frames(find_nearest(programs[DECODER], frames))
    # What the statistics are measured over is run whole; only what is longer runs in windows.
    if frames <= count_frames(programs[UTTERANCE].all_shapes()[-1]):
        return [run(DECODER, frames), run(UTTERANCE, frames)]
    from kokoro_ane.vocoder import cut_windows

    # All windows have the longest size, but for the last, which may have a shorter one.
    sizes = tuple(count_frames(shapes) for shapes in programs[WINDOW].all_shapes())
    counts = Counter(window.frames for window in cut_windows(frames, sizes, early=False))
    return [run(DECODER, frames), *(run(WINDOW, size, count) for size, count in counts.items())]


def count_frames(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the frames of audio that a shape of `features` holds: a bucket."""
    # the last axis holds F + 1 columns
    return shapes[FEATURES][-1] - 1


@dataclass(frozen=True)
class PackageFacts:
    """What the table and the report say of one vocoder package. `forecast`: compute_forecast, by
    chip.
    """

    bytes: int
    int8_macs_share: float
    stored_bytes: dict[str, int]  # by kind of weight: fp16, linear int8, palette 6-bit
    operations: dict[str, int]
    minimum_ios: str
    forecast: dict[str, dict[str, float]]


def read_facts(manifest: Manifest, frames: int = FORECAST_FRAMES) -> PackageFacts:
    """Facts of a package or file. Only a package has a forecast, for about `frames` frames: nothing
    else runs on the Neural Engine.
    """
    path = manifest.package_path
    forecast = {}
    if path.suffix == PACKAGE:
        programs = {program.function.name: program for program in open_functions(path)}
        # Names are told apart by function: two functions may name their weights alike.
        weights = {
            f"{name}/{key}": weight
            for name, program in programs.items()
            for key, weight in program.storage.weights.items()
        }
        stored_bytes = Storage(weights).bytes_by_kind()
        forecast = compute_forecast(programs, frames)
    elif path.suffix == RUNTIMES["onnx"].files:
        stored_bytes = count_initializer_bytes(path)
    else:
        # A compiler has its own layout of weights, which cannot be read.
        stored_bytes = {"compiled float32": manifest.package_bytes}
    return PackageFacts(
        bytes=manifest.package_bytes,
        int8_macs_share=manifest.compression.get("int8_macs_share", 0.0),
        stored_bytes=stored_bytes,
        operations=manifest.operations,
        minimum_ios=manifest.target,
        forecast=forecast,
    )


def count_initializer_bytes(path: Path) -> dict[str, int]:
    """Bytes of an .onnx file's weights by kind of number; of a folder, over its files."""
    import onnx

    from kokoro_ane.runtimes import files_in

    stored = Counter[str]()
    for file in files_in(path):
        for tensor in onnx.load(file).graph.initializer:
            kind = onnx.TensorProto.DataType.Name(tensor.data_type).lower()
            stored[kind] += len(tensor.raw_data)
    return dict(sorted(stored.items()))
