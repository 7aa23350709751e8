"""The manifest of a G2P package: its alphabets, its shapes, how to read the logits, and the weights it came from.

manifest = g2p_manifest(package, weights, "w8", "iOS17", config, figures, facts)
"""

from dataclasses import asdict
from pathlib import Path

from g2p.alphabet import BLANK, FRAMES, LETTER_ID, PADDING, SOUNDS, TAGS
from g2p.export import SHAPES, SYMBOLS, WORDS
from g2p.facts import IDS, LOGITS, ProgramFacts
from g2p.misaki_data import MISAKI_VERSION, SHA256
from g2p.sizes import Config
from g2p.weights import read_manifest
from pipeline.contract import G2P_NAME
from pipeline.figures import Figure
from pipeline.manifest import Manifest, describe_package, tool_versions

COMPUTE_UNITS = {"default": "CPU_ONLY", "reason": "1.4 million weights: a call ends before another unit would have started"}


def g2p_manifest(
    package: Path, weights: Path, method: str, target: str, config: Config, figures: list[Figure], facts: ProgramFacts
) -> Manifest:
    """Describe a package that stands at its final place."""
    trained = read_manifest(weights)
    return Manifest(
        stage=G2P_NAME,
        method=method,
        precision="fp16" if method == "fp16" else "fp32",
        checkpoint={"name": weights.stem, "sha256": trained["sha256"]},
        releasable=True,
        target=target,
        buckets=SYMBOLS,
        hidden_dim=config.width,
        inputs={IDS: {"shape": ["words", "symbols"], "dtype": "int32", "padding": PADDING, "shapes": [list(shape) for shape in SHAPES],
                      "words": list(WORDS), "first": {tag: 1 + place for place, tag in enumerate(TAGS)}, "letters": LETTER_ID}},
        outputs={LOGITS: {"shape": ["words", "symbols", f"{FRAMES} * {len(SOUNDS)}"], "dtype": "float32", "frames": FRAMES,
                          "sounds": list(SOUNDS), "blank": BLANK, "read": "CTC over frames * symbols, one primary stress a word"}},
        source={"data": f"misaki {MISAKI_VERSION}, Apache-2.0", "sha256": {tag: SHA256[tag] for tag in TAGS},
                "training": trained["training"], "compute_units": COMPUTE_UNITS},
        operations=facts.operations,
        checks={"figures": [asdict(figure) for figure in figures], "structure": facts.as_dict()},
        tools=tool_versions(),
        **describe_package(package),
    )  # fmt: skip
