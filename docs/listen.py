"""Make the page that plays: docs/site/index.html, every version of six sentences with its figures.

    python docs/listen.py --build build    # with the packages of the levels in docs/figures.json

One file without a reference to outside: it works from a folder and from GitHub Pages, which
.github/workflows/pages.yml publishes. Style sheet and player are the release report's. A pipe's
last line is one JSON object.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import (
    EXIT_GOOD,
    CommandOptions,
    build_option,
    bytes_of,
    command,
    conclude,
    parse,
)

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.eval import Reference
    from kokoro_ane.speech import Utterance

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "site" / "index.html"
OURS = bytes_of(b'<script type="application/json" id="sounds">')
WEIGHTS, LAYOUT = "kokoro-int8", "streaming"
SEED = "another seed"
REJECTED = ("p4", "w4")  # docs/evidence.md has their verdicts
METRICS = ("pesq", "mcd_db", "lsd_db")
# voice -> what it says; in no set that tunes or judges
SENTENCES = MappingProxyType(
    {
        "af_heart": "The kettle sang, and nobody in the kitchen dared to speak first.",
        "bm_george": "Turn left at the old mill, and mind the geese.",
        "ef_dora": "El tren de las siete llega siempre con un poco de lluvia.",
        "ff_siwis": "Le vieux phare s'allume encore, même quand personne ne regarde.",
        "if_sara": "La nonna chiude la finestra e comincia a raccontare.",
        "pf_dora": "O barco azul voltou sozinho ao porto naquela manhã.",
    }
)


def speak_sentences(reference: "Reference") -> "list[Utterance]":
    """The sentences as their voices speak them, with the prosody of the 32-bit encoder."""
    from kokoro_ane.speech import Line, speak_line
    from kokoro_g2p import text_reader, voice_language

    spoken = []
    for voice, text in SENTENCES.items():
        chunks = list(text_reader(voice_language(voice))(text))
        assert len(chunks) == 1, f"{text!r} is {len(chunks)} chunks"
        phonemes = chunks[0].phonemes
        # The text is read in its voice's language already: no dialect is left to choose.
        line = Line(1.0, phonemes, phonemes, text)
        spoken.append(speak_line(reference.encoder, reference.checkpoint, line, voice, voice))
    return spoken


def measure_figures(original: "np.ndarray", other: "np.ndarray") -> dict[str, float]:
    """METRICS of a version [600F] against the original."""
    from kokoro_ane.eval import Trial, measure

    return measure(Trial(original.astype("float64"), other.astype("float64")), METRICS)


def render_sounds(build: Path, levels: "list[str]") -> str:
    """What the player reads, as JSON that no HTML reader takes for a tag: each sentence by the
    32-bit model, by another noise seed and by the executed package of each level.
    """
    from functools import partial

    from kokoro_ane.core import commit, open_checkpoint
    from kokoro_ane.eval import (
        REFERENCE,
        Reference,
        describe_metrics,
        encode_sound,
        format_player_json,
        open_executable,
        render_auditions,
    )
    from kokoro_ane.quantize import PackageRequest

    checkpoint = open_checkpoint(WEIGHTS)
    reference = Reference(checkpoint, seed=0)
    # Each is opened when its turn comes: all at once would fill the memory.
    packages = {
        name: partial(
            open_executable,
            PackageRequest(checkpoint, build, name).load_verified().path,
            "declared",
        )
        for name in levels
    }
    clips = []
    for one in render_auditions(reference, packages, speak_sentences(reference)):
        original = one.signals[REFERENCE]
        # No package makes the other seed.
        seed = reference.render_clock(reference.compute_inputs(one.utterance, 1)).astype("float32")
        signals = {name: one.signals[name] for name in levels} | {SEED: seed}
        sounds = {REFERENCE: encode_sound(original)}
        # =| As the difference to the original, where that is shorter.
        sounds |= {name: encode_sound(signal, original) for name, signal in signals.items()}
        clips.append(
            {
                "id": one.utterance.id,
                "voice": one.utterance.voice,
                "text": one.utterance.text,
                "sounds": sounds,
                "figures": {
                    name: measure_figures(original, heard) for name, heard in signals.items()
                },
                "seed": measure_figures(original, seed),
            }
        )
    sizes = {
        name: PackageRequest(checkpoint, build, name).load_verified().package_bytes
        for name in levels
    }
    data = {
        "commit": commit(),
        "bytes": sizes,
        "clips": clips,
        "levels": [*levels, SEED],
        "metrics": describe_metrics(METRICS),
    }
    return format_player_json(data)


def render_page(sounds: str) -> str:
    """The whole page. `sounds`: of render_sounds."""
    from figures import WORDS, choose_levels
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from kokoro_ane.eval import read_asset

    data = json.loads(sounds)
    # A level that was judged since the sounds were rendered has none.
    levels = [one for one in choose_levels(WEIGHTS, LAYOUT) if one.method in data["levels"]]
    rows = [
        (
            one.method,
            WORDS[one.method],
            f"{one.megabytes:.1f}",
            f"{one.pesq[0]:.2f} / {one.pesq[1]:.2f}",
            f"{one.mcd_db:.2f}",
            one.verdict,
        )
        for one in levels
    ]
    # Of rejected levels only the size is shown: docs/evidence.md has their figures.
    for name in REJECTED:
        rows.append((name, WORDS[name], f"{data['bytes'][name] / 1e6:.1f}", "", "", "REJECT"))
    rows.append((SEED, "other noise", "", "", f"{levels[0].seed_mcd_db:.2f}", ""))
    # Levels are sorted by falling size.
    whole = levels[0].megabytes
    least = levels[-1].megabytes
    environment = Environment(
        loader=FileSystemLoader(DOCS), autoescape=True, undefined=StrictUndefined
    )
    values: Mapping[str, Any] = {
        "css": read_asset("report.css"),
        "script": read_asset("report.js"),
        "sounds": sounds,
        "whole": f"{whole:.0f}",
        "saved": f"{whole - least:.0f}",
        "clips": levels[0].clips,
        "weights": "voices of six languages",
        "heads": ("version", "MB", "PESQ, mean / worst", "MCD, dB", "verdict"),
        "rows": rows,
        "commit": data["commit"][:8],
    }
    return environment.get_template("listen.html.jinja").render(values)


@dataclass(frozen=True)
class ListenOptions(CommandOptions):
    """Where the packages are."""

    build: Path = build_option()


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(ListenOptions, "docs/listen.py", __doc__, argv)
    from figures import choose_levels

    from kokoro_ane.core import staged

    # the smallest that ships is heard first
    levels = [*(one.method for one in reversed(choose_levels(WEIGHTS, LAYOUT))), *REJECTED]
    text = render_page(render_sounds(options.build, levels)).encode()
    PAGE.parent.mkdir(exist_ok=True)
    with staged(PAGE, OURS) as aside:
        aside.write_bytes(text)
    report = {"page": "docs/site/index.html", "bytes": len(text), "levels": levels}
    return conclude(options, report, EXIT_GOOD, f"written, {len(text) / 1e6:.1f} MB")


if __name__ == "__main__":
    raise SystemExit(main())
