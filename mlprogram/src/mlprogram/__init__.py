"""Run and examine any Core ML program on any machine.

from mlprogram import MLModel, Program
Program("model.mlpackage")({"x": array})  # tensors
MLModel("model.mlpackage").predict({"x": array})  # as coremltools' MLModel does on a Mac
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
