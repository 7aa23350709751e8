"""A product: a level of the encoder in front of a level of the vocoder, judged as executed, from
text to sound.

    product = judged_product(context, vocoder="p6", encoder="w8g")
    # only of stages that ship alone; what is missing is said
    products = judged_products(context, [("w8g", "p6"), ("lossless", "p6")])

Vocoders are taken by BUILD/release/decision.json, encoders by their own gates, whose figures are
measured where they are missing. Nothing is guessed: a product with a vocoder that nobody judged is
UNDECIDED, and its command is named.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.contract import BOTH, NUMERIC
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.eval import PRODUCT
from kokoro_ane.eval.decision import Choice, provenance
from kokoro_ane.eval.execution import Execution
from kokoro_ane.eval.gates import PRODUCT_GATES
from kokoro_ane.eval.judge import REJECT, SHIP, UNDECIDED, decided
from kokoro_ane.eval.levels import (
    JudgedLevel,
    cached_facts,
    full_record,
    judged_encoder,
    measured_clips,
)
from kokoro_ane.eval.reference import judged_clips
from kokoro_ane.g2p.alphabet import spoken_by
from kokoro_ane.g2p.result import US
from kokoro_ane.pipeline.decision_file import PRODUCT_FORMAT, decision_for
from kokoro_ane.pipeline.text_tables import TEXT_BYTES
from kokoro_ane.pipeline.voice_file import first_voice_bytes
from kokoro_ane.quantize.locator import parse_level

if TYPE_CHECKING:
    from kokoro_ane.eval.session import JudgeContext


def judged_products(context: "JudgeContext", names: Sequence[tuple[str, str]]) -> list[JudgedLevel]:
    """Every combination of an encoder and a vocoder; one line on stderr as each is done. Raises
    InputError for a vocoder that is not built.
    """
    clips = tuple(judged_clips(context.checkpoint, BOTH))
    both = replace(context, clips=clips, texts=BOTH, claim=NUMERIC)
    alone: dict[str, JudgedLevel] = {}
    products: list[JudgedLevel] = []
    for encoder, vocoder in names:
        if encoder not in alone:
            try:
                alone[encoder] = judged_encoder(encoder, both)
            except CheckFailed as problem:
                reason = f"encoder not built: {problem}"
                alone[encoder] = JudgedLevel(encoder, f"encoder {encoder}", failed=reason)
        if failed := alone[encoder].failed:
            products.append(JudgedLevel(f"{vocoder}+{encoder}", vocoder, failed=failed))
        else:
            products.append(judged_product(context, vocoder, encoder, alone[encoder].verdict))
        print(f"{products[-1].method}: {products[-1].verdict}", file=sys.stderr)
    return products


def judged_product(
    context: "JudgeContext", vocoder: str, encoder: str, encoder_alone: str | None = None
) -> JudgedLevel:
    """One combination. `encoder_alone`: the verdict of the encoder; where it is given, only stages
    that ship alone are rendered. Text is read by g2p's rules, as a bundle holds them, in the fp32
    chain too; sizes are with one voice, the first.
    """
    checkpoint, (method, layout) = context.checkpoint, parse_level(vocoder)
    manifest = context.request(method.name, layout).verified()
    facts = cached_facts(manifest, context)
    paths = context.request(encoder=encoder).encoders
    encoders = [Manifest.load(path) for path in paths]
    parts = {
        "text": TEXT_BYTES[spoken_by(checkpoint.voices[0]) or US],
        "encoder": sum(part.package_bytes for part in encoders),
        "vocoder": facts.bytes,
        "voice": first_voice_bytes(checkpoint),
    }
    name, judgement = f"{vocoder}+{encoder}", None
    facts = replace(facts, bytes=sum(parts.values()))
    record: dict[str, Any] = {
        "stages": {"encoder": encoder, "vocoder": vocoder},
        "parts": parts,
        "packages": {part.package: part.package_sha256 for part in (manifest, *encoders)},
    }
    if encoder_alone is not None:
        record |= _alone(context, vocoder, manifest, encoder_alone)
    if not record.get("reasons"):
        execution = Execution.of(context.execution.precision, paths, PRODUCT)
        context = replace(context, execution=execution)
        results, stopped = measured_clips(name, manifest, context, PRODUCT_GATES)
        judgement = decided(name, results, context.claim, gates=PRODUCT_GATES, stopped=stopped)
        record |= full_record(judgement, [manifest, *encoders], context, facts.bytes)
    return JudgedLevel(
        name,
        f"vocoder {vocoder}, encoder {encoder}",
        method.unfit_for_engine,
        manifest=manifest,
        facts=facts,
        record=record,
        judgement=judgement,
    )


def _alone(
    context: "JudgeContext", vocoder: str, manifest: Manifest, encoder_alone: str
) -> dict[str, Any]:
    """The verdicts of both stages alone, and the reasons not to render them together."""
    _, level = decision_for(context.build / "release" / "decision.json", manifest.package_sha256)
    alone = {"encoder": encoder_alone, "vocoder": level["verdict"] if level else UNDECIDED}
    reasons = [
        f"the {stage} alone: {verdict}" for stage, verdict in alone.items() if verdict != SHIP
    ]
    if not level:
        command = f"kokoro-ane release --methods {vocoder}"
        reasons.insert(0, f"vocoder {vocoder} was not judged: `{command}` judges it")
    return {
        "alone": alone,
        "verdict": REJECT if REJECT in alone.values() else UNDECIDED,
        "reasons": reasons,
        "broken": [],
        "summary": {},
    }


def product_record(
    products: Sequence[JudgedLevel],
    choice: Choice,
    context: "JudgeContext",
) -> dict[str, Any]:
    """What BUILD/release/product.json holds: the decision first, then every product with its
    parts.
    """
    return asdict(choice) | {
        "format": PRODUCT_FORMAT,
        "product": choice.level,
        "products": [
            {"product": one.method, "failed": one.failed, "bytes": one.bytes}
            | {"verdict": one.verdict}
            | one.record
            for one in products
        ],
        "provenance": provenance(context),
    }
