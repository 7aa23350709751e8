"""The model card of a bundle: MODEL_CARD.md, in the form that the hub reads as README.md.

card = write_model_card(path, data, decision, level)

It begins with the hub's metadata in YAML. A bundle that may not be released says so below them,
before anything else.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from kokoro_ane.core import HUB_NAME, HUB_REPOSITORY, KOKORO_INT8, readable
from kokoro_ane.pipeline.decision_file import AGAIN, short
from kokoro_ane.runtimes import PACKAGE
from kokoro_g2p import voice_language

METADATA = "---\nlanguage: "  # how a card begins

CARD = """\
{% set names = {"us": "American English", "gb": "British English", "es": "Spanish", \
"fr": "French", "hi": "Hindi", "it": "Italian", "ja": "Japanese", "pt": "Brazilian Portuguese", \
"zh": "Mandarin Chinese"} %}
{% set systems = {"iOS17": "iOS 17, macOS 14, tvOS 17, visionOS 1 or watchOS 10", \
"iOS18": "iOS 18, macOS 15, tvOS 18, visionOS 2 or watchOS 11"} %}
{% set packages = data.encoder + [data.vocoder] %}
---
language: [{{ spoken | map("replace", "us", "en") | map("replace", "gb", "en") | unique | \
join(", ") }}]
license: {{ "apache-2.0" if is_kokoro else "unknown" }}
{% if is_kokoro %}
base_model: {{ repository }}
base_model_relation: quantized
{% endif %}
library_name: {{ "coreml" if core_ml else "onnx" }}
pipeline_tag: text-to-speech
tags: [kokoro, text-to-speech, on-device, \
{{ "coreml, apple-neural-engine, ios, swift" if core_ml else "onnx, onnxruntime" }}]
---
# Kokoro text-to-speech for {{ "Core ML" if core_ml else "ONNX Runtime" }}: \
{{ data.checkpoint.name }}, {{ data.method }}

{% if not data.releasable %}
**NOT RELEASABLE.** Made to try the tools; do not ship this: {{ data.withheld }}.

{% endif %}
Text to speech in stages: text to phonemes, phonemes to features (encoder), features to \
a waveform (vocoder) of {{ data.audio.rate_hz }} Hz.

| package | MB | target | runs on | SHA-256 |
| --- | --- | --- | --- | --- |
{% for part in packages %}
| {{ part.package }} | {{ "%.2f" | format(part.package_bytes / 1e6) }} | {{ part.target }} | \
{{ places[loop.last] }} | `{{ part.package_sha256[:16] }}` |
{% endfor %}

What reads text has {{ "%.2f" | format(data.text | sum("bytes") / 1e6) }} MB, the voices \
{{ "%.2f" | format((data.voices.files + data.voices.statistics) | sum("bytes") / 1e6) }} MB.

## Use

In Swift, with the library `Kokoro{{ "" if core_ml else "ONNX" }}` of the package kokoro-ane, and \
this folder in the app as a folder reference:

```swift
let kokoro = try await Kokoro(bundle: folder\
{{ "" if core_ml else ", onnx: OnnxLibrary(linked: OrtGetApiBase)" }})
try await kokoro.play("Hello, world!", voice: "{{ (spoken.values() | first)[0] }}")
for try await piece in kokoro.speak("The ferry crossed the harbour.", voice: \
"{{ (spoken.values() | first)[0] }}", speed: 1.1) {
    write(piece.samples)
}
```

## Voices

| language | voices |
| --- | --- |
{% for language, voices in spoken.items() %}
| {{ names[language] }} | {{ voices | join(", ") }} |
{% endfor %}

Text is read in {% for language in read %}{{ names[language] }}\
{{ "" if loop.last else ", " }}{% endfor %}. The voices are tables that came with the checkpoint; \
this project trained and cloned none. A name of Kokoro's begins with the letter of its language, \
then f (female) or m (male).

## Quality

{% if level %}
{{ level.verdict }}: {{ level.reasons | join("; ") }}.

Judged on {{ level.clips | length }} held-out sentences, executed package against fp32 PyTorch \
with the same noise, {{ decision.provenance.precision }} precision, on \
{{ decision.provenance.date }}; commit {{ short(decision.provenance.commit) }}. \
`kokoro-ane release`:

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

## Limits

- No Apple device was used: latency, placement and memory on a device are not known.
- The figures say how near the packages are to the fp32 network, not how well it speaks.
{% if core_ml %}
- Needs {{ systems[packages | map(attribute="target") | max] }}. What was reported of Core ML on \
these systems is in manifest.json, `advisories`.
{% endif %}
{% if data.vocoder.buckets %}
- What is spoken in one piece has at most \
{{ "%.1f" | format(data.vocoder.buckets | max / data.audio.frames_per_second) }} s; longer \
sentences are cut where phrases meet.
{% endif %}

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

## Cite

Kokoro-82M is by hexgrad; its design is that of StyleTTS 2 (arXiv:2306.07691) and iSTFTNet \
(arXiv:2203.02395).

```bibtex
@software{kokoro_ane,
  title = {kokoro-ane: Kokoro-82M text-to-speech on Apple's Neural Engine, executed and judged \
on any machine},
  author = {{ "{{kokoro-ane contributors}}" }},
  version = {{ "{%s}" | format(version) }},
  license = {Apache-2.0}
}
```
"""


def write_model_card(
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
    # of an encoder, of the vocoder
    places = ("CPU and GPU; CPU on the M5", "Neural Engine, CPU") if core_ml else ("CPU", "CPU")
    # In the order of the files: the first voice of all speaks in the example.
    spoken: dict[str, list[str]] = {}
    for entry in data["voices"]["files"]:
        name = Path(entry["file"]).stem
        spoken.setdefault(voice_language(name), []).append(name)
    # text/us.rules
    read = sorted({Path(entry["file"]).name.split(".")[0] for entry in data["text"]})
    # What the decision lacks is an error, and no gap on the card.
    template = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    ).from_string(CARD, globals={"short": short})
    with readable(path, AGAIN, UndefinedError):
        return template.render(
            core_ml=core_ml,
            places=places,
            is_kokoro=data["checkpoint"]["name"] in (HUB_NAME, KOKORO_INT8),
            repository=HUB_REPOSITORY,
            version=import_module("kokoro_ane").__version__,
            spoken=spoken,
            read=read,
            data=data,
            decision=decision,
            level=level,
            product=product,
        )
