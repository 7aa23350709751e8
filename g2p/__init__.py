"""Room of the G2P stage: text to phonemes in the Kokoro vocabulary, on the CPU. Empty until its issue lands."""
