"""Which voices a checkpoint has, before it is opened: names, and what is known of each.

list_voice_names("kokoro-int8")        # no weights are read
list_voices()[0]                  # ListedVoice("af_alloy", "en-US", "female", ..., at_hand=True)
"""

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kokoro_ane.core.checkpoint import KOKORO_INT8
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.hub import HUB_FILES, HUB_REPOSITORY, HUB_REVISION, read_released
from kokoro_ane.core.voices import VoiceLibrary

# by the first two letters of a name, as upstream gives them; BCP 47
LANGUAGE_TAGS = MappingProxyType(
    {
        "a": "en-US",
        "b": "en-GB",
        "e": "es",
        "f": "fr",
        "h": "hi",
        "i": "it",
        "j": "ja",
        "p": "pt-BR",
        "z": "zh",
    }
)
SEXES = MappingProxyType({"f": "female", "m": "male"})


@dataclass(frozen=True)
class ListedVoice:
    """A voice. language: a BCP 47 tag, "" where the name does not say. sex: female, male or "".
    source: the hub's repository or a folder. at_hand: it speaks without a download.
    """

    name: str
    language: str
    sex: str
    source: str
    at_hand: bool


def list_voices(source: str | None = None) -> tuple[ListedVoice, ...]:
    """Every voice of a checkpoint, as `open_checkpoint` takes it, by name; nothing is downloaded.

    Raises InputError for a folder without voices.
    """
    names = list_voice_names(source)
    at_hand = _at_hand(source)
    if not names:
        raise InputError(f"{source} holds no voice")
    hub = read_released()[0]["voices"]
    is_folder = source not in (None, HUB_REPOSITORY, KOKORO_INT8)
    listed = []
    for name in names:
        language = LANGUAGE_TAGS.get(name[0], "")
        sex = SEXES.get(name[1:2], "")
        if not (sex and name[2:3] == "_"):  # a name of another kind
            language = sex = ""
        where = str(source) if is_folder or name not in hub else HUB_REPOSITORY
        listed.append(ListedVoice(name, language, sex, where, name in at_hand))
    return tuple(listed)


def list_voice_names(source: str | None) -> tuple[str, ...]:
    """The names of a checkpoint's voices, sorted, without opening it; a folder that is none has
    none.
    """
    if source == KOKORO_INT8:
        return tuple(sorted(_of_int8()))
    if source == HUB_REPOSITORY:
        return tuple(sorted(read_released()[0]["voices"]))
    if source is None:
        return tuple(sorted({*read_released()[0]["voices"], *_of_int8()}))
    return VoiceLibrary(Path(source) / "voices").names


def _of_int8() -> set[str]:
    """Those that come with this package, and those that a user added."""
    from kokoro_ane.core.kokoro_int8.cache import find_cache_folder, list_bundled_voices

    return {*list_bundled_voices(), *VoiceLibrary(find_cache_folder() / "voices").names}


def _at_hand(source: str | None) -> set[str]:
    """The names that need no download."""
    from huggingface_hub import try_to_load_from_cache

    from kokoro_ane.core.kokoro_int8.cache import is_available

    if source not in (None, HUB_REPOSITORY, KOKORO_INT8):
        return set(list_voice_names(source))
    names = set()
    if source != KOKORO_INT8:
        for name in read_released()[0]["voices"]:
            file = HUB_FILES[-1].replace("*", name)
            # A file that is known to be missing gives a marker, not None.
            if isinstance(try_to_load_from_cache(HUB_REPOSITORY, file, revision=HUB_REVISION), str):
                names.add(name)
    if source != HUB_REPOSITORY and is_available():
        names |= _of_int8()
    return names
