"""The second opinion: the bridge against mlprogram without Apple's runtime, faults it must notice, and what the command says.

python -m pytest tests/test_second_opinion.py -q
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types

from bench import second_opinion, second_opinion_runtime
from bench.coreai.graph import read_graph
from bench.coreai.kernels import PlainKernels
from bench.coreai.module import LOWERINGS, Bridge
from bench.coreai.operations_elementwise import of_two
from bench.coreai.runner import widened
from bench.second_opinion_cases import Case, Subject
from bench.second_opinion_compare import against_reference, agreement_db, rows_of
from bench.second_opinion_layers import layers
from bench.second_opinion_runtime import PYTHON, Runtime, RuntimeRefused, last_words
from core.build import build
from core.export import package_sha256
from core.figures import snr_db
from g2p.model import LetterToSound
from g2p.stage import G2PStage
from mlprogram import Program
from tests.mlprogram_build import save
from tests.second_opinion_build import every_operation
from tests.test_g2p_convert import TINY

WORST_DB = {np.float32: 110.0, np.float16: 60.0}  # sums in another order; in fp16 one step more or less


class PlainRuntime:
    """In the place of Apple's: the bridge in PyTorch, in this process. `lowerings`: of another meaning, for controls."""

    def __init__(self, _python: Path = PYTHON, lowerings: Mapping[str, Any] = LOWERINGS) -> None:
        self.lowerings = lowerings

    def ask(
        self,
        package: Path,
        function: str,
        cases: Sequence[Mapping[str, np.ndarray]],
        watched: Sequence[str] = (),
        free: Mapping[str, Sequence[int]] | None = None,
        wide: bool = False,
    ) -> tuple[list[dict[str, np.ndarray]], dict[str, Any]]:
        graph = read_graph(package, function)
        module = Bridge(graph, PlainKernels(), tuple(watched), self.lowerings, torch.float32 if wide else torch.float16).eval()
        names = (*graph.outputs, *watched)
        answers = []
        with torch.inference_mode():
            for case in cases:
                values = module(*(torch.from_numpy(widened(case[name], wide)) for name in graph.inputs))
                answers.append({name: value.numpy() for name, value in zip(names, values, strict=True)})
        return answers, {"convert_s": 0.0, "execute_s": 0.0, "versions": {}}


@pytest.fixture(scope="module", params=[np.float32, np.float16], ids=["fp32", "fp16"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[type, Subject, dict[str, str]]:
    """Every operation, once in each float type: the subject with mlprogram's answers, and case -> output."""
    package, given, names = every_operation(tmp_path_factory.mktemp("n") / "n.mlpackage", request.param)
    program = Program(package)
    ours = {name: value.numpy() for name, value in program(given).items()}
    return request.param, Subject(package, "main", program, [Case(given, ours)]), names


def test_every_operation_of_the_bridge_agrees_with_mlprogram(both: tuple[type, Subject, dict[str, str]]) -> None:
    dtype, subject, names = both
    (theirs,), _ = PlainRuntime().ask(subject.package, "main", [subject.cases[0].given])
    figures = {case: snr_db(subject.cases[0].ours[name], theirs[name]) for case, name in names.items()}
    assert min(figures.values()) >= WORST_DB[dtype], {case: value for case, value in figures.items() if value < WORST_DB[dtype]}
    whole = {case for case, name in names.items() if subject.cases[0].ours[name].dtype == np.int32}
    assert {"quantize", "quantize along an axis", "cast"} <= whole
    assert all(figures[case] == float("inf") for case in whole)
    assert all(theirs[name].dtype == subject.cases[0].ours[name].dtype for name in names.values())


def test_no_operation_of_the_bridge_is_left_out(both: tuple[type, Subject, dict[str, str]]) -> None:
    assert {op.op_type for op in read_graph(both[1].package, "main").operations} == set(LOWERINGS)


def test_a_wrong_operation_is_noticed_and_named(both: tuple[type, Subject, dict[str, str]]) -> None:
    """Controls: one lowering means another thing; its output falls below the limit, and the layers name it and nothing before it."""
    _, subject, names = both
    wrong = {"sub": of_two(operator.add), "leaky_relu": lambda call: call.tensor("x") * 1.001}
    for op_type, lowering in wrong.items():
        runtime = PlainRuntime(lowerings={**LOWERINGS, op_type: lowering})
        (theirs,), told = runtime.ask(subject.package, "main", [subject.cases[0].given])
        rows = {row["output"]: row for row in rows_of(subject, [(subject.cases[0], theirs)], told)}
        assert not second_opinion.good(rows[names[op_type]] | {"quantizes": False})
        found = layers(subject, runtime, 55.0, 10)
        assert found["count"] == len(found["parted"]) or found["count"] > 10
        assert {row["operation"] for row in found["parted"]} == {op_type}
    assert layers(subject, PlainRuntime(), 55.0, 10)["count"] == 0


def _subject_of(function: Any, path: Path, given: dict[str, np.ndarray], target: Any) -> Subject:
    package = save(function, path, target)
    program = Program(package)
    return Subject(package, "main", program, [Case(given, {name: value.numpy() for name, value in program(given).items()})])


def test_a_remainder_of_two_large_numbers_is_no_fault(tmp_path: Path) -> None:
    """Its agreement with itself is bad by nature; against what it was made from it is good, and a real fault still shows, and no other."""
    with Function({"x": mb.placeholder(shape=(1, 512), dtype=types.fp16)}, opset_version=ct.target.iOS17) as function:
        x = function.inputs["x"]
        centred = mb.sub(x=x, y=mb.reduce_mean(x=x, axes=[1], keep_dims=True))
        rest = mb.mul(x=mb.reduce_mean(x=centred, axes=[1], keep_dims=True), y=np.float16(1.5))
        function.set_outputs([mb.add(x=mb.sub(x=centred, y=rest), y=x)])
    given = {"x": (np.random.default_rng(0).standard_normal((1, 512)) + 40).astype(np.float16)}
    subject = _subject_of(function, tmp_path / "n.mlpackage", given, ct.target.iOS17)
    tilted = {**LOWERINGS, "reduce_mean": lambda call: call.tensor("x").mean(1, keepdim=True) + 0.0005}
    assert layers(subject, PlainRuntime(lowerings=tilted), 55.0, 10)["count"] == 0
    wrong = {**LOWERINGS, "reduce_mean": lambda call: call.tensor("x").mean(1, keepdim=True) * 1.01}
    found = layers(subject, PlainRuntime(lowerings=wrong), 55.0, 10)
    assert {row["operation"] for row in found["parted"]} == {"reduce_mean"}
    kinds = {row["operation"]: row for row in found["kinds"]}
    assert kinds["reduce_mean"]["differ_percent"] > 0 and kinds["sub"]["differ_percent"] == 0 and kinds["sub"]["worst_db"] == 1000


def test_fp16_computed_in_fp32_agrees_with_the_exact_executor(both: tuple[type, Subject, dict[str, str]]) -> None:
    """Where both leave fp16's rounding out, the graph is all that could differ."""
    dtype, subject, names = both
    exact = Program(subject.package, precision="exact")({name: value.astype(dtype) for name, value in subject.cases[0].given.items()})
    (theirs,), _ = PlainRuntime().ask(subject.package, "main", [subject.cases[0].given], wide=True)
    assert min(snr_db(exact[name].numpy(), theirs[name]) for name in names.values()) >= WORST_DB[np.float32]


def test_against_the_reference_the_worst_sentence_counts() -> None:
    tone = np.sin(np.arange(24_000) / 9).astype(np.float32)
    found = against_reference([(tone, tone, tone), (tone, tone * 0.9, tone * 0.99)], with_pesq=False)
    assert found == {"ours_db": pytest.approx(20, abs=0.01), "theirs_db": pytest.approx(40, abs=0.01), "pesq": None, "pesq_theirs": None}


def test_compressed_weights_are_mlprograms(tmp_path: Path) -> None:
    """int8 with offsets, int4 in blocks, packed indices of 4 and 6 bits, a palette a group: every value equal."""
    random = np.random.default_rng(0)
    codes = random.integers(-128, 128, (4, 6), dtype=np.int8)
    scale = random.random(4).astype(np.float16) / 50

    def old() -> list[Any]:
        kept = [mb.constexpr_affine_dequantize(quantized_data=codes, zero_point=np.int8(5), scale=np.float16(0.1), axis=0)]
        kept.append(mb.constexpr_affine_dequantize(quantized_data=codes, zero_point=codes[:, 0], scale=scale, axis=0))
        for bits in (4, 6):
            indices = random.integers(0, 1 << bits, 24, dtype=np.uint8)
            packed = np.packbits(np.unpackbits(indices[:, None], axis=1, bitorder="little")[:, :bits].reshape(-1), bitorder="little")
            lut, shape = random.standard_normal(1 << bits).astype(np.float16), np.array([4, 6], np.uint32)
            kept.append(mb.constexpr_lut_to_dense(indices=packed, lut=lut, shape=shape))
        return kept

    def new() -> list[Any]:
        int4, uint2 = types.np_int4_dtype, types.np_uint2_dtype
        blocks = mb.constexpr_blockwise_shift_scale(data=(codes % 16 - 8).astype(int4), scale=random.random((4, 2)).astype(np.float16))
        grouped = mb.constexpr_lut_to_dense(indices=(codes % 4).astype(uint2), lut=random.standard_normal((2, 1, 4, 1)).astype(np.float16))
        return [blocks, grouped]

    for name, make, target in (("old", old, ct.target.iOS16), ("new", new, ct.target.iOS18)):
        with Function({"x": mb.placeholder(shape=(4, 6), dtype=types.fp16)}, opset_version=target) as function:
            function.set_outputs([mb.add(x=function.inputs["x"], y=weight) for weight in make()])
        subject = _subject_of(function, tmp_path / f"{name}.mlpackage", {"x": np.zeros((4, 6), np.float16)}, target)
        (theirs,), _ = PlainRuntime().ask(subject.package, "main", [subject.cases[0].given])
        assert len(theirs) > 1
        for output, ours in subject.cases[0].ours.items():
            assert np.any(ours)
            np.testing.assert_array_equal(theirs[output], ours)


def test_reading_leaves_the_package_as_it_is(both: tuple[type, Subject, dict[str, str]]) -> None:
    """coremltools' load_spec of a package writes its manifest anew, and the hash of the build no longer fits."""
    before = package_sha256(both[1].package)
    read_graph(both[1].package, "main")
    assert package_sha256(both[1].package) == before


def test_what_is_not_bridged_is_told_before_anything_runs(tmp_path: Path) -> None:
    with Function({"x": mb.placeholder(shape=(3,), dtype=types.fp32)}, opset_version=ct.target.iOS17) as function:
        function.set_outputs([mb.atan(x=function.inputs["x"], name="angle")])
    graph = read_graph(save(function, tmp_path / "n.mlpackage", ct.target.iOS17), "main")
    with pytest.raises(NotImplementedError, match="atan 'angle' is not bridged"):
        Bridge(graph, PlainKernels())
    with pytest.raises(ValueError, match="no function 'other'; it has main"):
        read_graph(tmp_path / "n.mlpackage", "other")


def test_agreement_of_what_cannot_be_compared_never_holds() -> None:
    ones = np.ones(3, np.float32)
    assert agreement_db(ones, ones) is None
    assert agreement_db(ones, np.ones(4, np.float32)) < -100
    assert agreement_db(ones, ones * np.float32("nan")) < -100


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({"agreement_db": 55.0}, True),
        ({"agreement_db": 54.9}, False),
        ({"agreement_db": None}, True),
        ({"agreement_db": 49.0, "reordered_db": 50.5}, True),
        ({"agreement_db": 48.0, "reordered_db": 50.5}, False),
        ({"agreement_db": 54.9, "reordered_db": 90.0}, False),
        ({"agreement_db": 80.0, "refused": "no"}, False),
        ({"agreement_db": 38.0, "quantizes": True, "pesq": 4.60, "pesq_theirs": 4.615}, True),
        ({"agreement_db": 38.0, "quantizes": True, "pesq": 4.60, "pesq_theirs": 4.63}, False),
        ({"agreement_db": 38.0, "quantizes": True, "pesq": None, "pesq_theirs": None}, False),
    ],
)
def test_a_row_is_good_by_agreement_or_by_pesq(change: dict[str, Any], holds: bool) -> None:
    assert second_opinion.good({"refused": "", "quantizes": False, "reordered_db": None, "pesq": 4.6, "pesq_theirs": 4.1} | change) is holds


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny G2P package with its manifest."""
    from g2p.weights import save_weights

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("reader")
    save_weights(LetterToSound(TINY), folder / "tiny.npz", {"seed": 1, "steps": 0})
    (manifest,) = build(G2PStage(folder / "tiny.npz"), folder / "build")
    return manifest.path


def test_the_command_compares_a_package_of_real_words(reader: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(second_opinion_runtime, "Runtime", PlainRuntime)
    assert second_opinion.main([str(reader), "--layers", "60", "--precision", "declared,exact"]) == 0
    table, *_, last = (said := capsys.readouterr().out).splitlines()
    rows = json.loads(last)["rows"]
    assert [row["precision"] for row in rows] == ["declared", "exact"]
    assert all(row["agreement_db"] is None or row["agreement_db"] >= 110 for row in rows)
    assert "| G2P | main | declared | logits |" in said and table.startswith("| package |")


def test_a_disagreement_and_a_refusal_are_exit_1(reader: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    wrong = {**LOWERINGS, "add": of_two(operator.sub)}
    monkeypatch.setattr(second_opinion_runtime, "Runtime", lambda python: PlainRuntime(python, wrong))
    assert second_opinion.main([str(reader)]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rows"][0]["agreement_db"] < 30

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeRefused("RuntimeError: no lowering for it")

    monkeypatch.setattr(PlainRuntime, "ask", refuse)
    assert second_opinion.main([str(reader), "--layers", "60"]) == 1
    said = capsys.readouterr().out
    assert "refused: RuntimeError: no lowering for it" in said
    assert json.loads(said.splitlines()[-1])["good"] is False


def test_without_the_environment_one_line_names_the_make_target(tmp_path: Path, capsys: Any) -> None:
    assert second_opinion.main(["any.json", "--python", str(tmp_path / "python")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "make venv-second-opinion" in told
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    bare.chmod(0o755)
    assert second_opinion.main(["any.json", "--python", str(bare)]) == 2
    assert "make venv-second-opinion" in capsys.readouterr().err
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    assert "\nvenv-second-opinion: " in makefile


@pytest.mark.parametrize("given", [["a.json", "--sentences", "0"], ["a.json", "--frames", "x"], ["a.json", "--precision", "half"], []])
def test_bad_flags_are_exit_2(given: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        second_opinion.main(given)
    assert stop.value.code == 2


def test_the_last_words_of_a_failure_are_its_error() -> None:
    stderr = "Traceback\n  File x\nRuntimeError: no lowering\nwarning: later\n"
    assert last_words(stderr) == "RuntimeError: no lowering"
    placed = 'RuntimeError: rewriting: at #debuginfo.location<loc("m.py":78:0) in @main metadata = [<"a": ["B$1"]>]>:  it is dynamic.'
    assert last_words(placed) == "RuntimeError: rewriting: it is dynamic."


@pytest.mark.slow
def test_apples_runtime_agrees_on_every_operation(both: tuple[type, Subject, dict[str, str]]) -> None:
    if not PYTHON.is_file():
        pytest.skip("Apple's runtime is not installed: make venv-second-opinion")
    dtype, subject, names = both
    (theirs,), _ = Runtime().ask(subject.package, "main", [subject.cases[0].given])
    figures = {case: snr_db(subject.cases[0].ours[name], theirs[name]) for case, name in names.items()}
    limit = {np.float32: 90.0, np.float16: 50.0}[dtype]
    assert min(figures.values()) >= limit, {case: value for case, value in figures.items() if value < limit}
