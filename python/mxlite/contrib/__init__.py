"""``mx.contrib``: operators of ``mx.nd.contrib`` and ``mx.sym.contrib`` by their older names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from ..ndarray import contrib as ndarray
from ..symbol import contrib as symbol

nd = ndarray
sym = symbol

__all__ = ["nd", "ndarray", "sym", "symbol"]

if TYPE_CHECKING:  # at run time, these modules are imported on first use
    from . import amp as amp
    from . import autograd as autograd
    from . import io as io
    from . import quantization as quantization
    from . import svrg_optimization as svrg_optimization
    from . import tensorboard as tensorboard
    from . import text as text
else:
    __getattr__, __dir__ = _attributes(__name__)
