"""The model card of a bundle: what it is, what was measured, what not.

text = model_card(assembly.data, decision_for(Path("build/release/decision.json"), package_sha256), files)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.config import not_releasable
from pipeline.decision_file import read_decision
from pipeline.runtimes import PACKAGE

NOT_JUDGED = "Not judged: `python -m eval.release` has not seen this package. Nothing is said here about its quality."


def decision_for(path: Path, package_sha256: str) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The decision, and in it the level that is this very package; None where there is none or it judged another package."""
    if not path.is_file():
        return None, None
    decision = read_decision(path)
    judged = (level for level in decision["levels"] if (made := level.get("provenance")) and made.get("package_sha256") == package_sha256)
    return decision, next(judged, None)


def decision_table(decision: Mapping[str, Any], chosen: str) -> list[str]:
    """Every level that was judged; the bundled one in bold."""
    lines = ["| level | MB | PESQ mean / worst | MCD dB | verdict |", "| --- | --- | --- | --- | --- |"]
    for level in decision["levels"]:
        if not level.get("summary"):
            continue
        name = f"**{level['method']}**" if level["method"] == chosen else level["method"]
        pesq, mcd = level["summary"]["pesq"], level["summary"]["mcd_db"]
        broken = f": {', '.join(level['broken'])}" if level["broken"] else ""
        figures = f"{level['bytes'] / 1e6:.2f} | {pesq['mean']:.2f} / {pesq['worst']:.2f} | {mcd['mean']:.2f}"
        lines.append(f"| {name} | {figures} | {level['verdict']}{broken} |")
    return lines


def model_card(data: dict[str, Any], decision: Mapping[str, Any] | None, level: Mapping[str, Any] | None, contents: list[str]) -> str:
    """Markdown. data: the assembly's."""
    name, method = data["checkpoint"]["name"], data["method"]
    core_ml = data["vocoder"]["package"].endswith(PACKAGE)
    head = [f"# Kokoro text-to-speech for {'Core ML' if core_ml else 'ONNX Runtime'}: {name}, {method}", ""]
    if not data["releasable"]:
        head += [f"**NOT RELEASABLE.** Made to try the tools; do not ship this: {not_releasable(name)}.", ""]
    places = ("CPU and GPU; CPU on the M5", "Neural Engine, CPU") if core_ml else ("CPU", "CPU")
    parts = [*((entry, places[0]) for entry in data["encoder"]), (data["vocoder"], places[1])]
    parts += [(data["g2p"], "CPU")] if "package" in data["g2p"] else []
    lines = [
        *head,
        "Text to speech in stages: text to phonemes (lexicon), phonemes to features (encoder), features to a waveform (vocoder).",
        "",
    ]
    lines += ["| package | MB | target | runs on | SHA-256 |", "| --- | --- | --- | --- | --- |"]
    for entry, units in parts:
        size = f"{entry['package_bytes'] / 1e6:.2f}"
        lines.append(f"| {entry['package']} | {size} | {entry['target']} | {units} | `{entry['package_sha256'][:16]}` |")
    lines += ["", "## Quality", ""]
    lines += [NOT_JUDGED] if level is None or decision is None else [*_judged(decision, level), "", *decision_table(decision, method)]
    lines += ["", "## Not measured", "", "No Apple device was used: latency, placement and memory on a device are not known.", ""]
    lines += ["## Contents", "", *contents, "", "Check the files with `shasum -a 256 -c SHA256SUMS`, the whole with", ""]
    made_from = f"Checkpoint: `{data['checkpoint']['sha256']}` over weights, config and voices."
    lines += ["    python -m pipeline.bundle --verify FOLDER", "", f"{made_from} Licences: LICENSES.md.", ""]
    return "\n".join(lines)


def _judged(decision: Mapping[str, Any], level: Mapping[str, Any]) -> list[str]:
    clips, provenance = len(level["clips"]), decision["provenance"]
    told = f"{level['verdict']}: {'; '.join(level['reasons'])}."
    how = f"{clips} held-out sentences, executed package against fp32 PyTorch with the same noise, {provenance['precision']} precision"
    return [told, "", f"Judged on {how}; commit {provenance['commit'][:12]}. `python -m eval.release`:"]
