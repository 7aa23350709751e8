"""What a package is, read off the package and never off its manifest: size, weights, integer share, oldest iOS, forecasts.

facts = PackageFacts.read(manifest.package_path, frames=80)
facts.require_told(manifest)       # InputError names the first thing that the manifest says otherwise
"""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.commands import quantize_command
from core.contract import FEATURES
from core.errors import InputError
from core.export import package_bytes
from core.manifest import Manifest
from core.schema import conform
from eval.forecast import forecast_of
from mlprogram.examine.profile import OpProfile, Profile, open_program, profile_program

IOS = {6: "iOS15", 7: "iOS16", 8: "iOS17", 9: "iOS18"}  # by specification version, as coremltools.target counts
CONVOLUTIONS = ("conv", "conv_transpose")
SHARE_DIGITS = 5  # of int8_macs_share in a manifest


@dataclass(frozen=True)
class PackageFacts:
    """Facts of one vocoder package. `forecast`: eval.forecast.forecast_of, by chip."""

    bytes: int
    int8_macs_share: float
    stored_bytes: dict[str, int]  # by kind of weight: fp16, linear int8, palette 6-bit
    operations: dict[str, int]
    minimum_ios: str
    forecast: dict[str, dict[str, float]]

    @classmethod
    def read(cls, package: Path, frames: int) -> "PackageFacts":
        """Of a package on disk; costs are counted at the shape nearest to `frames` frames, shares at the smallest."""
        program = open_program(package)
        choices = program.all_shapes() if any(len(spec.shapes) > 1 for spec in program.inputs.values()) else [program.shapes({})]
        nearest = min(choices, key=lambda choice: abs(choice[FEATURES][-1] - 1 - frames))
        version = program.package.spec.specificationVersion
        return cls(
            bytes=package_bytes(package),
            int8_macs_share=int8_share(profile_program(program, choices[0])),
            stored_bytes=program.storage.bytes_by_kind(),
            operations=dict(sorted(Counter(op.op_type for op in program.function.body.walk() if op.op_type != "const").items())),
            minimum_ios=IOS.get(version, f"specification {version}"),
            forecast=forecast_of(profile_program(program, nearest), nearest[FEATURES][-1] - 1),
        )

    @classmethod
    def of(cls, data: dict[str, Any], where: str) -> "PackageFacts":
        """From what `asdict` gave."""
        conform(data, cls, where)
        return cls(**data)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def require_told(self, manifest: Manifest) -> None:
        """Raise InputError where the manifest says something else than the package."""
        computing = {name: count for name, count in self.operations.items() if not name.startswith("constexpr_")}
        compressed = manifest.compression != {}
        told = {
            "package_bytes": (manifest.package_bytes, self.bytes),
            "target": (manifest.target, self.minimum_ios),
            "operations": (manifest.operations, self.operations if compressed else computing),
        }
        if compressed:
            told["compression.int8_macs_share"] = (manifest.compression.get("int8_macs_share"), self.int8_macs_share)
        for field, (said, found) in told.items():
            if said != found:
                raise InputError(
                    f"{manifest.path} says {field} {str(said)[:60]}, the package itself {str(found)[:60]}: the manifest was edited; run "
                    f"`{quantize_command(manifest.method, manifest.form)}` again"
                )


def int8_share(profile: Profile) -> float:
    """Share of the convolutions' multiply-accumulates done on integer weights and integer inputs."""
    makers = {tensor.name: op.op_type for op in profile.ops for tensor in op.outputs}
    convolutions = [op for op in profile.ops if op.op_type in CONVOLUTIONS]
    return round(sum(op.macs for op in convolutions if _is_int8(op, makers)) / sum(op.macs for op in convolutions), SHARE_DIGITS)


def _is_int8(op: OpProfile, makers: dict[str, str]) -> bool:
    weight = op.op.inputs["weight"][0]
    kind = next((stored.kind for stored in op.weights if stored.tensor.name == weight), "")
    return "linear" in kind and "int8" in kind and makers.get(op.op.inputs["x"][0]) == "dequantize"
