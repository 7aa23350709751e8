"""A stage: all that the builder (core/build.py) has to know of one of the models to turn it into checked packages.

    class MyStage: ...                       # the attributes and methods below
    manifests = build(MyStage(...), Path("build"))

G2P (g2p/stage.py), Encoder (encoder/stage.py) and Vocoder, literal and windowed (vocoder/stage.py), are the instances.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core.export import TensorType
from core.facts import ProgramFacts
from core.figures import Figure
from core.output import Ours

if TYPE_CHECKING:
    import coremltools as ct
    from torch import Tensor, nn

MAIN = "main"  # what the only function of a package is called


@dataclass(frozen=True, eq=False)
class Function:
    """What is traced and converted. `keep_fp32`: submodules whose operations stay in fp32 when the precision is fp16."""

    module: "nn.Module"
    example: "tuple[Tensor, ...]"
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    keep_fp32: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One package of a stage: the stage's name in the manifest, the file's name, and contract function -> its name inside."""

    stage: str
    file: str
    functions: Mapping[str, str] = field(default_factory=lambda: {MAIN: MAIN})


@dataclass(frozen=True, eq=False)
class Kind:
    """What a stage is written as: a package, a file. `tools`: distributions that shape the bytes.

    `write`: the functions of a part to a path, and opened again, by contract name. `ours`: of a folder, see core.staging.
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
        """What function `name` is made of. Raises CheckFailed where it breaks a promise of the stage."""

    def figures(self, programs: Mapping[str, Any]) -> list[Figure]:
        """The executed functions against PyTorch, each figure beside its limit."""

    def contract(self, part: Part) -> dict[str, Any]:
        """The manifest's fields that only the stage knows: method, checkpoint, inputs, outputs, buckets and so on."""


class PackageStage(Stage, Protocol):
    """A stage that becomes Core ML packages."""

    def function(self, name: str) -> Function:
        """The contract function of that name."""

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """What is done to a converted model before it is saved; most stages do nothing."""
