"""The Core ML model, executed on any machine, agrees with the network that it came from."""

from pathlib import Path

import numpy as np
import pytest

from mlprogram import MLModel

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def model():
    # an .mlmodel or .mlmodelc too; precision="exact" keeps fp16 values in fp32
    return MLModel(HERE / "Model.mlpackage")


def test_agrees_with_the_network_it_came_from(model):
    recorded = np.load(HERE / "recorded.npz")  # one input, and the output of the PyTorch model
    scores = model.predict({"image": recorded["image"]})["scores"]
    error = np.square(scores - recorded["scores"]).mean() / np.square(recorded["scores"]).mean()
    assert 10 * np.log10(1 / error) > 50  # dB: fp16 rounding, not a wrong graph


def test_refuses_another_shape(model):
    with pytest.raises(RuntimeError, match="allowed:"):
        model.predict({"image": np.zeros((1, 3, 7, 7))})
