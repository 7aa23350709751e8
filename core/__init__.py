"""The ground under every room: contract, configuration, errors, checkpoint, voices, layers, staging, manifest, stage and builder."""

from typing import TYPE_CHECKING

from core.lazy import exports

if TYPE_CHECKING:
    from core.build import build
    from core.checkpoint import Checkpoint, open_checkpoint
    from core.errors import CheckFailed, InputError
    from core.manifest import Manifest
    from core.stage import Stage

__all__ = ["CheckFailed", "Checkpoint", "InputError", "Manifest", "Stage", "build", "open_checkpoint"]
__getattr__ = exports(
    __name__,
    {
        "CheckFailed": "core.errors",
        "Checkpoint": "core.checkpoint",
        "InputError": "core.errors",
        "Manifest": "core.manifest",
        "Stage": "core.stage",
        "build": "core.build",
        "open_checkpoint": "core.checkpoint",
    },
)
