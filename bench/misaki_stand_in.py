"""misaki's own English front end without spaCy's model: what bench/g2p_normalize.py compares with.

    from bench.misaki_stand_in import Misaki
    Misaki(british=False).sounds("It costs $3.50.")

misaki.en.G2P runs unchanged (pre-processing, retokenization, Lexicon, number reading, merging) but for two things. `import spacy` finds an
empty module, and the spaCy pipeline, whose model is not in any registry we may use, is replaced by the tokenizer and the tags below: prefix
and suffix marks, currency signs, units behind digits and clitics are split as spaCy's English rules split them, abbreviations keep their
dot; tags are by form and a list of function words. No fallback: an unknown word is one mark on both sides of a comparison.
"""

import re
import sys
from types import ModuleType
from typing import Any

from bench.g2p_cases import expected_tokens

PREFIX = re.compile(r"[$£€¥₹#&\"'“”‘’(\[{<§©]|…|\.\.+|—|–|-(?=[^\w]|$)|/(?=\w)")
SUFFIX = re.compile(
    r"(?:[,;:!?\"”“)\]}>%&]|…|\.\.+|'s|’s|'|’|—|–|(?<=[a-z0-9%)\]}>\"'°])\.|(?<=[A-Z][A-Z])\."
    r"|(?<=\d)(?:km/h|km|kg|cm|mm|mg|ml|m|g|kB|MB|GB|TB|°[CFcfK]))$"
)
INFIX = re.compile(r"(?<=[A-Za-z])(?:--|—|–|-|,)(?=[A-Za-z])|\.\.\.|…|(?<=[A-Za-z0-9])[:<>=/](?=[A-Za-z])|(?<=\d)[-+*^](?=\d)")
KEPT_LINES = """
Dr. Mr. Mrs. Ms. Prof. St. Mt. Gen. Gov. Sen. Rep. Rev. Jr. Sr. Inc. Ltd. Co. Corp. e.g. i.e. vs. a.m. p.m. U.S. U.K. Ph.D. D.C. No.
Jan. Feb. Mar. Apr. Aug. Sep. Sept. Oct. Nov. Dec. Bros. Ave. Calif.
"""
KEPT = frozenset(KEPT_LINES.split())
URL = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\w+|\w+\.(?:com|org|net|co|io|gov|edu)\S*")
TAGS = {
    "the": "DT",
    "a": "DT",
    "an": "DT",
    "to": "TO",
    "in": "IN",
    "of": "IN",
    "by": "IN",
    "at": "IN",
    "on": "IN",
    "for": "IN",
    "from": "IN",
    "vs.": "IN",
    "and": "CC",
    "or": "CC",
    "i": "PRP",
    "he": "PRP",
    "she": "PRP",
    "it": "PRP",
    "am": "VBP",
    "is": "VBZ",
    "was": "VBD",
}
MARK_TAGS = {
    ",": ",",
    ".": ".",
    "!": ".",
    "?": ".",
    ":": ":",
    ";": ":",
    "…": ":",
    "—": ":",
    "–": ":",
    "-": ":",
    "(": "-LRB-",
    ")": "-RRB-",
    "“": "``",
    "”": "''",
    '"': "''",
}
SIGNS = frozenset("$£€")
SILENT = re.compile(r"[\sˈˌ;:,.!?—…\"“”()]")


def split(word: str) -> list[str]:
    """One stretch without white space as spaCy's English tokenizer would cut it."""
    before: list[str] = []
    after: list[str] = []
    while word and word not in KEPT and not URL.fullmatch(word):
        match = PREFIX.match(word)
        if match and match[0]:
            before.append(match[0])
            word = word[match.end() :]
            continue
        match = SUFFIX.search(word)
        if not match or match.start() == 0:
            break
        after.insert(0, word[match.start() :])
        word = word[: match.start()]
    middle = [word] if word in KEPT or URL.fullmatch(word) else [piece for piece in re.split(f"({INFIX.pattern})", word) if piece]
    return [*before, *middle, *after]


def tag(text: str, first: bool) -> str:
    """A Penn tag by form."""
    if text in SIGNS:
        return "$"
    if text in MARK_TAGS:
        return MARK_TAGS[text]
    if URL.fullmatch(text):
        return "ADD"
    if re.fullmatch(r"[-−]?[\d.,]*\d[\d.,]*(?:st|nd|rd|th)?", text):
        return "CD"
    listed = TAGS.get(text.lower())
    if listed:
        return listed
    return "NNP" if text[:1].isupper() and not first else "NN"


class Misaki:
    """misaki.en.G2P over the stand-in tokenizer."""

    def __init__(self, british: bool) -> None:
        sys.modules.setdefault("spacy", ModuleType("spacy"))
        from misaki import en

        self._en, self._g2p = en, en.G2P.__new__(en.G2P)
        self._g2p.version, self._g2p.british, self._g2p.fallback, self._g2p.unk = None, british, None, "❓"
        self._g2p.lexicon = en.Lexicon(british)
        self._g2p.tokenize = self._tokens

    def _token(self, text: str, space: str, first: bool) -> Any:
        underscore = self._en.MToken.Underscore(is_head=True, num_flags="", prespace=False)
        spelled = text.startswith("⟦")
        token = self._en.MToken(text=text, tag="NNP" if spelled else tag(text, first), whitespace=space, _=underscore)
        if spelled:
            letters = text.strip("⟦⟧").rstrip("s").rstrip("'")
            token.phonemes = self._g2p.lexicon.get_NNP(letters.upper())[0] + "z" * text.endswith("s⟧")
        return token

    def _tokens(self, text: str, tokens: list[str], features: dict[int, Any]) -> list[Any]:
        del tokens, features
        made = []
        for stretch in text.split():
            pieces = [stretch] if stretch.startswith("⟦") else split(stretch)
            made += [self._token(piece, "", not made) for piece in pieces]
            made[-1].whitespace = " "
        return made

    def sounds(self, text: str) -> str:
        """Phonemes without stress, spaces and marks: what is compared."""
        return SILENT.sub("", self._g2p(text)[0]) if text.strip() else ""

    def sounds_of(self, tokens: list[str]) -> str:
        """The same for a spoken form's tokens: letters by misaki's own letter names."""
        return self.sounds(" ".join(f"⟦{token[1:-1]}⟧" if token[0] == "[" else token for token in tokens))

    def is_right(self, text: str, spoken: str) -> bool:
        """Whether misaki says `text` as it says the expected spoken form."""
        return self.sounds(text) == self.sounds_of(expected_tokens(spoken))
