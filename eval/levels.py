"""One compression level for the release table: its package found or built, judged, and described.

    level = judged_level(METHODS["w8"], "streaming", context)
    encoder = judged_encoder("w8g", context)
    level.verdict, level.bytes, level.record["summary"]

Packages are built by the same commands a user types. A level that cannot be built stays in the
table with the reason. Size, shares and forecasts are read off the package, never off its manifest;
a manifest that says otherwise is an InputError.
"""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kokoro_ane.core.checks import ProgramFacts, open_functions
from kokoro_ane.core.commands import QuantizeOptions
from kokoro_ane.core.contract import (
    DECODER,
    FEATURES,
    PADDED,
    STREAMED,
    UTTERANCE,
    WINDOW,
)
from kokoro_ane.core.data_files import conform
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.export import package_bytes
from kokoro_ane.core.manifest import Manifest, level_name
from kokoro_ane.eval import ENCODER
from kokoro_ane.eval.channel_gains import wrong_scales
from kokoro_ane.eval.execution import DECLARED, Execution, in_words
from kokoro_ane.eval.gates import FEWEST_CLIPS, gates_for
from kokoro_ane.eval.judge import ClipResult, Judgement, decided
from kokoro_ane.eval.provenance import commit, withheld
from kokoro_ane.eval.session import JudgeContext
from kokoro_ane.eval.verdict import UNDECIDED
from kokoro_ane.pipeline.package_builds import build_package
from kokoro_ane.quantize.genuine import require_genuine
from kokoro_ane.quantize.locator import (
    HALF,
    Request,
    built,
    built_encoder,
    find_package,
    missing,
)
from kokoro_ane.quantize.methods import Method, method_named
from kokoro_ane.runtimes.executorch import pte_file
from kokoro_ane.runtimes.onnx.onnx_file import SUFFIX
from kokoro_ane.runtimes.registry import PACKAGE
from kokoro_ane.runtimes.tvm import library
from kokoro_ane.vocoder.streaming.windows import fixed_windows
from mlprogram.examine.placement import forecast_placement
from mlprogram.examine.profile import OpenProgram, OpProfile, Profile, profile_program
from mlprogram.examine.rules import load_rules
from mlprogram.examine.storage import Storage

FORMAT = 3
# two seconds: the shape that placement is forecast for, where the package has it
FORECAST_FRAMES = 80
# by specification version, as coremltools.target counts
IOS = {6: "iOS15", 7: "iOS16", 8: "iOS17", 9: "iOS18"}
CONVOLUTIONS = ("conv", "conv_transpose")
SHARE_DIGITS = 5  # of int8_macs_share in a manifest


Runs = Sequence[tuple[Profile, int]]  # a function at its shapes, and how often it runs


def forecast_of(runs: Runs) -> dict[str, dict[str, float]]:
    """By chip: `engine_low` and `engine_high`, the shares of multiply-accumulates on the engine in
    the pessimistic and the optimistic reading of the rules.
    """
    rules = load_rules()
    macs = [count * sum(op.macs for op in profile.ops) for profile, count in runs]
    shares = {}
    for chip in rules.chips:
        placed = [forecast_placement(profile, rules, chip) for profile, _ in runs]
        low, high = (
            sum(share * part for share, part in zip(column, macs, strict=True)) / sum(macs)
            for column in (
                [each.lowest_share("macs") for each in placed],
                [each.optimistic.share("macs") for each in placed],
            )
        )
        shares[chip] = {"engine_low": low, "engine_high": high}
    return shares


def runs_of(programs: Mapping[str, OpenProgram], frames: int) -> tuple[Runs, int]:
    """What an utterance of about so many frames runs, and of how many: the shapes nearest to it; in
    the streaming layout, windows.
    """
    if WINDOW not in programs:
        (program,) = programs.values()
        nearest = _nearest(program, frames)
        return [(profile_program(program, nearest), 1)], frames_of(nearest)
    decoder = _nearest(programs[DECODER], frames)
    frames = frames_of(decoder)
    sizes = tuple(choice[FEATURES][-1] - 1 for choice in programs[WINDOW].all_shapes())
    measured = programs[UTTERANCE].all_shapes()[-1][FEATURES][-1] - 1
    used = (
        Counter(window.frames for window in fixed_windows(frames, sizes, early=False))
        if frames > measured
        else Counter[int]()
    )
    found = [(profile_program(programs[DECODER], decoder), 1)]
    if not used:
        found.append(
            (profile_program(programs[UTTERANCE], _nearest(programs[UTTERANCE], frames)), 1)
        )
    return (
        found
        + [
            (profile_program(programs[WINDOW], _nearest(programs[WINDOW], size)), count)
            for size, count in used.items()
        ],
        frames,
    )


def _nearest(program: OpenProgram, frames: int) -> dict[str, tuple[int, ...]]:
    choices = (
        program.all_shapes()
        if any(len(spec.shapes) > 1 for spec in program.inputs.values())
        else [program.shapes({})]
    )
    return min(choices, key=lambda choice: abs(frames_of(choice) - frames))


def frames_of(choice: Mapping[str, tuple[int, ...]]) -> int:
    """Frames of audio that a shape of `features` holds: a bucket."""
    return choice[FEATURES][-1] - 1


@dataclass(frozen=True)
class PackageFacts:
    """Facts of one vocoder package. `forecast`: forecast_of, by chip."""

    bytes: int
    int8_macs_share: float
    stored_bytes: dict[str, int]  # by kind of weight: fp16, linear int8, palette 6-bit
    operations: dict[str, int]
    minimum_ios: str
    forecast: dict[str, dict[str, float]]

    @classmethod
    def read(cls, package: Path, frames: int) -> "PackageFacts":
        """Of a package on disk; costs are counted at the shape nearest to `frames` frames, shares
        at the smallest.
        """
        programs = {program.function.name: program for program in open_functions(package)}
        runs, _ = runs_of(programs, frames)
        smallest = [profile for profile, _ in runs_of(programs, 0)[0]]
        version = next(iter(programs.values())).package.spec.specificationVersion
        operations = (
            op.op_type for program in programs.values() for op in program.function.body.walk()
        )
        stored = {
            f"{name}/{key}": weight
            for name, program in programs.items()
            for key, weight in program.storage.weights.items()
        }
        return cls(
            bytes=package_bytes(package),
            int8_macs_share=int8_share(smallest),
            stored_bytes=Storage(stored).bytes_by_kind(),
            operations=dict(
                sorted(Counter(name for name in operations if name != "const").items())
            ),
            minimum_ios=IOS.get(version, f"specification {version}"),
            forecast=forecast_of(runs),
        )

    @classmethod
    def of(cls, data: dict[str, Any], where: str) -> "PackageFacts":
        """From what `asdict` gave."""
        conform(data, cls, where)
        return cls(**data)

    def require_told(self, manifest: Manifest) -> None:
        """Raise InputError where the manifest says something else than the package."""
        computing = {
            name: count
            for name, count in self.operations.items()
            if not name.startswith("constexpr_")
        }
        compressed = manifest.compression != {}
        told = {
            "package_bytes": (manifest.package_bytes, self.bytes),
            "target": (manifest.target, self.minimum_ios),
            "operations": (manifest.operations, self.operations if compressed else computing),
        }
        if compressed:
            told["compression.int8_macs_share"] = (
                manifest.compression.get("int8_macs_share"),
                self.int8_macs_share,
            )
        for name, (said, found) in told.items():
            if said != found:
                raise InputError(
                    f"{manifest.path} says {name} {str(said)[:60]}, the package itself"
                    f" {str(found)[:60]}: the manifest was edited; run"
                    f" `{QuantizeOptions(manifest.method, layout=manifest.layout).command}` again"
                )


def int8_share(profiles: Sequence[Profile]) -> float:
    """Share of the convolutions' multiply-accumulates done on integer weights and integer
    inputs.
    """
    integer = whole = 0
    for profile in profiles:
        makers = {tensor.name: op.op_type for op in profile.ops for tensor in op.outputs}
        convolutions = [op for op in profile.ops if op.op_type in CONVOLUTIONS]
        integer += sum(op.macs for op in convolutions if _is_int8(op, makers))
        whole += sum(op.macs for op in convolutions)
    return round(integer / whole, SHARE_DIGITS)


def _is_int8(op: OpProfile, makers: dict[str, str]) -> bool:
    weight = op.op.inputs["weight"][0]
    kind = next((stored.kind for stored in op.weights if stored.tensor.name == weight), "")
    return "linear" in kind and "int8" in kind and makers.get(op.op.inputs["x"][0]) == "dequantize"


def facts_of(path: Path, frames: int) -> PackageFacts:
    """Of a package or file on disk. Only a package has a forecast: nothing else runs on the Neural
    Engine.
    """
    if path.suffix == pte_file.SUFFIX:
        return _compiled(path, pte_file.facts(pte_file.PteProgram(path, (), ())), pte_file.TARGET)
    if path.suffix == library.SUFFIX:
        return _compiled(path, library.facts(library.TvmProgram(path, (), ())), library.TARGET)
    return _onnx(path) if path.suffix == SUFFIX else PackageFacts.read(path, frames)


def _compiled(path: Path, facts: ProgramFacts, target: str) -> PackageFacts:
    """A compiler's own code and layout of weights, float32: entries and bytes are all that can be
    read.
    """
    size = path.stat().st_size
    return PackageFacts(size, 0.0, {"compiled float32": size}, dict(facts.operations), target, {})


def _onnx(path: Path) -> PackageFacts:
    import onnx

    from kokoro_ane.runtimes.onnx.onnx_file import counted, files_in, int8_macs_share

    models = [onnx.load(file) for file in files_in(path)]
    stored: Counter[str] = Counter()
    for tensor in (tensor for model in models for tensor in model.graph.initializer):
        stored[onnx.TensorProto.DataType.Name(tensor.data_type).lower()] += len(tensor.raw_data)
    return PackageFacts(
        bytes=package_bytes(path),
        int8_macs_share=int8_macs_share(models),
        stored_bytes=dict(sorted(stored.items())),
        operations=counted(path),
        minimum_ios=f"ONNX opset {models[0].opset_import[0].version}",
        forecast={},
    )


def full_record(
    judgement: Judgement,
    manifests: Sequence[Manifest],
    context: JudgeContext,
    size_bytes: int,
    facts: PackageFacts | None = None,
) -> dict[str, Any]:
    """Provenance, decision, summary, what the package is, and every clip's figures. `manifests`: of
    all that was executed, what was judged first.
    """
    why, first, execution = withheld(context.checkpoint), manifests[0], context.execution
    return {
        "format": FORMAT,
        "stage": execution.stage,
        "method": judgement.method,
        "releasable": why is None and all(manifest.releasable for manifest in manifests),
        "withheld": why,
        **judgement.record(),
        "facts": asdict(facts) if facts else None,
        "provenance": {
            "package": first.package,
            "package_sha256": first.package_sha256,
            "packages": {manifest.package: manifest.package_sha256 for manifest in manifests},
            "package_bytes": size_bytes,
            "checkpoint": first.checkpoint,
            "seed": context.reference.seed,
            "precision": execution.precision,
            "features": execution.features,
            "set": context.texts,
            "fewest_clips": FEWEST_CLIPS,
            "commit": commit(),
            "libraries": context.store.key["libraries"],
        },
    }


def short_record(record: dict[str, Any], out: Path) -> dict[str, Any]:
    """One line's worth: verdict, broken gates, summary, where the rest is."""
    names = ("stage", "method", "verdict", "releasable", "broken", "reasons")
    return {name: record[name] for name in names} | {
        "summary": {
            name: {
                column: value if value is None else round(value, 4) for column, value in row.items()
            }
            for name, row in record["summary"].items()
        },
        "clips": len(record["clips"]),
        "package_sha256": record["provenance"]["package_sha256"],
        "file": str(out),
    }


@dataclass(frozen=True)
class JudgedLevel:
    """A row of the release table. `failed`: why there is no package; then nothing else is known."""

    method: str
    title: str
    unfit: str | None = None
    failed: str | None = None
    manifest: Manifest | None = None
    facts: PackageFacts | None = None
    record: dict[str, Any] = field(default_factory=dict)
    judgement: Judgement | None = None

    @property
    def verdict(self) -> str:
        """SHIP, REJECT or UNDECIDED; a level without a package is undecided."""
        return self.record.get("verdict", UNDECIDED)

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return self.facts.bytes if self.facts else 0

    @property
    def forecast(self) -> dict[str, dict[str, float]]:
        """By chip: forecast_of."""
        return self.facts.forecast if self.facts else {}


def judged_levels(context: JudgeContext, names: Sequence[tuple[Method, str]]) -> list[JudgedLevel]:
    """Every level of a method and a layout; one line on stderr as each is done."""
    levels: list[JudgedLevel] = []
    for method, layout in names:
        start = time.monotonic()
        levels.append(judged_level(method, layout, context))
        outcome, took = levels[-1].failed or levels[-1].verdict, in_words(time.monotonic() - start)
        count = f"{len(levels)} of {len(names)} levels"
        print(f"{levels[-1].method}: {outcome} ({took}; {count})", file=sys.stderr)
    return levels


def request_of(context: JudgeContext, method: str, layout: str) -> Request:
    """The package of that level, where this judgement looks for packages."""
    return Request(context.checkpoint, context.build, method, layout, source=context.source)


def judged_level(method: Method, layout: str, context: JudgeContext) -> JudgedLevel:
    """Find or build the package, judge its clips (those measured before are read), read its facts.

    A package of another checkpoint, or one that differs from its manifest, is an InputError: it is
    never built over.
    """
    failed = missing(method, layout, context.checkpoint, context.build)
    if failed and context.may_build:
        try:
            built(request_of(context, method.name, layout), build_package)
            failed = None
        except (InputError, CheckFailed) as problem:
            failed = f"not built: {problem}"
    if failed:
        name = level_name(method.name, layout)
        context.progress.step(name, len(context.clips))
        return JudgedLevel(name, method.title, method.unfit_for_engine, failed=failed)
    return judged_package(
        method, find_package(context.build, context.checkpoint, method, layout), context
    )


def judged_package(method: Method, manifest: Manifest, context: JudgeContext) -> JudgedLevel:
    """Judge a vocoder's package that is there. InputError for one that is not what its name says
    (quantize/genuine.py).
    """
    require_genuine(manifest, level_name(method.name, manifest.layout))
    facts = known_facts(manifest, context)
    wrong = wrong_channels(method, manifest, context)
    gates = gates_for(method.name, manifest.layout)
    results = measured_clips(manifest.level, manifest, context)
    judgement = decided(method.name, results, context.claim, wrong, gates)
    record = full_record(judgement, [manifest], context, facts.bytes, facts)
    return JudgedLevel(
        manifest.level,
        method.title,
        method.unfit_for_engine,
        None,
        manifest,
        facts,
        record,
        judgement,
    )


def judged_encoder(name: str, context: JudgeContext) -> JudgedLevel:
    """Find or build an encoder's level and judge it. Raises as built_encoder."""
    request = replace(request_of(context, HALF, PADDED), encoder=name)
    paths = built_encoder(request, build_package if context.may_build else None)
    manifests = [Manifest.load(path) for path in paths]
    for manifest in manifests:
        manifest.verify()
    context = replace(context, execution=Execution.of(DECLARED, paths, ENCODER))
    results = measured_clips(name, manifests[0], context)
    judgement = decided(name, results, context.claim, gates=gates_for(name, stage=ENCODER))
    size_bytes = sum(manifest.package_bytes for manifest in manifests)
    record = full_record(judgement, manifests, context, size_bytes)
    return JudgedLevel(
        name, f"encoder {name}", manifest=manifests[0], record=record, judgement=judgement
    )


def known_facts(manifest: Manifest, context: JudgeContext) -> PackageFacts:
    """Of its package, read once. InputError where the manifest says otherwise."""
    name = f"facts-{manifest.package_sha256[:16]}"
    cached = context.store.figures(
        name, lambda: asdict(facts_of(manifest.package_path, FORECAST_FRAMES))
    )
    facts = PackageFacts.of(cached, f"{context.store.folder}: facts of {manifest.package}")
    facts.require_told(manifest)
    return facts


def wrong_channels(method: Method, manifest: Manifest, context: JudgeContext) -> list[str]:
    """Layers of a compressed package whose channels have another scale than its parent's
    (eval/channel_gains.py). InputError where the parent is not in the build folder; nothing is read
    of the streaming layout's three functions and of files that are no packages.
    """
    if (
        method.parent is None
        or manifest.layout in STREAMED
        or manifest.package_path.suffix != PACKAGE
    ):
        return []
    parent = find_package(
        context.build, context.checkpoint, method_named(method.parent), manifest.layout
    )
    name = f"channels-{manifest.package_sha256[:16]}-{parent.package_sha256[:16]}"
    balanced = method.balances
    figures = context.store.figures(
        name,
        lambda: {"wrong": list(wrong_scales(parent.package_path, manifest.package_path, balanced))},
    )
    return list(figures["wrong"])


def measured_clips(name: str, manifest: Manifest, context: JudgeContext) -> list[ClipResult]:
    """Figures of every clip, measured at most once, in the clips' order. `manifest`: the vocoder's,
    or the encoder's where that is judged; `name`: for the progress display.
    """
    store, sha256, execution = context.store, manifest.package_sha256, context.execution
    results = {
        clip.id: result
        for clip in context.clips
        if (result := store.clip_result(sha256, execution, clip)) is not None
    }
    open_ends = [clip for clip in context.clips if clip.id not in results]
    context.progress.begin(name, len(results), open_ends, context.workers.count)
    variations = {
        clip.id: variation
        for clip in open_ends
        if (variation := store.variation(clip, execution.stage)) is not None
    }
    measured = context.workers.measure(manifest.path, execution, open_ends, variations)
    for clip, result, seconds in measured:
        results[clip.id] = store.keep_clip(sha256, execution, clip, result)
        if clip.id not in variations:
            store.keep_variation(clip, result.variation, execution.stage)
        context.progress.measured(name, clip, seconds)
    return [results[clip.id] for clip in context.clips]
