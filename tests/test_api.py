"""The calls of `import kokoro_ane`: each does what its command does; a name that there is not is one InputError.

python -m pytest tests/test_api.py -q
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kokoro_ane
from kokoro_ane.core.checkpoint import Checkpoint


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(kokoro_ane, name).__doc__ for name in kokoro_ane.__all__) and set(kokoro_ane.__all__) <= set(dir(kokoro_ane))
    assert not hasattr(kokoro_ane, "sing")


def test_speak_gives_the_samples_of_its_seed(tiny_checkpoint: Checkpoint) -> None:
    given = {"voice": "slt", "checkpoint": str(tiny_checkpoint.folder)}
    (one, rate_hz), (same, _), (other, _) = (kokoro_ane.speak("Hello.", seed=seed, **given) for seed in (0, 0, 1))
    assert rate_hz == 24_000 and one.dtype == np.float32 and one.ndim == 1 and len(one) % 600 == 0
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_phonemize() -> None:
    assert kokoro_ane.phonemize("Hello, world.").phonemes == "həlˈO, wˈɜɹld."


def test_build_writes_a_checked_package(tiny_checkpoint: Checkpoint, quick_conversion: None, tmp_path: Path) -> None:
    (manifest,) = kokoro_ane.build("vocoder", checkpoint=str(tiny_checkpoint.folder), buckets=(40,), out=tmp_path)
    assert manifest.path == tmp_path / "KokoroVocoder-tiny-fp16.json" and manifest.buckets == (40,)
    manifest.verify()


def test_judge_gives_verdict_and_figures(placed: tuple[Checkpoint, Path], measured: list[str]) -> None:
    checkpoint, build = placed
    judged = kokoro_ane.judge("fp16", checkpoint=str(checkpoint.folder), build=build, clips=2)
    assert judged.verdict == "UNDECIDED" and judged.reasons and not judged.broken  # 2 clips of 24
    assert judged.figures["pesq"]["mean"] and judged.package_bytes > 10_000 and judged.file.is_file() and len(measured) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kokoro_ane.build("vocader"), "no stage 'vocader'"),
        (lambda: kokoro_ane.build("vocoder", precision="fp8"), "give fp16 or fp32"),
        (lambda: kokoro_ane.build("vocoder", layout="round", checkpoint="demo"), "round"),
        (lambda: kokoro_ane.judge("w9"), "no level 'w9'"),
        (lambda: kokoro_ane.judge("fp16", checkpoint="nowhere"), "neither a folder"),
        (lambda: kokoro_ane.speak("Hi.", "nobody", checkpoint="demo"), "nobody"),
        (lambda: kokoro_ane.open_checkpoint("nowhere"), "neither a folder"),
    ],
)
def test_a_name_that_there_is_not(call: Callable[[], object], message: str) -> None:
    with pytest.raises(kokoro_ane.InputError, match=message):
        call()
