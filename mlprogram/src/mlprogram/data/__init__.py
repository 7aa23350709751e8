"""Data files of this package: ane_rules.json, the rules of the Neural Engine with their sources
(docs/devices.md explains them).
"""
