"""Every operation mlprogram executes, by name.

    from mlprogram.ops import CONTROL, KERNELS
    KERNELS["conv"].run(x, weight)

One module for each family; constexpr operations are in mlprogram/constexpr.py, control flow and states in mlprogram/execute.py.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from types import MappingProxyType

from mlprogram.ops.activation import ACTIVATION
from mlprogram.ops.conv import CONV
from mlprogram.ops.elementwise import ELEMENTWISE
from mlprogram.ops.indexing import INDEXING
from mlprogram.ops.kernel import Kernel
from mlprogram.ops.layout import LAYOUT
from mlprogram.ops.linear import LINEAR
from mlprogram.ops.misc import MISC
from mlprogram.ops.normalize import NORMALIZE
from mlprogram.ops.pool import POOL
from mlprogram.ops.quantization import QUANTIZATION
from mlprogram.ops.recurrent import RECURRENT
from mlprogram.ops.reduction import REDUCTION
from mlprogram.ops.resize import RESIZE
from mlprogram.ops.sampling import SAMPLING
from mlprogram.ops.slicing import SLICING

FAMILIES: Mapping[str, Mapping[str, Kernel]] = MappingProxyType(
    {
        "elementwise": ELEMENTWISE,
        "activations": ACTIVATION,
        "convolutions": CONV,
        "matrix products": LINEAR,
        "recurrent layers": RECURRENT,
        "normalizations": NORMALIZE,
        "pooling": POOL,
        "reductions": REDUCTION,
        "layout": LAYOUT,
        "slices": SLICING,
        "indices": INDEXING,
        "resizing": RESIZE,
        "sampling": SAMPLING,
        "quantization": QUANTIZATION,
        "lists, random numbers, classifiers, boxes": MISC,
    }
)
KERNELS: Mapping[str, Kernel] = MappingProxyType(dict(ChainMap(*map(dict, FAMILIES.values()))))
CONTROL: Mapping[str, str] = MappingProxyType(
    {
        "cond": "One of two blocks, by a scalar.",
        "while_loop": "A block again and again while another gives true.",
        "read_state": "The value of a state.",
        "write_state": "A new value for a state (coreml_update_state is stored as write_state and read_state).",
    }
)

__all__ = ["CONTROL", "FAMILIES", "KERNELS", "Kernel"]
