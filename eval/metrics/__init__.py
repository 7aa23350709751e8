"""How far a signal is from the signal it should be: every metric once, with formula, unit, direction, silence rule, source and limits.

from eval.metrics.registry import METRICS, measure
from eval.metrics.trial import Trial
measure(Trial(reference, test))["pesq"]
"""
