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
from kokoro_ane.eval.execution import judge_clip
from kokoro_ane.eval.judge import REJECT, SHIP
from kokoro_ane.eval.metrics.catalog import DURATIONS, METRICS, measure
from kokoro_ane.eval.metrics.trial import Retimed, Trial
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import (
    HEARD,
    SCALED,
    VOCODER_ALONE,
    ProductComparison,
    ProductSubject,
    Reader,
)
from kokoro_ane.pipeline.bundle import main as bundle
from kokoro_ane.quantize.speech import own_speech
from tests.commands import printed
from tests.demo_voice import DEMO_VOICE
from tests.eval.release_build import release

PERFECT = {name: METRICS[name].perfect for name in (*VOCODER_ALONE, *HEARD, *DURATIONS)}
SPREAD = dict.fromkeys((*SCALED, *DURATIONS), 1.0)


def noise(frames, seed):
    return 0.1 * np.random.default_rng(seed).standard_normal(frames * FRAME_SAMPLES)


class TestTime:
    wanted, signal = np.array([10, 10]), noise(20, seed=0)

    def test_equal_durations_change_nothing(self):
        other = noise(20, seed=1)
        names = ("mcd_db", "lsd_db", "f0_rmse_cents", "voicing_error_percent", "level_db")
        own = measure(Retimed(self.signal, other, durations=(self.wanted, self.wanted)), names)
        assert own == pytest.approx(measure(Trial(self.signal, other), names))

    def test_what_a_token_gains_is_undone_behind_it(self):
        ends = np.split(self.signal, 2)
        longer = np.concatenate([ends[0], noise(3, seed=2), ends[1]])
        told = Retimed(self.signal, longer, durations=(np.array([5, 5, 10]), np.array([5, 8, 10])))
        starts = told.places(600, 120)
        assert (starts[:20] == np.arange(20) * 120).all()
        assert starts[-1] == len(longer) - 600
        late = Retimed(self.signal, longer, durations=(self.wanted, np.array([10, 13])))
        with pytest.raises(ValueError, match="its durations 12600"):
            Retimed(self.signal, longer, durations=(self.wanted, np.array([10, 11])))
        assert measure(told, ["mcd_db"])["mcd_db"] < 0.6 * measure(late, ["mcd_db"])["mcd_db"]


@pytest.fixture(scope="module")
def reference():
    return Reference(open_checkpoint(str(DEMO_VOICE)), seed=0)


def test_a_chain_that_is_the_reference_and_one_that_is_not(reference):
    clip = min(
        (one for one in own_speech(reference.checkpoint, TUNING) if one.frames > 40),
        key=lambda one: one.frames,
    )

    comparison = ProductComparison(reference)
    chain = ProductSubject(Reader(reference), reference.clock)
    same = judge_clip(comparison, chain, clip)
    assert same.defect is None
    assert set(same.figures) == set(PERFECT)
    assert set(SPREAD) == set(same.variation)
    assert same.figures["mcd_db"] < 0.05 < 0.1 < same.variation["mcd_db"]
    assert same.figures["tokens_changed_percent"] == 0
    fast = replace(chain, reader=Reader(reference, faster=1.3))
    off = judge_clip(comparison, fast, clip, same.variation)
    assert off.figures["length_percent"] > 5
    assert off.figures["mcd_db"] > same.figures["mcd_db"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [(lambda samples: samples * np.nan, "NaN"), (lambda samples: samples[:-600], "samples")],
)
def test_output_that_is_no_speech_is_a_result(damage, message, reference):
    clip = min(own_speech(reference.checkpoint, TUNING), key=lambda one: one.frames)
    subject = ProductSubject(Reader(reference), lambda inputs: damage(reference.clock(inputs)))
    result = judge_clip(ProductComparison(reference), subject, clip, SPREAD)
    assert message in (result.defect or "")
    assert not result.figures


@pytest.fixture
def chain_build(placed, tiny_build, monkeypatch):
    """A build folder with both packages; the judges are told what to find, and a bundle's words are
    few.
    """
    checkpoint, build = placed
    for path in tiny_build.glob("KokoroEncoder-tiny-fp16*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, build / path.name)
    monkeypatch.setattr(levels, "judged_encoder", lambda *_: {"verdict": SHIP})
    monkeypatch.setattr(
        "kokoro_ane.pipeline.bundle_files.write_text_tables",
        lambda folder, *_: _few(folder / "us.rules"),
    )
    return placed


def _few(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a word\n", encoding="utf-8")


def said(capsys):
    return printed(capsys)


def test_a_product_is_judged_named_and_bundled(chain_build, measured, capsys):
    build, asked = chain_build[1], ["--product", "--encoders", "fp16"]
    # nobody judged the vocoder
    assert release(chain_build, *asked) == 3
    assert said(capsys)["verdict"] == "UNDECIDED"
    undecided = read_json(build / "release" / "product.json", "")["products"][0]
    assert (
        undecided["reasons"][0] == "vocoder padded-fp16 was not judged:"
        " `kokoro-ane release --methods padded-fp16` judges it"
    )
    assert "clips" not in undecided
    flags = f"--product --checkpoint {chain_build[0].folder} --build {build}".split()
    assert bundle(flags) == 3
    assert said(capsys)["bundle"] is None
    release(chain_build, "--methods", "fp16")
    assert release(chain_build, *asked) == 3  # it ships, and random weights may not be released
    found = read_json(build / "release" / "product.json", "")
    named = found["products"][0]
    assert (found["verdict"], found["product"], found["releasable"], len(named["clips"])) == (
        SHIP,
        "padded-fp16+fp16",
        False,
        48,
    )
    assert named["bytes"] == sum(named["parts"].values())
    assert {"encoder", "vocoder", "text", "voice"} == set(named["parts"])
    capsys.readouterr()
    assert bundle(flags) == 3
    assert (
        "padded-fp16+fp16, against the fp32 chain: SHIP"
        in (build / "bundle-tiny-padded-fp16" / "MODEL_CARD.md").read_text()
    )
    found["products"][0]["packages"]["KokoroEncoder-tiny-fp16.mlpackage"] = "0" * 64
    write_json(build / "release" / "product.json", found)
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
