"""Negative controls: what proves the judge."""
