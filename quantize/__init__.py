"""Compression: each method turns the fp16 package into a smaller package under the same
contract.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """This package, which is also the public call `kokoro_ane.quantize(...)`: both have one name,
    and Python puts the package there once any of its modules was imported.
    """

    def __call__(self, method: str, **options: Any) -> Any:
        return import_module("kokoro_ane.api").quantize(method, **options)


sys.modules[__name__].__class__ = _Room
