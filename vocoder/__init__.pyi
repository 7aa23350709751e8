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
from .eager import last_channels as last_channels
from .eager import moments as moments
from .eager import places as places

# The padded layout
from .layouts import PaddedLayout as PaddedLayout
from .packing import FIELDS as FIELDS
from .packing import SPECTRUM_ROWS as SPECTRUM_ROWS

# The vocoder's inputs
from .packing import Array as Array
from .packing import VocoderInputs as VocoderInputs
from .packing import excerpt as excerpt
from .packing import pack as pack
from .packing import pack_utterance as pack_utterance
from .packing import unpacked_spectrum as unpacked_spectrum

# Features to samples
from .render import VocoderPackage as VocoderPackage
from .render import exact_reference as exact_reference
from .render import open_package as open_package
from .render import reference_arguments as reference_arguments
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
from .source import gaussian_noise as gaussian_noise

# The predictor of what the norms of the generator's second stage will measure, before any of its
from .streaming.norm_statistics import StatisticsPredictor as StatisticsPredictor
from .streaming.norm_statistics import load_predictor as load_predictor
from .streaming.norm_statistics import predictor_name as predictor_name
from .streaming.norm_statistics import predictor_of as predictor_of
from .streaming.norm_statistics import save_predictor as save_predictor
from .streaming.norm_statistics import statistics_file as statistics_file
from .streaming.norm_statistics import without_predictor as without_predictor

# How far the statistics of the second stage's norms lie from what is predicted for them
from .streaming.residuals import Residuals as Residuals

# The three functions of the streaming layout, as they are traced
from .streaming.streaming_functions import DecoderFunction as DecoderFunction
from .streaming.streaming_functions import EntryMoments as EntryMoments
from .streaming.streaming_functions import PooledMoments as PooledMoments
from .streaming.streaming_functions import UtteranceFunction as UtteranceFunction
from .streaming.streaming_functions import unpack_window as unpack_window
from .streaming.streaming_functions import window_rows as window_rows

# Layers of the streaming generator
from .streaming.streaming_layers import PhaseConv as PhaseConv

# The generator's two stages, each on statistics that are measured or given
from .streaming.streaming_model import AffineConv as AffineConv
from .streaming.streaming_model import Folding as Folding
from .streaming.streaming_model import GivenNorms as GivenNorms
from .streaming.streaming_model import SecondStage as SecondStage
from .streaming.streaming_model import stage_norms as stage_norms
from .streaming.streaming_package import MEASURED as MEASURED
from .streaming.streaming_package import SIZES as SIZES
from .streaming.streaming_package import WINDOWS as WINDOWS

# An utterance through the streaming layout's three functions, whichever runtime runs them
from .streaming.streaming_package import Lengths as Lengths
from .streaming.streaming_package import StreamingChain as StreamingChain
from .streaming.streaming_package import StreamingPackage as StreamingPackage
from .streaming.streaming_package import windows as windows

# The vocoder in the streaming layout as a Stage
from .streaming.streaming_stage import BUCKETS as BUCKETS
from .streaming.streaming_stage import CHECK_FRAMES as CHECK_FRAMES
from .streaming.streaming_stage import LONGEST_BUCKET as LONGEST_BUCKET
from .streaming.streaming_stage import SHORT_FRAMES as SHORT_FRAMES
from .streaming.streaming_stage import SIGNATURES as SIGNATURES
from .streaming.streaming_stage import StreamingStage as StreamingStage
from .streaming.streaming_stage import streaming_modules as streaming_modules

# What a voice adds to the predicted statistics
from .streaming.voice_statistics import SettledVoices as SettledVoices
from .streaming.voice_statistics import find_statistics as find_statistics
from .streaming.voice_statistics import half as half
from .streaming.voice_statistics import keep_statistics as keep_statistics
from .streaming.voice_statistics import settled_file as settled_file
from .streaming.voice_statistics import write_settled as write_settled

# The vocoder as a Stage, in a layout of one function
from .vocoder_stage import TAIL_MODULES as TAIL_MODULES
from .vocoder_stage import VocoderStage as VocoderStage
from .vocoder_stage import snr_check as snr_check
from .vocoder_stage import source_contract as source_contract

# Features to a waveform, step by step
from .vocoder_steps import SOURCE as SOURCE
from .vocoder_steps import STEPS as STEPS
from .vocoder_steps import VOCODER as VOCODER
from .vocoder_steps import VOCODER_INPUTS as VOCODER_INPUTS
from .vocoder_steps import VocoderBackend as VocoderBackend
from .vocoder_steps import require_sound as require_sound
