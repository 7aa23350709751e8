"""Negative controls of a product, on the tuning set: what must be rejected, what must pass, and the
figures that chose the factors.

    for name, bad, make in controls(reference, Path("build")):
        judgement = judged(reference, clips, make, rows={})
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from kokoro_ane.encoder.encoder_stage import EncoderPackage
from kokoro_ane.encoder.encoder_steps import EncoderBackend
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.eval.judge import Judgement, decided
from kokoro_ane.eval.product_gates import PRODUCT_GATES
from kokoro_ane.eval.product_judge import Make, Rendition, chain, judge_product, spoken
from kokoro_ane.eval.prosody_controls import FAR_ROW, FASTER, Dropped
from kokoro_ane.eval.prosody_judge import ROW_STEPS
from kokoro_ane.eval.reference import Reference
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.quantize.locator import Request
from kokoro_ane.vocoder.render import open_package

PAIRS = (("p4", "w8g"), ("p6", "p6g"))  # a vocoder and an encoder, one of them rejected alone
UNSEEN_SEED = 7


def controls(reference: Reference, build: Path) -> Iterator[tuple[str, bool, Make]]:
    """Name, whether it must be rejected, and the chain: of fp32, and pairs of packages as far as
    they stand in the build folder.
    """
    yield from ((f"style row n {step:+d}", False, _fp32(reference, step)) for step in ROW_STEPS)
    yield "another noise seed", False, _fp32(reference, other_seed=UNSEEN_SEED)
    yield "speed 3 % off", True, _fp32(reference, faster=FASTER)
    yield f"a style row {FAR_ROW} away", True, _fp32(reference, FAR_ROW)
    blunt = deepcopy(Encoder.of(reference.checkpoint))
    blunt.predictor.F0[0] = Dropped()  # type: ignore[assignment]
    yield (
        "a block of F0 dropped",
        True,
        _fp32(reference, backend=replace(reference.encoder, functions=torch_functions(blunt))),
    )
    for method, level in PAIRS:
        request = Request(reference.checkpoint, build, method, encoder=level)
        if all(path.is_file() for path in (request.vocoder, *request.encoders)):
            encoder, vocoder = EncoderPackage(request.encoders), open_package(request.vocoder)
            yield (
                f"vocoder {method}, encoder {level}",
                True,
                chain(reference, encoder.backend, vocoder),
            )


def _fp32(
    reference: Reference,
    step: int = 0,
    faster: float = 1.0,
    other_seed: int = 0,
    backend: EncoderBackend | None = None,
) -> Make:
    def make(clip: Utterance) -> Rendition:
        how = (reference, backend or reference.encoder, clip, step, faster)
        (said, inputs), (_, other) = spoken(*how), spoken(*how, other_seed)
        return Rendition(said, reference.clock(other), reference.clock(inputs))

    return make


def judged(
    reference: Reference, clips: Sequence[Utterance], make: Make, rows: dict[str, dict[str, float]]
) -> Judgement:
    """`rows`: the row variation by clip, filled as it is measured."""
    results = []
    for clip in clips:
        results.append(judge_product(reference, make, clip, rows.get(clip.id)))
        rows[clip.id] = results[-1].seed_variation
    return decided("product", results, gates=PRODUCT_GATES)
