"""Known-bad controls that were thought of after the gates were frozen (docs/metrics.md names the commit): no limit was chosen for them.

for control in LATER: control.render(faults, inputs)   # [600 F] float32
"""

from eval.faults import Control

LATER: tuple[Control, ...] = ()
