"""Japanese text to tokens in kana as they are said, and these to words with phonemes.

normalizer, reader = load_stages({})
normalizer("今日は").tokens     # キョー, ワ
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kokoro_g2p.bundled import DATA, read_data_text
from kokoro_g2p.characters import clean, compile_special, mark_breaks
from kokoro_g2p.grammar.tokens import build_normalized, is_override
from kokoro_g2p.languages.japanese import (
    A_NUMBER,
    COUNTERS,
    LONGEST,
    NUMERALS,
    ROW_BEGINS,
    SIGNS,
    STAND_IN,
    TABLES,
    VERBALIZERS,
    build_lattice,
    read_kana,
    to_katakana,
)
from kokoro_g2p.languages.lattice import Lattice, Reading
from kokoro_g2p.languages.rows import PatternRows, ReadingRow, choose_reading, read_reading_rows
from kokoro_g2p.languages.scan import Scan, start_scan
from kokoro_g2p.languages.script_normalizer import ScriptNormalizer, compile_pieces
from kokoro_g2p.languages.script_reader import ScriptReader
from kokoro_g2p.result import Normalized, Token
from kokoro_g2p.word_lists import ListFile, parse_pairs

KANA, KANJI = "ぁ-ゖァ-ヺー", "㐀-䶿一-鿿々〆〇"
KEPT = compile_special(f"{KANA}{KANJI}ゝゞヽヾ〒")
# half-width kana one for one; ゛ as a combining mark
MARKS = str.maketrans(
    {old: new for new, group in parse_pairs(TABLES["marks"]).items() for old in group}
    | {chr(point): unicodedata.normalize("NFKC", chr(point)) for point in range(0xFF66, 0xFFA0)}
    | {"゛": "\u3099", "゜": "\u309a"}
)
# ゝ repeats a kana and ゞ voices it; ~ behind kana is a long vowel, before a figure a range.
REPEATED, PROLONGED = re.compile("(.)([ゝヽゞヾ])"), re.compile(f"(?<=[{KANA}])[~〜～](?! ?\\d)")
OWN, BASE = re.compile(f"[{KANA}{KANJI}]+"), re.compile(f"[{KANJI}]+$")
# Kana in brackets right behind characters are their furigana.
PIECES = compile_pieces(
    rf"(?P<furigana>(?<=[{KANJI}])[(《](?P<kana>[{KANA}]{{1,24}})[)》])|(?P<own>[{KANA}{KANJI}])"
)
NEAR = 8  # characters on either side that decide a reading
# Less than nothing, so that a number with its counter wins over single words.
FIGURES_COST = -12  # of a number in characters with its counter
KATAKANA = frozenset(map(chr, range(0x30A1, 0x30FD)))
# letters of the kinds: what takes an ending, auxiliaries, conjunctive particles
ENDED, AUXILIARY, CONJUNCTIVE = "vx", "x", "c"
ENDINGS = ("テ", "デ", "バ", "タリ", "ダリ")
# furigana write a long vowel as it is spelled
LONG = re.compile(
    "(?<=[オコゴソゾトドノホボポモヨョロウクグスズツヌフブプムユュル])ウ"
    "|(?<=[エケゲセゼテデネヘベペメレ])イ"
)


@dataclass(frozen=True)
class PlacedCharacter:
    """A character of a run with its place, and what is said for a stand-in."""

    character: str
    start: int
    end: int
    said: str = ""


def repeat_kana(match: "re.Match[str]") -> str:
    """A kana and its iteration mark as two kana."""
    kana = match[1]
    is_voiced = match[2] in "ゞヾ"
    # NFC makes one kana of a plain one and the voicing mark: か with ゛ is が.
    return kana + (unicodedata.normalize("NFC", kana + "\u3099")[-1] if is_voiced else kana)


class JapaneseNormalizer(ScriptNormalizer):
    """The function normalize(text) -> Normalized: words in katakana as they are said, runs of Latin
    letters, and marks.
    """

    def __init__(
        self,
        lattice: Lattice,
        letters: str,
        rows: PatternRows,
        corrected: Mapping[str, Sequence[ReadingRow]],
    ) -> None:
        self.lattice, self.letters, self.rows, self.corrected = lattice, letters, rows, corrected

    def __call__(self, text: str, *, dialect: str = "") -> Normalized:
        """Spoken tokens of `text` in order, and what was left out. Never raises on any text."""
        written = REPEATED.sub(repeat_kana, mark_breaks(text).translate(MARKS))
        cleaned = clean(PROLONGED.sub("ー", written), KEPT)
        scan = start_scan(cleaned.text)
        run: list[PlacedCharacter] = []
        others: dict[int, Reading] = {}
        place = 0
        while place < len(scan.text):
            match = PIECES.match(scan.text, place)
            assert match is not None  # `other` takes any character, `space` a line break
            end = match.end()
            # Latin runs, addresses and overrides stand in the run as one character that has its
            # sound.
            said = match["override"] or match["latin"] or match["address"] or ""
            if match["other"] is not None:
                said = SIGNS.get(match[0], "")
            # a row of figures begins with the first of them
            is_inside = match["own"] and A_NUMBER.match(scan.text, max(place - 1, 0), place)
            row = None if is_inside else self.rows.read(scan.text, place)
            # Western figures are a stand-in; figures in characters are one more path for the
            # lattice.
            if row is not None and match["own"] is None:
                end, said = row
            elif row is not None and self._is_number(scan.text, place, row[0]):
                # Each character of the text is one of the run here, so that lengths agree.
                stop = len(run) + row[0] - place
                others[len(run)] = (stop, FIGURES_COST, self.lattice.usual, row[1])
            if match["furigana"] is not None:
                self._apply_furigana(run, match)
            elif said or match["own"] is not None:
                run.append(PlacedCharacter(STAND_IN if said else match[0], place, end, said))
            # A mark or a space ends the run.
            else:
                self._read_run(scan, run, others)
                run = []
                others = {}
                end = self.read_common(scan, match)
            place = end
        self._read_run(scan, run, others)
        return build_normalized(scan.pieces, cleaned)

    def _is_number(self, text: str, start: int, end: int) -> bool:
        """Whether figures with their counter are whole and begin no longer word: 三日月."""
        # What begins with these figures and goes on, up to the longest word of the list
        words = [text[start:stop] for stop in range(end + 1, start + LONGEST + 1)]
        if OWN.fullmatch(text, start, end) is None:
            return False
        return not any(word in self.lattice.listed for word in words)

    def _apply_furigana(self, run: list[PlacedCharacter], match: "re.Match[str]") -> None:
        """Let kana in brackets be the reading of the characters before, if they have another."""
        # A stand-in is no character of this class, so that the base ends behind it.
        base = BASE.search("".join([part.character for part in run[-LONGEST:]]))
        if base is None:
            return
        kana = LONG.sub("ー", to_katakana(match["kana"]))
        said = [said or to_katakana(word) for word, _, said in self.lattice.find_path(base[0])]
        # The kana may belong to the last characters only; equal ones change nothing.
        if not "".join(said).endswith(kana):
            start = match.start()
            # The stand-in takes the place of all characters that the kana are for.
            for _ in base[0]:
                start = run.pop().start
            run.append(PlacedCharacter(STAND_IN, start, match.end(), kana))

    def _read_run(
        self, scan: Scan, run: Sequence[PlacedCharacter], others: Mapping[int, Reading]
    ) -> None:
        """Say the words of a run; endings are said with their verb."""
        written = "".join([part.character for part in run])
        place, begin, said, before = 0, 0, "", "-"
        for word, kind, reading in self.lattice.find_path(written, others):
            spoken = run[place].said
            letter = "-"
            # A stand-in has its sound already, and no kind.
            if not spoken:
                letter = self.letters[kind]
                spoken = self._read_word(written, place, word, reading)
            # An ending is one word with its verb: 食べ and た are タベタ.
            is_ending = letter == AUXILIARY or (letter == CONJUNCTIVE and spoken in ENDINGS)
            # A small ッ or a long mark cannot stand at the border of two words either.
            is_joined = (is_ending and before in ENDED) or said[-1:] == "ッ" or spoken[0] in "ッー"
            if place and not (is_joined and letter != "-"):
                say(scan, run[begin:place], said)
                said, begin = "", place
            said += spoken
            before = letter
            place += len(word)
        if run:
            say(scan, run[begin:], said)

    def _read_word(self, written: str, start: int, word: str, reading: str) -> str:
        """What a word is said as between what stands around it."""
        if word in self.lattice.user:
            return word
        # 々 is said as the character before it: 人々.
        if word == "々" and start:
            return self._read_word(written, 0, *self.lattice.find_path(written[start - 1])[0][::2])
        end = start + len(word)
        near = written[max(0, start - NEAR) : start], written[end : end + NEAR]
        # Corrections by context come first, then the list's reading, then the kana itself.
        return choose_reading(self.corrected.get(word, ()), *near) or reading or to_katakana(word)


def say(scan: Scan, parts: Sequence[PlacedCharacter], said: str) -> None:
    """Say a word in kana, or what a stand-in stands for."""
    scan.say(said, parts[0].start, parts[-1].end, "spoken" if is_override(said[0]) else "")


class JapaneseReader(ScriptReader):
    """Responsibility: a word in kana as it is said."""

    def __init__(self, lattice: Lattice, user: Mapping[str, str]) -> None:
        self.lattice = lattice
        self.listed = lattice.listed
        self.user = user

    def is_own(self, token: Token) -> bool:
        """Whether a token is a word in katakana."""
        return token.kind == "word" and token.text[0] in KATAKANA

    def read_own(self, tokens: Sequence[Token], place: int) -> str:
        """The symbols of a word."""
        return read_kana(tokens[place].text)

    def read_character(self, character: str) -> str:
        """The sounds of a character or a digit alone."""
        if character.isdecimal():
            return read_kana(NUMERALS.read_digits(character))
        word, _, said = self.lattice.find_path(character)[0]
        return read_kana(said or to_katakana(word))


def load_stages(user: Mapping[str, str]) -> tuple[JapaneseNormalizer, JapaneseReader]:
    """The normalizer and the reader of Japanese. `user`: phonemes of the user's own words."""
    letters, *joints = read_data_text(DATA / "japanese_kinds.txt.gz").split("\n")
    lattice = build_lattice(ListFile(DATA / "japanese.txt.gz").entries, user, letters, joints)
    # Longest first, since an alternation stops at the first that matches.
    counters = "|".join(sorted(COUNTERS, key=len, reverse=True))
    lines = f"slot\tcounter\t{counters}\n" + read_data_text(DATA / "japanese.tsv")
    rows = PatternRows.from_text(lines, VERBALIZERS, ROW_BEGINS)
    normalizer = JapaneseNormalizer(lattice, letters, rows, read_reading_rows(TABLES["readings"]))
    return normalizer, JapaneseReader(lattice, user)
