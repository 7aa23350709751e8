"""What others may use of this room."""

# The frozen texts and utterances that levels are tuned and judged on
from .corpus import Clip as Clip
from .corpus import Line as Line
from .corpus import SpokenLine as SpokenLine
from .corpus import Utterance as Utterance
from .corpus import require_disjoint as require_disjoint
from .corpus import speech_lines as speech_lines
from .corpus import unseen_sentences as unseen_sentences
from .corpus import within as within
from .corpus import words_of as words_of

# A corpus of the user's own
from .own_corpus import read_corpus as read_corpus

# The frozen texts as a checkpoint speaks them
# Settle a voice
from .settling import settle as settle
from .speech import FIRST_SEED as FIRST_SEED
from .speech import calibration_inputs as calibration_inputs
from .speech import check_speech as check_speech
from .speech import own_speech as own_speech
from .speech import say as say
from .speech import speak_line as speak_line
from .speech import spoken_lines as spoken_lines
from .speech import text_encoder as text_encoder
from .speech import vocoder_inputs as vocoder_inputs
