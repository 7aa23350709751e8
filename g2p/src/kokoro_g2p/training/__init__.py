"""Training of the reader's networks and tables, and the evidence for them; runs in a checkout."""
