"""A list of modules that says what it holds, to a reader and to mypy (at run time it is torch's own); one module put in another's place.

self.blocks: Modules[AdainResBlk1d] = Modules(AdainResBlk1d(64, 64, 128) for _ in range(3))
replace_module(vocoder, "decode.0.conv1", other)
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from torch import nn

Module = TypeVar("Module", bound=nn.Module)


class Modules(nn.ModuleList, Generic[Module]):
    """torch's ModuleList of modules of one class."""

    if TYPE_CHECKING:  # a slice is of the same class: ModuleList makes it with its own constructor

        def __init__(self, modules: Iterable[Module] = ()) -> None: ...

        def __iter__(self) -> Iterator[Module]: ...

        @overload
        def __getitem__(self, idx: slice) -> "Modules[Module]": ...

        @overload
        def __getitem__(self, idx: int) -> Module: ...

        def __getitem__(self, idx: int | slice) -> "Module | Modules[Module]": ...


def replace_module(root: nn.Module, path: str, module: nn.Module) -> None:
    """Put `module` where `path` leads from `root`."""
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, module)
