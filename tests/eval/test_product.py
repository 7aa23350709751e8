"""A product: what is heard of two executed stages, in the reference's time; verdicts and bundles
that guess nothing.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.contract import FRAME_SAMPLES, TUNING
from kokoro_ane.core.data_files import read_json
from kokoro_ane.core.staging import write_json
from kokoro_ane.eval import levels
from kokoro_ane.eval.comparisons import HEARD, SCALED, VOCODER_ALONE, ProductComparison
from kokoro_ane.eval.execution import judge_clip
from kokoro_ane.eval.judge import REJECT, SHIP
from kokoro_ane.eval.metrics.catalog import DURATIONS, METRICS, measure
from kokoro_ane.eval.metrics.trial import Retimed, Trial
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import ClipReader, ProductSubject
from kokoro_ane.pipeline.bundle import main as bundle
from kokoro_ane.speech.speech import load_own_speech
from tests.commands import printed, refused
from tests.demo_voice import DEMO_VOICE
from tests.eval.release_build import release

PERFECT = {name: METRICS[name].perfect for name in (*VOCODER_ALONE, *HEARD, *DURATIONS)}
SPREAD = dict.fromkeys((*SCALED, *DURATIONS), 1.0)


def noise(frames, seed):
    return 0.1 * np.random.default_rng(seed).standard_normal(frames * FRAME_SAMPLES)


class TestTime:
    frames, signal = np.array([10, 10]), noise(20, seed=0)

    def test_equal_durations_change_nothing(self):
        other = noise(20, seed=1)
        names = ("mcd_db", "lsd_db", "f0_rmse_cents", "voicing_error_percent", "level_db")
        same = measure(Retimed(self.signal, other, durations=(self.frames, self.frames)), names)
        assert same == pytest.approx(measure(Trial(self.signal, other), names))

    def test_what_a_token_gains_is_undone_behind_it(self):
        ends = np.split(self.signal, 2)
        longer = np.concatenate([ends[0], noise(3, seed=2), ends[1]])

        def retimed(reference, test):
            return Retimed(self.signal, longer, durations=(np.array(reference), np.array(test)))

        undone, late = retimed([5, 5, 10], [5, 8, 10]), retimed([10, 10], [10, 13])
        starts = undone.places(600, 120)
        assert (starts[:20] == np.arange(20) * 120).all()
        assert starts[-1] == len(longer) - 600
        distances = [measure(trial, ["mcd_db"])["mcd_db"] for trial in (undone, late)]
        assert distances[0] < 0.6 * distances[1]
        refused("its durations 12600", retimed, [10, 10], [10, 11])


@pytest.fixture(scope="module")
def reference():
    return Reference(open_checkpoint(str(DEMO_VOICE)), seed=0)


@pytest.fixture(scope="module")
def clip(reference):
    clips = [one for one in load_own_speech(reference.checkpoint, TUNING) if one.frames > 40]
    return min(clips, key=lambda one: one.frames)


def test_a_chain_that_is_the_reference_and_one_that_is_not(reference, clip):
    comparison = ProductComparison(reference)
    chain = ProductSubject(ClipReader(reference), reference.render_clock)
    same = judge_clip(comparison, chain, clip)
    assert same.defect is None
    assert set(same.figures) == set(PERFECT)
    assert set(SPREAD) == set(same.variation)
    assert same.figures["mcd_db"] < 0.05 < 0.1 < same.variation["mcd_db"]
    assert same.figures["tokens_changed_percent"] == 0
    fast = replace(chain, reader=ClipReader(reference, faster=1.3))
    off = judge_clip(comparison, fast, clip, same.variation)
    assert off.figures["length_percent"] > 5
    assert off.figures["mcd_db"] > same.figures["mcd_db"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [(lambda samples: samples * np.nan, "NaN"), (lambda samples: samples[:-600], "samples")],
)
def test_output_that_is_no_speech_is_a_result(damage, message, reference, clip):
    subject = ProductSubject(
        ClipReader(reference), lambda inputs: damage(reference.render_clock(inputs))
    )
    result = judge_clip(ProductComparison(reference), subject, clip, SPREAD)
    assert message in (result.defect or "")
    assert not result.figures


@pytest.fixture
def chain_build(placed, tiny_build, monkeypatch):
    """A build folder with both packages; the encoder ships alone, and a bundle's words are few."""
    for path in tiny_build.glob("KokoroEncoder-tiny-fp16*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, placed[1] / path.name)
    monkeypatch.setattr(levels, "judge_encoder", lambda *_: {"failed": None, "verdict": SHIP})

    def few_words(folder, *_):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "us.rules").write_text("a word\n", encoding="utf-8")

    monkeypatch.setattr("kokoro_ane.pipeline.bundle_files.write_text_tables", few_words)
    return placed


def test_a_product_is_judged_named_and_bundled(chain_build, measured, capsys):
    checkpoint, build = chain_build
    flags = f"--product --checkpoint {checkpoint.folder} --build {build}".split()
    file = build / "release" / "product.json"

    def released():
        """The exit code, and the decision. Random weights may not be released: never 0."""
        return release(chain_build, "--product", "--encoders", "fp16"), read_json(file, "")

    code, undecided = released()  # nobody judged the vocoder
    assert (code, undecided["verdict"]) == (3, "UNDECIDED")
    (product,) = undecided["products"]
    assert (
        product["reasons"][0] == "vocoder padded-fp16 was not judged:"
        " `kokoro-ane release --methods padded-fp16` judges it"
    )
    assert "clips" not in product
    assert bundle(flags) == 3
    assert printed(capsys)["bundle"] is None
    release(chain_build, "--methods", "fp16")
    code, decision = released()
    assert (code, decision["verdict"], decision["releasable"]) == (3, SHIP, False)
    assert decision["product"] == "padded-fp16+fp16"
    (product,) = decision["products"]
    assert len(product["clips"]) == 48
    assert product["bytes"] == sum(product["parts"].values())
    assert {"encoder", "vocoder", "text", "voice"} == set(product["parts"])
    capsys.readouterr()
    assert bundle(flags) == 3
    card = (build / "bundle-tiny-padded-fp16" / "MODEL_CARD.md").read_text()
    assert "padded-fp16+fp16, against the fp32 chain: SHIP" in card
    product["packages"]["KokoroEncoder-tiny-fp16.mlpackage"] = "0" * 64
    write_json(file, decision)
    assert bundle(flags) == 2
    assert "is not what the product decision judged" in capsys.readouterr().err
    assert bundle([*flags, "--method", "p6"]) == 2
    assert "belong to a bundle without it" in capsys.readouterr().err


def test_a_stage_that_is_rejected_is_not_rendered(chain_build, measured, monkeypatch, capsys):
    release(chain_build, "--methods", "fp16")
    path = chain_build[1] / "release" / "decision.json"
    decision = read_json(path, "")
    decision["levels"][0]["verdict"] = REJECT
    write_json(path, decision)
    monkeypatch.setattr("kokoro_ane.eval.execution.judge_clip", lambda *_: pytest.fail("rendered"))
    assert release(chain_build, "--product", "--encoders", "fp16", "--methods", "fp16") == 1
    assert "the vocoder alone: REJECT" in capsys.readouterr().out
    assert release(chain_build, "--product", "--features", "package") == 2
