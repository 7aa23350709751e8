"""Cases of coremltools' suites in which mlprogram and the test disagree, and who is right.

    explanation({"case": "...", "message": "...", "errors": []})  # (cause, who)

`who`: "mlprogram", "coremltools", "both" (they answer different questions), or "unknown". A case that no rule here names is unknown, and
bench.coremltools_suite then fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Red:
    """One cause: `case` and `message` are searched in the case's name and in its error."""

    case: str
    message: str
    who: str
    cause: str


RULES = (
    Red(
        r"TestLinear::test_linear_fp16|test_batchnorm_fp16_weight_with_fp32_param|TestConv::test_convolution_fp16",
        r"^AssertionError: \s*Not equal to tolerance",
        "both",
        "the reference is PyTorch's fp16 result, held against the tolerance of fp32",
    ),
    Red(
        r"TestGather::test_gather_nd_int16_indices.*'fp32'",
        "^AssertionError: assert False",
        "mlprogram",
        "the test expects a cast that coremltools writes into fp16 programs only; values agree",
    ),
    Red(
        r"TestStack::test_stack_dynamic_range_dim",
        "DID NOT RAISE",
        "both",
        "Core ML refuses the default shape when it loads the model; mlprogram looks at the shapes of the run, which fit",
    ),
    Red(
        r"TestResample::test_builder_to_backend_smoke.*precision='fp32'",
        r"^AssertionError: assert \d+ == \d+",
        "mlprogram",
        "the test counts the casts of the fp16 program also where the program is fp32; values agree",
    ),
    Red(
        r"TestCropResize::test_builder_to_backend_ios1[67]",
        "Max absolute difference among violations: 0.0009",
        "mlprogram",
        "the wanted value is written 7.899 and is 7.9",
    ),
    Red(
        r"TestNormalizationLocalResponseNorm::test_builder_to_backend_smoke\[.*precision='fp32'",
        "Not equal to tolerance",
        "mlprogram",
        "at rank 3 the wanted values sum over the batch axis; the stress test of the same file sums over channels, as PyTorch does",
    ),
    Red(
        r"TestIndex::test_index_bool_indices.*'fp16'",
        "Items are not equal:\\s+item=0",
        "both",
        "a random number just above the threshold is the threshold in fp16, so that one element less is chosen",
    ),
    Red(
        r"TestRNN::test_builder_to_backend_smoke.*input_size=64-hidden_size=1-.*dtype=<class 'numpy.float16'>",
        "Max absolute difference among violations: 0.00148994",
        "mlprogram",
        "the test rounds weights and inputs to fp16 and wants the result of unrounded ones; float64 of the rounded ones gives mlprogram's",
    ),
)


def explanation(case: dict[str, Any]) -> tuple[str, str]:
    """(cause, who) of a case that disagrees."""
    said = " ".join([case["message"], *case["errors"]])
    for rule in RULES:
        if re.search(rule.case, case["case"]) and re.search(rule.message, said, re.DOTALL):
            return rule.cause, rule.who
    return "not explained", "unknown"
