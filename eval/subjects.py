"""What the judge judges. The stages differ in what they render, in their gates and in their natural
variation.
"""

VOCODER, ENCODER, PRODUCT = STAGES = ("vocoder", "encoder", "product")
