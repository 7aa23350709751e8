"""What others may use of this room."""

# What a search chooses among
from .candidates import Candidates as Candidates

# Build the packages of a compression level
from .compress import LevelFile as LevelFile
from .compress import build_compressed as build_compressed
from .compress import load_or_make_level as load_or_make_level

# What each layer loses at each level, by gradients
from .curvature import can_take as can_take

# How far a compressed vocoder's speech is from the vocoder's own
from .distances import SPEECH as SPEECH
from .distances import compute_speech_vector as compute_speech_vector
from .distances import cut_excerpts as cut_excerpts

# What a search of the encoder chooses among
from .encoder_candidates import Choice as Choice
from .encoder_candidates import EncoderCandidates as EncoderCandidates

# Weights to stored forms
from .fits import quantize_rows as quantize_rows

# A compression level of one checkpoint's vocoder or encoder
from .level import Calibration as Calibration
from .level import CompressionLevel as CompressionLevel
from .level import Pair as Pair
from .locator import HALF as HALF

# The places of a chain's packages and files, and the options that build those that are missing
from .locator import Build as Build
from .locator import PackageRequest as PackageRequest
from .locator import default_layout as default_layout
from .locator import ensure_encoder as ensure_encoder
from .locator import ensure_vocoder as ensure_vocoder
from .locator import make_options as make_options
from .locator import parse_level as parse_level

# The compression methods, each a frozen configuration in one registry
from .methods import CHOICES as CHOICES
from .methods import CONVERTED as CONVERTED
from .methods import LEVELS as LEVELS
from .methods import METHODS as METHODS
from .methods import SCHEMES as SCHEMES
from .methods import STAGE_METHODS as STAGE_METHODS
from .methods import IntegerWeights as IntegerWeights
from .methods import Method as Method
from .methods import PaletteWeights as PaletteWeights
from .methods import Weights as Weights
from .methods import find_method as find_method
from .methods import with_settings as with_settings

# What becomes of each layer
from .plan import list_vocoder_layers as list_vocoder_layers
from .plan import plan_by_level as plan_by_level

# A recipe
from .recipe import choose_recipe as choose_recipe

# The part of a cache key that stands for the code, texts and libraries that made a figure
# Compressed weights and rounded inputs as modules that hold their integers
from .stored_forms import Integers as Integers
from .stored_forms import StoredWeight as StoredWeight
from .stored_forms import register_with_onnx as register_with_onnx
from .stored_forms import store as store

# A level in the streaming layouts
from .streaming_level import attach_level as attach_level

# From what each layer loses at each level to a choice for every layer under a size
from .trade_off import Point as Point
