"""Which commit makes a figure or a decision, and why nothing may be released by it.

commit()                # 40 letters; "+" behind them where files differ, "none" without git
withheld(checkpoint)    # None: the hub's weights, and a clean commit
"""

import subprocess
from pathlib import Path

from kokoro_ane.core.checkpoint import KOKORO_INT8, Checkpoint
from kokoro_ane.core.config import not_releasable
from kokoro_ane.quantize.sources import ROOT


def git(*arguments: str) -> str:
    """Return git's answer about this checkout; "" where there is no git, or no checkout."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.rstrip()


def changed_files() -> list[str]:
    """List files that are not as the commit holds them, or that it does not hold."""
    return [line[3:] for line in git("status", "--porcelain").splitlines()]


def commit() -> str:
    """The commit of the code, with "+" where files differ from it; "none" outside of a checkout."""
    top, _, head = git("rev-parse", "--show-toplevel", "HEAD").partition("\n")
    # Installed below somebody's checkout, git would name a commit that does not hold this code.
    if not head or Path(top).resolve() != ROOT:
        return "none"
    return head + ("+" if changed_files() else "")


def withheld(checkpoint: Checkpoint) -> str | None:
    """Why nothing of the checkpoint may be released, in words; None where it may."""
    if checkpoint.withheld is not None:
        if checkpoint.name == KOKORO_INT8:
            return not_releasable(checkpoint.name)
        return f"{checkpoint.name} is not releasable: {checkpoint.withheld}"
    made_by = commit()
    if made_by == "none":
        return (
            "not releasable from here: no git checkout says which commit decides (an installed"
            " wheel, or no git)"
        )
    if made_by.endswith("+"):
        first, *more = changed_files()
        others = f" and {len(more)} more are" if more else " is"
        return f"not releasable from here: {first}{others} not as commit {made_by[:10]} holds it"
    return None
