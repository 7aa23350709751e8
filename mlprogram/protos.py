"""coremltools' protobuf classes: the one place of the executor that imports coremltools, without its banner.

    from mlprogram.protos import MIL_pb2, Model_pb2

On import coremltools warns of missing macOS libraries and of versions it was not tested with; none of that concerns the protobuf classes.
"""

import logging
import warnings

_LOGGER = logging.getLogger("coremltools")
_LEVEL = _LOGGER.level
_LOGGER.setLevel(logging.ERROR)
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import coremltools
        from coremltools.proto import FeatureTypes_pb2, MIL_pb2, Model_pb2
finally:
    _LOGGER.setLevel(_LEVEL)

__all__ = ["FeatureTypes_pb2", "MIL_pb2", "Model_pb2", "coremltools"]
