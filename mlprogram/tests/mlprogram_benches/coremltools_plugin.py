"""pytest plugin: coremltools' own tests predict through mlprogram instead of Core ML.
mlprogram_benches.coremltools_suite runs it.

    python -m pytest -p mlprogram_benches.coremltools_plugin --suite-out cases.jsonl \\
        --pyargs coremltools.converters.mil.mil.ops.tests

Off a Mac those tests convert and stop. Here coremltools is told that it stands on one, and its door
to Core ML (`_MLModelProxy`) is this file's `Proxy`, an `mlprogram.MLModel`. What a test checks
stays coremltools'. Each case leaves one line of JSON: whether it predicted, its outcome, the error
of the executor or of the check, and the largest error of any comparison as a share of the scale of
what was wanted.
"""

from __future__ import annotations

import collections
import gc
import importlib.util
import json
import random
import signal
import sys
import time
import types
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
from coremltools import _deps
from coremltools.models import _compiled_model, model

from mlprogram import MLModel, MLState, ProgramError

MAC_VERSION, SPECIFICATION = (15, 0), 9
SECONDS_PER_CASE = 120
# what coremltools' tests look for
_DENIED = ("Unable to compute the prediction using ML Program", "Error computing NN outputs")
_allclose = np.testing.assert_allclose


class TooSlow(BaseException):
    """A case that ran longer than SECONDS_PER_CASE."""


class Proxy:
    """Stands where coremltools holds its Core ML object. A model is read at its first prediction:
    most tests of passes make none.
    """

    def __init__(
        self, filename: str, compute_units: str, function_name: str, hints: dict, asset: Any
    ) -> None:
        self._path, self._function, self._model = filename, function_name, None
        if not Path(filename).is_dir():  # neural networks and classical models come as one file
            Recorder.active.case["other_kind"] = True

    @staticmethod
    def maximum_supported_specification_version() -> int:
        """Newest specification this runtime takes."""
        return SPECIFICATION

    def _opened(self) -> MLModel:
        if self._model is None:
            case = Recorder.active.case
            try:
                self._model = MLModel(
                    self._path,
                    function_name=self._function or None,
                    precision=Recorder.active.precision,
                )
            except ProgramError as error:
                case["errors"].append(f"load: {error}")
                raise RuntimeError(f"Error reading the model: {error}") from error
            case["half"] |= any(
                spec.dtype == "fp16"
                for program in self._model.programs
                for spec in program.inputs.values()
            )
            for op in (op for program in self._model.programs for op in program.operations):
                case["operations"].add(op.op_type)
                case["half"] |= any(value.dtype.name == "fp16" for value in op.outputs)
        return self._model

    def predict(self, data: dict[str, Any], state: MLState | None = None) -> dict[str, Any]:
        """What Core ML's predict does: outputs by name, RuntimeError for whatever fails."""
        loaded = self._opened()
        Recorder.active.case["predictions"] += 1
        try:
            return loaded.predict(dict(data), state)
        except ProgramError as error:
            Recorder.active.case["errors"].append(f"run: {error}")
            raise RuntimeError(f"{_DENIED[0]}. {_DENIED[1]}: {error}") from error

    def batchPredict(self, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One prediction after the other."""
        return [self.predict(row) for row in data]

    def newState(self) -> MLState:
        """Zeros for every state."""
        return self._opened().make_state()


def stand_on_a_mac() -> None:
    """Tell every module of coremltools that is loaded that this is macOS 15. A module imported
    later asks the same names.
    """
    _deps._IS_MACOS = True
    for name, module in list(sys.modules.items()):
        if name.startswith("coremltools") and module is not None:
            for attribute, value in (
                ("_is_macos", lambda: True),
                ("_macos_version", lambda: MAC_VERSION),
                ("_IS_MACOS", True),
            ):
                if attribute in vars(module):
                    setattr(module, attribute, value)


def seed_everything(seed: int) -> None:
    """Tests draw their data without a seed of their own."""
    random.seed(seed)
    np.random.seed(seed & 0x7FFFFFFF)
    torch.manual_seed(seed)


class Recorder:
    """Chooses the cases, runs each with a seed of its own and writes what came of it. One is active
    at a time: coremltools has one door.
    """

    active: Recorder

    def __init__(self, config: pytest.Config) -> None:
        option = config.getoption
        self.precision, self.seed, self.sample = (
            option("suite_precision"),
            option("suite_seed"),
            option("suite_sample"),
        )
        self.skip = option("suite_skip")
        self.deadline = (
            time.monotonic() + 60 * option("suite_minutes") if option("suite_minutes") else None
        )
        # open as long as the session
        self.out = Path(option("suite_out")).open("w", encoding="utf-8")  # noqa: SIM115
        self.case = self._blank("")
        self._done = 0

    @staticmethod
    def _blank(name: str) -> dict[str, Any]:
        return {
            "case": name,
            "predictions": 0,
            "errors": [],
            "other_kind": False,
            "half": False,
        } | {
            "operations": set(),
            "worst": 0.0,
            "outcome": "",
            "message": "",
            "where": "",
        }

    @pytest.hookimpl(trylast=True)  # behind pytest's own, which leaves out what is marked as slow
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """ML programs on the CPU only; of a sample, every test function before any second case of
        one.
        """
        stand_on_a_mac()
        ours = [item for item in items if _is_ours(item)]
        order = random.Random(self.seed)
        groups: dict[str, list[pytest.Item]] = collections.defaultdict(list)
        for item in ours:
            groups[item.nodeid.split("[")[0]].append(item)
        ranked = []
        for group in groups.values():
            order.shuffle(group)
            ranked += [(rank, order.random(), item) for rank, item in enumerate(group)]
        ranked.sort(key=lambda entry: entry[:2])
        items[:] = [item for _, _, item in (ranked[: self.sample] if self.sample else ranked)]
        self.out.write(json.dumps({"collected": len(ours), "chosen": len(items)}) + "\n")
        del items[: self.skip]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """A seed, a time limit and a line of JSON around every case."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            item.session.shouldstop = "the minutes of this run are over"
        stand_on_a_mac()
        seed_everything(zlib.crc32(item.nodeid.encode()) ^ self.seed)
        self.case = self._blank(item.nodeid)
        self.out.write(json.dumps({"begun": item.nodeid}) + "\n")
        self.out.flush()
        signal.alarm(SECONDS_PER_CASE)
        try:
            yield
        finally:
            signal.alarm(0)
            self.out.write(
                json.dumps(self.case | {"operations": sorted(self.case["operations"])}) + "\n"
            )
            self.out.flush()
            self._done += 1
            if self._done % 100 == 0:
                _collect()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        """Keep outcome and error of the call, or of a setup that failed."""
        report = (yield).get_result()
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            self.case["outcome"] = (
                "expected to fail" if hasattr(report, "wasxfail") else report.outcome
            )
            if call.excinfo is not None:
                self.case["message"] = f"{call.excinfo.typename}: {call.excinfo.value}"[:1500]
                self.case["where"] = " < ".join(
                    f"{e.path.name}:{e.lineno + 1}" for e in list(call.excinfo.traceback)[-3:]
                )


def _is_ours(item: pytest.Item) -> bool:
    """No neural networks, no other compute unit than the CPU: that would be the same run again."""
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        kind = getattr(value, "backend", value[0] if isinstance(value, tuple) and value else value)
        if isinstance(kind, str) and kind == "neuralnetwork":
            return False
        if isinstance(value, coremltools.ComputeUnit) and value != coremltools.ComputeUnit.CPU_ONLY:
            return False
    return True


def _noted_allclose(actual: Any, desired: Any, *args: Any, **options: Any) -> None:
    """np.testing.assert_allclose that also notes the error as a share of the scale."""
    case = Recorder.active.case
    try:
        got, want = np.asarray(actual, np.float64), np.asarray(desired, np.float64)
    except (TypeError, ValueError):  # dictionaries and labels
        return _allclose(actual, desired, *args, **options)
    finite = np.isfinite(got) & np.isfinite(want) if got.shape == want.shape else np.zeros(0, bool)
    if case["predictions"] and finite.any():
        share = np.abs(got - want)[finite].max() / max(np.abs(want[finite]).max(), 1e-3)
        case["worst"] = max(case["worst"], float(share))
    return _allclose(actual, desired, *args, **options)


class Absent(types.ModuleType):
    """In the place of a package that is not here: test files import it at their head, and the few
    cases that call it fail there.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> None:
            raise ImportError(f"{self.__name__} is not installed")

        return refuse


def _stand_in(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = Absent(name)


def _too_slow(*_: Any) -> None:
    raise TooSlow(f"longer than {SECONDS_PER_CASE} s")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of mlprogram_benches.coremltools_suite, handed on."""
    parser.addoption("--suite-out", required=True)
    parser.addoption("--suite-sample", type=int, default=0)
    parser.addoption("--suite-skip", type=int, default=0)
    parser.addoption("--suite-seed", type=int, default=0)
    parser.addoption("--suite-minutes", type=float, default=0.0)
    parser.addoption("--suite-precision", default="declared")


_collect = gc.collect


def pytest_configure(config: pytest.Config) -> None:
    """Open the door. coremltools collects garbage in every conversion, 0.8 s each with PyTorch
    loaded: here it is every 100 cases.
    """
    for name in ("torchvision", "peft"):
        _stand_in(name)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _too_slow)
    gc.collect = lambda *_: 0
    model._MLModelProxy = _compiled_model._MLModelProxy = Proxy
    np.testing.assert_allclose = _noted_allclose
    Recorder.active = Recorder(config)
    config.pluginmanager.register(Recorder.active, "coremltools-recorder")
    stand_on_a_mac()
