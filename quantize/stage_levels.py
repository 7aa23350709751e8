"""Build a compressed level of the encoder from its fp16 package. Weights alone are compressed; the
arithmetic stays as it was.

    method = STAGE_METHODS["encoder"]["w8g"]
    parents, manifests = build_level(method, checkpoint, Path("build"))

The package is written aside, every constant is read back, it is executed beside its parent and
renamed; the manifest comes last. Whether it speaks well enough is decided by
`kokoro-ane quality --stage encoder`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_ane.core.builder import all_held
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check, snr_db
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.export import package_of_ours, quiet_coremltools, save_package
from kokoro_ane.core.manifest import (
    MANIFEST_FILE,
    Manifest,
    describe_package,
    tool_versions,
)
from kokoro_ane.core.process import temporary_files_in
from kokoro_ane.core.staging import Ours, staged_together
from kokoro_ane.encoder.encoder_stage import LIMIT_SNR_DB, EncoderPackage, check_utterances
from kokoro_ane.encoder.encoder_steps import (
    EncoderBackend,
    Functions,
    encode,
    program_functions,
    whole_frames,
)
from kokoro_ane.quantize.encoder_fits import encoder_fits
from kokoro_ane.quantize.fits import form_of
from kokoro_ane.quantize.locator import HALF, Request
from kokoro_ane.quantize.methods import Method
from kokoro_ane.quantize.palettes import Fit
from kokoro_ane.quantize.plan import is_fitted
from kokoro_ane.quantize.stored_forms import StoredWeight
from mlprogram import Program

with quiet_coremltools():
    from kokoro_ane.quantize.constants import plan_of, require_stored, with_constants

# what the encoder computes, and whether in fp16
TENSORS = {"raw": False, "hidden": False, "text": True, "f0_hz": False, "energy": True}
CHECKED = 2  # of encoder_stage.CHECK_TOKENS: the shortest text and a sentence


@dataclass(frozen=True, eq=False)
class Packed:
    """The compressed constants of one package by function and name, and the names of those that
    stay in float.
    """

    stored: Mapping[str, Mapping[str, StoredWeight]]
    uncompressed: tuple[str, ...]
    largest_error: float  # of a weight, as a share of its tensor's largest
    equal: int  # weights that are the same to the bit
    weights: int

    @classmethod
    def of(
        cls, method: Method, programs: Mapping[str, Program], fits: Mapping[str, Mapping[str, Fit]]
    ) -> "Packed":
        """Compress in NumPy. `fits` holds what the fitted palettes need, by function and name."""
        stored: dict[str, dict[str, StoredWeight]] = {}
        uncompressed, errors, equal, count = [], [0.0], 0, 0
        for function, program in programs.items():
            stored[function] = {}
            for name, how in plan_of(method, program, f"{function}.").items():
                weight = np.asarray(program.constant(name))
                form = form_of(weight, how, fits.get(function, {}).get(name))
                if form is None:
                    uncompressed.append(name)
                    continue
                stored[function][name] = form
                decoded = form.array()
                errors.append(float(np.abs(decoded - weight).max() / np.abs(weight).max()))
                equal, count = equal + int((decoded == weight).sum()), count + weight.size
        return cls(stored, tuple(uncompressed), max(errors), equal, count)

    def as_dict(self, method: Method) -> dict[str, Any]:
        """The method and the counts for the manifest."""
        return {
            "weights": self.weights,
            "parts": {pattern: asdict(weights) for pattern, weights in method.parts},
            "lossless": method.lossless,
            "compressed_ops": sum(map(len, self.stored.values())),
            "kept_ops": len(self.uncompressed),
            "equal_weights": self.equal,
            "largest_weight_error": self.largest_error,
        }


def build_level(
    method: Method, checkpoint: Checkpoint, build: Path
) -> tuple[tuple[Manifest, ...], tuple[Manifest, ...]]:
    """Compress the encoder; returns the parents' manifests and the new ones: one of each, or two
    where each function has its own package (iOS 17).

    Raises InputError where the parent is not built, and CheckFailed where a limit is missed or
    nothing was compressed. Nothing new is left then.
    """
    request = Request(checkpoint, build)
    parents = tuple(request.manifest(path) for path in request.encoders)
    for parent in parents:
        parent.verify()
    paths = [replace(request, encoder=method.name).path(parent.stage) for parent in parents]
    targets: list[tuple[Path, Ours]] = []
    for path in paths:
        targets += [(path.with_suffix(".mlpackage"), package_of_ours), (path, MANIFEST_FILE)]
    with staged_together(*targets) as places, temporary_files_in(places[0].parents[1]):
        packages, asides = places[::2], places[1::2]
        before = EncoderPackage(tuple(parent.path for parent in parents))
        fits = fits_for(method, checkpoint, before.backend, parents)
        drafts = [
            _written(method, parent, package, fits)
            for parent, package in zip(parents, packages, strict=True)
        ]
        programs = {
            name: Program(package, function=inside)
            for parent, package in zip(parents, packages, strict=True)
            for name, inside in parent.functions.items()
        }
        figures = compared(method, checkpoint, before, program_functions(programs))
        checks = {"figures": [asdict(figure) for figure in all_held(figures)]}
        children = [
            replace(draft, checks=checks).save(aside)
            for draft, aside in zip(drafts, asides, strict=True)
        ]
    return parents, tuple(
        replace(child, path=path) for child, path in zip(children, paths, strict=True)
    )


def fits_for(
    method: Method, checkpoint: Checkpoint, backend: EncoderBackend, parents: Sequence[Manifest]
) -> dict[str, dict[str, Fit]]:
    """The fits of the method's fitted palettes, by function and constant; nothing for a method that
    has none.
    """
    if not any(map(is_fitted, (method.weights, *dict(method.parts).values()))):
        return {}
    inside = {
        name: Program(parent.package_path, function=function)
        for parent in parents
        for name, function in parent.functions.items()
    }
    return encoder_fits(checkpoint, backend, inside)


def _written(
    method: Method, parent: Manifest, package: Path, fits: Mapping[str, Mapping[str, Fit]]
) -> Manifest:
    """Write one package and read every constant back. Its manifest has no figures yet. The keys of
    `fits` are the contract's names of the functions.
    """
    programs = {
        inside: Program(parent.package_path, function=inside)
        for inside in parent.functions.values()
    }
    packed = Packed.of(
        method, programs, {inside: fits.get(name, {}) for name, inside in parent.functions.items()}
    )
    if not any(packed.stored.values()):
        raise CheckFailed(
            f"{parent.package}: {method.name} compresses none of its weights; the package was not"
            " kept"
        )
    with quiet_coremltools():
        model = with_constants(parent.package_path, packed.stored)
    save_package(model, package)
    written = {inside: Program(package, function=inside) for inside in packed.stored}
    for inside, program in written.items():
        require_stored(program, packed.stored[inside])
    return child_manifest(parent, method, package, written.values(), packed.as_dict(method))


def child_manifest(
    parent: Manifest,
    method: Method,
    package: Path,
    programs: Iterable[Program],
    compression: dict[str, Any],
) -> Manifest:
    """The parent's contract with this method's provenance and counts."""
    counts = Counter(
        op.op_type for program in programs for op in program.operations if op.op_type != "const"
    )
    return replace(
        parent,
        method=method.name,
        parent_sha256=parent.package_sha256,
        tools=tool_versions(),
        operations=dict(sorted(counts.items())),
        target=method.target or parent.target,
        compression=compression,
        **describe_package(package),
    )


@torch.no_grad()
def compared(
    method: Method, checkpoint: Checkpoint, parent: EncoderPackage, functions: Functions
) -> list[Check]:
    """The checks of the level, executed beside its parent on random symbols. F0 and energy are
    computed on the parent's alignment.
    """
    child, pairs, changed = replace(parent.backend, functions=functions), [], 0
    for spoken in check_utterances(checkpoint, parent.buckets)[:CHECKED]:
        inputs = (spoken.ids, spoken.style, spoken.speed)
        expected = encode(parent.backend, *inputs)
        got = encode(child, *inputs, durations=expected.durations.numpy())
        changed += int(
            (whole_frames(got.raw.numpy(), parent.limits) != expected.durations.numpy()).sum()
        )
        pairs.append((expected, got))
    figures = []
    for name, half in TENSORS.items():
        value = min(
            snr_db(getattr(expected, name).numpy(), getattr(got, name).numpy())
            for expected, got in pairs
        )
        limit = min(method.check_snr_db, LIMIT_SNR_DB[HALF]) if half else method.check_snr_db
        figures.append(
            Check(
                f"{name} against the parent's, worst of {CHECKED} texts", value, limit, True, "dB"
            )
        )
    return [
        *figures,
        *([Check("durations changed", changed, 0, False, "tokens")] if method.lossless else []),
    ]
