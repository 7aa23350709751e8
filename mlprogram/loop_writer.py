"""What is written of a loop's function so far, and in which forms each value is at hand.

    writer = Writer(kinds, outer, frozenset())
    writer.line(f"v7 = {writer.tensor(3)}.unsqueeze(0)")

A slot s is `v{s}` as a tensor, `h{s}` as a Python number, `w{s}` widened from fp16.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from math import prod
from types import MappingProxyType
from typing import Any

import torch

from mlprogram.values import to_host, widen

BITS = MappingProxyType({torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64, torch.uint8: 8, torch.bool: 1})


class Writer:
    """Lines before and inside the loop, and in which forms each slot is at hand."""

    def __init__(self, kinds: dict[int, Any], outer: Iterable[int], in_place: frozenset[int], template: Sequence[Any]) -> None:
        self.kinds, self.in_place, self._template = kinds, in_place, template
        self.constant = set(outer)  # slots that no step of the loop changes
        self.names: dict[str, Any] = {"made": torch.full, "tensor": torch.tensor, "to_host": to_host, "widen": widen}
        self.taken: list[str] = []
        self.before: list[str] = []
        self.inside: list[str] = []
        self.last: list[str] = []  # writes in place: at the end of a step, when nothing can fail any more
        self.hoisting = False
        self._tensors: set[int] = set()
        self._numbers: set[int] = set()
        self._wide: set[int] = set()
        self._lists: dict[int, tuple[str, ...]] = {}
        self._alias: dict[int, int] = {}
        self._count = count()

    def at(self, before: bool) -> None:
        """Where the next lines go."""
        self.hoisting = before

    def line(self, text: str, before: bool | None = None) -> None:
        """One line; `before`: in front of the loop, whatever is being written."""
        (self.before if (self.hoisting if before is None else before) else self.inside).append(text)

    def keep(self, value: Any) -> str:
        """A name for an object that the function uses."""
        name = f"k{next(self._count)}"
        self.names[name] = value
        return name

    def next(self) -> int:
        """Another number for a name."""
        return next(self._count)

    def at_hand(self, slots: Iterable[int]) -> None:
        """These slots are there as tensors now."""
        self._tensors.update(slots)

    def is_number(self, slot: int) -> bool:
        """Whether a slot holds one integer or boolean."""
        kind = self.kinds[slot]
        return kind.dtype in BITS and kind.shape is not None and prod(kind.shape) == 1

    def same(self, slot: int, other: int) -> None:
        """The two slots hold one value."""
        self._alias[slot] = other

    def name(self, slot: int) -> str:
        """How a carried slot is called."""
        return f"h{slot}" if self.is_number(slot) else f"v{slot}"

    def take(self, slot: int) -> None:
        """A carried slot is there from the start; a number is turned into one."""
        if self.is_number(slot):
            self.taken.append(f"h{slot} = h{slot}.item()")
            self._numbers.add(slot)
        else:
            self._tensors.add(slot)

    def tensor_text(self, slot: int) -> str:
        """A carried slot as the executor wants it back."""
        kind = self.kinds[slot]
        return f"made({kind.shape}, h{slot}, dtype={self.keep(kind.dtype)})" if self.is_number(slot) else f"v{slot}"

    def tensor(self, slot: int) -> str:
        """The slot as a tensor (or as whatever it is)."""
        slot = self._alias.get(slot, slot)
        if slot not in self._tensors:
            self._tensors.add(slot)
            if slot in self._numbers:
                kind = self.kinds[slot]
                self.line(f"v{slot} = made({kind.shape}, h{slot}, dtype={self.keep(kind.dtype)})", slot in self.constant)
            elif slot in self._lists:
                self.line(f"v{slot} = tensor({self.host(slot)}, dtype={self.keep(self.kinds[slot].dtype)})", slot in self.constant)
            else:
                self.line(f"v{slot} = env[{slot}]", True)
        return f"v{slot}"

    def number(self, slot: int) -> str | None:
        """The slot as a Python number, None if it is not one."""
        slot = self._alias.get(slot, slot)
        if slot not in self._numbers:
            if not self.is_number(slot):
                return None
            self.line(f"h{slot} = {self.tensor(slot)}.item()", slot in self.constant)
            self._numbers.add(slot)
        return f"h{slot}"

    def literal(self, slot: int) -> int | None:
        """The number that the program itself writes here, None if it does not."""
        value = self._template[slot]
        return int(value) if self.is_number(slot) and isinstance(value, torch.Tensor) else None

    def set_list(self, slot: int, texts: Sequence[str]) -> None:
        """A vector of integers as Python numbers."""
        self._lists[slot] = tuple(texts)

    def list_of(self, slot: int) -> tuple[str, ...] | None:
        """The numbers of a vector, if they are known one by one."""
        return self._lists.get(slot)

    def host(self, slot: int) -> str:
        """The value as Python numbers."""
        return f"[{', '.join(self._lists[slot])}]" if slot in self._lists else f"to_host({self.tensor(slot)})"

    def learn(self, slot: int, shape: tuple[int, ...]) -> None:
        """The shape of a value that the program leaves open."""
        self.kinds[slot] = self.kinds[slot]._replace(shape=shape)

    def wide(self, slot: int, dtype: torch.dtype | None) -> str:
        """An fp16 tensor in a wider type."""
        slot = self._alias.get(slot, slot)
        if slot not in self._wide:
            self.line(f"w{slot} = {self.tensor(slot)}.to({self.keep(dtype)})", slot in self.constant)
            self._wide.add(slot)
        return f"w{slot}"

    def truth(self, slot: int) -> str:
        """A condition."""
        return self.number(slot) or f"bool({self.tensor(slot)})"

    def set_number(self, slot: int, text: str) -> None:
        """A slot as a Python number."""
        self.line(f"h{slot} = {text}")
        self._numbers.add(slot)

    def set_tensor(self, slot: int, text: str) -> None:
        """A slot as a tensor."""
        self.line(f"v{slot} = {text}")
        self._tensors.add(slot)

    def rounded(self, slot: int, text: str, sure: bool) -> None:
        """A slot as a tensor in its declared type; `sure`: it has it already."""
        self.set_tensor(slot, text)
        if not sure:
            name = self.keep(self.kinds[slot].dtype)
            self.line(f"if v{slot}.dtype is not {name}: v{slot} = v{slot}.to({name})")

    def carried(self, slot: int, result: int) -> tuple[str, str]:
        """(name of a carried slot, text of its next value)."""
        self.at(before=False)
        if self.is_number(slot):
            return f"h{slot}", self.number(result) or f"{self.tensor(result)}.item()"
        return f"v{slot}", self.tensor(result)

    def free(self, slots: Iterable[int], kept: Iterable[int]) -> None:
        """Let go of tensors that no later operation reads."""
        names = [f"v{s}" for s in slots if s in self._tensors and s not in self.constant and s not in kept]
        names += [f"w{s}" for s in slots if s in self._wide and s not in self.constant]
        if names:
            self.line(" = ".join([*names, "None"]), False)
