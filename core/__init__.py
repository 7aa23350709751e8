"""The ground under every room: contract, configuration, errors, checkpoint, voices, layers,
staging, manifest, stage and builder.
"""

import time

# the first thing that any command does: all code but its own file is read after this moment
STARTED_NS = time.time_ns()
