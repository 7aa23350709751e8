"""The ground under every room: contract, configuration, errors, checkpoint, voices, layers,
staging, manifest, stage and builder.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
