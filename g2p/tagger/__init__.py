"""Part of speech of single words in context. `g2p.heteronyms` is what the rest of g2p calls; g2p/training/tagger trains it."""
