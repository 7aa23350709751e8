"""Vocoder: features to waveform, the iSTFTNet decoder in (B, C, 1, S) for the Neural Engine."""
