"""Compression: each method turns the fp16 package into a smaller package under the same
contract.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
