"""The second opinion: the bridge against mlprogram without Apple's runtime, faults it must notice, and what the command says."""

from __future__ import annotations

import json
import operator
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types

from mlprogram import Program
from mlprogram.benches.coreai import opinion
from mlprogram.benches.coreai.asked import PYTHON, TARGET, Case, Runtime, RuntimeRefused, Subject, last_words
from mlprogram.benches.coreai.bridge import PlainKernels, read_graph
from mlprogram.benches.coreai.lowerings import of_two
from mlprogram.benches.coreai.opinion import agreement_db, layers, rows_of
from mlprogram.benches.coreai.runner import LOWERINGS, Bridge
from mlprogram.benches.shared import snr_db
from mlprogram.tests.built import save
from mlprogram.tests.built_opinion import PlainRuntime, every_operation

WORST_DB = {np.float32: 110.0, np.float16: 60.0}  # sums in another order; in fp16 one step more or less


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
        assert not opinion.good(rows[names[op_type]])
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
    files = [path for path in sorted(both[1].package.rglob("*")) if path.is_file()]
    before = [path.read_bytes() for path in files]
    read_graph(both[1].package, "main")
    assert [path.read_bytes() for path in files] == before


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
    ],
)
def test_a_row_is_good_by_agreement(change: dict[str, Any], holds: bool) -> None:
    assert opinion.good({"refused": "", "reordered_db": None} | change) is holds


def test_the_command_compares_agrees_disagrees_and_tells_a_refusal(
    both: tuple[type, Subject, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    dtype, subject, _ = both
    if dtype is np.float16:
        return
    np.savez(tmp_path / "given.npz", **subject.cases[0].given)
    command = [str(subject.package), "--layers", "60"]
    monkeypatch.setattr(opinion, "Runtime", PlainRuntime)
    assert opinion.main([*command, "--precision", "declared,exact", "--inputs", str(tmp_path / "given.npz")]) == 0
    table, *_, last = (said := capsys.readouterr().out).splitlines()
    assert [row["precision"] for row in json.loads(last)["rows"][:: len(subject.program.outputs)]] == ["declared", "exact"]
    assert "| n | main | declared | out_0 |" in said and table.startswith("| package |")
    monkeypatch.setattr(opinion, "Runtime", lambda python: PlainRuntime(python, {**LOWERINGS, "add": of_two(operator.sub)}))
    assert opinion.main([*command, "--seed", "3"]) == 1
    assert min(row["agreement_db"] or 999 for row in json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]) < 30

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeRefused("RuntimeError: no lowering for it")

    monkeypatch.setattr(PlainRuntime, "ask", refuse)
    assert opinion.main(command) == 1
    said = capsys.readouterr().out
    assert "refused: RuntimeError: no lowering for it" in said
    assert json.loads(said.splitlines()[-1])["good"] is False


def test_without_the_environment_one_line_names_the_make_target(tmp_path: Path, capsys: Any) -> None:
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    bare.chmod(0o755)
    for python in (tmp_path / "python", bare):
        assert opinion.main(["any.mlpackage", "--python", str(python)]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and TARGET in told


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
