"""How the models of g2p/ are trained: word lists and their split, batches, the loop, `python -m g2p.training.train`; the tagger."""
