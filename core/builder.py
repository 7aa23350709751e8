"""A stage: all that the builder (core/builder.py) has to know of one of the models to turn it into
checked packages.

    class MyStage: ...                       # the attributes and methods below
    manifests = build_packages(MyStage(...), Path("build"))

G2P (pipeline/g2p_stage.py), Encoder (encoder/encoder_stage.py) and Vocoder
(vocoder/vocoder_stage.py) are the instances.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kokoro_ane.core.checks import Check, ProgramFacts
from kokoro_ane.core.commands import print_table
from kokoro_ane.core.config import not_releasable
from kokoro_ane.core.contract import MAIN
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.export import FunctionSpec, convert, save_functions
from kokoro_ane.core.manifest import (
    MANIFEST_FILE,
    PACKAGE_FILE,
    PACKAGE_TOOLS,
    Manifest,
    describe_package,
    package_name,
    package_of_ours,
    tool_versions,
)
from kokoro_ane.core.package_notes import write_notes
from kokoro_ane.core.process import put_temporary_files_in
from kokoro_ane.core.staging import Ours, staged_together
from mlprogram import Program

if TYPE_CHECKING:
    import coremltools as ct

    from kokoro_ane.core.checkpoint import Checkpoint


BUILD_KEY = "build_sha256"  # of a manifest's tools


@dataclass(frozen=True)
class Artifact:
    """One package of a stage: the stage's name in the manifest, the file's name, and contract
    function -> its name inside.
    """

    stage: str
    file: str
    functions: Mapping[str, str] = field(default_factory=lambda: {MAIN: MAIN})


@dataclass(frozen=True, eq=False)
class Kind:
    """What a stage is written as: a package, a file. `tools`: distributions that shape the bytes.

    `write`: the functions of an artifact to a path, and opened again, by contract name. `ours`: of
    a folder, see core.staging. `annotate`: write what people read into a checked file.
    """

    suffix: str
    tools: tuple[str, ...]
    write: Callable[[Any, Artifact, Path], dict[str, Any]]
    ours: Ours | None = None
    annotate: Callable[[Path, str, Mapping[str, Any]], None] | None = None


class Stage(Protocol):
    """One model at one precision for one deployment target."""

    @property
    def precision(self) -> str:
        """fp16 or fp32; of the G2P: w8 or fp16."""

    @property
    def target(self) -> str:
        """iOS17 or iOS18; of another kind of file what it asks of its reader."""

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """The packages; one, but for an encoder of iOS 17, which knows no functions."""

    def check_program(self, name: str, program: Any) -> ProgramFacts:
        """What function `name` is made of. Raises CheckFailed where it breaks a promise of the
        stage.
        """

    def measure_figures(self, programs: Mapping[str, Any]) -> list[Check]:
        """The executed functions against PyTorch, each figure beside its limit."""

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """The manifest's fields that only the stage knows: method, checkpoint, inputs, outputs,
        buckets and so on.
        """


class CheckpointStage:
    """What the stages of one checkpoint share."""

    checkpoint: "Checkpoint"
    precision: str

    def make_artifact(self, stage: str, level: str, functions: Mapping[str, str]) -> Artifact:
        """One package, called after the stage, the checkpoint and the level."""
        name = package_name(stage, self.checkpoint.name, self.checkpoint.releasable, level)
        return Artifact(stage, name, functions)

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """Return the converted model as it is."""
        return model

    def describe_provenance(self) -> dict[str, Any]:
        """The manifest's fields that say what a package was made from."""
        return {
            "method": self.precision,
            "checkpoint": self.checkpoint.as_source,
            # fp32 is the reference that others are measured by
            "releasable": self.checkpoint.releasable and self.precision != "fp32",
            "hidden_dim": self.checkpoint.config.hidden_dim,
        }


class PackageStage(Stage, Protocol):
    """A stage that becomes Core ML packages."""

    def make_function(self, name: str) -> FunctionSpec:
        """The contract function of that name."""

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """What is done to a converted model before it is saved."""


def build_packages(
    stage: Stage, out: Path, kind: Kind | None = None, key: str = ""
) -> tuple[Manifest, ...]:
    """Write the stage's packages into `out`, or another kind of file. `key`: the hash of all that
    they are made from, by which a later build knows them.

    Raises CheckFailed: a broken promise or a missed limit; InputError: bad input.
    """
    kind = kind or PACKAGE
    artifacts = stage.list_artifacts()
    targets: list[tuple[Path, Ours | None]] = []
    for artifact in artifacts:
        targets.append((out / f"{artifact.file}{kind.suffix}", kind.ours or PACKAGE_FILE))
        targets.append((out / f"{artifact.file}.json", MANIFEST_FILE))
    manifests = []
    # A package whose checks fail never stands under its name, and neither does its manifest.
    with staged_together(*targets) as places, put_temporary_files_in(places[0].parents[1]):
        # Targets come in pairs, a package before its manifest, and so do their places.
        packages, asides = places[::2], places[1::2]  # what is written, and its manifest
        programs: dict[str, Any] = {}
        for artifact, package in zip(artifacts, packages, strict=True):
            programs |= kind.write(stage, artifact, package)
        facts = {name: stage.check_program(name, program) for name, program in programs.items()}
        # Raises before anything is described, so a package that misses a limit has no manifest.
        figures = all_held(stage.measure_figures(programs))
        for artifact, package, aside in zip(artifacts, packages, asides, strict=True):
            # over all functions of the package; `structure` has them one by one
            operations: Counter[str] = Counter()
            for name in artifact.functions:
                operations.update(facts[name].operations)
            checks = {
                "figures": [asdict(figure) for figure in figures],
                "structure": {name: facts[name].as_dict() for name in artifact.functions},
            }
            contract = stage.describe_artifact(artifact)
            if kind.annotate:
                kind.annotate(package, artifact.stage, contract)
            manifest = Manifest(
                stage=artifact.stage,
                precision=stage.precision,
                target=stage.target,
                functions=dict(artifact.functions),
                operations=dict(sorted(operations.items())),
                checks=checks,
                tools=tool_versions(kind.tools) | ({BUILD_KEY: key} if key else {}),
                # Where the manifest will stand; `save` still writes it aside.
                path=out / f"{artifact.file}.json",
                **contract,
                **describe_package(package),
            )
            manifest.save(aside)
            manifests.append(manifest)
    return tuple(manifests)


def _write(stage: PackageStage, artifact: Artifact, path: Path) -> dict[str, Program]:
    """Convert the artifact's functions, save them as `path` and open what was saved, by contract
    name.
    """
    models = {}
    for name, inside in artifact.functions.items():
        models[inside] = stage.finish(
            convert(stage.make_function(name), stage.precision, stage.target)
        )
    save_functions(models, path)
    return {name: Program(path, function=inside) for name, inside in artifact.functions.items()}


PACKAGE = Kind(".mlpackage", PACKAGE_TOOLS, _write, package_of_ours, write_notes)


def current(paths: tuple[Path, ...], key: str) -> tuple[Manifest, ...]:
    """Return the manifests at `paths` where all have this key and their packages are whole; else
    none.
    """
    try:
        manifests = tuple(map(Manifest.load, paths))
        for manifest in manifests:
            manifest.verify()
    except InputError:
        return ()
    # All or none: packages of two builds need not fit together.
    return manifests if all(one.tools.get(BUILD_KEY) == key for one in manifests) else ()


def all_held(figures: list[Check]) -> list[Check]:
    """Return the figures. Raises CheckFailed naming the first that misses its limit."""
    for figure in figures:
        if not figure.holds:
            value, limit = figure.text()
            raise CheckFailed(f"{figure.name} is {value}, limit {limit}; the package was not kept")
    return figures


def print_report(manifests: tuple[Manifest, ...]) -> dict[str, Any]:
    """Print the checks as a table; returns the report."""
    first = manifests[0]
    titles = ", ".join(
        f"{manifest.package} {manifest.package_bytes / 1e6:.1f} MB" for manifest in manifests
    )
    rows = [
        (figure["name"], *Check(**figure).text(), "holds") for figure in first.checks["figures"]
    ]
    for manifest in manifests:
        for name, structure in manifest.checks["structure"].items():
            counts = f"{structure['count']}; {sum(structure['forbidden'].values())}"
            rows.append((f"operations of `{name}`; forbidden ones", counts, "; 0", "holds"))
    print_table(
        f"{titles}  {len(first.buckets)} lengths, {first.target}",
        ("check on the executed package", "figure", "limit", ""),
        rows,
    )
    if not first.releasable:
        print(not_releasable(first.checkpoint["name"]))
    report = {
        "manifests": [str(manifest.path) for manifest in manifests],
        "package_bytes": sum(m.package_bytes for m in manifests),
    }
    return report | {"releasable": first.releasable, "checks": first.checks}
