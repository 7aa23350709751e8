"""Who renders a level that is judged: a runtime's vocoder, opened from its manifest, and the name of its arithmetic for kept figures.

arithmetic("onnx", "declared")                     # onnx-1.31.1-4f0c21aa: another version's figures are not these
opened(manifest.path, arithmetic).render(inputs)   # [600F]
"""

from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.sources import files_behind, sha256_of_files
from pipeline.runtimes import DEFAULT_RUNTIME, RUNTIMES, module_of

DECLARED = "declared"


def arithmetic(runtime: str, precision: str) -> str:
    """`precision` of the executed packages; of another runtime its name, its version and the hash of our code that calls it.

    Raises InputError for a runtime that has no such precision.
    """
    if runtime == DEFAULT_RUNTIME:
        return precision
    if precision != DECLARED:
        raise InputError(f"--precision {precision} is of the executed packages: {RUNTIMES[runtime].title} has its own arithmetic")
    code = sha256_of_files(files_behind((f"{RUNTIMES[runtime].module.replace('.', '/')}.py",)))
    needs = RUNTIMES[runtime].needs[-1]
    distribution = packages_distributions().get(needs, [needs])[0]  # apache-tvm holds tvm
    return f"{runtime}-{version(distribution)}-{code[:8]}"


def opened(manifest: Path, how: str) -> Any:
    """What renders `manifest` by that arithmetic: an eval.corpus.Subject."""
    runtime = how.partition("-")[0]
    if runtime in RUNTIMES:
        return module_of(runtime).open_vocoder(manifest)
    return module_of(DEFAULT_RUNTIME).open_vocoder(manifest, how)
