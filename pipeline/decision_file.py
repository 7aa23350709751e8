"""BUILD/release/decision.json, read as far as a bundle needs it, and the model card that shows it.

path = Path("build/release/decision.json")
decision, level = decision_for(path, manifest.package_sha256)
card = model_card(path, data, decision, level)
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kokoro_ane.core import InputError, read_json, readable
from kokoro_ane.runtimes import PACKAGE

# 4: no times and no objective, `variation` where 3 had `seed_variation`; 3: a forecast time with
# its interval; 2: facts read off the package
FORMAT, PRODUCT_FORMAT = 4, 1
AGAIN = "run `kokoro-ane release` again"

CARD = """\
# Kokoro text-to-speech for {{ "Core ML" if core_ml else "ONNX Runtime" }}: \
{{ data.checkpoint.name }}, {{ data.method }}

{% if not data.releasable %}
**NOT RELEASABLE.** Made to try the tools; do not ship this: {{ data.withheld }}.

{% endif %}
Text to speech in stages: text to phonemes, phonemes to features (encoder), features to \
a waveform (vocoder).

| package | MB | target | runs on | SHA-256 |
| --- | --- | --- | --- | --- |
{% for part, units in parts %}
| {{ part.package }} | {{ "%.2f" | format(part.package_bytes / 1e6) }} | {{ part.target }} | \
{{ units }} | `{{ part.package_sha256[:16] }}` |
{% endfor %}

## Quality

{% if level %}
{{ level.verdict }}: {{ level.reasons | join("; ") }}.

Judged on {{ level.clips | length }} held-out sentences, executed package against fp32 PyTorch \
with the same noise, {{ decision.provenance.precision }} precision; commit \
{{ short(decision.provenance.commit) }}. `kokoro-ane release`:

| level | MB | PESQ mean / worst | MCD dB | verdict |
| --- | --- | --- | --- | --- |
{% for one in decision.levels if one.get("summary") %}
{% set pesq, mcd_db = one.summary.pesq, one.summary.mcd_db %}
| {{ "**%s**" % one.method if one.method == data.method else one.method }} | \
{{ "%.2f" | format(one.bytes / 1e6) }} | \
{{ "%.2f / %.2f" | format(pesq.mean, pesq.worst) }} | {{ "%.2f" | format(mcd_db.mean) }} | \
{{ one.verdict }}{{ ": " if one.broken }}{{ one.broken | join(", ") }} |
{% endfor %}
{% else %}
Not judged: `kokoro-ane release` has not seen this package. Nothing is said here about its quality.
{% endif %}
{% if product %}

The whole chain, {{ product.product }}, against the fp32 chain: {{ product.verdict }}.
{% endif %}

## Not measured

No Apple device was used: latency, placement and memory on a device are not known.

## Contents

| | |
| --- | --- |
| packages/ | Core ML packages or ONNX files, each with the manifest of its contract beside it |
| manifest.json | what belongs together, with shapes, buckets and hashes |
| voices/ | of a style pack [510, 1, 256] the mean row, and the directions in which rows differ |
| vocabulary.json | phoneme symbol to id |
| text/ | what reads text: rules, word lists, network and tagger for each language of the voices, \
and texts to check a port by |
| vectors/ | inputs and outputs of every step of the chain |

Check the files with `shasum -a 256 -c SHA256SUMS`, the whole with

    kokoro-ane bundle --verify FOLDER

Checkpoint: `{{ data.checkpoint.sha256 }}` over weights, config and voices. Licences: LICENSES.md.
"""


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
    if not isinstance(record, dict) or record.get("format") != number or rows not in record:
        raise InputError(f"{path} is no decision of format {number}{again}")
    return record


def short(commit: str) -> str:
    """Return the first letters of a commit, with the "+" that marks files which differ from it."""
    return commit[:10] + ("+" if commit.endswith("+") else "")


def withheld_for(decision: Mapping[str, Any] | None, level: Mapping[str, Any] | None) -> str | None:
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
    return unattested(decision, "kokoro-ane release")


def unattested(decision: Mapping[str, Any], command: str) -> str | None:
    """Return why a decision cannot be repeated from a commit, or None where it can."""
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
    """Return the decision, and the level in it that is this very package; None where there is no
    decision, or where it judged another package.
    """
    if not path.is_file():
        return None, None
    decision = read_decision(path)
    with readable(path, AGAIN):
        for level in decision["levels"]:
            made_from = level.get("provenance") or {}
            if made_from.get("package_sha256") == package_sha256:
                return decision, level | {"reasons": list(level["reasons"])}
    return decision, None


def model_card(
    path: Path,
    data: Mapping[str, Any],
    decision: Mapping[str, Any] | None,
    level: Mapping[str, Any] | None,
    product: Mapping[str, Any] | None = None,
) -> str:
    """Return the model card in Markdown. path: of the decision. data: the bundle's manifest.json.
    product: what is bundled whole, of the product decision. Raises InputError for a decision that
    lacks what is shown.
    """
    from jinja2 import Environment, StrictUndefined, UndefinedError

    core_ml = data["vocoder"]["package"].endswith(PACKAGE)
    places = ("CPU and GPU; CPU on the M5", "Neural Engine, CPU") if core_ml else ("CPU", "CPU")
    parts = [*((entry, places[0]) for entry in data["encoder"]), (data["vocoder"], places[1])]
    template = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    ).from_string(CARD, globals={"short": short})
    with readable(path, AGAIN, UndefinedError):
        return template.render(
            core_ml=core_ml, data=data, parts=parts, decision=decision, level=level, product=product
        )
