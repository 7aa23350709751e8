"""`kokoro-ane quality --stage encoder` and `kokoro-ane controls --stage encoder`: a level found or
built, judged, described.

    with prosody_bench(checkpoint, seed=0, cache=Path("build/release/cache")) as (bench, store):
        level = judged_encoder(bench, store, "w8g", source=None, build=Path("build"))

48 sentences of both judged sets, by PyTorch and by the executed package: minutes. Figures are kept
by package and sentence, as the vocoder's are.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import print_table
from kokoro_ane.core.contract import BOTH
from kokoro_ane.encoder.encoder_stage import EncoderPackage
from kokoro_ane.eval.execution import shared_cores
from kokoro_ane.eval.judge import ClipResult, decided, plain_decision
from kokoro_ane.eval.prosody_gates import PROSODY_GATES
from kokoro_ane.eval.prosody_judge import ProsodyBench
from kokoro_ane.eval.provenance import commit, withheld
from kokoro_ane.eval.reference import judged_clips
from kokoro_ane.eval.store import Store
from kokoro_ane.pipeline.package_builds import build_package
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.quantize.locator import HALF, Request, built_encoder

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint


@contextmanager
def prosody_bench(
    checkpoint: "Checkpoint", seed: int, cache: Path, count: int | None = None
) -> Iterator[tuple[ProsodyBench, Store]]:
    """Sentences of both judged sets, and what was measured before. InputError for a count that is
    not there.
    """
    with shared_cores(1):  # before the sentences: their last bits hang on the number of threads
        yield (
            ProsodyBench(checkpoint, judged_clips(checkpoint, BOTH, count)),
            Store.open(cache, checkpoint, seed),
        )


def judged_encoder(
    bench: ProsodyBench,
    store: Store,
    name: str,
    source: str | None,
    build: Path,
    may_build: bool = True,
) -> dict[str, Any]:
    """Find or build the packages, judge the sentences (those measured before are read): the record.
    Raises as built_encoder.
    """
    request = Request(bench.checkpoint, build, HALF, source=source, encoder=name)
    package = EncoderPackage(built_encoder(request, build_package if may_build else None))
    manifests, say = package.manifests, bench.said_by(package.backend)
    sha256, clips = "-".join(manifest.package_sha256[:16] for manifest in manifests), []

    def measured(clip: Utterance) -> dict[str, Any]:
        return asdict(bench.clip(clip, say))

    for clip in shown(bench.clips, f"{name}: sentences"):
        bench.rows[clip.id] = store.figures(
            f"prosody-rows/{clip.id}", partial(bench.row_variation, clip)
        )
        figures = store.figures(f"prosody-{sha256}/{clip.id}", partial(measured, clip))
        clips.append(ClipResult(**figures))
    made, why = decided(name, clips, gates=PROSODY_GATES), withheld(bench.checkpoint)
    return {
        "format": 1,
        "stage": "encoder",
        "method": name,
        **plain_decision(made.decision),
        "releasable": why is None and all(manifest.releasable for manifest in manifests),
        "withheld": why,
        "summary": made.summary(),
        "clips": [asdict(clip) for clip in clips],
        "provenance": {
            "packages": {manifest.package: manifest.package_sha256 for manifest in manifests},
            "package_bytes": sum(manifest.package_bytes for manifest in manifests),
            "checkpoint": manifests[0].checkpoint,
            "commit": commit(),
        },
    }


def shown(work: Sequence[Any], name: str) -> Any:
    """What there is to do, under a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import track

    return track(work, name, console=Console(stderr=True), transient=True)


def print_prosody(record: dict[str, Any]) -> None:
    """Verdict first, then every figure beside the neighbouring rows' and its limit."""
    size = record["provenance"]["package_bytes"] / 1e6
    print(
        f"{record['verdict']}  encoder {record['method']}, {size:.2f} MB, clips:"
        f" {len(record['clips'])}"
    )
    if record["withheld"]:
        print(f"not releasable: {record['withheld']}")
    for reason in record["reasons"]:
        print(f"  - {reason}")
    rows = []
    for name, found in record["summary"].items():
        checks = [one for one in record["checks"] if one["gate"].split()[0] == name]
        limits = "; ".join(
            f"{one['gate'].split()[1]} {one['rule']} {one['state']}" for one in checks
        )
        own, near = (
            " / ".join(_short(found[f"{column}{kind}"]) for kind in ("mean", "worst"))
            for column in ("", "seed_variation_")
        )
        rows.append((name, own, near, limits))
    print_table(
        "mean / worst of the sentences", ("figure", "level", "neighbouring row", "limits"), rows
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
