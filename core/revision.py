"""The commit of the code.

commit()  # 40 letters; "+" behind them where files differ, "none" without git
"""

import subprocess
from pathlib import Path

from kokoro_ane.core.sources import ROOT


def ask_git(*arguments: str) -> str:
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
    # Two letters of status and a space stand before the name.
    return [line[3:] for line in ask_git("status", "--porcelain").splitlines()]


def commit() -> str:
    """The commit of the code, with "+" where files differ from it; "none" outside of a checkout."""
    top, _, head = ask_git("rev-parse", "--show-toplevel", "HEAD").partition("\n")
    # Installed below somebody's checkout, git would name a commit that does not hold this code.
    if not head or Path(top).resolve() != ROOT:
        return "none"
    return head + ("+" if changed_files() else "")
