"""What a user may cause is one line and an exit code, a bug keeps its traceback; buckets, packing
and tensors between the stages; memory.
"""

import errno
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kokoro_ane.core.contract import (
    COLUMNS_PER_FRAME,
    DEFAULT_BUCKETS,
    FRAMES_PER_SECOND,
    PADDED_BUCKETS,
    PackedLayout,
    bucket_for,
    check_buckets,
)
from kokoro_ane.core.errors import CheckFailed, InputError, UtteranceTooLong, run_cli
from kokoro_ane.core.process import release_memory
from kokoro_ane.vocoder.decoder import PackedVocoder
from kokoro_ane.vocoder.packing import VocoderInputs, pack
from mlprogram.examine.rules import load_rules
from tests.commands import refused


def raising(problem):
    def main(_argv):
        raise problem

    return main


@pytest.mark.parametrize(
    "problem, code, line",
    [
        (InputError("no such voice"), 2, "error: no such voice"),
        (CheckFailed("SNR is 3 dB"), 1, "rejected: SNR is 3 dB"),
        (
            OSError(errno.ENOSPC, "No space left", "x.bin"),
            2,
            "error: cannot write x.bin: No space left; nothing was left half-written",
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "x.pth"),
            2,
            "error: cannot use x.pth: Is a directory",
        ),
        (
            shutil.Error([("a", "b", "No space left")]),
            2,
            "error: cannot write b: No space left; nothing was left half-written",
        ),
        (
            OSError(errno.EIO, "Input/output error"),  # as read(2) has it, without a name
            2,
            "error: a file could not be read or written: Input/output error",
        ),
        (MemoryError(), 2, "error: there is not enough memory for this input"),
    ],
)
def test_one_line_and_a_code(problem, code, line, capsys):
    assert run_cli(raising(problem), []) == code
    assert capsys.readouterr().err == line + "\n"


def test_a_python_without_the_dependencies(capsys):
    assert run_cli(raising(ModuleNotFoundError("No module named 'torch'", name="torch")), None) == 2
    assert "run `make venv`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "bug",
    [
        ValueError("x"),
        ModuleNotFoundError("x", name="kokoro_ane.vocoder.nothing"),
        OSError(errno.ENOENT, "x"),
    ],
)
def test_bugs_keep_their_traceback(bug):
    with pytest.raises(type(bug)):
        run_cli(raising(bug), None)


def test_the_line_is_the_last_one(capsys):
    """A progress bar lived as long as the exception that had gone through it, and wrote an empty
    line after the error.
    """

    def bar():
        try:
            yield
        finally:
            print("the bar has gone", file=sys.stderr)

    def main(_argv):
        shown = bar()  # a local, which the traceback keeps alive
        for _ in shown:
            raise KeyboardInterrupt
        return 0

    assert run_cli(main, []) == 2
    assert (
        capsys.readouterr().err
        == "the bar has gone\nerror: interrupted; nothing was left half-written\n"
    )


def test_sigterm_of_the_tests_themselves_is_no_interruption():
    """`timeout` ends the session (tests/conftest.py); it does not make the test in work fail."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(pytest.exit.Exception):
        run_cli(lambda _: os.kill(os.getpid(), signal.SIGTERM), None)
    assert signal.getsignal(signal.SIGTERM) is before


def test_default_buckets_cover_half_a_second_to_30_with_little_waste():
    assert DEFAULT_BUCKETS[0] == 0.5 * FRAMES_PER_SECOND
    assert DEFAULT_BUCKETS[-1] == 30 * FRAMES_PER_SECOND
    for buckets in (DEFAULT_BUCKETS, PADDED_BUCKETS):
        for frames in range(2 * FRAMES_PER_SECOND + 1, buckets[-1] + 1):
            bucket = bucket_for(frames, buckets)
            assert (bucket - frames) / bucket <= 0.25, frames


def test_padded_buckets_stay_within_the_axis_of_an_m5():
    limit = next(rule for rule in load_rules().rules if rule.id == "axis-65536").params["spatial"]
    columns = COLUMNS_PER_FRAME * PADDED_BUCKETS[-1] + 1
    assert columns <= limit
    # one more step of the same size would pass it
    assert columns + COLUMNS_PER_FRAME * (PADDED_BUCKETS[-1] - PADDED_BUCKETS[-2]) > limit


@pytest.mark.parametrize(
    "buckets, message",
    [
        ((40, 40), "not rising"),
        ((1, 4), "outside"),
        ((40, 9000), "9000 is outside"),
    ],
)
def test_bad_bucket_lists(buckets, message):
    refused(message, check_buckets, buckets)


def test_too_long():
    pytest.raises(UtteranceTooLong, bucket_for, 1201, DEFAULT_BUCKETS).match(
        r"1201 frames \(30\.0 s\) but the largest bucket is 1200"
    )


def random_inputs(frames, hidden, generator):
    shapes = (
        (1, hidden, frames),
        (1, 2 * frames),
        (1, 2 * frames),
        (1, 128),
        (1, 22, 120 * frames + 1),
    )
    return VocoderInputs(*(torch.randn(shape, generator=generator) for shape in shapes))


class Recorder(torch.nn.Module):
    """Stands where the vocoder stands and keeps what it was given."""

    def forward(self, *tensors):
        self.tensors = tensors
        return tensors[0]


@given(
    frames=st.integers(1, 50),
    extra=st.integers(0, 40),
    hidden=st.integers(1, 30),
    seed=st.integers(0, 9),
)
def test_what_is_packed_comes_out_again(frames, extra, hidden, seed):
    x = random_inputs(frames, hidden, torch.Generator().manual_seed(seed))
    layout, recorder, bucket = PackedLayout(hidden), Recorder(), frames + extra
    packed = torch.from_numpy(pack(x, bucket))
    assert packed.shape == (1, layout.channels, 1, bucket + 1)
    PackedVocoder(recorder, layout)(packed, x.style[:, :, None, None])
    asr, f0, energy, _, spectrum, mask = recorder.tensors
    for tensor, sent, size in (
        (asr, x.asr, bucket),
        (f0, x.f0_hz[:, None], 2 * bucket),
        (energy, x.energy[:, None], 2 * bucket),
        (spectrum, x.spectrum, 120 * bucket + 1),
    ):
        assert tensor.shape == (1, sent.shape[1], 1, size)
        assert torch.equal(tensor[:, :, 0, : sent.shape[-1]], sent)
        assert not tensor[:, :, 0, sent.shape[-1] :].any()
    assert mask.values.flatten().tolist() == [1.0] * frames + [0.0] * extra


@pytest.mark.parametrize("name", "asr f0_hz energy style spectrum".split())
def test_nan_is_named(name):
    x = random_inputs(5, 4, torch.Generator().manual_seed(0))
    tensors = {
        field: getattr(x, field).clone()
        for field in ("asr", "f0_hz", "energy", "style", "spectrum")
    }
    tensors[name][..., -1] = float("nan")
    refused(f"^{name} holds", VocoderInputs, **tensors)


def test_wrong_shape_is_named():
    x = random_inputs(5, 4, torch.Generator().manual_seed(0))
    with refused(r"f0_hz has shape \[1, 9\], but 5 frames of asr need \[1, 10\]"):
        VocoderInputs(x.asr, x.f0_hz[:, :9], x.energy, x.style, x.spectrum)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_freed_memory_goes_back_to_the_system():
    def count_resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    blocks = [bytes(50_000) for _ in range(4000)]
    last = bytes(50_000)  # glibc keeps what lies before it
    del blocks
    kept = count_resident()
    release_memory()
    assert kept - count_resident() > 100e6, len(last)
