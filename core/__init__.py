"""The ground under every room: contract, configuration, errors, checkpoint, voices, layers,
staging, manifest, stage and builder.
"""
