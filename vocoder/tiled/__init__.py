"""The vocoder for the Neural Engine on every chip: time folded into rows, fewer passes over memory, sines only where a chip has them."""
