"""What others may use of this room."""

# Which level to release, the smallest of those that ship, and the decision as plain data
from .decision import Choice as Choice

# How clips are executed and measured
from .execution import DECLARED as DECLARED
from .execution import open_executable as open_executable

# What a package or file is made of, for the release table and the report
from .facts import count_frames as count_frames
from .facts import list_runs as list_runs

# The limits that a level, an encoder or a product must keep to be released, each with its reason
from .gates import COMMON as COMMON
from .gates import FP16_ONLY as FP16_ONLY

# The player of a page, and what it plays
from .listening import REFERENCE as REFERENCE
from .listening import describe_metrics as describe_metrics
from .listening import encode_sound as encode_sound
from .listening import format_player_json as format_player_json
from .listening import render_auditions as render_auditions

# Every metric
from .metrics.catalog import measure as measure

# What is computed of one signal [samples] at 24 kHz
from .metrics.framing import MODEL_RATE_HZ as MODEL_RATE_HZ
from .metrics.framing import at_16_khz as at_16_khz

# Who listens to a signal [samples] at 24 kHz
from .metrics.listeners import recognized as recognized
from .metrics.trial import Baseline as Baseline
from .metrics.trial import Trial as Trial

# Decide whether a compression level is good enough to release
from .quality import QualityOptions as QualityOptions
from .quality import judge_level as judge_level
from .quality import main as main

# The reference
from .reference import Reference as Reference
from .reference import list_judged_clips as list_judged_clips

# Judge every level and name the one to release
from .release import ReleaseOptions as ReleaseOptions
from .release import choose_release as choose_release
from .renditions import ClipReader as ClipReader
from .report_page import read_asset as read_asset
