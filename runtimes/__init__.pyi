"""What others may use of this room."""

# The packages, executed by mlprogram on any machine
from .executed import open_g2p as open_g2p

# Built packages in one .pte for ExecuTorch's Core ML delegate, byte for byte, and taken out of it
from .executorch.delegate_file import BACKEND as BACKEND
from .executorch.delegate_file import read_signatures as read_signatures
from .executorch.delegate_file import take_packages as take_packages
from .executorch.delegate_file import write as write

# Encoder and vocoder as stages whose files other runtimes open
from .exported import CHECKED_FRAMES as CHECKED_FRAMES
from .exported import PortableEncoderStage as PortableEncoderStage
from .exported import PortableVocoderStage as PortableVocoderStage
from .exported import make_kind as make_kind

# Whether a vocoder is what its name says
from .genuine import require_genuine as require_genuine

# PyTorch module to .onnx of any length, and ONNX Runtime to run it
from .onnx.onnx_file import files_in as files_in

# The vocoder's .onnx file or folder at a level, `w8` or `w8a8`
from .onnx.onnx_levels import build_file as build_file

# The streaming layout's three functions as .onnx files in a folder
from .onnx.onnx_streaming import FOLDER as FOLDER
from .onnx.onnx_streaming import OnnxStreamingStage as OnnxStreamingStage

# An opened chain
from .opened import ENCODER_BY_PYTORCH as ENCODER_BY_PYTORCH
from .opened import OpenedChain as OpenedChain

# A voice of a checkpoint, as an opened vocoder needs it
from .opened_voice import is_settled as is_settled
from .opened_voice import open_voice as open_voice
from .opened_voice import read_predictor as read_predictor

# The runtimes by name
from .registry import DEFAULT_RUNTIME as DEFAULT_RUNTIME
from .registry import PACKAGE as PACKAGE
from .registry import RUNTIMES as RUNTIMES
from .registry import build_missing as build_missing
from .registry import check_runtime as check_runtime
from .registry import choose_runtime_for as choose_runtime_for
from .registry import default_runtime as default_runtime
from .registry import find_files as find_files
from .registry import judged_manifest as judged_manifest
from .registry import module_of as module_of
from .registry import open_runtime as open_runtime
from .registry import require_writable as require_writable
from .registry import resolve as resolve

# The chain in PyTorch at exact length
from .torch_runtime import EagerBackend as EagerBackend
