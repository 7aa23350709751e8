"""Judgement: speech metrics on the executed package against the fp32 PyTorch render."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
