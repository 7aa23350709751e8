"""The streaming layout: statistics predicted for the utterance, samples computed window by
window.
"""
