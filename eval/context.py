"""Everything that a level needs to be judged: where packages are, the fp32 truth, the clips, what was measured before.

context.store.clip_result(package_sha256, context.execution, clip)
"""

from dataclasses import dataclass
from pathlib import Path

from core.checkpoint import Checkpoint
from core.corpus import Utterance
from eval.corpus import Truth
from eval.execution import Execution
from eval.progress import Progress
from eval.store import Store
from eval.workers import Workers


@dataclass(frozen=True)
class JudgeContext:
    """What eval.session opens and eval.levels works with."""

    checkpoint: Checkpoint
    source: str | None  # --checkpoint as given, for the build commands
    build: Path
    truth: Truth
    store: Store
    texts: str  # the set they are of: judged, or second
    clips: tuple[Utterance, ...]
    execution: Execution
    claim: str
    may_build: bool
    workers: Workers
    progress: Progress
