"""Compression methods: each turns the fp16 package into a smaller package under the same contract."""

from typing import TYPE_CHECKING

from core.lazy import exports

if TYPE_CHECKING:
    from quantize.build import build_compressed
    from quantize.methods import METHODS, Method, method_named
    from quantize.packages import find_package

__all__ = ["METHODS", "Method", "build_compressed", "find_package", "method_named"]
__getattr__ = exports(
    __name__,
    {
        "METHODS": "quantize.methods",
        "Method": "quantize.methods",
        "build_compressed": "quantize.build",
        "find_package": "quantize.packages",
        "method_named": "quantize.methods",
    },
)
