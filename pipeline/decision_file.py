"""BUILD/release/decision.json, read as far as a bundle needs it, and the model card that tells it.

decision, level = decision_for(Path("build/release/decision.json"), manifest.package_sha256)
card = model_card(assembly.data, decision, level, contents)
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kokoro_ane.core.data_files import read_json, readable
from kokoro_ane.core.errors import InputError
from kokoro_ane.runtimes.registry import PACKAGE

# 4: no times and no objective, `variation` where 3 had `seed_variation`; 3: a forecast time with
# its interval; 2: facts read off the package
FORMAT, PRODUCT_FORMAT = 4, 1
NOT_JUDGED = (
    "Not judged: `kokoro-ane release` has not seen this package. Nothing is said here about its"
    " quality."
)

CARD_END = """
## Not measured

No Apple device was used: latency, placement and memory on a device are not known.

## Contents

{contents}

Check the files with `shasum -a 256 -c SHA256SUMS`, the whole with

    kokoro-ane bundle --verify FOLDER

Checkpoint: `{checkpoint_sha256}` over weights, config and voices. Licences: LICENSES.md.
"""


def read_product(build: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """BUILD/release/product.json and the product that it names, if any. InputError when there is
    none, or it is not one.
    """
    record = _read(
        build / "release" / "product.json", PRODUCT_FORMAT, "products", "release --product"
    )
    return record, next(
        (one for one in record["products"] if one["product"] == record["product"]), None
    )


def read_decision(path: Path) -> dict[str, Any]:
    """The decision; InputError when there is none, or it is not one."""
    return _read(path, FORMAT, "levels", "release")


def _read(path: Path, number: int, rows: str, command: str) -> dict[str, Any]:
    again = f"; run `kokoro-ane {command}` again"
    record = read_json(path, f"nothing was decided; `kokoro-ane {command}` decides", again)
    if not isinstance(record, dict) or record.get("format") != number or rows not in record:
        raise InputError(f"{path} is no decision of format {number}{again}")
    return record


def short(commit: str) -> str:
    """The first letters of a commit, with the "+" that says that files differ from it."""
    return commit[:10] + ("+" if commit.endswith("+") else "")


def withheld_for(decision: Mapping[str, Any] | None, level: Mapping[str, Any] | None) -> str | None:
    """Why a package is not released by a decision; None where its level for this very package says
    SHIP and a commit made it.
    """
    if decision is None or level is None:
        return (
            "not releasable: no release decision has judged this very package; `kokoro-ane release`"
            " decides"
        )
    if level["verdict"] != "SHIP":
        return f"not releasable: the release decision says {level['verdict']} of this package"
    return unattested(decision, "kokoro-ane release")


def unattested(decision: Mapping[str, Any], command: str) -> str | None:
    """Why a decision cannot be repeated from a commit, or None where it can."""
    commit = str(decision["provenance"].get("commit"))
    if decision.get("releasable") and re.fullmatch("[0-9a-f]{40}", commit):
        return None
    return (
        "not releasable: the release decision was made by sources that no commit holds, or of a"
        f" checkpoint that may not be released; commit, then `{command}`"
    )


def decision_for(
    path: Path, package_sha256: str
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The decision, and in it the level that is this very package; None where there is none or it
    judged another package.
    """
    if not path.is_file():
        return None, None
    decision = read_decision(path)
    with readable(path, "run `kokoro-ane release` again"):
        for level in decision["levels"]:
            made_from = level.get("provenance") or {}
            if made_from.get("package_sha256") == package_sha256:
                return decision, level | {"reasons": list(level["reasons"])}
    return decision, None


def decision_table(decision: Mapping[str, Any], chosen: str) -> list[str]:
    """Every level that was judged; the bundled one in bold."""
    lines = [
        "| level | MB | PESQ mean / worst | MCD dB | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for level in decision["levels"]:
        if not level.get("summary"):
            continue
        name = f"**{level['method']}**" if level["method"] == chosen else level["method"]
        pesq, mcd = level["summary"]["pesq"], level["summary"]["mcd_db"]
        broken = f": {', '.join(level['broken'])}" if level["broken"] else ""
        lines.append(
            f"| {name} | {level['bytes'] / 1e6:.2f} | {pesq['mean']:.2f} / {pesq['worst']:.2f} |"
            f" {mcd['mean']:.2f} | {level['verdict']}{broken} |"
        )
    return lines


def model_card(
    data: dict[str, Any],
    decision: Mapping[str, Any] | None,
    level: Mapping[str, Any] | None,
    contents: list[str],
    whole: str = "",
) -> str:
    """Markdown. data: the assembly's; whole: what is said of the whole chain."""
    name, method = data["checkpoint"]["name"], data["method"]
    core_ml = data["vocoder"]["package"].endswith(PACKAGE)
    places = ("CPU and GPU; CPU on the M5", "Neural Engine, CPU") if core_ml else ("CPU", "CPU")
    parts = [*((entry, places[0]) for entry in data["encoder"]), (data["vocoder"], places[1])]
    parts += [(data["g2p"], "CPU")] if "package" in data["g2p"] else []
    packages = [
        f"| {entry['package']} | {entry['package_bytes'] / 1e6:.2f} | {entry['target']} | {units} |"
        f" `{entry['package_sha256'][:16]}` |"
        for entry, units in parts
    ]
    quality = [NOT_JUDGED]
    if decision is not None and level is not None:
        quality = [*_judged(decision, level), "", *decision_table(decision, method)]
    warning: tuple[str, ...] = ()
    if not data["releasable"]:
        why = data["withheld"]
        warning = (f"**NOT RELEASABLE.** Made to try the tools; do not ship this: {why}.", "")
    lines = [
        f"# Kokoro text-to-speech for {'Core ML' if core_ml else 'ONNX Runtime'}: {name}, {method}",
        "",
        *warning,
        "Text to speech in stages: text to phonemes (lexicon), phonemes to features (encoder),"
        " features to a waveform (vocoder).",
        "",
        "| package | MB | target | runs on | SHA-256 |",
        "| --- | --- | --- | --- | --- |",
        *packages,
        "",
        "## Quality",
        "",
        *quality,
        *(("", whole) if whole else ()),
        CARD_END.format(
            contents="\n".join(contents), checkpoint_sha256=data["checkpoint"]["sha256"]
        ),
    ]
    return "\n".join(lines)


def _judged(decision: Mapping[str, Any], level: Mapping[str, Any]) -> list[str]:
    clips, provenance = len(level["clips"]), decision["provenance"]
    return [
        f"{level['verdict']}: {'; '.join(level['reasons'])}.",
        "",
        f"Judged on {clips} held-out sentences, executed package against fp32 PyTorch with the"
        f" same noise, {provenance['precision']} precision; commit"
        f" {short(provenance['commit'])}. `kokoro-ane release`:",
    ]
