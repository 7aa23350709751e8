"""Names that a room exports, imported when they are first asked for: `import vocoder` stays as cheap as an empty file.

__getattr__ = exports(__name__, {"Vocoder": "vocoder.decoder"})
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def exports(room: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's __getattr__: public name -> module that defines it. AttributeError for any other name."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find
