"""What others may use of mlprogram: programs, and what the examiner finds in them."""

# Numbers: the precisions that a program can be computed in, and dtypes by their names
from .dtypes import BY_NAME as BY_NAME
from .dtypes import PRECISIONS as PRECISIONS

# What goes wrong, in one line each
from .errors import NonFiniteInput as NonFiniteInput
from .errors import OpenShape as OpenShape
from .errors import ProgramError as ProgramError

# Which chip this machine has, and what Core ML measures of a package on it
from .examine.device import UNITS as UNITS
from .examine.device import chip as chip
from .examine.device import load_core_ml as load_core_ml
from .examine.device import measure as measure

# Which operations a chip's Neural Engine would take, by published rules
from .examine.placement import forecast_placement as forecast_placement

# Operations, weights, arithmetic and bytes of a program
from .examine.profile import OpenProgram as OpenProgram
from .examine.profile import Profile as Profile
from .examine.profile import open_program as open_program
from .examine.profile import profile_program as profile_program
from .examine.rules import load_rules as load_rules
from .examine.storage import Storage as Storage

# PyTorch's convolution of a long row, in fewer products
from .fourier import can_convolve_row as can_convolve_row
from .fourier import convolve_row as convolve_row

# One operation of a program, and its inputs and outputs
from .graph import Operation as Operation
from .interface import TensorSpec as TensorSpec

# In place of coremltools' MLModel
from .mlmodel import MLModel as MLModel
from .mlmodel import MLState as MLState
from .package import open_package as open_package
from .program import Program as Program
