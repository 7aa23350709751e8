"""Phonemes of the frozen speech texts, written once: a better g2p must not move what levels are judged on.

    python -m bench.speech_phonemes tuning          # rewrites core/data/speech/tuning.tsv from its own texts and speeds

Each line: speed, phonemes for American voices, phonemes for British ones, text. Run it only for texts that nothing was judged on yet.
"""

import argparse
import json
import sys

from core.errors import EXIT_GOOD, run_cli


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.speech_phonemes", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=("tuning", "judged", "second"))
    arguments = parser.parse_args(argv)
    from core.corpus import SPEECH_COLUMNS, Line, speech_file, speech_lines
    from core.staging import staged
    from g2p import G2P
    from g2p.result import GB, US

    readers = [G2P.load(dialect) for dialect in (US, GB)]
    lines = [
        Line(line.speed, *(reader.phonemize(line.text).phonemes for reader in readers), line.text) for line in speech_lines(arguments.name)
    ]
    path = speech_file(arguments.name)
    rows = ["\t".join(SPEECH_COLUMNS), *("\t".join((f"{line.speed:g}", *line[1:])) for line in lines)]
    with staged(path) as aside:
        aside.write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(f"{len(lines)} lines in {path}", file=sys.stderr)
    print(json.dumps({"name": arguments.name, "lines": len(lines)}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
