"""The full-size vocoder, executed: agreement with eager PyTorch and memory, in one run. Its speed: `python -m bench.executor`.

python -m pytest tests/test_mlprogram_vocoder.py -q -m slow
"""

from pathlib import Path

import pytest

from bench.executor import AGREEMENT_DB, MEMORY_LIMIT, measure


@pytest.mark.slow
def test_full_size_vocoder(quick_conversion: None, tmp_path: Path) -> None:
    figures = measure(frames=40, rounds=1, folder=tmp_path)
    assert figures["snr_db_to_float64"]["fp32 declared"] >= AGREEMENT_DB
    for name in ("fp32 declared", "fp16 declared"):
        assert figures["memory_ratio"][name] <= MEMORY_LIMIT, figures["memory_ratio"]
    assert figures["snr_db_to_float64"]["fp16 declared"] > figures["snr_db_to_float64"]["fp16 ane_numerics"] > 40
