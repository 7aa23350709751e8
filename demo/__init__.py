"""The demo voice: a small Kokoro trained in this repository on flite's speech, so that every command works offline."""
