"""Part of speech of single words in context: features, model, training data. `g2p.heteronyms` is what the rest of g2p calls."""
