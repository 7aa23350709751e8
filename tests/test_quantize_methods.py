"""The registry of methods: immutable, checked, one name everywhere."""

import dataclasses

import pytest

from pipeline.errors import InputError
from quantize.methods import METHODS, LinearWeights, method_named


def test_names_agree_and_parents_exist() -> None:
    for name, method in METHODS.items():
        assert method.name == name
        assert method.parent is None or method.parent in METHODS
        assert (method.parent is None) == (method.weights is None)
        assert method.title


def test_registry_and_methods_are_frozen() -> None:
    with pytest.raises(TypeError):
        METHODS["x"] = METHODS["w8"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["w8"].name = "x"  # type: ignore[misc]


def test_unknown_method_lists_the_known() -> None:
    with pytest.raises(InputError, match="unknown method 'w9'; there are: fp16, w8"):
        method_named("w9")


@pytest.mark.parametrize(("options", "message"), [({"bits": 3}, "linear weights of 3 bits"), ({"keep_up_to": -1}, "keep_up_to is -1")])
def test_impossible_configurations(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LinearWeights(**options)


def test_commands_build_what_they_name() -> None:
    assert METHODS["fp16"].command == "make vocoder"
    assert METHODS["w8"].command == "python -m quantize.apply --method w8"
