"""Names of dialects and languages as people write them: misaki's letters, BCP 47, ours.

dialect_of("en-GB")      # "gb"
voice_language("ef_dora")    # "es"
"""

from core.errors import InputError
from g2p.result import GB, US, Language

NAMES: dict[str, Language] = {
    "us": US, "a": US, "en-us": US, "en": US, "gb": GB, "b": GB, "en-gb": GB, "uk": GB, "en-uk": GB,
    "es": "es", "e": "es", "es-es": "es", "it": "it", "i": "it", "it-it": "it",
}  # fmt: skip
VOICES: dict[str, Language] = {"a": US, "b": GB, "e": "es", "i": "it"}  # first letter of a voice: af_heart, bm_george, ef_dora, im_nicola


def dialect_of(name: str) -> Language:
    """The dialect or language of a name, case and underscores ignored. Raises InputError with the list for one that is unknown."""
    found = NAMES.get(name.lower().replace("_", "-")) if isinstance(name, str) else None
    if found is None:
        raise InputError(f"there is no dialect or language {name!r}: one of {', '.join(NAMES)}")
    return found


def voice_language(voice: str) -> Language:
    """What a voice of Kokoro speaks, by its name; American where the name is of another kind."""
    return VOICES.get(voice[:1], US) if voice[1:3] in ("f_", "m_") else US
