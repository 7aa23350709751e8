"""Training of the tagger of g2p/tagger: sources, labels, made-up clauses, the fit. What runs imports none of it."""
