"""The chain from text to samples, and what ships it: steps, synthesis, streaming, validation,
vectors, bundle.
"""
