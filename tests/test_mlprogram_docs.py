"""The list of operations is current, and nothing is on it that no test runs.

python -m pytest tests/test_mlprogram_docs.py -q
"""

from __future__ import annotations

from pathlib import Path

from mlprogram.constexpr import CONSTEXPR
from mlprogram.ops import CONTROL, KERNELS
from mlprogram.ops_doc import DOCUMENT, render
from tests import (
    test_mlprogram_elementwise,
    test_mlprogram_images,
    test_mlprogram_indexing,
    test_mlprogram_layers,
    test_mlprogram_layout,
    test_mlprogram_products,
)

FAMILIES = (
    test_mlprogram_elementwise,
    test_mlprogram_images,
    test_mlprogram_indexing,
    test_mlprogram_layers,
    test_mlprogram_layout,
    test_mlprogram_products,
)
TESTED_BY_HAND = {  # operation -> what the test of that file writes
    **dict.fromkeys(("cond", "while_loop", "read_state", "non_maximum_suppression"), "test_mlprogram_programs.py"),
    **dict.fromkeys((name for name in KERNELS if name.startswith(("random_", "list_", "make_list"))), "test_mlprogram_programs.py"),
    **dict.fromkeys(CONSTEXPR, "test_mlprogram_constants.py"),
}
WRITTEN_AS = {"write_state": "mb.coreml_update_state", "classify": "ClassifierConfig"}


def test_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == render(), "run: python -m mlprogram.ops_doc"


def test_every_listed_operation_has_a_test() -> None:
    listed = set(KERNELS) | set(CONSTEXPR) | set(CONTROL)
    cases = set().union(*(module.CASES for module in FAMILIES))
    folder = Path(__file__).parent
    by_hand = {op for op, file in TESTED_BY_HAND.items() if op in (folder / file).read_text(encoding="utf-8")}
    programs = (folder / "test_mlprogram_programs.py").read_text(encoding="utf-8")
    by_hand |= {op for op, text in WRITTEN_AS.items() if text in programs}
    assert listed == cases | by_hand


def test_all_of_coremltools_operations_are_known() -> None:
    """Whatever coremltools can emit, but the two nobody emits: conv_quantized (experimental) and _const_symbolic (internal)."""
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    known = set(KERNELS) | set(CONSTEXPR) | set(CONTROL) | {"const"}
    assert set(SSAOpRegistry.core_ops) - known == {"conv_quantized", "_const_symbolic"}
