"""What others may use of this room."""

# A stage
from .builder import Artifact as Artifact
from .builder import CheckpointStage as CheckpointStage
from .builder import Kind as Kind
from .builder import Stage as Stage
from .builder import all_held as all_held
from .builder import build_packages as build_packages
from .builder import current as current
from .builder import print_report as print_report
from .checkpoint import HUB_NAME as HUB_NAME
from .checkpoint import KOKORO_INT8 as KOKORO_INT8
from .checkpoint import SHAKEN_NAME as SHAKEN_NAME

# One loader for three homes of a checkpoint
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import Identity as Identity
from .checkpoint import config_sha256 as config_sha256
from .checkpoint import open_checkpoint as open_checkpoint
from .checkpoint import voice_sha256 as voice_sha256
from .checks import INT8_STORAGE as INT8_STORAGE
from .checks import LIMIT_SNR_DB as LIMIT_SNR_DB

# A measured figure against its limit, and the signal-to-noise ratio that most of them are
from .checks import Check as Check
from .checks import ProgramFacts as ProgramFacts
from .checks import computing as computing
from .checks import open_functions as open_functions
from .checks import require as require
from .checks import rmse as rmse
from .checks import snr_db as snr_db
from .commands import CORE_ML as CORE_ML
from .commands import LAYOUT_FLAGS as LAYOUT_FLAGS
from .commands import REQUIRED as REQUIRED

# Options of commands
from .commands import BuildOptions as BuildOptions
from .commands import CommandOptions as CommandOptions
from .commands import QuantizeOptions as QuantizeOptions
from .commands import add_options as add_options
from .commands import build_option as build_option
from .commands import check_options as check_options
from .commands import check_seed as check_seed
from .commands import checkpoint_option as checkpoint_option
from .commands import collect_options as collect_options
from .commands import conclude as conclude
from .commands import exit_of as exit_of
from .commands import layout_option as layout_option
from .commands import option as option
from .commands import parse as parse
from .commands import print_table as print_table
from .commands import seed_argument as seed_argument
from .commands import voice_option as voice_option
from .compute_units import UNITS_TABLE as UNITS_TABLE
from .compute_units import units_for as units_for

# Kokoro's config.json as frozen dataclasses
from .config import DecoderConfig as DecoderConfig
from .config import KokoroConfig as KokoroConfig
from .config import PlbertConfig as PlbertConfig
from .config import not_releasable as not_releasable

# The seams
from .contract import AFFINE as AFFINE
from .contract import BOTH as BOTH
from .contract import BOUNDARY_ID as BOUNDARY_ID
from .contract import CLAIMS as CLAIMS
from .contract import COLUMNS_PER_FRAME as COLUMNS_PER_FRAME
from .contract import COLUMNS_PER_STEP as COLUMNS_PER_STEP
from .contract import CORPUS as CORPUS
from .contract import DECODER as DECODER
from .contract import DEFAULT_BUCKETS as DEFAULT_BUCKETS
from .contract import DEFAULT_LAYOUT as DEFAULT_LAYOUT
from .contract import DEVICE as DEVICE
from .contract import DURATION as DURATION
from .contract import DURATIONS as DURATIONS
from .contract import ENCODER_NAME as ENCODER_NAME
from .contract import ENERGY as ENERGY
from .contract import ENTERING as ENTERING
from .contract import F0_HZ as F0_HZ
from .contract import FEATURES as FEATURES
from .contract import FRAME_SAMPLES as FRAME_SAMPLES
from .contract import FRAMES as FRAMES
from .contract import FRAMES_PER_SECOND as FRAMES_PER_SECOND
from .contract import G2P_NAME as G2P_NAME
from .contract import HARMONICS as HARMONICS
from .contract import HIDDEN as HIDDEN
from .contract import HOP_SAMPLES as HOP_SAMPLES
from .contract import INPUT_IDS as INPUT_IDS
from .contract import JUDGED as JUDGED
from .contract import LAYOUTS as LAYOUTS
from .contract import LONGEST_BUCKET as LONGEST_BUCKET
from .contract import MAIN as MAIN
from .contract import MAX_SPEED as MAX_SPEED
from .contract import MIN_SPEED as MIN_SPEED
from .contract import N_FFT as N_FFT
from .contract import NUMERIC as NUMERIC
from .contract import PADDED as PADDED
from .contract import PADDED_BUCKETS as PADDED_BUCKETS
from .contract import PADDED_TARGET as PADDED_TARGET
from .contract import PADDING_ID as PADDING_ID
from .contract import PROSODY as PROSODY
from .contract import PROSODY_PER_FRAME as PROSODY_PER_FRAME
from .contract import SAMPLE_RATE_HZ as SAMPLE_RATE_HZ
from .contract import SECOND as SECOND
from .contract import SPECTRUM_CHANNELS as SPECTRUM_CHANNELS
from .contract import SPEED as SPEED
from .contract import STATISTICS as STATISTICS
from .contract import STEPS_PER_FRAME as STEPS_PER_FRAME
from .contract import STREAMED as STREAMED
from .contract import STREAMING as STREAMING
from .contract import STREAMING_POLYNOMIAL as STREAMING_POLYNOMIAL
from .contract import STYLE as STYLE
from .contract import STYLE_AFFINE as STYLE_AFFINE
from .contract import TEXT as TEXT
from .contract import THIRD as THIRD
from .contract import TOKEN_BUCKETS as TOKEN_BUCKETS
from .contract import TUNING as TUNING
from .contract import UTTERANCE as UTTERANCE
from .contract import VOCODER_NAME as VOCODER_NAME
from .contract import VOICE_SHAPE as VOICE_SHAPE
from .contract import VOICES as VOICES
from .contract import WAVEFORM as WAVEFORM
from .contract import WINDOW as WINDOW
from .contract import PackedLayout as PackedLayout
from .contract import bucket_for as bucket_for

# Data that nobody vouches for
from .data_files import check_inside as check_inside
from .data_files import conform as conform
from .data_files import parse_json as parse_json
from .data_files import read_json as read_json
from .data_files import readable as readable
from .data_files import sha256_of as sha256_of
from .data_files import sha256_of_json as sha256_of_json
from .errors import EXIT_BAD_INPUT as EXIT_BAD_INPUT
from .errors import EXIT_GOOD as EXIT_GOOD
from .errors import EXIT_REJECTED as EXIT_REJECTED
from .errors import EXIT_UNDECIDED as EXIT_UNDECIDED

# The exceptions a user may cause, the exit codes, and how every command begins and ends
from .errors import CheckFailed as CheckFailed
from .errors import InputError as InputError
from .errors import Parser as Parser
from .errors import UtteranceTooLong as UtteranceTooLong
from .errors import command as command
from .errors import command_began as command_began
from .errors import require_installed as require_installed
from .errors import run_cli as run_cli

# PyTorch module to .mlpackage
from .export import FunctionSpec as FunctionSpec
from .export import TensorType as TensorType
from .export import full_disk_is_an_oserror as full_disk_is_an_oserror
from .export import quiet_coremltools as quiet_coremltools
from .export import save_package as save_package
from .extras import BASE as BASE
from .extras import find_missing as find_missing
from .extras import format_install_line as format_install_line

# Where Kokoro-82M comes from, and which of its bytes may be released
from .hub import HUB_FILES as HUB_FILES
from .hub import HUB_REPOSITORY as HUB_REPOSITORY
from .hub import HUB_REVISION as HUB_REVISION

# kokoro-int8 as a checkpoint folder in the user's cache
from .kokoro_int8.cache import WEIGHTS_SHA256 as WEIGHTS_SHA256
from .kokoro_int8.cache import cache_root as cache_root
from .kokoro_int8.cache import has_kokoros_vocoder as has_kokoros_vocoder
from .kokoro_int8.cache import is_available as is_available
from .layers import HALF_POWER as HALF_POWER
from .layers import LEAKY_SLOPE as LEAKY_SLOPE
from .layers import NORM_EPSILON as NORM_EPSILON

# Layers in (B, C, 1, S) that load upstream's state-dict keys
from .layers import AdaIN1d as AdaIN1d
from .layers import AdainResBlk1d as AdainResBlk1d
from .layers import Conv as Conv
from .layers import ConvTranspose as ConvTranspose
from .layers import Mask as Mask
from .layers import Modules as Modules
from .layers import Snake as Snake
from .layers import SnakeList as SnakeList
from .layers import StyleAffine as StyleAffine
from .layers import Uninitialized as Uninitialized
from .layers import concatenate as concatenate
from .layers import masked as masked
from .layers import read_by as read_by
from .layers import replace_module as replace_module
from .layers import with_zero_taps as with_zero_taps
from .manifest import ITEMS as ITEMS

# The manifest beside each package
from .manifest import MANIFEST_FILE as MANIFEST_FILE
from .manifest import PACKAGE_FILE as PACKAGE_FILE
from .manifest import PACKAGE_TOOLS as PACKAGE_TOOLS
from .manifest import Manifest as Manifest
from .manifest import copy_package as copy_package
from .manifest import describe_package as describe_package
from .manifest import described as described
from .manifest import hash_content as hash_content
from .manifest import hash_package as hash_package
from .manifest import level_name as level_name
from .manifest import package_name as package_name
from .manifest import package_of_ours as package_of_ours
from .manifest import tool_versions as tool_versions

# The resources of one process
from .process import LOCK as LOCK
from .process import claim as claim
from .process import release_memory as release_memory
from .process import scratch as scratch
from .revision import changed_files as changed_files
from .revision import commit as commit

# The part of a cache key that stands for code, texts and libraries
from .sources import source_sha256 as source_sha256

# Write aside, then rename
from .staging import OwnFile as OwnFile
from .staging import bytes_of as bytes_of
from .staging import check_implied as check_implied
from .staging import check_output as check_output
from .staging import discard as discard
from .staging import is_of_finder as is_of_finder
from .staging import is_there as is_there
from .staging import json_of as json_of
from .staging import json_text as json_text
from .staging import recover as recover
from .staging import staged as staged
from .staging import staged_together as staged_together
from .staging import strangers as strangers
from .staging import write_json as write_json

# The chain as a list
from .steps import EQUAL as EQUAL
from .steps import Step as Step
from .steps import Tensors as Tensors
from .steps import computed as computed
from .steps import require_shape as require_shape
from .steps import run_steps as run_steps

# Tensors from a file, and nothing else
from .tensor_files import keep_npz as keep_npz
from .tensor_files import read_npy as read_npy
from .tensor_files import read_npz as read_npz

# Which voices there are
from .voice_list import ListedVoice as ListedVoice
from .voice_list import list_voice_names as list_voice_names
from .voice_list import list_voices as list_voices

# Voices
from .voices import Voice as Voice
from .voices import VoiceLibrary as VoiceLibrary
from .voices import check_voice as check_voice
from .voices import describe_no_speaker as describe_no_speaker
from .voices import list_speakers as list_speakers
from .voices import parse_blend as parse_blend
from .voices import style_path as style_path
from .voices import style_row as style_row
