"""coremltools' own test suites, from its wheel, with every prediction made by mlprogram: what
agrees, what does not, and why.

    python -m mlprogram_benches.coremltools_suite  # all of it: hours
    python -m mlprogram_benches.coremltools_suite --suite operations --files 6 --sample 60 --seed 3

fp32 and fp16 programs, CPU. A case counts when it predicted from an ML program; cases that this
coremltools and PyTorch do not convert, that predict nothing, or that coremltools itself expects to
fail do not. "to fp16": the case holds a program of fp16 values against the tolerance of fp32 and is
met within 2^-8 of the scale, four steps of fp16. What then disagrees is held against RULES, which
say who is right. Exit 0: every case that disagrees is explained and, from 1,000 cases on, at least
99.5 % agree; 1: not; 2: bad input. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlprogram.errors import EXIT_GOOD, EXIT_MISSED, ProgramError, conclude, run_command
from mlprogram.files import check_target, open_aside
from mlprogram_benches.shared import ROOT


@dataclass(frozen=True)
class Red:
    """One cause: `case` and `message` are searched in the case's name and in its error."""

    case: str
    message: str
    who: str
    cause: str


RULES = (
    Red(
        r"TestLinear::test_linear_fp16|test_batchnorm_fp16_weight_with_fp32_param"
        r"|TestConv::test_convolution_fp16",
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
        "Core ML refuses the default shape when it loads the model; mlprogram looks at the shapes"
        " of the run, which fit",
    ),
    Red(
        r"TestResample::test_builder_to_backend_smoke.*precision='fp32'",
        r"^AssertionError: assert \d+ == \d+",
        "mlprogram",
        "the test counts the casts of the fp16 program also where the program is fp32; values"
        " agree",
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
        "at rank 3 the wanted values sum over the batch axis; the stress test of the same file sums"
        " over channels, as PyTorch does",
    ),
    Red(
        r"TestIndex::test_index_bool_indices.*'fp16'",
        "Items are not equal:\\s+item=0",
        "both",
        "a random number just above the threshold is the threshold in fp16, so that one element"
        " less is chosen",
    ),
    Red(
        r"TestRNN::test_builder_to_backend_smoke.*input_size=64-hidden_size=1-.*dtype=<class"
        r" 'numpy.float16'>",
        "Max absolute difference among violations: 0.00148994",
        "mlprogram",
        "the test rounds weights and inputs to fp16 and wants the result of unrounded ones; float64"
        " of the rounded ones gives mlprogram's",
    ),
)


def explanation(case: dict[str, Any]) -> tuple[str, str]:
    """(cause, who) of a case that disagrees."""
    messages = " ".join([case["message"], *case["errors"]])
    for rule in RULES:
        if re.search(rule.case, case["case"]) and re.search(rule.message, messages, re.DOTALL):
            return rule.cause, rule.who
    return "not explained", "unknown"


SUITES = MappingProxyType(
    {
        "operations": ("converters/mil/mil/ops/tests",),
        "pytorch": ("converters/mil/frontend/torch/test",),
        "quantization": (
            "test/optimize/coreml/test_post_training_quantization.py",
            "test/ml_program/test_compression.py",
        ),
        "interface": (
            "test/api",
            "test/modelpackage",
            "test/ml_program/test_utils.py",
            "converters/mil/frontend/milproto",
        ),
    }
)
ENVIRONMENT = MappingProxyType(
    {"PYMIL_TEST_TARGETS": "mlprogram", "INCLUDE_MIL_FP32_UNIT_TESTS": "1", "OMP_NUM_THREADS": "1"}
)
WANTED_SHARE, FROM_CASES = 0.995, 1000  # one red case of a small sample says nothing of the share
TIGHT, HALF = 0.01, 2.0**-8  # errors as a share of the scale


def test_files(suite: str, count: int, seed: int) -> list[Path]:
    """Test files of a suite inside the installed coremltools; a seeded choice of `count`, 0 for
    all.
    """
    import coremltools

    root = Path(coremltools.__file__).parent
    places = [root / part for part in SUITES[suite]]
    matches = [
        file
        for place in places
        for file in ([place] if place.suffix == ".py" else sorted(place.rglob("test_*.py")))
    ]
    return (
        sorted(random.Random(seed).sample(matches, min(count, len(matches)))) if count else matches
    )


def run_pytest(
    files: list[Path], folder: Path, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """What was collected, then every case. A case that takes its process down is one of them; the
    rest run in another process.
    """
    head, *cases = run_process(files, folder, arguments, 0)
    while cases and "died" in cases[-1]:
        print(f"{cases[-1]['case']}: {cases[-1]['message']}; on behind it", file=sys.stderr)
        cases += run_process(files, folder, arguments, len(cases))[1:]
    return [head, *cases]


def run_process(
    files: list[Path], folder: Path, arguments: argparse.Namespace, skip: int
) -> list[dict[str, Any]]:
    """One pytest process over these files but the first `skip` cases: the plugin's lines. Raises
    RuntimeError if it left none.
    """
    out = folder / "cases.jsonl"
    out.unlink(missing_ok=True)
    chosen = {"out": out, "skip": skip} | {
        name: getattr(arguments, name) for name in ("seed", "sample", "minutes", "precision")
    }
    import coremltools

    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "mlprogram_benches.coremltools_plugin",
        "-p",
        "no:cacheprovider",
        "--tb=no",
    ]
    command += [
        "-c",
        os.devnull,
        "--rootdir",
        str(Path(coremltools.__file__).parent),
        "-W",
        "ignore",
        "--continue-on-collection-errors",
    ]
    command += map(str, files)
    command += [part for name, value in chosen.items() for part in (f"--suite-{name}", str(value))]
    command += [] if arguments.slow else ["-m", "not slow"]
    earlier = filter(None, [os.environ.get("PYTHONPATH")])
    paths = os.pathsep.join([str(ROOT), str(ROOT.parent / "src"), *earlier])
    environment = os.environ | ENVIRONMENT | {"PYTHONPATH": paths, "TMPDIR": str(folder)}
    print(f"running {len(files)} test files", file=sys.stderr)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    lines = (
        [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        if out.is_file()
        else []
    )
    if not lines:
        raise RuntimeError(f"pytest left no cases: {(done.stdout + done.stderr).strip()[-600:]}")
    return told(lines, done.returncode)


def told(lines: list[dict[str, Any]], code: int) -> list[dict[str, Any]]:
    """The head and the cases of a process; its last one, where it began and never ended, as a
    failure of the whole process.
    """
    begun = lines[-1].get("begun")
    finished = [line for line in lines if "begun" not in line]
    if begun:
        died = {
            "case": begun,
            "outcome": "failed",
            "message": f"the process ended with {code}",
            "died": True,
            "predictions": 0,
            "errors": ["died"],
        }
        finished.append(
            died | {"other_kind": False, "half": False, "worst": 0.0, "operations": [], "where": ""}
        )
    return finished


def kind_of(case: dict[str, Any]) -> str:
    """agrees, disagrees, or why the case does not count."""
    if case["outcome"] in ("skipped", "expected to fail", ""):
        return case["outcome"] or "not run"
    if case["other_kind"]:
        return "not an ML program"
    if not case["predictions"] and not case["errors"]:
        return "predicts nothing" if case["outcome"] == "passed" else "does not convert here"
    if case["outcome"] == "passed":
        return "agrees"
    is_fp32 = (
        re.search(r"precision='fp32'|'mlprogram', 'fp32'|\['mlprogram-fp32", case["case"])
        is not None
    )
    missed = "Not equal to tolerance" in case["message"] and not case["errors"]
    return (
        "agrees to fp16"
        if is_fp32 and missed and case["half"] and case["worst"] <= HALF
        else "disagrees"
    )


def run_suite(suite: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Every figure of one suite; each case that disagrees with its cause."""
    with tempfile.TemporaryDirectory() as name:
        head, *cases = run_pytest(
            test_files(suite, arguments.files, arguments.seed), Path(name), arguments
        )
    red = [case for case in cases if kind_of(case) == "disagrees"]
    for case in red:
        case["cause"], case["who"] = explanation(case)
    counts = Counter(kind_of(case) for case in cases)
    judged = counts["agrees"] + counts["agrees to fp16"] + counts["disagrees"]
    figures = {"suite": suite, **head, "judged": judged, "counts": dict(counts), "red": red}
    figures["loose"] = [
        case["case"] for case in cases if kind_of(case) == "agrees" and case["worst"] > TIGHT
    ]
    figures["operations"] = sorted({op for case in cases for op in case["operations"]})
    return figures


def print_tables(results: list[dict[str, Any]]) -> None:
    """By suite, then by cause."""
    print(
        f"{'suite':14}{'collected':>10}{'run':>8}{'judged':>8}{'agree':>8}{'to fp16':>9}"
        f"{'share':>9}{'> 1 % of scale':>16}"
    )
    for row in results:
        agree, half = (row["counts"].get(kind, 0) for kind in ("agrees", "agrees to fp16"))
        share = f"{100 * (agree + half) / row['judged']:8.2f}%" if row["judged"] else f"{'-':>9}"
        print(
            f"{row['suite']:14}{row['collected']:10}{row['chosen']:8}{row['judged']:8}{agree:8}{half:9}{share}{len(row['loose']):16}"
        )
    print("\nnot judged:", "; ".join(f"{r['suite']}: {_others(r['counts'])}" for r in results))
    causes = Counter((case["who"], case["cause"]) for row in results for case in row["red"])
    if causes:
        print(f"\n{'cases':>6}  {'who is right':14} cause")
    for (who, cause), count in causes.most_common():
        print(f"{count:6}  {who:14} {cause}")


def _others(counts: dict[str, int]) -> str:
    return (
        ", ".join(
            f"{n} {kind}"
            for kind, n in sorted(counts.items())
            if not kind.endswith(("agrees", "fp16"))
        )
        or "none"
    )


def build_parser() -> argparse.ArgumentParser:
    """Flags."""
    parser = argparse.ArgumentParser(
        "mlprogram_benches.coremltools_suite", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--suite", choices=tuple(SUITES), action="append", help="repeatable; default: all"
    )
    parser.add_argument(
        "--files",
        type=int,
        default=0,
        help="how many test files of each suite, chosen by the seed; 0: all",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        help="how many cases of each suite, every test function first; 0: all",
    )
    parser.add_argument(
        "--minutes", type=float, default=0, help="stop a suite after this long; 0: never"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the choice and of every case's data"
    )
    parser.add_argument(
        "--slow", action="store_true", help="with the cases coremltools marks as slow"
    )
    parser.add_argument("--precision", default="declared", help="of mlprogram")
    parser.add_argument(
        "--out", type=Path, help="write every case that disagrees, and every figure, as JSON"
    )
    return parser


def run(argv: list[str] | None) -> int:
    """Run, print the tables and the JSON line."""
    arguments = build_parser().parse_args(argv)
    if min(arguments.files, arguments.sample, arguments.minutes) < 0:
        raise ProgramError("--files, --sample and --minutes are 0 or more")
    if arguments.out:
        check_target(arguments.out)
    try:
        results = [run_suite(suite, arguments) for suite in arguments.suite or SUITES]
    except RuntimeError as problem:
        raise ProgramError(str(problem)) from None
    print_tables(results)
    judged = sum(row["judged"] for row in results)
    agree = sum(
        row["counts"].get(kind, 0) for row in results for kind in ("agrees", "agrees to fp16")
    )
    unexplained = [
        case["case"] for row in results for case in row["red"] if case["who"] == "unknown"
    ]
    for case in unexplained[:20]:
        print(f"unexplained: {case}", file=sys.stderr)
    if arguments.out:
        with open_aside(arguments.out) as path:
            path.write_text(
                json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n",
                encoding="utf-8",
            )
    share = agree / judged if judged else 0.0
    summary = {
        "judged": judged,
        "agree": agree,
        "share": round(share, 5),
        "unexplained": len(unexplained),
        "seed": arguments.seed,
    }
    report = summary | {"suites": {row["suite"]: row["counts"] for row in results}}
    if judged and not unexplained and (share >= WANTED_SHARE or judged < FROM_CASES):
        return conclude(report, EXIT_GOOD, f"{share:.1%} of {judged} cases agree")
    return conclude(report, EXIT_MISSED, f"{share:.1%} of {judged} cases agree: too few")


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_command(lambda: run(argv))


if __name__ == "__main__":
    raise SystemExit(main())
