"""What a use needs beside the base, which speaks by ONNX Runtime, and the line that installs it:
core.errors.require_installed asks before work starts.

    find_missing("judge")                                 # ["pocketsphinx", "resemblyzer"]
    # pip install "kokoro-ane[judge]" && pip install --no-deps resemblyzer
    format_install_line(["pocketsphinx", "resemblyzer"])
"""

import importlib.util
from collections.abc import Collection
from pathlib import Path
from types import MappingProxyType

BASE = ""
# an extra of pyproject.toml, or BASE: the modules that its users import
EXTRAS = MappingProxyType(
    {
        BASE: ("huggingface_hub", "numpy", "onnxruntime", "rich", "soundfile"),
        "build": ("coremltools", "jinja2", "mlprogram", "safetensors", "torch"),
        "onnx": ("onnx",),
        "executorch": ("executorch",),
        "tvm": ("tvm",),
        "judge": (
            *("librosa", "pesq", "pocketsphinx", "pystoi", "scipy", "speechmos"),
            *("resemblyzer", "distillmos", "xls_r_sqa"),
        ),
        "loudness": ("pyloudnorm",),
        "upstream": ("kokoro", "transformers"),
        "cluster": ("distributed",),
    }
)
# these bring the extra `build`, too
BUILDING = ("onnx", "executorch", "tvm", "judge")
# distributions of modules that ask for packages that nobody here needs, many without a CPU build
WITHOUT_DEPENDENCIES = MappingProxyType(
    {
        "resemblyzer": "resemblyzer",
        "distillmos": "distillmos",
        "xls_r_sqa": "xls-r-sqa",
        "kokoro": "kokoro==0.9.4",
    }
)
NOT_IN_VENV = ("executorch", "tvm", "cluster")
MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"  # absent where it is installed


def find_missing(extra: str, modules: Collection[str] = ()) -> list[str]:
    """Return the modules of an extra, or of `modules`, that are not installed."""
    needed = modules or EXTRAS[extra] + (EXTRAS["build"] if extra in BUILDING else ())
    return [name for name in needed if importlib.util.find_spec(name) is None]


def find_extra(module: str) -> str:
    """Return the first extra that brings a module."""
    return next((extra for extra, modules in EXTRAS.items() if module in modules), BASE)


def format_install_line(missing: Collection[str]) -> str:
    """Return the command that installs missing modules."""
    bare = [WITHOUT_DEPENDENCIES[name] for name in missing if name in WITHOUT_DEPENDENCIES]
    extras = {find_extra(name) for name in missing if name not in WITHOUT_DEPENDENCIES}
    if MAKEFILE.is_file() and not extras & {*NOT_IN_VENV}:
        return "make venv"
    # These bring `build` along, so it need not be named beside them.
    if extras & {*BUILDING}:
        extras -= {"build"}
    named = ",".join(sorted(extras - {BASE}))
    lines = []
    if extras:
        lines.append(f'pip install "kokoro-ane[{named}]"' if named else "pip install kokoro-ane")
    if bare:
        lines.append(f"pip install --no-deps {' '.join(bare)}")
    return " && ".join(lines)
