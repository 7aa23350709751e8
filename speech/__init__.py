"""Speech for calibration and verdicts: frozen texts, and how a checkpoint speaks them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
