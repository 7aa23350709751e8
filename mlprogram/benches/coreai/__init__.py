"""An ML program as a PyTorch module, and that module in Apple's Core AI runtime: the second opinion
on mlprogram.

graph.py reads the package with coremltools' own loader, operations*.py say what each operation
means, module.py runs them, weights.py and kernels.py hold compressed constants. Nothing here
imports mlprogram. runner.py alone needs coreai-torch, in an environment of its own (`make
venv-second-opinion`); opinion.py is the command.
"""
