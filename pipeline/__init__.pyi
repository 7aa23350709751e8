"""What others may use of this room."""

# Write the release bundle
from .bundle import Bundle as Bundle
from .bundle import BundleOptions as BundleOptions
from .bundle import make_bundle as make_bundle

# BUILD/release/decision.json, read as far as a bundle needs it
from .decision_file import FORMAT as FORMAT
from .decision_file import PRODUCT_FORMAT as PRODUCT_FORMAT
from .decision_file import decision_for as decision_for
from .decision_file import read_decision as read_decision
from .decision_file import short as short

# Run one utterance by upstream, by our PyTorch and by the files of a runtime
from .intermediates import run_torch as run_torch
from .intermediates import run_upstream as run_upstream
from .joins import STEP as STEP

# Where a chunk sounds, by its durations and its energy
from .joins import Loudness as Loudness

# Build packages from options
from .package_builds import build_package as build_package
from .package_builds import build_stage as build_stage
from .package_builds import quantize_stage as quantize_stage

# Text to sound
from .speak import SpeakOptions as SpeakOptions
from .speak import speak_text as speak_text

# A loaded model, and the pieces that it speaks
from .speaking import Kokoro as Kokoro
from .speaking import Piece as Piece
from .speaking import check_before_opening as check_before_opening
from .speaking import load as load

# Synthesis
from .synthesis import BEFORE_VOCODER as BEFORE_VOCODER
from .synthesis import ROUNDED as ROUNDED
from .synthesis import Chain as Chain
from .synthesis import Pipeline as Pipeline
from .synthesis import Speech as Speech
from .synthesis import SpeechOptions as SpeechOptions
from .synthesis import SynthesisStats as SynthesisStats
from .synthesis import begin as begin

# When each word and phoneme is heard, by durations and energy (joins.py), written while the audio
from .timestamps import time_words as time_words

# Import and run unmodified upstream as the reference
from .upstream import has_upstreams_widths as has_upstreams_widths
from .upstream import load_upstream as load_upstream

# A voice as a bundle stores it, voices/NAME.style
from .voice_file import first_voice_bytes as first_voice_bytes
