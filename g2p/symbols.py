"""Kokoro's phoneme symbols, the sound classes the rules speak of, and stress moved up or down.

    from g2p.symbols import restress
    restress("fɔɹ", 0.5)   # "fˌɔɹ": a capitalised function word

Stress levels are misaki's, so `[word](-1)` means what its users know: -2 no stress at all, -1 one step down, 0 and -0.5 no primary, 0.5
and 1 secondary where there was none (1 also lifts a secondary to primary), 2 primary in any case.
"""

from g2p.alphabet import PRIMARY, SECONDARY

# Keys of `vocab` in Kokoro-82M's config.json, in its order; a test compares.
SYMBOLS = ';:,.!?—…"()“” ̃ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyzɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ'
KNOWN = frozenset(SYMBOLS)
VOWELS = frozenset("AIOQWYaeiouæɐɑɒɔəɛɜɪʊʌᵊᵻ")
DIPHTHONGS = frozenset("AIOQWY")
AFFRICATES = frozenset("ʤʧ")
PAUSES = frozenset(";:,.!?—…")  # quotes and brackets do not part words


def unknown_symbol(phonemes: str) -> str | None:
    """The first character outside Kokoro's vocabulary, or None."""
    return next((symbol for symbol in phonemes if symbol not in KNOWN), None)


def weight(phonemes: str) -> int:
    """misaki's length of a word: one for each symbol, two for diphthongs and affricates."""
    return sum(2 if symbol in DIPHTHONGS or symbol in AFFRICATES else 1 for symbol in phonemes)


def restress(phonemes: str, level: float | None) -> str:
    """`phonemes` at another stress level (module docstring); None leaves them. A word without a vowel cannot carry stress."""
    if level is None:
        return phonemes
    primary, secondary = PRIMARY in phonemes, SECONDARY in phonemes
    if level < -1:
        return phonemes.replace(PRIMARY, "").replace(SECONDARY, "")
    if level == -1 or (level in (0, -0.5) and primary):
        return phonemes.replace(SECONDARY, "").replace(PRIMARY, SECONDARY)
    if level in (0, 0.5, 1) and not primary and not secondary:
        return _mark_first_vowel(phonemes, SECONDARY)
    if level >= 1 and not primary:
        return phonemes.replace(SECONDARY, PRIMARY) if secondary else _mark_first_vowel(phonemes, PRIMARY)
    return phonemes


def _mark_first_vowel(phonemes: str, mark: str) -> str:
    place = next((index for index, symbol in enumerate(phonemes) if symbol in VOWELS), None)
    return phonemes if place is None else phonemes[:place] + mark + phonemes[place:]
