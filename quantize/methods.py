"""The compression methods, each a frozen configuration in one registry: the name here is the name on every command line, file and report.

    from quantize.methods import METHODS, method_named
    METHODS["w8"].weights
"""

from dataclasses import dataclass
from types import MappingProxyType

from pipeline.errors import InputError


@dataclass(frozen=True)
class LinearWeights:
    """Weights as integers with one scale per output channel, zero point 0: w = scale * q, |q| <= 2^(bits - 1) - 1.

    Tensors of `keep_up_to` elements or fewer stay as they are: beside the scales and 64-byte alignment they would save nothing.
    """

    bits: int = 8
    keep_up_to: int = 2048

    def __post_init__(self) -> None:
        if self.bits != 8:
            raise InputError(f"linear weights of {self.bits} bits: only 8 is supported")
        if self.keep_up_to < 0:
            raise InputError(f"keep_up_to is {self.keep_up_to}: a number of elements, 0 or more, is needed")


@dataclass(frozen=True)
class Method:
    """A level. `parent` is the method whose package is compressed (None = the converter makes it), `weights` what is done to it."""

    name: str
    title: str
    parent: str | None = None
    weights: LinearWeights | None = None
    check_snr_db: float = 15.0  # one clip against the parent; below this the package is broken, not merely coarse

    @property
    def command(self) -> str:
        """What builds the package, for the user to type."""
        return f"python -m quantize.apply --method {self.name}" if self.parent else "make vocoder"


_ALL = (
    Method("fp16", "fp16 weights and activations, as converted"),
    Method("w8", "int8 weights, one scale per output channel, fp16 activations (W8A16)", parent="fp16", weights=LinearWeights(bits=8)),
)
METHODS = MappingProxyType({method.name: method for method in _ALL})


def method_named(name: str) -> Method:
    """The method of that name, or InputError with the list."""
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]
