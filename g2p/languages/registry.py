"""What a language is made of, by its code.

LANGUAGES["it"].sounds("formaggio")
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from g2p.languages import italian, spanish
from g2p.languages.grammar import Grammar
from g2p.languages.italian_grammar import ITALIAN
from g2p.languages.spanish_grammar import SPANISH

Code = Literal["es", "it"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class Language:
    """`unstressed`, `secondary`: words whose stress goes, or weakens, but before a pause. `joined`: what a word's neighbours change.

    `confidence`: the share of held-out words read as the voices' training data has them (bench.g2p_languages).
    """

    code: Code
    grammar: Grammar
    sounds: Callable[[str], str]
    spelled: Callable[[str], str]
    unstressed: frozenset[str]
    secondary: frozenset[str]
    weakened: Callable[[str, str], str]  # phonemes and the mark that stays, "" or a secondary stress
    joined: Callable[[str, str, str], str]  # phonemes, those before and after it ("" at a pause)
    confidence: float


LANGUAGES: Mapping[Code, Language] = {
    "es": Language(
        "es", SPANISH, spanish.sounds, spanish.spelled,
        _words("la el que de y a en se los lo las por con al del si su quien sin le te me o tu mi sus nos tus mis os les tras e u"),
        _words(
            "para cuando como pero donde hasta porque sobre cuanto entre aunque mientras desde hacia quienes ante bajo adonde "
            "nuestro nuestra nuestros nuestras vuestro vuestra vuestros vuestras"
        ),
        spanish.weakened, spanish.joined, 0.99,
    ),
    "it": Language(
        "it", ITALIAN, italian.sounds, italian.spelled,
        _words(
            "di che la e il un non a in per si le i se ma del con da gli ha lo ci al mi ti mai ho nel ad o ed chi ne tu dal su ai sul tra "
            "vi hai quel li dai te ce fu col fra è e' c'è c'e' de me l'è l'ho l'ha"
        ),
        _words(
            "una sono della come dei alla anche delle senza ogni era hanno sulla questo loro sua mia suo sei dalla sia degli mio quella "
            "noi lei nessuno alle questa tuo suoi lui tua siamo sarebbe mentre aveva tuoi abbiamo questi vuole agli avrebbe ero sui quelle "
            "sulle dello alcuni verso nostro buon saranno contro miei nessun sue neanche vostri dalle vostro avete vostra allo mie nostri "
            "tue siete nostra pure dagli nessuna alcune alcun oltre sarebbero queste sugli sullo coi essi esse fossi fossero egli avevo"
        ),
        italian.weakened, italian.joined, 0.85,
    ),
}  # fmt: skip
