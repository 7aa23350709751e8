"""Write the release decision as one self-contained HTML page, and a blinded A/B listening pack
beside it.

    kokoro-ane report [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] [--build build]

Reads BUILD/release/decision.json (`kokoro-ane release` writes it) and renders a few clips again for
the players. Exit 0: written. Exit 2: bad input, or packages other than the decision is about. A
pipe's last line is one JSON object.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import (
    EXIT_GOOD,
    CommandOptions,
    InputError,
    build_option,
    bytes_of,
    checkpoint_option,
    command,
    conclude,
    option,
    parse,
    seed_argument,
)

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint


# in every page that this command wrote
OURS = bytes_of(b'<script type="application/json" id="sounds">')


@dataclass(frozen=True)
class ReportOptions(CommandOptions):
    """Which decision is shown."""

    checkpoint: str | None = checkpoint_option()
    build: Path = build_option()
    out: Path | None = option(
        "folder with decision.json, and for the page (default: BUILD/release)"
    )
    pairs_seed: int = option("of the order in the listening pack", 0, type=seed_argument)


def find_judged_packages(
    record: Mapping[str, Any], checkpoint: "Checkpoint", build: Path
) -> "dict[str, Callable[[], Any]]":
    """What opens each judged package; InputError when one has changed since, or the checkpoint is
    another.
    """
    from kokoro_ane.eval.report_figures import list_judged_levels
    from kokoro_ane.quantize import PackageRequest, parse_level
    from kokoro_ane.vocoder import open_package

    # A page whose players sound unlike its figures would mislead: both hashes have to agree.
    decided = record["provenance"]["checkpoint_sha256"]
    if decided != checkpoint.content_sha256:
        message = (
            f"the decision is about checkpoint {decided[:12]}, {checkpoint.folder} is"
            f" {checkpoint.content_sha256[:12]}"
        )
        raise InputError(f"{message}: give --checkpoint, or run `kokoro-ane release` again")
    packages: dict[str, Callable[[], Any]] = {}
    for level in list_judged_levels(record):
        method, layout = parse_level(level["method"])
        manifest = PackageRequest(checkpoint, build, method.name, layout).load_verified()
        if manifest.package_sha256 != level["provenance"]["package_sha256"]:
            raise InputError(
                f"{manifest.package} has changed since the decision: run `kokoro-ane release` again"
            )
        # Opened by the one who renders, one at a time.
        packages[level["method"]] = partial(
            open_package, manifest.path, record["provenance"]["precision"]
        )
    return packages


def describe_product(build: Path, checkpoint: "Checkpoint") -> dict[str, Any]:
    """What an app takes besides the vocoder: `bytes` by name, what is `lacking` in `build`, and the
    system that the encoder asks for.
    """
    from kokoro_ane.core import is_there
    from kokoro_ane.pipeline import first_voice_bytes
    from kokoro_ane.quantize import HALF, PackageRequest
    from kokoro_g2p import text_bytes

    product: dict[str, Any] = {
        "bytes": {
            # an app needs one voice at least
            "rules, words and G2P network": text_bytes(checkpoint.voices[:1]),
            "one voice": first_voice_bytes(checkpoint),
        },
        "lacking": ["encoder"],
        "encoder_ios": "",
    }
    request = PackageRequest(checkpoint, build, HALF)
    if all(map(is_there, request.encoders)):
        manifests = [request.load_manifest(path) for path in request.encoders]
        product["bytes"]["encoder"] = sum(manifest.package_bytes for manifest in manifests)
        # The newest system that any of the packages asks for.
        product["encoder_ios"] = max(manifest.target for manifest in manifests)
        product["lacking"] = []
    return product


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(ReportOptions, "kokoro-ane report", __doc__, argv)
    from kokoro_ane.core import check_output, readable
    from kokoro_ane.eval.listening import pack_of_ours
    from kokoro_ane.pipeline import read_decision

    folder = options.out or options.build / "release"
    record = read_decision(folder / "decision.json")
    # Output that is somebody else's is refused before anything is rendered.
    check_output(folder / "report.html", OURS)
    check_output(folder / "listening", pack_of_ours)
    from kokoro_ane.core import open_checkpoint, quiet_coremltools

    checkpoint = open_checkpoint(options.checkpoint)
    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from jinja2 import UndefinedError

        from kokoro_ane.core import staged
        from kokoro_ane.eval.listening import choose_clips, render_auditions, write_pack
        from kokoro_ane.eval.reference import Reference, list_judged_clips
        from kokoro_ane.eval.report_page import render_page

    html = folder / "report.html"
    with readable(folder / "decision.json", "run `kokoro-ane release` again", UndefinedError):
        packages = find_judged_packages(record, checkpoint, options.build)
        product = describe_product(options.build, checkpoint)
        clips = choose_clips(record, list_judged_clips(checkpoint, record["provenance"]["set"]))
        heard = render_auditions(
            Reference(checkpoint, record["provenance"]["seed"]), packages, clips
        )
        text = render_page(record, heard, product).encode()
        # The pack compares what ships; where nothing does, the last level that was judged.
        shipping = [level["method"] for level in record["levels"] if level["verdict"] == "SHIP"]
    with staged(html, OURS) as aside:
        aside.write_bytes(text)
    pairs = write_pack(
        folder / "listening", heard, shipping or list(packages)[-1:], options.pairs_seed
    )
    size = html.stat().st_size
    listening = str(folder / "listening")
    print(f"{html}  {size / 1e6:.1f} MB, {len(packages)} levels, {len(heard)} clips each")
    print(f"{listening}  {pairs} blinded pairs")
    summary = {"report": str(html), "bytes": size, "listening": listening, "pairs": pairs}
    return conclude(options, summary, EXIT_GOOD, f"written; open {html} in a browser")


if __name__ == "__main__":
    raise SystemExit(main())
