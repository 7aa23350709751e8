"""What others may use of this room."""

# ALBERT as Kokoro uses it
from .albert import AlbertLayer as AlbertLayer
from .encoder_stage import KEEP_FP32 as KEEP_FP32

# The encoder as a Stage
from .encoder_stage import EncoderPackage as EncoderPackage
from .encoder_stage import EncoderStage as EncoderStage
from .encoder_stage import check_utterances as check_utterances
from .encoder_stage import compare_outputs as compare_outputs
from .encoder_stage import describe_contract as describe_contract
from .encoder_steps import MAX_SPEED as MAX_SPEED
from .encoder_steps import MIN_SPEED as MIN_SPEED
from .encoder_steps import STEPS as STEPS

# Phonemes to features, step by step
from .encoder_steps import AlignmentLimits as AlignmentLimits
from .encoder_steps import Buckets as Buckets
from .encoder_steps import Encoded as Encoded
from .encoder_steps import EncoderBackend as EncoderBackend
from .encoder_steps import check_speed as check_speed
from .encoder_steps import encode as encode
from .encoder_steps import encode_phonemes as encode_phonemes
from .encoder_steps import join_programs as join_programs
from .encoder_steps import round_durations as round_durations

# The encoder in PyTorch
from .functions import DurationFunction as DurationFunction
from .functions import Encoder as Encoder
from .functions import ProsodyFunction as ProsodyFunction
from .functions import TextEncoder as TextEncoder
from .functions import load_torch_encoder as load_torch_encoder
from .functions import make_exact_functions as make_exact_functions
from .functions import make_torch_backend as make_torch_backend
from .functions import make_torch_functions as make_torch_functions

# A two-way LSTM whose result does not depend on the padding, as one stock LSTM
from .lstm import OneLSTM as OneLSTM
from .lstm import PrefixLSTM as PrefixLSTM
from .lstm import add_flag as add_flag
from .lstm import unroll_lstms as unroll_lstms
from .lstm import use_lstm_operators as use_lstm_operators
