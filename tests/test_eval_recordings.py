"""The guide's MCD increase against recordings: nothing for the fp32 model itself, something for a worse one, refused without recordings."""

from dataclasses import replace

import numpy as np
import pytest

from core.checkpoint import open_checkpoint
from core.corpus import calibration, heldout
from core.errors import InputError
from eval.corpus import Truth
from eval.damage import low_pass
from eval.recordings import increase, main, recording_of
from vocoder.package import render_reference


class Rendered:
    """The fp32 model, or a duller one."""

    def __init__(self, truth: Truth, cutoff_hz: float | None) -> None:
        self.truth, self.cutoff_hz = truth, cutoff_hz

    def render(self, inputs: object) -> np.ndarray:
        signal = render_reference(self.truth.vocoder, inputs)
        return signal if self.cutoff_hz is None else low_pass(signal.astype(np.float64), self.cutoff_hz)


def test_the_model_itself_adds_nothing_and_a_duller_one_does() -> None:
    truth = Truth(open_checkpoint("demo"), seed=0)
    same = increase(truth, Rendered(truth, None), heldout()[0])
    assert (same["mcd_db"], same["mcd13_db"]) == (0.0, 0.0)
    assert same["mcd_db fp32"] > 1
    assert increase(truth, Rendered(truth, 3000.0), heldout()[0])["mcd_db"] > 0.5


def test_without_recordings(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    with pytest.raises(InputError, match="has no recording"):
        recording_of(calibration()[0])
    assert len(recording_of(heldout()[0])) == 600 * heldout()[0].frames
    with pytest.raises(InputError, match="has no recording"):
        recording_of(replace(heldout()[0], recording=None))
    assert main(["--method", "p4", "--checkpoint", "demo", "--build", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
