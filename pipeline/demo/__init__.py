"""The demo voice: corpus, features, training and the bundled checkpoint."""
