"""Which of PyTorch's kernels a program runs on fp16 tensors, and which of them may be trusted with
one on every processor.

    with HalfKernels() as kernels:
        program(inputs)
    assert kernels.names <= SAME_EVERYWHERE
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MOVES = """
    _to_copy _unsafe_view alias argmax argmin as_strided cat clone constant_pad_nd copy_ detach
    empty_like expand flip gather index index_select lift_fresh nonzero permute pixel_shuffle
    pixel_unshuffle repeat select slice sort split split_with_sizes squeeze stack unbind unfold
    unsqueeze view where
"""
# One operation of IEEE 754 and one rounding: whoever computes it gets the same half.
ROUNDS_ONCE = """
    abs add ceil clamp div eq floor ge gt le leaky_relu lt maximum minimum mul mul_ ne relu round
    sign sqrt sub sub_
"""
# interface.py asks whether the inputs are finite, and no value comes of it
ASKS = " sum isinf isnan"
SAME_EVERYWHERE = frozenset((MOVES + ROUNDS_ONCE + ASKS).split())


class HalfKernels(TorchDispatchMode):
    """Collects the names of the kernels that receive an fp16 tensor."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        leaves = tree_leaves((args, kwargs or {}))
        if any(torch.is_tensor(leaf) and leaf.dtype == torch.float16 for leaf in leaves):
            self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))
