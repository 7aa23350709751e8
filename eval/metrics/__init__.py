"""How far a signal is from the signal it should be: every metric once, with formula, unit,
direction, silence rule, source and limits.

    from kokoro_ane.eval.metrics.catalog import METRICS, measure
    from kokoro_ane.eval.metrics.trial import Trial
    measure(Trial(reference, test))["pesq"]
"""
