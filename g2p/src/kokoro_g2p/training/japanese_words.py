"""Build the word list of Japanese and the costs of its neighbours from UniDic 2.1.2.

    pip install unidic-lite==1.0.8 wordfreq==3.1.1 scikit-learn
    python -m kokoro_g2p.training.japanese_words && make hashes

UniDic has 756,264 entries and 5,981 kinds of words with a cost for each pair of them. Kinds that
stand beside others alike become one (k-means). Listed are particles, the words of wordfreq, and
every other that the listed ones would read otherwise; an entry holds for each kind of the word its
cost, the kind, and what is said where it is not the word in kana (languages/lattice.py). A pipe's
last line is one JSON object.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from kokoro_g2p.bundled import DATA
from kokoro_g2p.commands import EXIT_GOOD, CommandParser, command, conclude
from kokoro_g2p.languages.japanese import FREE, LONGEST, build_lattice, to_katakana
from kokoro_g2p.languages.lattice import FIRST_KIND
from kokoro_g2p.training.mandarin_words import find_data_file, write_packed
from kokoro_g2p.word_lists import parse_pairs

DICTIONARY = "unidic_lite/dicdir"
JAPANESE = re.compile("[ぁ-ゖァ-ヺー㐀-鿿々〆]+")
STEP = 128  # of UniDic's costs: one unit of ours
MARGIN = 31  # units above a word's cheapest reading: others are left out
TEMPERATURE = 700  # UniDic's costs a natural logarithm
RARE = 3e-8  # share of words in wordfreq
DIMENSIONS, APART = 96, 1e5  # in which kinds are compared; how far parts of speech stand apart
NOUN = "名詞,普通名詞,一般"  # of the kind of words that are not listed
# what the reader knows of a kind: it may take an ending, or is one
LETTERS = parse_pairs("動詞:v 形容詞:v 助動詞:x 助詞,接続助詞,*:c")

Row = tuple[str, int, int, list[str]]  # a word, its kind and cost, its features
Entries = dict[str, dict[int, tuple[float, str]]]  # a word's cost and what is said, by kind


def read_mecab(path: Path) -> Iterator[Row]:
    """The entries of a dictionary that MeCab compiled: tokens, and the texts of their features,
    which hold the word itself.
    """
    content = path.read_bytes()
    # MeCab's header has 72 bytes, with the sizes of the word trie and the tokens at byte 24.
    words, tokens = struct.unpack_from("<2I", content, 24)
    form = np.dtype("<u2,<u2,<u2,<i2,<u4,<u4")
    first = 72 + words + tokens
    table = np.frombuffer(content, form, tokens // form.itemsize, 72 + words)
    for kind, _, _, cost, place, _ in table.tolist():
        end = content.index(b"\0", first + place)
        features = content[first + place : end].decode().split(",")
        yield features[8], kind, cost, features


def get_part(features: list[str]) -> str:
    """The part of speech that all kinds of a class have."""
    return ",".join(features[: 3 if features[0] in ("名詞", "接尾辞", "助詞") else 1])


def find_classes(
    costs: np.ndarray, weights: np.ndarray, parts: list[str], count: int
) -> np.ndarray:
    """A class for each kind; that of kind 0, which ends a run, is 0. costs: [before, following];
    weights: how often a kind stands; parts: no class holds two of them.
    """
    from sklearn.cluster import KMeans
    from sklearn.random_projection import GaussianRandomProjection

    # [kinds, 2 * kinds]: what a kind costs before and behind every other, as often as that stands
    beside = np.hstack([costs, costs.T]) * np.sqrt(np.tile(weights, 2))
    near = GaussianRandomProjection(DIMENSIONS, random_state=0).fit_transform(beside)
    # A far coordinate for each part of speech keeps k-means from mixing them.
    apart = APART * (np.array(parts)[:, None] == np.unique(parts))
    means = KMeans(count, n_init=1, max_iter=20, random_state=0)
    found = means.fit_predict(np.hstack([near, apart]), sample_weight=weights)
    # The class of kind 0 sorts first, and gets the number 0.
    found[found == found[0]] = -1
    return np.unique(found, return_inverse=True)[1]


def pack_entry(word: str, readings: dict[int, tuple[float, str]]) -> str:
    """The entry of a word."""
    # A word that is said as its kana are has nothing said in its entry.
    (least, _), plain = min(readings.values()), to_katakana(word)
    return "".join(
        chr(ord(FREE) + round(cost)) + chr(FIRST_KIND + kind) + ("" if said == plain else said)
        for kind, (cost, said) in sorted(readings.items(), key=lambda one: (one[1], one[0]))
        if cost - least <= MARGIN
    )


def choose(
    entries: Entries, shares: Mapping[str, float], letters: str, joints: list[str]
) -> dict[str, str]:
    """The entries of the words that are listed: common ones, and those that need it."""
    listed: dict[str, str] = {}
    lattice = build_lattice(listed, {}, letters, joints)
    rest = []
    for word, readings in entries.items():
        # Auxiliaries and conjunctive particles join verbs, and are listed whatever they are.
        is_closed = any(letters[kind] in "xc" for kind in readings)
        if len(word) == 1 or is_closed or shares.get(word, 0) >= RARE:
            listed[word] = pack_entry(word, readings)
        elif len(word) <= LONGEST:
            rest.append(word)
    # from the shortest on, so that a long word is judged by parts that are there
    for word in sorted(rest, key=lambda word: (len(word), word)):
        said = "".join([said or to_katakana(part) for part, _, said in lattice.find_path(word)])
        if said != min(entries[word].values())[1]:
            listed[word] = pack_entry(word, entries[word])
    return listed


def read_matrix(path: Path) -> np.ndarray:
    """What it costs that a kind follows another: [before, following]."""
    content = path.read_bytes()
    count = struct.unpack_from("<H", content)[0]
    return np.frombuffer(content, "<i2", offset=4).reshape(count, count).T.astype(np.float32)


@command
def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    from wordfreq import get_frequency_dict

    parser = CommandParser("kokoro_g2p.training.japanese_words", __doc__)
    parser.add_argument("--out", type=Path, default=DATA, help="the folder of the lists")
    parser.add_argument("--classes", type=int, default=300, help="kinds of words")
    arguments = parser.parse_args(argv)
    rows = list(read_mecab(find_data_file("unidic-lite", f"{DICTIONARY}/sys.dic")))
    costs = read_matrix(find_data_file("unidic-lite", f"{DICTIONARY}/matrix.bin"))
    parts = [""] * len(costs)
    # Kinds without words weigh hardly anything, but no sum of weights is 0.
    weights = np.full(len(costs), 1e-6)
    for _, kind, cost, features in rows:
        parts[kind] = get_part(features)
        # A cost is a negative logarithm, so that this is how often the word stands.
        weights[kind] += np.exp(-cost / TEMPERATURE)
    weights = np.sqrt(weights / weights.sum())
    of_kind = find_classes(costs, weights, parts, arguments.classes)
    # [kinds, classes]: the share of each kind in its class
    member = np.eye(of_kind.max() + 1)[of_kind] * weights[:, None]
    member /= member.sum(0)
    # The cost between classes is the mean of those between their kinds, each by its share.
    joined = np.rint(member.T @ costs @ member / STEP).astype(int)
    entries: Entries = {}
    for word, kind, cost, features in rows:
        if JAPANESE.fullmatch(word):
            readings = entries.setdefault(word, {})
            number = int(of_kind[kind])
            one = (cost / STEP, features[9] or to_katakana(word))
            # Of readings in one class the cheapest one stays.
            readings[number] = min(one, readings.get(number, one))
    usual = np.argmax(weights * (np.array(parts) == NOUN))
    known = {int(of_kind[kind]): LETTERS.get(part, "n") for kind, part in enumerate(parts)}
    known[int(of_kind[usual])] = "u"
    letters = "".join([known[number] for number in range(len(known))])
    joints = ["".join([chr(ord(FREE) + cost) for cost in row]) for row in joined.tolist()]
    words = choose(entries, get_frequency_dict("ja", "large"), letters, joints)
    listed = [f"{word}\t{entry}" for word, entry in sorted(words.items())]
    sizes = {
        name: write_packed(arguments.out / name, "\n".join(lines))
        for name, lines in (
            ("japanese.txt.gz", listed),
            ("japanese_kinds.txt.gz", [letters, *joints]),
        )
    }
    report = {"bytes": sizes, "words": len(listed), "kinds": len(letters)}
    return conclude(arguments, report, EXIT_GOOD, f"{len(listed)} words: {arguments.out}")


if __name__ == "__main__":
    raise SystemExit(main())
