"""Before any test: one thread (threads that fight over busy cores are many times slower), and
libraries out of the collector's sight.
"""

import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported


def pytest_collection_finish():
    """coremltools collects garbage in every conversion: 0.3 s of looking through the libraries,
    which are imported by now.
    """
    gc.collect()
    gc.freeze()
