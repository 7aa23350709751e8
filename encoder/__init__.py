"""Encoder: phonemes to features (text encoder now; durations and prosody come with their own issue)."""
