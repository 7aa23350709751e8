"""Encoder: phonemes to features, durations and prosody equal to upstream at any padding."""
