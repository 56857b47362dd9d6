"""Operators for networks on NumPy-like arrays, and the switches of numpy mode: ``mx.npx``."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any


from ..context import (
    Context,
    cpu,
    cpu_pinned,
    current_context,
    gpu,
    gpu_memory_info,
    num_gpus,
)
from ..ndarray import waitall
from ..numpy_mode import is_np_array, is_np_shape, reset_np, set_np
from ..random import seed
from ..util import get_cuda_compute_capability
from . import image as image
from . import random as random
from . import symbols as _symbols
from . import utils as utils
from .control_flow import *  # noqa: F403
from .control_flow import __all__ as _control_flow
from .functions import *  # noqa: F403
from .functions import __all__ as _functions
from .operators import *  # noqa: F403
from .operators import OPERATORS as _operators
from .utils import *  # noqa: F403
from .utils import __all__ as _utils

__all__ = [
    "Context", "cpu", "cpu_pinned", "current_context", "get_cuda_compute_capability", "gpu",
    "gpu_memory_info", "image", "is_np_array", "is_np_shape", "num_gpus", "random", "reset_np",
    "seed", "set_np", "waitall", *_control_flow, *_functions, *_operators, *_utils,
]  # fmt: skip

if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        """Return a function of a table (declaration for type checkers)."""
