"""Encoder: phonemes to features, durations and prosody equal to upstream at any padding."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
