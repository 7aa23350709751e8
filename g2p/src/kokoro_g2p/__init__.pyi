"""What others may use of the reader."""

# Kokoro's phoneme symbols and what is done with them
from .alphabet import AMERICAN as AMERICAN
from .alphabet import LANGUAGES_READ as LANGUAGES_READ
from .alphabet import MAX_PHONEMES as MAX_PHONEMES
from .alphabet import PAUSES as PAUSES
from .alphabet import VOWELS as VOWELS
from .alphabet import dialect_of as dialect_of
from .alphabet import edit_distance as edit_distance
from .alphabet import voice_language as voice_language
from .alphabet import without_stress as without_stress

# The folder of the lists, rules and weights, with their licences
from .bundled import DATA as DATA

# Mistakes of a user
from .errors import InputError as InputError
from .errors import UtteranceTooLong as UtteranceTooLong

# JSON that nobody vouches for, and as every file holds it
from .files import json_text as json_text
from .files import parse_json as parse_json

# The bundled grammars
from .grammar.load import grammar_of as grammar_of

# The network for words that no list has: in PyTorch, to train and to export; in NumPy, to read
from .network import LetterToSound as LetterToSound
from .neural import WEIGHTS as WEIGHTS
from .neural import NeuralG2P as NeuralG2P
from .neural import describe_weights as describe_weights

# Written text to spoken words
from .normalizer import normalize as normalize

# Where a text rests, and for how long
from .pauses import LOOKED_BACK as LOOKED_BACK
from .pauses import PAUSES_S as PAUSES_S
from .pauses import check_pauses as check_pauses
from .pauses import parse_pauses as parse_pauses

# Text to phonemes
from .phonemizer import G2P as G2P
from .phonemizer import phonemize as phonemize

# The reader as data for a port to another language
from .port.text_tables import languages_for as languages_for
from .port.text_tables import languages_with as languages_with
from .port.text_tables import text_bytes as text_bytes
from .port.text_tables import write_text_tables as write_text_tables

# The answer
from .result import PUNCTUATION as PUNCTUATION
from .result import Language as Language
from .result import Result as Result
from .result import Word as Word

# Markup: voices that a text names, and what a subtitle shows
from .ssml import VOICE_MARK as VOICE_MARK
from .ssml import check_languages as check_languages
from .ssml import voices_in as voices_in
from .ssml import without_markup as without_markup

# Text in, chunks out, each as long as one call of the models takes
from .text import LONGEST_PHONEMES as LONGEST_PHONEMES
from .text import Chunk as Chunk
from .text import LiveText as LiveText
from .text import Phonemizer as Phonemizer
from .text import TextParts as TextParts
from .text import calls as calls
from .text import check_sayable as check_sayable
from .text import chunks as chunks
from .text import nothing_to_say as nothing_to_say
from .text import phoneme_sentences as phoneme_sentences
from .text import read_text as read_text
from .text import text_reader as text_reader
