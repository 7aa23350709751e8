"""Every operation mlprogram executes, by name.

    from mlprogram.ops import CONTROL, KERNELS
    KERNELS["conv"].run(x, weight)

One module for each family; constexpr operations are in constants.py, control flow and
states in execute.py.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from types import MappingProxyType

from mlprogram.ops.conv import CONV, POOL
from mlprogram.ops.elementwise import ACTIVATION, ELEMENTWISE, QUANTIZATION
from mlprogram.ops.indexing import INDEXING
from mlprogram.ops.kernel import Kernel
from mlprogram.ops.layout import LAYOUT, SLICING
from mlprogram.ops.linear import LINEAR, NORMALIZE, REDUCTION
from mlprogram.ops.misc import MISC
from mlprogram.ops.recurrent import RECURRENT
from mlprogram.ops.sampling import RESIZE, SAMPLING

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
# One flat look-up for the planner; no operation stands in two families.
KERNELS: Mapping[str, Kernel] = MappingProxyType(dict(ChainMap(*map(dict, FAMILIES.values()))))
CONTROL: Mapping[str, str] = MappingProxyType(
    {
        "cond": "One of two blocks, by a scalar.",
        "while_loop": "A block again and again while another gives true.",
        "read_state": "The value of a state.",
        "write_state": (
            "A new value for a state (coreml_update_state is stored as write_state and read_state)."
        ),
    }
)

__all__ = ["CONTROL", "FAMILIES", "KERNELS", "Kernel"]
