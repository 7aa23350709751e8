"""What the rooms share: contract, checkpoint, layers, export, manifest."""
