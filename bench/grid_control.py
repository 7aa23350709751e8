"""kokoro-int8 with its weights shaken off their 8-bit grids: does a weight level profit from a grid that it finds ready?

    python -m bench.grid_control --out build/shaken
    python -m eval.release --checkpoint build/shaken/checkpoint --build build/shaken --methods fp16,w8,p8,p6

Writes a checkpoint folder in which every stored weight is moved by a uniform draw of up to half a step (seeded). The second command judges
levels on it; the same command on kokoro-int8 gives the figures to compare with.
"""

import argparse
import json
from pathlib import Path

from core.arguments import seed_argument
from core.errors import EXIT_GOOD, run_cli


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="bench.grid_control", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/shaken"), help="folder for the checkpoint (default: %(default)s)")
    parser.add_argument("--seed", type=seed_argument, default=0, help="of the draw (default: %(default)s)")
    return parser.parse_args(argv)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.output import check_output

    folder = arguments.out / "checkpoint"
    weights, config = folder / "shaken.safetensors", folder / "config.json"
    for path in (weights, config):
        check_output(path)
    from safetensors.numpy import save

    from core.kokoro_int8.cache import DATA
    from core.kokoro_int8.decode import decode
    from core.kokoro_int8.parts import read_parts
    from core.staging import parse_json, sha256_of, staged, write_json

    folder.mkdir(parents=True, exist_ok=True)
    with staged(weights) as aside:
        aside.write_bytes(save(decode(read_parts(), shaken=arguments.seed)))
    described = parse_json((DATA / "config.json").read_text(encoding="utf-8"), "config.json of kokoro-int8")
    write_json(config, described | {"name": "kokoro-int8-shaken", "releasable": False})
    for voice in (DATA / "voices").glob("*.bin"):
        (folder / "voices").mkdir(exist_ok=True)
        with staged(folder / "voices" / voice.name) as aside:
            aside.write_bytes(voice.read_bytes())
    print(f"{folder}: every stored weight moved by up to half a step, seed {arguments.seed}")
    print(json.dumps({"checkpoint": str(folder), "seed": arguments.seed, "sha256": sha256_of(weights)}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
