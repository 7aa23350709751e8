"""BUILD/release/decision.json, read as far as a bundle needs it, and the model card that tells it;
eval/reported.py reads the rest.

    decision, level = decision_for(Path("build/release/decision.json"), manifest.package_sha256)
    card = model_card(assembly.data, decision, level, contents)
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from kokoro_ane.core.checksummed import read_checksummed
from kokoro_ane.core.commit import short
from kokoro_ane.core.data_files import conform
from kokoro_ane.core.errors import InputError
from kokoro_ane.runtimes.registry import PACKAGE

PRODUCT_FORMAT, PRODUCT_ABOUT = 1, {"file": "product decision"}
# 4: no times and no objective; 3: a forecast time with its interval; 2: with a checksum, facts read
# off the package, the limits that judged
FORMAT = 4
ABOUT = {"file": "release decision"}
AGAIN = "; run `kokoro-ane release` again"
NOT_JUDGED = (
    "Not judged: `kokoro-ane release` has not seen this package. Nothing is said here about its"
    " quality."
)
Figures = dict[str, float | None]


class LevelSource(TypedDict):
    """What a level was judged from."""

    package_sha256: str
    precision: NotRequired[str]


class Level(TypedDict):
    """One level; what was measured is missing where there was no package."""

    method: str
    verdict: str
    bytes: int
    failed: NotRequired[str | None]
    reasons: NotRequired[list[str]]
    broken: NotRequired[list[str]]
    clips: NotRequired[list[Any]]
    summary: NotRequired[dict[str, Figures] | None]
    provenance: NotRequired[LevelSource | None]


class Decision(TypedDict):
    """What eval.decision.decision_record writes, as far as the bundle reads it."""

    format: int
    verdict: str
    level: str | None
    levels: list[Level]
    provenance: dict[str, Any]


def read_product(build: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """BUILD/release/product.json and the product that it names, if any. InputError when there is
    none, it is not one, or it was edited.
    """
    path, again = build / "release" / "product.json", "; run `kokoro-ane release --product` again"
    record = read_checksummed(
        path, PRODUCT_ABOUT, "no product was decided; `kokoro-ane release --product` decides", again
    )
    if record.get("format") != PRODUCT_FORMAT:
        raise InputError(f"{path} is no decision of format {PRODUCT_FORMAT}{again}")
    return record, next(
        (one for one in record["products"] if one["product"] == record["product"]), None
    )


def read_decision(path: Path) -> Decision:
    """The decision; InputError when there is none, it is not one, or it was edited."""
    record = read_checksummed(
        path, ABOUT, "nothing was decided; `kokoro-ane release` decides", AGAIN
    )
    if record.get("format") != FORMAT or "levels" not in record:
        raise InputError(
            f"{path} is no decision of format {FORMAT}: run `kokoro-ane release` again"
        )
    conform(record, Decision, str(path))
    return cast(Decision, record)  # conform has seen every field


def not_let_out(decision: Mapping[str, Any] | None, level: Mapping[str, Any] | None) -> str | None:
    """Why a decision does not let a package out; None where its level for this very package says
    SHIP and a commit made it.
    """
    if decision is None or level is None:
        return (
            "not releasable: no release decision has judged this very package; `kokoro-ane release`"
            " decides"
        )
    if level["verdict"] != "SHIP":
        return f"not releasable: the release decision says {level['verdict']} of this package"
    return no_word_for(decision, "kokoro-ane release")


def no_word_for(decision: Mapping[str, Any], command: str) -> str | None:
    """Why nobody stands for a decision, or None."""
    if not decision.get("releasable") or not re.fullmatch(
        "[0-9a-f]{40}", str(decision["provenance"].get("commit"))
    ):
        made_by = "sources that no commit holds, or altered libraries"
        return (
            f"not releasable: the release decision was made by {made_by}; commit, then `{command}`"
        )
    return None


def decision_for(
    path: Path, package_sha256: str
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The decision, and in it the level that is this very package; None where there is none or it
    judged another package.
    """
    if not path.is_file():
        return None, None
    decision = read_decision(path)
    judged = (
        level
        for level in decision["levels"]
        if (made := level.get("provenance")) and made.get("package_sha256") == package_sha256
    )
    return decision, next(judged, None)


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
        figures = (
            f"{level['bytes'] / 1e6:.2f} | {pesq['mean']:.2f} / {pesq['worst']:.2f} |"
            f" {mcd['mean']:.2f}"
        )
        lines.append(f"| {name} | {figures} | {level['verdict']}{broken} |")
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
    head = [
        f"# Kokoro text-to-speech for {'Core ML' if core_ml else 'ONNX Runtime'}: {name}, {method}",
        "",
    ]
    if not data["releasable"]:
        head += [
            f"**NOT RELEASABLE.** Made to try the tools; do not ship this: {data['withheld']}.",
            "",
        ]
    places = ("CPU and GPU; CPU on the M5", "Neural Engine, CPU") if core_ml else ("CPU", "CPU")
    parts = [*((entry, places[0]) for entry in data["encoder"]), (data["vocoder"], places[1])]
    parts += [(data["g2p"], "CPU")] if "package" in data["g2p"] else []
    lines = [
        *head,
        (
            "Text to speech in stages: text to phonemes (lexicon), phonemes to features (encoder),"
            " features to a waveform (vocoder)."
        ),
        "",
    ]
    lines += ["| package | MB | target | runs on | SHA-256 |", "| --- | --- | --- | --- | --- |"]
    for entry, units in parts:
        size = f"{entry['package_bytes'] / 1e6:.2f}"
        lines.append(
            f"| {entry['package']} | {size} | {entry['target']} | {units} |"
            f" `{entry['package_sha256'][:16]}` |"
        )
    lines += ["", "## Quality", ""]
    lines += (
        [NOT_JUDGED]
        if level is None or decision is None
        else [*_judged(decision, level), "", *decision_table(decision, method)]
    )
    lines += ["", whole] if whole else []
    lines += [
        "",
        "## Not measured",
        "",
        "No Apple device was used: latency, placement and memory on a device are not known.",
        "",
    ]
    lines += [
        "## Contents",
        "",
        *contents,
        "",
        "Check the files with `shasum -a 256 -c SHA256SUMS`, the whole with",
        "",
    ]
    made_from = f"Checkpoint: `{data['checkpoint']['sha256']}` over weights, config and voices."
    lines += [
        "    kokoro-ane bundle --verify FOLDER",
        "",
        f"{made_from} Licences: LICENSES.md.",
        "",
    ]
    return "\n".join(lines)


def _judged(decision: Mapping[str, Any], level: Mapping[str, Any]) -> list[str]:
    clips, provenance = len(level["clips"]), decision["provenance"]
    told = f"{level['verdict']}: {'; '.join(level['reasons'])}."
    how = (
        f"{clips} held-out sentences, executed package against fp32 PyTorch with the same noise,"
        f" {provenance['precision']} precision"
    )
    return [
        told,
        "",
        f"Judged on {how}; commit {short(provenance['commit'])}. `kokoro-ane release`:",
    ]
