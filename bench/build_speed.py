"""Build the full-size vocoder with random weights: seconds, peak memory, and the executed packages against PyTorch at every bucket fill.

    python -m bench.build_speed [--out build/random] [--buckets 40,44,60,133,440]

fp16 and fp32 packages, each in a process of its own so that peak memory is its own. The last line of stdout is one JSON object.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, CheckFailed, Parser, command
from kokoro_ane.core.staging import staged

PEAK_LIMIT_GB = 6.0


def timed_build(folder: Path, precision: str, buckets: str, out: Path) -> dict:
    """Run pipeline.build as a child; wall seconds, peak memory of the largest child so far, and its own report."""
    what = ["vocoder", "--checkpoint", str(folder), "--precision", precision, "--out", str(out)]
    command = [sys.executable, "-m", "kokoro_ane.pipeline.build", *what]
    started = time.monotonic()
    done = subprocess.run(command + (["--buckets", buckets] if buckets else []), capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    if done.returncode:
        raise CheckFailed(
            f"kokoro_ane.pipeline.build vocoder --precision {precision} ended with {done.returncode}: {done.stderr.strip()[-300:]}"
        )
    report = json.loads(done.stdout.strip().splitlines()[-1])
    peak_gb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6  # kilobytes on Linux
    figures = {figure["name"]: figure["value"] for figure in report["checks"]["figures"]}
    row = {"precision": precision, "seconds": seconds, "peak_gb": peak_gb}
    return row | {"package_mb": report["package_bytes"] / 1e6, "figures_db": figures}


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.build_speed", __doc__)
    parser.add_argument("--out", type=Path, default=Path("build/random"), help="folder for checkpoint and packages")
    parser.add_argument("--buckets", default="", help="as kokoro_ane.pipeline.build; default: the default buckets")
    arguments = parser.parse_args(argv)
    from bench.random_checkpoint import checkpoint_of_ours, kokoro_config, write_checkpoint

    folder = arguments.out / "checkpoint"
    with staged(folder, checkpoint_of_ours) as aside:
        write_checkpoint(aside, kokoro_config() | {"name": "random", "releasable": False})
    rows = [timed_build(folder, precision, arguments.buckets, arguments.out) for precision in ("fp16", "fp32")]
    for row in rows:
        memory = f"peak {row['peak_gb']:.2f} GB (limit {PEAK_LIMIT_GB:g})"
        print(f"{row['precision']}: {row['seconds']:.0f} s, {memory}, package {row['package_mb']:.1f} MB")
        for name, value in row["figures_db"].items():
            print(f"  {value:6.1f} dB  {name}")
    print(json.dumps({"builds": rows, "peak_limit_gb": PEAK_LIMIT_GB}))
    return EXIT_GOOD if max(row["peak_gb"] for row in rows) <= PEAK_LIMIT_GB else EXIT_REJECTED


if __name__ == "__main__":
    raise SystemExit(main())
