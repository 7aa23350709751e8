"""Runs, operations, arithmetic and bytes of a built package."""

import pytest

from bench.streaming import main
from tests.commands import printed


def test_a_package_is_counted_at_the_lengths_nearest_to_those_asked_for(tiny_build, capsys):
    package = tiny_build / "KokoroVocoder-tiny-padded-fp16.mlpackage"
    assert main([str(package), "--seconds", "1,3.9"]) == 0
    short, long = printed(capsys)["rows"]
    assert (short["audio_s"], long["audio_s"]) == (1.0, 4.0)
    assert short["runs"] == 1
    assert short["operations"] == long["operations"]
    # of a second the arithmetic is the same, but for the style's
    assert long["gmac_per_s"] == pytest.approx(short["gmac_per_s"], rel=0.1)
