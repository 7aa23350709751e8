"""The chain from text to samples, and what ships it: steps, synthesis, streaming, validation,
vectors, bundle.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
