"""Fixtures that several test files share: a tiny random checkpoint with Kokoro's vocabulary, and
its packages.
"""

import gc
import os
import signal
import tempfile

# before torch is imported: threads that fight over busy cores are many times slower
os.environ.setdefault("OMP_NUM_THREADS", "1")


import pytest
from hypothesis import HealthCheck, settings

from kokoro_ane.pipeline.vectors import main as write_vectors
from tests.builds import (  # noqa: F401  fixtures
    VECTORS_VOICE,
    built,
    checkpoint_once,
    copied,
    g2p_weights,
    once,
    packages_once,
    small_config,
    with_shared_text_tables,
)
from tests.random_checkpoint import tiny_config, write_checkpoint

# no test asserts a time
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
pytest_plugins = ["tests.chromium", "tests.eval.release_build"]
# of those without slow tests: a minute or two, of which its packages are the most
LONG = ("test_streaming_package.py",)


def pytest_configure():
    """SIGTERM (of `timeout`) ends the session: run_cli would make it an interrupted command, and
    one test in work would fail.
    """
    signal.signal(
        signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=128 + signal.SIGTERM)
    )


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory):
    """A folder for temporary files of this process and its children: a test beside it may kill a
    process, and what that leaves is told by whoever comes next.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Long files first (with --no-loadscope-reorder): one that began last would leave the other
    processes without work.
    """
    long = {
        item.path for item in items if item.path.name in LONG or item.get_closest_marker("slow")
    }
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish():
    """coremltools collects garbage in every conversion: 0.3 s of looking through the libraries,
    which are imported by now.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def quick_bundles(tmp_path_factory):
    """Bundles in this process with text tables that are written once."""
    with pytest.MonkeyPatch.context() as patch:
        with_shared_text_tables(patch, tmp_path_factory)
        yield


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory):
    """Upstream's architecture, 1/16 as wide, one residual block a stage, random weights, not
    releasable.
    """
    return checkpoint_once(tmp_path_factory, small_config(), encoder=True)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The folder of the smallest checkpoint that the architecture allows. Shared: copy it before
    writing.
    """
    return write_checkpoint(tmp_path_factory.mktemp("tiny"), tiny_config())


@pytest.fixture(scope="session")
def tiny_build(tiny_checkpoint, quick_bundles, tmp_path_factory):
    """Encoder and vocoder packages of it, fp16 and fp32, three lengths each. Shared: copy it before
    writing.
    """
    stages = (["encoder", "--token-buckets", "16,64,192"], ["vocoder", "--layout", "padded"])
    builds = [
        [*stage, "--buckets", "40,160,640", "--precision", precision]
        for stage in stages
        for precision in ("fp16", "fp32")
    ]
    return packages_once(tmp_path_factory, tiny_checkpoint, builds)


@pytest.fixture(scope="session")
def tiny_vectors(tiny_checkpoint, tiny_build, tmp_path_factory):
    """The chain's test vectors of it. Shared, too."""
    model_flags = f"--checkpoint {tiny_checkpoint.folder} --build {tiny_build}"

    def make(aside):
        flags = f"{model_flags} --out {aside}/vectors".split()
        assert write_vectors([*flags, *VECTORS_VOICE]) == 0

    return once(tmp_path_factory, ["vectors", tiny_checkpoint.sha256], make) / "vectors"
