"""BUILD/release/decision.json, read as far as a bundle needs it.

path = Path("build/release/decision.json")
decision, level = decision_for(path, manifest.package_sha256)
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kokoro_ane.core import InputError, read_json, readable

# 4: no times and no objective, `variation` where 3 had `seed_variation`; 3: a forecast time with
# its interval; 2: facts read off the package
FORMAT, PRODUCT_FORMAT = 4, 1
AGAIN = "run `kokoro-ane release` again"


def read_product(build: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Read BUILD/release/product.json; return it and the product that it names, if any. Raises
    InputError when it is missing or no product decision.
    """
    record = _read(
        build / "release" / "product.json", PRODUCT_FORMAT, "products", "release --product"
    )
    return record, next(
        (one for one in record["products"] if one["product"] == record["product"]), None
    )


def read_decision(path: Path) -> dict[str, Any]:
    """Read a decision. Raises InputError when it is missing or no decision."""
    return _read(path, FORMAT, "levels", "release")


def _read(path: Path, number: int, rows: str, command: str) -> dict[str, Any]:
    again = f"; run `kokoro-ane {command}` again"
    record = read_json(path, f"nothing was decided; `kokoro-ane {command}` decides", again)
    # A decision of levels is told from one of products by its rows.
    if not isinstance(record, dict) or record.get("format") != number or rows not in record:
        raise InputError(f"{path} is no decision of format {number}{again}")
    return record


def short(commit: str) -> str:
    """Return the first letters of a commit, with the "+" that marks files which differ from it."""
    return commit[:10] + ("+" if commit.endswith("+") else "")


def explain_withheld(
    decision: Mapping[str, Any] | None, level: Mapping[str, Any] | None
) -> str | None:
    """Return why a decision does not release a package; None where it judged this very package,
    from a commit, and says SHIP.
    """
    if decision is None or level is None:
        return (
            "not releasable: no release decision has judged this very package; `kokoro-ane release`"
            " decides"
        )
    if level["verdict"] != "SHIP":
        return f"not releasable: the release decision says {level['verdict']} of this package"
    return explain_unattested(decision, "kokoro-ane release")


def explain_unattested(decision: Mapping[str, Any], command: str) -> str | None:
    """Return why a decision cannot be repeated from a commit, or None where it can."""
    commit = str(decision["provenance"].get("commit"))
    # A commit with a "+" behind it has files that differ, and does not match.
    if decision.get("releasable") and re.fullmatch("[0-9a-f]{40}", commit):
        return None
    return (
        "not releasable: the release decision was made by sources that no commit holds, or of a"
        f" checkpoint that may not be released; commit, then `{command}`"
    )


def decision_for(
    path: Path, package_sha256: str
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Return the decision, and the level in it that is this very package; None where there is no
    decision, or where it judged another package.
    """
    if not path.is_file():
        return None, None
    decision = read_decision(path)
    with readable(path, AGAIN):
        for level in decision["levels"]:
            # A level that was not built has no provenance.
            made_from = level.get("provenance") or {}
            if made_from.get("package_sha256") == package_sha256:
                # The reasons are joined as text: a record without them is found here.
                return decision, level | {"reasons": list(level["reasons"])}
    return decision, None
