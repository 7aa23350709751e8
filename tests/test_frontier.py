"""The simulated rows of bench/frontier.py: what they share, what they take in int8, bad input."""

import pytest

from bench.frontier import AS_BUILT, ROWS, Row, main, ready_for, simulated_row
from bench.random_checkpoint import random_vocoder, tiny_config
from core.config import KokoroConfig
from quantize.following import tapped
from quantize.measure import Ready
from quantize.methods import Activations
from tests.test_quantize_equalize import clip as clip
from vocoder.packing import VocoderInputs


def test_rows_that_differ_in_float_layers_share_what_is_measured(clip: VocoderInputs) -> None:
    vocoder = random_vocoder(KokoroConfig.from_dict(tiny_config(), "test"), seed=0)
    found: dict[tuple[Activations, int], Ready] = {}
    built, inside = (ready_for(ROWS[name], vocoder, [clip], found) for name in ("w8a8", "float-decoder"))
    assert built is inside and len(found) == 1
    fixed = ready_for(ROWS["decoder"], vocoder, [clip], found)
    assert len(found) == 2 and set(built.caps) - set(fixed.caps) == set(tapped(vocoder))
    assert len(ready_for(Row("shorter", AS_BUILT, 6), vocoder, [clip], found).caps) == len(built.caps) and len(found) == 3
    names, renders = zip(*(simulated_row(ROWS[name], vocoder, built, [clip]) for name in ("w8a8", "float-decoder")), strict=True)
    assert names[0] - names[1] == {*tapped(vocoder), "asr_res.0"} - {"encode.conv1"}
    assert abs(renders[0][0] - renders[1][0]).max() > 0


@pytest.mark.parametrize("given", [["--rows", "none"], ["--rows", ""], ["--clips", "9"]])
def test_bad_input(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--checkpoint", "demo", *given]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
