"""Judgement: speech metrics on the executed package against the fp32 PyTorch render."""
