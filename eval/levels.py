"""One level or product for the release table: found or built, judged, and described.

    level = judge_method(METHODS["w8"], "streaming", context)
    encoder = judge_encoder("w8g", context)
    product = judge_product("p6", "w8g", context)
    level["verdict"], level["bytes"], level["summary"]

Packages are built by the same commands a user types. A level that cannot be built stays in the
table with the reason. Size, operations and the share of int8 are its manifest's, which the build
wrote when it had checked the package; the forecast reads the package.

A product is a level of the encoder in front of a level of the vocoder, judged from text to sound.
For a release its vocoder is taken by BUILD/release/decision.json and its encoder by its own gates;
a product with a vocoder that nobody judged is UNDECIDED, and its command is named.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import Any

from kokoro_ane.core import (
    BOTH,
    CORPUS,
    NUMERIC,
    STREAMED,
    TUNING,
    CheckFailed,
    InputError,
    Manifest,
    commit,
    is_there,
    level_name,
)
from kokoro_ane.eval.clip_figures import ask_every_seed, measure_clips
from kokoro_ane.eval.execution import DECLARED, Execution
from kokoro_ane.eval.facts import read_facts
from kokoro_ane.eval.gates import FEWEST_CLIPS, select_gates
from kokoro_ane.eval.judge import REJECT, SHIP, UNDECIDED, judge_results, list_groups
from kokoro_ane.eval.natural import describe_origins
from kokoro_ane.eval.session import JudgeContext, get_corpus
from kokoro_ane.eval.store import explain_withheld
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, VOCODER
from kokoro_ane.pipeline import build_package
from kokoro_ane.quantize import (
    HALF,
    Method,
    ensure_encoder,
    ensure_vocoder,
    make_options,
    parse_level,
)
from kokoro_ane.runtimes import PACKAGE, require_genuine

FORMAT = 3
NAMED = 3  # broken gates that a line names


# A row of the release table, as BUILD/release/decision.json has it. `failed`: why there is no
# package; then nothing else is known.
LevelRecord = dict[str, Any]


def describe_problem(level: LevelRecord) -> str:
    """Why a level does not ship: there is no package, the first broken gates and how many more
    there are, or what is open; "" for a level that ships.
    """
    if level["failed"] or level["verdict"] == SHIP:
        return level["failed"] or ""
    broken = level["broken"]
    if not broken:
        return str(level["reasons"][0])
    more = f" and {len(broken) - NAMED} more gates" if len(broken) > NAMED else ""
    return ", ".join(broken[:NAMED]) + more


def make_failed_level(name: str, title: str, why: str, unfit: str | None = None) -> LevelRecord:
    """A level that there is no package of."""
    return {
        "method": name,
        "title": title,
        "unfit_for_engine": unfit,
        "failed": why,
        "verdict": UNDECIDED,
        "bytes": 0,
        "facts": None,
    }


def judge_all(
    context: JudgeContext,
    names: Sequence[tuple[Any, str]],
    judge: Callable[[Any, str, JudgeContext], LevelRecord],
) -> list[LevelRecord]:
    """Judge every level or product by its two names; a line on stderr tells when each is done."""
    levels: list[LevelRecord] = []
    for name in names:
        start = time.monotonic()
        level = judge(*name, context)
        levels.append(level)
        took = timedelta(seconds=round(time.monotonic() - start))
        outcome = level["failed"] or level["verdict"]
        count = f"{len(levels)} of {len(names)}"
        print(f"{level['method']}: {outcome} ({took}; {count} levels)", file=sys.stderr)
    return levels


def judge_method(method: Method, layout: str, context: JudgeContext) -> LevelRecord:
    """Find or build the package, judge its clips (those measured before are read), read its facts.

    A package of another checkpoint, or one that differs from its manifest, is an InputError: it is
    never built over.
    """
    request = context.make_request(method.name, layout)
    failed = ""
    if not is_there(request.vocoder):
        failed = f"not built; `{make_options(method, layout).command}` builds it"
    if failed and context.may_build:
        with context.workers.settling(context.clips if layout in STREAMED else ()):
            try:
                ensure_vocoder(request, build_package)
                failed = ""
            except (InputError, CheckFailed) as problem:
                failed = f"not built: {problem}"
    if failed:
        return make_failed_level(request.level, method.title, failed, method.unfit_for_engine)
    manifest = request.load_verified()
    return judge_package(method, manifest, context) | {
        "facts": read_cached_facts(manifest, context)
    }


def judge_package(method: Method, manifest: Manifest, context: JudgeContext) -> LevelRecord:
    """Judge a vocoder's package that is there. InputError for one that is not what its name says
    (runtimes/genuine.py).
    """
    require_genuine(manifest, level_name(method.name, manifest.layout))
    wrong = find_wrong_channels(method, manifest, context)
    return _judge(method.name, [manifest], context, wrong) | {
        "method": manifest.level,
        "title": method.title,
        "unfit_for_engine": method.unfit_for_engine,
    }


def judge_encoder(name: str, context: JudgeContext) -> LevelRecord:
    """Find or build an encoder's level, and judge it. Raises what ensure_encoder raises."""
    request = replace(context.make_request(HALF), encoder=name)
    paths = ensure_encoder(request, build_package if context.may_build else None)
    manifests = [Manifest.load(path) for path in paths]
    for manifest in manifests:
        manifest.verify()
    execution = Execution(DECLARED, paths, ENCODER)
    return _judge(name, manifests, replace(context, execution=execution))


def judge_file(name: str, stage: str, context: JudgeContext) -> LevelRecord:
    """Judge a level before it is converted, in PyTorch. Raises what LevelFile.open raises."""
    # late, as below: what no package of a vocoder needs to be judged
    from kokoro_ane.eval.channel_gains import find_wrong_scales
    from kokoro_ane.quantize import LevelFile

    file = LevelFile.open(name, context.checkpoint, context.options.build, stage)
    pairs = file.level.list_pairs(file.plain) if stage == VOCODER else ()
    context = replace(context, execution=replace(context.execution, stage=stage, level=name))
    return _judge(name, [file.manifest], context, find_wrong_scales(pairs))


def judge_encoder_alone(encoder: str, context: JudgeContext) -> LevelRecord:
    """Judge a product's encoder by its own gates, on the sets that every level is judged on."""
    from kokoro_ane.eval.reference import list_judged_clips

    clips = tuple(list_judged_clips(context.checkpoint, BOTH))
    options = replace(context.options, set=BOTH, claim=NUMERIC)
    try:
        return judge_encoder(encoder, replace(context, clips=clips, options=options))
    except CheckFailed as problem:
        return make_failed_level(encoder, f"encoder {encoder}", f"encoder not built: {problem}")


def judge_by_stages(encoder: str, vocoder: str, context: JudgeContext) -> LevelRecord:
    """Judge an encoder alone, and in front of a vocoder where both ship alone. Raises InputError
    for a vocoder that is not built.
    """
    alone = judge_encoder_alone(encoder, context)
    if alone["failed"]:
        return make_failed_level(f"{vocoder}+{encoder}", vocoder, alone["failed"])
    return judge_product(vocoder, encoder, context, alone["verdict"])


def judge_product(
    vocoder: str,
    encoder: str,
    context: JudgeContext,
    encoder_alone: str | None = None,
    vocoder_alone: str | None = None,
) -> LevelRecord:
    """One combination. `encoder_alone`: the verdict of the encoder; where it is given, only stages
    that ship alone are rendered, and the vocoder's verdict is read where it is not given. Text is
    read by g2p's rules, as a bundle holds them, in the fp32 chain too.
    """
    method, layout = parse_level(vocoder)
    manifest = context.make_request(method.name, layout).load_verified()
    paths = context.make_request(encoder=encoder).encoders
    encoders = [Manifest.load(path) for path in paths]
    parts = count_parts_beside(encoder, context) | {"vocoder": manifest.package_bytes}
    level = {
        "failed": None,
        "stages": {"encoder": encoder, "vocoder": vocoder},
        "parts": parts,
        "packages": {part.package: part.package_sha256 for part in (manifest, *encoders)},
    }
    if encoder_alone is not None:
        level |= _collect_verdicts(context, vocoder, manifest, encoder_alone, vocoder_alone)
    name = f"{vocoder}+{encoder}"
    if not level.get("reasons"):
        execution = Execution(context.execution.precision, paths, PRODUCT)
        level |= _judge(name, [manifest, *encoders], replace(context, execution=execution))
    return level | {
        "method": name,
        "title": f"vocoder {vocoder}, encoder {encoder}",
        "unfit_for_engine": method.unfit_for_engine,
        "facts": read_cached_facts(manifest, context) if encoder_alone else None,
        "bytes": sum(parts.values()),
    }


def count_parts_beside(encoder: str, context: JudgeContext) -> dict[str, int]:
    """The bytes of a product's parts beside the vocoder: one voice, the first, is counted."""
    from kokoro_ane.pipeline import first_voice_bytes
    from kokoro_g2p import text_bytes

    manifests = [Manifest.load(path) for path in context.make_request(encoder=encoder).encoders]
    return {
        "text": text_bytes(context.checkpoint.voices[:1]),
        "encoder": sum(manifest.package_bytes for manifest in manifests),
        "voice": first_voice_bytes(context.checkpoint),
    }


def _collect_verdicts(
    context: JudgeContext,
    vocoder: str,
    manifest: Manifest,
    encoder_alone: str,
    vocoder_alone: str | None,
) -> dict[str, Any]:
    """The verdicts of both stages alone, and the reasons not to render them together."""
    from kokoro_ane.pipeline import decision_for

    if vocoder_alone is None:
        file = context.options.build / "release" / "decision.json"
        _, level = decision_for(file, manifest.package_sha256)
        vocoder_alone = level["verdict"] if level else None
    alone = {"encoder": encoder_alone, "vocoder": vocoder_alone or UNDECIDED}
    reasons = [
        f"the {stage} alone: {verdict}" for stage, verdict in alone.items() if verdict != SHIP
    ]
    if not vocoder_alone:
        command = f"kokoro-ane release --methods {vocoder}"
        reasons.insert(0, f"vocoder {vocoder} was not judged: `{command}` judges it")
    return {
        "alone": alone,
        "verdict": REJECT if REJECT in alone.values() else UNDECIDED,
        "reasons": reasons,
        "broken": [],
        "summary": {},
    }


def _judge(
    name: str,
    manifests: Sequence[Manifest],
    context: JudgeContext,
    wrong: Sequence[str] = (),
) -> LevelRecord:
    """Judge what is executed. `manifests`: of all of it, what is judged first; `wrong`: its layers
    that are not their parent's.
    """
    first = manifests[0]
    stage = context.execution.stage
    gates = select_gates(name, first.layout, stage)
    results, stopped = measure_clips(name, first, context, gates, wrong)
    judge = partial(
        judge_results,
        gates,
        claim=context.options.claim,
        defects=wrong,
        stopped=stopped,
        # A product's vocoder is held to its long clips alone. There the next style row, in whose
        # units an encoder and a product are judged, is nearly the same.
        predicted=stage == VOCODER,
    )
    judgement = judge(results)
    # A search of tuning sentences asks for shares of limits, and a corpus may be of thousands.
    decides = context.options.set != TUNING and not get_corpus(context.options)
    if judgement.by_limit and stage == VOCODER and decides:
        results = ask_every_seed(judgement, first, context)
        judgement = judge(results)
    origins = dict(Counter(clip.origin for clip in results))
    print(describe_origins(origins), file=sys.stderr)
    reason = explain_withheld(context.checkpoint)
    size_bytes = sum(manifest.package_bytes for manifest in manifests)
    return {
        "format": FORMAT,
        "stage": stage,
        "method": name,
        "title": f"{stage} {name}",
        "unfit_for_engine": None,
        "failed": None,
        "bytes": size_bytes,
        "releasable": reason is None and all(manifest.releasable for manifest in manifests),
        "withheld": reason,
        **judgement.record(),
        "groups": list_groups(gates, results) if get_corpus(context.options) else [],
        # read for a release alone: the forecast takes five seconds
        "facts": None,
        "provenance": collect_provenance(context)
        | {
            "package": first.package,
            "package_sha256": first.package_sha256,
            "packages": {manifest.package: manifest.package_sha256 for manifest in manifests},
            "package_bytes": size_bytes,
            "checkpoint": first.checkpoint,
            "variation": context.reference.variations.provenance | {"clips": origins},
        },
    }


def collect_provenance(context: JudgeContext) -> dict[str, Any]:
    """Return what the figures were measured by and on, beside the package."""
    return context.store.key | {
        "precision": context.execution.precision,
        "features": context.execution.features,
        "set": CORPUS if get_corpus(context.options) else context.options.set or BOTH,
        "fewest_clips": FEWEST_CLIPS,
        "commit": commit(),
    }


def read_cached_facts(manifest: Manifest, context: JudgeContext) -> dict[str, Any]:
    """Read the facts of a package once: the forecast takes seconds."""
    name = f"facts-{manifest.package_sha256[:16]}"
    return context.store.load_or_measure(name, lambda: asdict(read_facts(manifest)))


def find_wrong_channels(method: Method, manifest: Manifest, context: JudgeContext) -> list[str]:
    """Layers of a compressed package whose channels have another scale than what they were made
    from (eval/channel_gains.py). Nothing is read of files that are no packages.
    """
    if method.parent is None or manifest.package_path.suffix != PACKAGE:
        return []
    name = f"channels-{manifest.package_sha256[:16]}"
    # The streaming layout's layers are multiplied as their parent's are not, so its integers are
    # read in the level's file, to which the conversion holds them equal and which is made again
    # where it is missing. A padded package is read itself, beside its parent.
    parent = None
    if manifest.layout not in STREAMED:
        parent = context.make_request(method.parent, manifest.layout).load_verified()
        name += f"-{parent.package_sha256[:16]}"

    def read() -> dict[str, Any]:
        from kokoro_ane.eval.channel_gains import find_wrong_scales, read_layer_pairs

        if parent:
            pairs = read_layer_pairs(parent.package_path, manifest.package_path)
            return {"wrong": find_wrong_scales(pairs, method.balances)}
        from kokoro_ane.quantize import LevelFile

        file = LevelFile.open(method.name, context.checkpoint, context.options.build, VOCODER)
        return {"wrong": find_wrong_scales(file.level.list_pairs(file.plain))}

    return list(context.store.load_or_measure(name, read)["wrong"])
