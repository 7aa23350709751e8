"""What a verdict may be asked to stand for.

    from eval.claims import CLAIMS, NUMERIC

A numeric claim is about the figures of the executed package. A device claim is about a chip, and nothing here runs on one.
"""

NUMERIC, DEVICE = "numeric", "device"
CLAIMS = (NUMERIC, DEVICE)
DEVICE_DOUBT = "a device claim needs a run on that device: what was executed here is mlprogram's model of one"
