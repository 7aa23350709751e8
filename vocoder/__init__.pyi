"""What others may use of this room."""

# The vocoder
from .decoder import STAGE_SLOPE as STAGE_SLOPE
from .decoder import AdaINResBlock1 as AdaINResBlock1
from .decoder import PackedVocoder as PackedVocoder
from .decoder import Vocoder as Vocoder
from .decoder import unpack as unpack
from .decoder import unpack_frames as unpack_frames

# The vocoder for PyTorch on a processor, one utterance at exact length
from .eager import EagerVocoder as EagerVocoder
from .eager import Norm as Norm
from .eager import Place as Place
from .eager import compute_moments as compute_moments
from .eager import find_places as find_places
from .eager import put_channels_last as put_channels_last

# The padded layout
from .layouts import PaddedLayout as PaddedLayout
from .packing import FIELDS as FIELDS
from .packing import SPECTRUM_ROWS as SPECTRUM_ROWS

# The vocoder's inputs
from .packing import Array as Array
from .packing import VocoderInputs as VocoderInputs
from .packing import cut_excerpt as cut_excerpt
from .packing import pack as pack
from .packing import pack_utterance as pack_utterance
from .packing import unpack_spectrum as unpack_spectrum

# Features to samples
from .render import VocoderPackage as VocoderPackage
from .render import make_reference_arguments as make_reference_arguments
from .render import open_package as open_package
from .render import render_exact as render_exact
from .render import render_reference as render_reference
from .scaled_conv import RANGE as RANGE

# Convolutions whose input is scaled to fit int8
from .scaled_conv import ColumnScale as ColumnScale
from .scaled_conv import PerColumnScaledConv as PerColumnScaledConv
from .scaled_conv import ScaledConv as ScaledConv
from .scaled_conv import TimeVaryingScale as TimeVaryingScale
from .source import BINS as BINS
from .source import STEP_SAMPLES as STEP_SAMPLES
from .source import VOICED_ABOVE_HZ as VOICED_ABOVE_HZ

# The harmonic source in NumPy float64
from .source import HarmonicSource as HarmonicSource
from .source import draw_noise as draw_noise

# What a few sentences of a bundled voice leave on the bundled weights
from .streaming.anchors import ANCHORED as ANCHORED
from .streaming.anchors import Anchor as Anchor
from .streaming.anchors import find_anchor as find_anchor
from .streaming.anchors import follow_line as follow_line
from .streaming.anchors import locate_anchors as locate_anchors
from .streaming.anchors import write_anchors as write_anchors

# The predictor of what the norms of the generator's second stage will measure, before any of its
from .streaming.norm_statistics import StatisticsPredictor as StatisticsPredictor
from .streaming.norm_statistics import explain_missing_predictor as explain_missing_predictor
from .streaming.norm_statistics import find_predictor_file as find_predictor_file
from .streaming.norm_statistics import load_predictor as load_predictor
from .streaming.norm_statistics import name_predictor_file as name_predictor_file
from .streaming.norm_statistics import require_predictor as require_predictor
from .streaming.norm_statistics import save_predictor as save_predictor

# How far the statistics of the second stage's norms lie from what is predicted for them
from .streaming.residuals import Residuals as Residuals

# The three functions of the streaming layout, as they are traced
from .streaming.streaming_functions import DecoderFunction as DecoderFunction
from .streaming.streaming_functions import EntryMoments as EntryMoments
from .streaming.streaming_functions import HiddenStatistics as HiddenStatistics
from .streaming.streaming_functions import PooledMoments as PooledMoments
from .streaming.streaming_functions import UtteranceFunction as UtteranceFunction
from .streaming.streaming_functions import count_window_rows as count_window_rows
from .streaming.streaming_functions import unpack_window as unpack_window

# Layers of the streaming generator
from .streaming.streaming_layers import PhaseConv as PhaseConv

# The generator's two stages, each on statistics that are measured or given
from .streaming.streaming_model import AffineConv as AffineConv
from .streaming.streaming_model import Folding as Folding
from .streaming.streaming_model import GivenNorms as GivenNorms
from .streaming.streaming_model import SecondStage as SecondStage
from .streaming.streaming_model import list_stage_norms as list_stage_norms
from .streaming.streaming_package import MEASURED as MEASURED
from .streaming.streaming_package import SIZES as SIZES
from .streaming.streaming_package import WINDOWS as WINDOWS

# An utterance through the streaming layout's three functions, whichever runtime runs them
from .streaming.streaming_package import Lengths as Lengths
from .streaming.streaming_package import StreamingChain as StreamingChain
from .streaming.streaming_package import StreamingPackage as StreamingPackage
from .streaming.streaming_package import cut_windows as cut_windows

# The vocoder in the streaming layout as a Stage
from .streaming.streaming_stage import BUCKETS as BUCKETS
from .streaming.streaming_stage import CHECK_FRAMES as CHECK_FRAMES
from .streaming.streaming_stage import LONGEST_BUCKET as LONGEST_BUCKET
from .streaming.streaming_stage import SHORT_FRAMES as SHORT_FRAMES
from .streaming.streaming_stage import SIGNATURES as SIGNATURES
from .streaming.streaming_stage import StreamingStage as StreamingStage
from .streaming.streaming_stage import make_streaming_modules as make_streaming_modules

# What a voice adds to the predicted statistics
from .streaming.voice_statistics import SettledVoices as SettledVoices
from .streaming.voice_statistics import find_statistics as find_statistics
from .streaming.voice_statistics import keep_statistics as keep_statistics
from .streaming.voice_statistics import name_settled_file as name_settled_file
from .streaming.voice_statistics import read_bundled as read_bundled
from .streaming.voice_statistics import round_to_half as round_to_half
from .streaming.voice_statistics import write_settled as write_settled

# The vocoder as a Stage, in a layout of one function
from .vocoder_stage import TAIL_MODULES as TAIL_MODULES
from .vocoder_stage import VocoderStage as VocoderStage
from .vocoder_stage import describe_source as describe_source
from .vocoder_stage import measure_snr as measure_snr

# Features to a waveform, step by step
from .vocoder_steps import SOURCE as SOURCE
from .vocoder_steps import STEPS as STEPS
from .vocoder_steps import VOCODER as VOCODER
from .vocoder_steps import VOCODER_INPUTS as VOCODER_INPUTS
from .vocoder_steps import VocoderBackend as VocoderBackend
from .vocoder_steps import require_sound as require_sound
