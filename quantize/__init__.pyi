"""What others may use of this room."""

# What a search chooses among
from .candidates import Candidates as Candidates

# Build the packages of a compression level
from .compress import LevelFile as LevelFile
from .compress import build_compressed as build_compressed
from .compress import level_for as level_for

# What each layer loses at each level, by gradients
from .curvature import SPEECH as SPEECH
from .curvature import excerpts_of as excerpts_of
from .curvature import speech_vector as speech_vector

# Weights to stored forms
from .fits import rows_of as rows_of

# A compression level of one checkpoint's vocoder or encoder
from .level import Level as Level
from .level import Pair as Pair
from .locator import HALF as HALF

# The places of a chain's packages and files, and the options that build those that are missing
from .locator import Build as Build
from .locator import Request as Request
from .locator import built as built
from .locator import built_encoder as built_encoder
from .locator import default_layout as default_layout
from .locator import options_for as options_for
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
from .methods import method_named as method_named
from .methods import with_settings as with_settings

# A recipe
from .recipe import recipe_for as recipe_for

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
