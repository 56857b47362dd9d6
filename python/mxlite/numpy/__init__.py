"""Arrays and functions with NumPy's names and semantics: ``mx.np``."""

from __future__ import annotations

from types import ModuleType as _ModuleType

from . import array_api as array_api
from . import _internal as _internal
from . import indexing, protocols
from . import linalg as linalg
from . import random as random
from .comparing import *  # noqa: F403
from .constants import *  # noqa: F403
from .creation import *  # noqa: F403
from .dtypes import *  # noqa: F403
from .einsum import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .fallback import *  # noqa: F403
from .grids import *  # noqa: F403
from .index_arrays import *  # noqa: F403
from .joining import *  # noqa: F403
from .manipulation import *  # noqa: F403
from .memory import *  # noqa: F403
from .nan_reductions import *  # noqa: F403
from .ndarray import ndarray as ndarray
from .padding import *  # noqa: F403
from .printing import *  # noqa: F403
from .products import *  # noqa: F403
from .quantiles import *  # noqa: F403
from .reductions import *  # noqa: F403
from .sets import *  # noqa: F403
from .sorting import *  # noqa: F403
from .statistics import *  # noqa: F403

_MODULES = ("array_api", "linalg", "random")
__all__ = sorted(  # noqa: PLE0605 - the names of all files
    name
    for name, value in globals().items()
    if name in _MODULES
    or not (name.startswith("_") or name == "annotations" or isinstance(value, _ModuleType))
)


def __dir__() -> list[str]:
    """Return the public names, without the modules that define them."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
