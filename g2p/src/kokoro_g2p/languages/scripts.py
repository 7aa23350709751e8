"""The languages with a script of their own. They leave Latin letters to the English reader.

normalizer, reader = load_script_stages("zh", {})
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from kokoro_g2p.result import Language, Normalized

if TYPE_CHECKING:
    from kokoro_g2p.languages.script_reader import ScriptReader

# and the names of their modules and files
SCRIPTS: Mapping[Language, str] = {"zh": "chinese", "hi": "hindi", "ja": "japanese"}


def load_script_stages(
    language: Language, user: Mapping[str, str]
) -> tuple[Callable[..., Normalized], "ScriptReader"]:
    """The normalizer and the reader of a language. `user`: phonemes of the user's own words."""
    # the tables of the others are not read
    module = import_module(f"kokoro_g2p.languages.{SCRIPTS[language]}_reader")
    return module.load_stages(user)
