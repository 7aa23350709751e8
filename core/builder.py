"""A stage: all that the builder (core/builder.py) has to know of one of the models to turn it into
checked packages.

    class MyStage: ...                       # the attributes and methods below
    manifests = build(MyStage(...), Path("build"))

G2P (g2p/g2p_stage.py), Encoder (encoder/encoder_stage.py) and Vocoder (vocoder/vocoder_stage.py),
are the instances.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kokoro_ane.core.checks import Check, ProgramFacts
from kokoro_ane.core.config import not_releasable
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.export import TensorType, convert, package_of_ours, save_functions
from kokoro_ane.core.manifest import (
    MANIFEST_FILE,
    PACKAGE_FILE,
    PACKAGE_TOOLS,
    Manifest,
    describe_package,
    tool_versions,
)
from kokoro_ane.core.process import temporary_files_in
from kokoro_ane.core.staging import Ours, staged_together
from mlprogram import Program

if TYPE_CHECKING:
    import coremltools as ct
    from torch import Tensor, nn


MAIN = "main"  # what the only function of a package is called


@dataclass(frozen=True, eq=False)
class Function:
    """What is traced and converted. `keep_fp32`: submodules whose operations stay in fp32 when the
    precision is fp16.
    """

    module: "nn.Module"
    example: "tuple[Tensor, ...]"
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    keep_fp32: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One package of a stage: the stage's name in the manifest, the file's name, and contract
    function -> its name inside.
    """

    stage: str
    file: str
    functions: Mapping[str, str] = field(default_factory=lambda: {MAIN: MAIN})


@dataclass(frozen=True, eq=False)
class Kind:
    """What a stage is written as: a package, a file. `tools`: distributions that shape the bytes.

    `write`: the functions of a part to a path, and opened again, by contract name. `ours`: of a
    folder, see core.staging.
    """

    suffix: str
    tools: tuple[str, ...]
    write: Callable[[Any, Part, Path], dict[str, Any]]
    ours: Ours | None = None


class Stage(Protocol):
    """One model at one precision for one deployment target."""

    @property
    def precision(self) -> str:
        """fp16 or fp32; of the G2P: w8 or fp16."""

    @property
    def target(self) -> str:
        """iOS17 or iOS18; of another kind of file what it asks of its reader."""

    def parts(self) -> tuple[Part, ...]:
        """The packages; one, but for an encoder of iOS 17, which knows no functions."""

    def facts(self, name: str, program: Any) -> ProgramFacts:
        """What function `name` is made of. Raises CheckFailed where it breaks a promise of the
        stage.
        """

    def figures(self, programs: Mapping[str, Any]) -> list[Check]:
        """The executed functions against PyTorch, each figure beside its limit."""

    def contract(self, part: Part) -> dict[str, Any]:
        """The manifest's fields that only the stage knows: method, checkpoint, inputs, outputs,
        buckets and so on.
        """


class PackageStage(Stage, Protocol):
    """A stage that becomes Core ML packages."""

    def function(self, name: str) -> Function:
        """The contract function of that name."""

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """What is done to a converted model before it is saved; most stages do nothing."""


def build(stage: Stage, out: Path, kind: Kind | None = None) -> tuple[Manifest, ...]:
    """Write the stage's packages into `out`, or another kind of file.

    Raises CheckFailed: a broken promise or a missed limit; InputError: bad input.
    """
    kind = kind or PACKAGE
    parts = stage.parts()
    ours = kind.ours or PACKAGE_FILE
    targets = [
        [(out / f"{part.file}{kind.suffix}", ours), (out / f"{part.file}.json", MANIFEST_FILE)]
        for part in parts
    ]
    with staged_together(*chain(*targets)) as places, temporary_files_in(places[0].parents[1]):
        # package, manifest
        aside = dict(
            zip(
                (part.file for part in parts),
                zip(places[::2], places[1::2], strict=True),
                strict=True,
            )
        )
        programs: dict[str, Any] = {}
        for part in parts:
            programs |= kind.write(stage, part, aside[part.file][0])
        facts = {name: stage.facts(name, program) for name, program in programs.items()}
        figures = all_held(stage.figures(programs))
        manifests = [
            manifest_of(stage, part, figures, facts, aside[part.file][0], kind).save(
                aside[part.file][1]
            )
            for part in parts
        ]
    return tuple(
        replace(manifest, path=out / f"{part.file}.json")
        for part, manifest in zip(parts, manifests, strict=True)
    )


def _written(stage: PackageStage, part: Part, path: Path) -> dict[str, Program]:
    """Convert the part's functions, save them as `path` and open what was saved, by contract
    name.
    """
    models = {}
    for name, inside in part.functions.items():
        models[inside] = stage.finish(
            converted(stage.function(name), stage.precision, stage.target)
        )
    save_functions(models, path)
    return {name: Program(path, function=inside) for name, inside in part.functions.items()}


PACKAGE = Kind(".mlpackage", PACKAGE_TOOLS, _written, package_of_ours)


def converted(function: Function, precision: str, target: str) -> "ct.models.MLModel":
    """One function as a Core ML model."""
    inputs, outputs = list(function.inputs), list(function.outputs)
    fp32_operations = function.keep_fp32
    return convert(
        function.module,
        function.example,
        inputs=inputs,
        outputs=outputs,
        precision=precision,
        keep_fp32=fp32_operations,
        target=target,
    )


def all_held(figures: list[Check]) -> list[Check]:
    """The figures, or CheckFailed naming the first that misses its limit."""
    for figure in figures:
        if not figure.holds:
            value, limit = figure.text()
            raise CheckFailed(f"{figure.name} is {value}, limit {limit}; the package was not kept")
    return figures


def manifest_of(
    stage: Stage,
    part: Part,
    figures: list[Check],
    facts: Mapping[str, ProgramFacts],
    package: Path,
    kind: Kind = PACKAGE,
) -> Manifest:
    """Describe a package under the name that it will have."""
    facts_of_functions = {name: facts[name] for name in part.functions}
    operations: dict[str, int] = {}
    for function_facts in facts_of_functions.values():
        for op_type, count in function_facts.operations.items():
            operations[op_type] = operations.get(op_type, 0) + count
    checks = {
        "figures": [asdict(figure) for figure in figures],
        "structure": {
            name: function_facts.as_dict() for name, function_facts in facts_of_functions.items()
        },
    }
    return Manifest(
        stage=part.stage,
        precision=stage.precision,
        target=stage.target,
        functions=dict(part.functions),
        operations=dict(sorted(operations.items())),
        checks=checks,
        tools=tool_versions(kind.tools),
        **stage.contract(part),
        **describe_package(package),
    )


def print_report(manifests: tuple[Manifest, ...]) -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    first = manifests[0]
    titles = ", ".join(
        f"{manifest.package} {manifest.package_bytes / 1e6:.1f} MB" for manifest in manifests
    )
    table = Table(
        title=f"{titles}  {len(first.buckets)} lengths, {first.target}", title_justify="left"
    )
    for heading in ("check on the executed package", "figure", "limit", ""):
        table.add_column(heading)
    for figure in first.checks["figures"]:
        table.add_row(figure["name"], *Check(**figure).text(), "holds")
    for manifest in manifests:
        for name, structure in manifest.checks["structure"].items():
            forbidden = sum(structure["forbidden"].values())
            table.add_row(
                f"operations of `{name}`; forbidden ones",
                f"{structure['count']}; {forbidden}",
                "; 0",
                "holds",
            )
    Console().print(table)
    if not first.releasable:
        print(not_releasable(first.checkpoint["name"]))
    report = {
        "manifests": [str(manifest.path) for manifest in manifests],
        "package_bytes": sum(m.package_bytes for m in manifests),
    }
    print(json.dumps(report | {"releasable": first.releasable, "checks": first.checks}))
