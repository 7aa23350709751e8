"""Judgement: speech metrics on the executed package against the fp32 PyTorch render."""

# What is judged: the stages differ in what they render, in their gates and in their natural
# variation.
VOCODER, ENCODER, PRODUCT = STAGES = ("vocoder", "encoder", "product")
