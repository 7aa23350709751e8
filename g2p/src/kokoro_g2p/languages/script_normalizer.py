"""What the normalizers of languages with a script of their own have in common: marks, line breaks,
markup, addresses and words in Latin letters.

    class HindiNormalizer(ScriptNormalizer): ...
    PIECES = compile_pieces(rf"(?P<word>[{LETTERS}]+)")
"""

import re

from kokoro_g2p.characters import BREAK
from kokoro_g2p.languages.scan import ADDRESS, LATIN_RUN, Scan
from kokoro_g2p.result import PUNCTUATION


def compile_pieces(own: str) -> "re.Pattern[str]":
    """The pattern of the next piece of a text. `own`: what the language reads by itself."""
    # The order matters: the first alternative that matches wins, and the last takes any character.
    return re.compile(
        "|".join(
            (
                # Private characters stand for overrides, which were cut out of the text before.
                r"(?P<override>[\ue000-\uf8ff])",
                rf"(?P<line>{BREAK})",
                # A bracket before a letter may begin a tag; other signs less than are read.
                r"(?P<tag><(?=[/!?A-Za-z])|>)",
                rf"(?P<address>{ADDRESS})",
                # Latin words with one space between are one run, so that English sees a phrase.
                rf"(?P<latin>{LATIN_RUN}(?: {LATIN_RUN})*)",
                own,
                # Several dots or dashes are one mark; a hyphen is one only between spaces.
                r"(?P<mark>\.(?: ?\.){2,}|…+|—+|--+|(?<=\s)[-–](?=\s)"
                rf"|[{re.escape(PUNCTUATION)}])",
                r"(?P<space>\s+)",
                r"(?P<other>.)",
            )
        )
    )


class ScriptNormalizer:
    """Responsibility: a piece that is not of the language's script."""

    def read_common(self, scan: Scan, match: "re.Match[str]") -> int:
        """Say or leave out a piece; answers its end."""
        start, end = match.span()
        if match["override"] is not None:
            return scan.say(match[0], start, end)
        if match["line"] is not None:
            # A line break ends a sentence that no mark has ended.
            if scan.last.words and scan.last.words not in PUNCTUATION:
                scan.say(".", start, end)
        elif match["tag"] is not None:
            bracket = scan.signs.match_bracket(scan.text, start)
            # A whole tag is left out as one piece, a lone bracket as a sign.
            if bracket is not None:
                scan.pieces.append(bracket)
                return bracket.end
            scan.drop(start, end, "symbol")
        elif match["address"] is not None or match["latin"] is not None:
            scan.say(match[0], start, end, "")
        elif match["mark"] is not None:
            first = match[0][0]
            # All dashes become — and all rows of dots …
            mark = "—" if first in "—-–" else "…" if first in ".…" and match[0][1:] else match[0]
            scan.say(mark, start, end)
        elif match["other"] is not None:
            scan.drop(start, end, "symbol")
        return end
