"""`kokoro-ane release --product`: one level a stage, the combination judged as executed from text
to sound, and what to ship named.

    products = judged_products(context, encoders=("w8g", "lossless"), methods=("p6",))
    choice = choose(products, "smallest", "m4", withheld(checkpoint))

Only stages that ship alone are rendered together: vocoders by BUILD/release/decision.json, encoders
by their own gates, whose figures are measured where they are missing. Nothing is guessed: a product
with a vocoder that nobody judged is UNDECIDED, and its command is named.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import print_table
from kokoro_ane.core.contract import BOTH
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.eval.decision import Choice, provenance
from kokoro_ane.eval.execution import ROWS, Execution
from kokoro_ane.eval.judge import decided, plain_decision
from kokoro_ane.eval.levels import JudgedLevel, known_facts, measured_clips
from kokoro_ane.eval.product_gates import PRODUCT_GATES
from kokoro_ane.eval.prosody_judge import ProsodyBench
from kokoro_ane.eval.prosody_quality import judged_encoder
from kokoro_ane.eval.reference import judged_clips
from kokoro_ane.eval.verdict import REJECT, SHIP, UNDECIDED
from kokoro_ane.g2p.alphabet import spoken_by
from kokoro_ane.g2p.result import US
from kokoro_ane.pipeline.decision_file import PRODUCT_FORMAT, decision_for, read_decision
from kokoro_ane.pipeline.text_tables import TEXT_BYTES
from kokoro_ane.pipeline.voice_file import first_voice_bytes
from kokoro_ane.quantize.locator import Request, find_package, parse_level

if TYPE_CHECKING:
    from kokoro_ane.eval.session import JudgeContext

PARTS = ("text", "encoder", "vocoder", "voice")


def shipping_vocoders(build: Path, layout: str) -> tuple[str, ...]:
    """Levels of the layout that BUILD/release/decision.json lets ship; fp16, which is then told to
    be unjudged, where it names none.
    """
    path = build / "release" / "decision.json"
    named = (
        [level["method"] for level in read_decision(path)["levels"] if level["verdict"] == SHIP]
        if path.is_file()
        else []
    )
    parsed = [(name, *parse_level(name)) for name in named]
    return tuple(
        name for name, method, of in parsed if of == layout and not method.unfit_for_engine
    ) or ("fp16",)


def judged_products(
    context: "JudgeContext", encoders: Sequence[str], methods: Sequence[str]
) -> list[JudgedLevel]:
    """Every encoder with every vocoder; one line on stderr as each is done. Raises InputError for a
    vocoder that is not built.
    """
    bench = ProsodyBench(context.checkpoint, judged_clips(context.checkpoint, BOTH))
    products: list[JudgedLevel] = []
    for encoder in encoders:
        try:
            judged = judged_encoder(
                bench, context.store, encoder, context.source, context.build, context.may_build
            )
        except CheckFailed as problem:
            products += [
                JudgedLevel(f"{name}+{encoder}", name, failed=f"encoder not built: {problem}")
                for name in methods
            ]
            continue
        for name in methods:
            products.append(judged_product(context, judged, name))
            print(f"{products[-1].method}: {products[-1].verdict}", file=sys.stderr)
    return products


def judged_product(context: "JudgeContext", encoder: dict[str, Any], name: str) -> JudgedLevel:
    """One combination of an encoder's record and a vocoder's level. Text is read by g2p's rules, as
    a bundle holds them, in the fp32 chain too; sizes are with one voice, the first.
    """
    method, layout = parse_level(name)
    manifest = find_package(context.build, context.checkpoint, method, layout)
    facts, level = known_facts(manifest, context), encoder["method"]
    _, vocoder = decision_for(context.build / "release" / "decision.json", manifest.package_sha256)
    alone = {"encoder": encoder["verdict"], "vocoder": vocoder["verdict"] if vocoder else UNDECIDED}
    text, voice = (
        TEXT_BYTES[spoken_by(context.checkpoint.voices[0]) or US],
        first_voice_bytes(context.checkpoint),
    )
    parts = {
        "text": text,
        "encoder": encoder["provenance"]["package_bytes"],
        "vocoder": facts.bytes,
        "voice": voice,
    }
    packages = {manifest.package: manifest.package_sha256} | encoder["provenance"]["packages"]
    reasons = (
        []
        if vocoder
        else [f"vocoder {name} was not judged: `kokoro-ane release --methods {name}` judges it"]
    )
    reasons += [
        f"the {stage} alone: {verdict}" for stage, verdict in alone.items() if verdict != SHIP
    ]
    told = {
        "verdict": REJECT if REJECT in alone.values() else UNDECIDED,
        "reasons": reasons,
        "broken": [],
        "summary": {},
    }
    record = {
        "stages": {"encoder": level, "vocoder": name},
        "alone": alone,
        "parts": parts,
        "packages": packages,
    }
    record |= told if reasons else combination(context, manifest, level)
    title, whole = f"vocoder {name}, encoder {level}", replace(facts, bytes=sum(parts.values()))
    return JudgedLevel(
        f"{name}+{level}", title, method.unfit_for_engine, None, manifest, whole, record
    )


def combination(context: "JudgeContext", vocoder: Manifest, level: str) -> dict[str, Any]:
    """Verdict, checks, summary and clips of the executed chain."""
    encoders = Request(context.checkpoint, context.build, encoder=level).encoders
    results = measured_clips(
        vocoder,
        replace(context, execution=Execution.of(context.execution.precision, encoders, ROWS)),
    )
    made = decided(level, results, context.claim, vocoder.layout, gates=PRODUCT_GATES)
    return plain_decision(made.decision) | {
        "summary": made.summary(),
        "clips": [asdict(clip) for clip in results],
    }


def product_record(
    products: Sequence[JudgedLevel],
    choice: Choice,
    context: "JudgeContext",
) -> dict[str, Any]:
    """What BUILD/release/product.json holds: the decision first, then every product with its
    parts.
    """
    head = asdict(choice) | {
        "format": PRODUCT_FORMAT,
        "product": choice.level,
    }
    rows = [
        {"product": one.method, "failed": one.failed, "bytes": one.bytes, "verdict": one.verdict}
        | one.record
        for one in products
    ]
    return head | {"products": rows, "provenance": provenance(context)}


def print_products(products: Sequence[JudgedLevel], choice: Choice) -> None:
    """Decision, notes, table, what is wrong."""
    print("\n  - ".join((f"{choice.verdict}  {choice.reason}", *choice.notes)))
    rows, wrong = (
        [],
        [
            f"{one.method}: {one.failed or '; '.join(one.record['reasons'])}"
            for one in products
            if one.verdict != SHIP
        ],
    )
    for one in products:
        sizes = [f"{one.record['parts'][part] / 1e6:.2f}" if one.record else "-" for part in PARTS]
        mcd = one.record.get("summary", {}).get("mcd_db")
        near = f"{mcd['mean']:.2f} ({mcd['seed_variation_mean']:.2f})" if mcd else "-"
        rows.append((one.method, *sizes, f"{one.bytes / 1e6:.2f}", near, one.verdict))
    print_table(
        "MB of each part; MCD, dB (of a neighbouring row)",
        ("product", *PARTS, "all", "MCD", ""),
        rows,
    )
    print(*wrong, sep="\n")
