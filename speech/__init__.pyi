"""What others may use of this room."""

# The frozen texts and utterances that levels are tuned and judged on
from .corpus import Clip as Clip
from .corpus import Line as Line
from .corpus import SpokenLine as SpokenLine
from .corpus import Utterance as Utterance
from .corpus import cut_within as cut_within
from .corpus import read_speech_lines as read_speech_lines
from .corpus import read_unseen_sentences as read_unseen_sentences
from .corpus import require_disjoint as require_disjoint
from .corpus import words_of as words_of

# A corpus of the user's own
from .own_corpus import read_corpus as read_corpus

# Settle a voice
from .settling import Settling as Settling
from .settling import list_anchored_lines as list_anchored_lines
from .settling import settle as settle

# The frozen texts as a checkpoint speaks them
from .speech import FIRST_SEED as FIRST_SEED
from .speech import check_speech as check_speech
from .speech import list_spoken_lines as list_spoken_lines
from .speech import load_own_speech as load_own_speech
from .speech import load_text_encoder as load_text_encoder
from .speech import make_calibration_inputs as make_calibration_inputs
from .speech import make_vocoder_inputs as make_vocoder_inputs
from .speech import say as say
from .speech import speak_line as speak_line
