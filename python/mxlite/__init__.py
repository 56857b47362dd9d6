"""mxlite: a small, fast engine for scripts written for Apache MXNet 1.x."""

from __future__ import annotations

import atexit as _atexit

from . import _native  # loads _core, before the modules that use it
from . import _core, autograd, base, context, engine, initializer, lr_scheduler, metric
from . import attribute, image, name, ndarray, operator, optimizer, random, recordio, runtime
from . import error, libinfo, log, registry, util
from . import initializer as init
from . import image as img
from . import ndarray as nd
from . import optimizer as opt
from . import random as rnd
from .attribute import AttrScope
from .base import MXNetError
from .context import (
    Context,
    cpu,
    cpu_pinned,
    current_context,
    gpu,
    gpu_memory_info,
    num_gpus,
)
from .ndarray import NDArray, waitall
from .util import (
    is_np_array,
    is_np_shape,
    np_array,
    np_shape,
    set_np_shape,
    use_np,
    use_np_array,
    use_np_shape,
)
from . import executor, symbol, visualization
from . import symbol as sym
from . import visualization as viz
from .cached_op import CachedOp as _CachedOp
from .executor import Executor
from .symbol import Symbol
from . import kvstore
from . import kvstore as kv
from .kvstore import kvstore_server
from . import contrib, gluon, io, model, profiler, rnn
from . import callback, module, monitor
from . import module as mod
from . import monitor as mon
from . import _surface

__version__ = "0.1.0"

setattr(ndarray, "CachedOp", _CachedOp)  # noqa: B010 - of symbols, which need mx.nd

# Workers must end while the interpreter is alive: their callbacks need it.
_atexit.register(_core.engine_stop)

_surface.guard_all()  # names of 1.9.1 that are not built say so

kvstore_server._init_kvstore_server_module()  # servers and the scheduler of a job go no further
