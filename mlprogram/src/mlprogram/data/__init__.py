"""Data files of this package: ane_rules.json, the rules of the Neural Engine with their sources
(docs/neural-engine.md explains them).
"""
