"""Text to phonemes in Kokoro's vocabulary, on the CPU.

from kokoro_g2p import G2P, phonemize
phonemize("Hello, world.").phonemes
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
