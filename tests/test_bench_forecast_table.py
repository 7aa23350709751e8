"""The comparison page: its sums on a tiny program, the committed tables, and the graph after MM with its published counts."""

from collections import Counter
from pathlib import Path

import pytest
from coremltools.converters.mil.mil import Builder as mb

from bench.comparison_graphs import MM_BUCKETS_S, mm_bucket_s
from bench.forecast import SECONDS
from bench.forecast_forms import ENGINE, FORMS, LITERAL, Part, Sample, build_samples, fp32_operations, mm_parts
from bench.forecast_page import HEADINGS, render
from bench.forecast_table import COMMAND, main, rows_of
from mlprogram.examine.profile import Profile
from mlprogram.examine.report import generated_marks
from mlprogram.examine.rules import load_rules
from pipeline.errors import InputError
from tests.examine_build import profile_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "forecast.md"
RULES = load_rules()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """A product on the engine and a sine that M1 does not have."""
    return profile_of({"x": (1, 64, 1, 256)}, lambda x: mb.sin(x=mb.mul(x=x, y=x)), tmp_path_factory.mktemp("tiny"))


def sample(profile: Profile, parts: int = 1, form: str = LITERAL, seconds: int = 3) -> Sample:
    return Sample(form, seconds, 4.0, (Part(profile, frozenset({1})),) * parts, tuple(RULES.chips))


def test_programs_of_a_form_are_summed_and_their_shares_weighted(tiny: Profile) -> None:
    one, three = (rows_of(sample(tiny, parts), RULES) for parts in (1, 3))
    assert [row.chip for row in one] == list(RULES.chips)
    m1, thrice = one[0], three[0]
    assert m1.optimistic.ops == thrice.optimistic.ops == 0.5
    assert (thrice.operations, thrice.optimistic.segments, thrice.optimistic.crossings) == (6, 3, 3 * m1.optimistic.crossings)
    assert thrice.optimistic.low_ms == pytest.approx(3 * m1.optimistic.low_ms) and thrice.moved_mb == pytest.approx(3 * m1.moved_mb)


def test_the_tail_does_not_count_as_trunk(tmp_path: Path) -> None:
    def both(x: object) -> object:
        return mb.matmul(x=mb.cast(x=mb.matmul(x=x, y=x), dtype="fp32"), y=mb.cast(x=x, dtype="fp32"))

    profile = profile_of({"x": (1, 1, 64, 64)}, both, tmp_path)
    tail = fp32_operations(profile)
    row = rows_of(Sample(LITERAL, 1, 1.0, (Part(profile, tail),), ("m4",)), RULES)[0]
    assert len(tail) == len(profile.ops) - 1
    assert row.optimistic.macs == 0.5 and row.optimistic.trunk_macs == 1.0


def test_the_summary_joins_chips_that_agree_and_has_every_length(tiny: Profile) -> None:
    rows = [row for form in (LITERAL, ENGINE) for s in (1, 3) for row in rows_of(sample(tiny, 1, form, s), RULES)]
    text = render(rows, RULES)
    summary = text.split("### What")[0]
    assert all(chip.name in summary for chip in RULES.chips.values())
    assert text.count("| M1 | 1 |") == 2 and "| engine | all | 3 | 4 | 2 |" in text and "| 1 | 0.0 in 1 / 0.0 in 0 |" in summary


def test_mm_has_its_published_counts_of_operations(tmp_path: Path) -> None:
    _, generator = mm_parts(3, tmp_path, narrow=16)
    counts = Counter(op.op_type for op in generator.profile.ops)
    published = {"conv": 51, "conv_transpose": 4, "reduce_mean": 88, "tile": 96, "sin": 50, "pow": 48, "cos": 1}
    assert {name: counts[name] for name in published} == published
    assert generator.profile.outputs[0].shape == (1, 1, 3 * 600)
    tail = [generator.profile.ops[i].op_type for i in sorted(generator.tail)]
    assert tail[0] == "conv" and tail.count("conv") == 1 and tail.count("conv_transpose") == 2


def test_a_length_goes_into_the_smallest_bucket_that_holds_it() -> None:
    assert [mm_bucket_s(s) for s in SECONDS] == [3, 3, 7, 15, 30] and max(SECONDS) <= max(MM_BUCKETS_S)


def test_an_unknown_job_lists_the_jobs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mm-30, lai"):
        build_samples("nope", tmp_path)


def test_a_document_without_marks_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text("nothing here\n", encoding="utf-8")
    assert main(["--write", str(tmp_path / "page.md")]) == 2
    assert "must hold one line" in capsys.readouterr().err
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == "nothing here\n"


def test_the_committed_page_has_every_form_chip_and_length() -> None:
    begin, end = generated_marks(COMMAND)
    generated = PAGE.read_text(encoding="utf-8").split(begin)[1].split(end)[0]
    sections = {part.split("\n")[0]: part for part in generated.split("### ")[1:]}
    for form in FORMS:
        lines = [line.strip("| ").split(" | ") for line in sections[form].splitlines() if line.startswith("|")]
        assert tuple(lines[0][: len(HEADINGS)]) == HEADINGS
        assert [tuple(cells[:2]) for cells in lines[2:]] == [(chip.name, str(s)) for chip in RULES.chips.values() for s in SECONDS]
        for cells in lines[2:]:
            shares = [float(value) for cell in cells[2:6] for value in cell.split(" / ")]
            assert len(shares) == 8 and all(0 <= share <= 100 for share in shares)
