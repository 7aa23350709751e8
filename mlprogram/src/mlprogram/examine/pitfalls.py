"""What a file shows of known traps: operations that compute something else than the author of the
network wrote, on a device or as coremltools converted them. CHOICES.md tells each, with versions.

    pitfalls(profile_program(program, shapes))  # {"sentence": how many operations}
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType

import numpy as np

from mlprogram.examine.profile import OpProfile, Profile

# (type of the operation, parameter, what makes that parameter) -> what is seen in the results
_PAIRS = MappingProxyType(
    {
        ("atan", "x", "real_div"): "atan2 as it is converted: 0 at (0, -1), 4.712 at (1, -1e-9)",
        ("sub", "y", "band_part"): "triu or tril as it is converted: NaN where x is infinite",
    }
)
_FLOATS = (np.float16, np.float32)
_INVERSE = "1 / x with an epsilon: wrong by epsilon / x"
_POW = "pow(2, y): Core ML squares y (coremltools 9.1 writes exp(y ln 2))"
_MASK = "a constant of -inf: a row masked as a whole is NaN, and the engine does not handle it"


def pitfalls(profile: Profile) -> Counter[str]:
    """How many operations there are of each."""
    makers = {tensor.name: op.op_type for op in profile.ops for tensor in op.outputs}
    constants = profile.program.plan.constants

    def seen(op: OpProfile) -> set:
        reads = {name: names[0] for name, names in op.op.inputs.items() if names}
        sentences = {
            _PAIRS.get((op.op_type, parameter, makers.get(name, "")))
            for parameter, name in reads.items()
        }
        values = [constants[name].value for name in reads.values() if name in constants]
        if any(np.isneginf(v).any() for v in values if getattr(v, "dtype", None) in _FLOATS):
            sentences.add(_MASK)
        if op.op_type == "inverse" and op.attributes.get("epsilon", 1):
            sentences.add(_INVERSE)
        if op.op_type == "pow" and op.attributes.get("x") == 2:
            sentences.add(_POW)
        return sentences - {None}

    return Counter(sentence for op in profile.ops for sentence in sorted(seen(op)))
