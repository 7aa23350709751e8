"""Vocoder: features to waveform, the iSTFTNet decoder in (B, C, 1, S) for the Neural Engine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
