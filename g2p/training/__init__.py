"""How the neural model of g2p/ is trained: the word lists, batches, the loop, and the command `python -m g2p.training.train`."""
