"""The Neural-Engine-first vocoder: time folded into rows, polyphase upsampling, statistics from block sums, one pass for each Snake."""
