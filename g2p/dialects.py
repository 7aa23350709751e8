"""Names of dialects as people write them: misaki's letters, BCP 47, ours.

dialect_of("en-GB")      # "gb"
"""

from core.errors import InputError
from g2p.result import GB, US, Dialect

NAMES: dict[str, Dialect] = {"us": US, "a": US, "en-us": US, "en": US, "gb": GB, "b": GB, "en-gb": GB, "uk": GB, "en-uk": GB}


def dialect_of(name: str) -> Dialect:
    """The dialect of a name, case and underscores ignored. Raises InputError with the list for one that is unknown."""
    found = NAMES.get(name.lower().replace("_", "-")) if isinstance(name, str) else None
    if found is None:
        raise InputError(f"there is no dialect or language {name!r}: one of {', '.join(NAMES)}")
    return found
