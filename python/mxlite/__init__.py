"""mxlite: a small, fast engine for scripts written for Apache MXNet 1.x."""

from __future__ import annotations

import typing as _typing

from . import _native  # loads _core, before the modules that use it
from . import _core, autograd, base, context, initializer, lr_scheduler, metric
from . import attribute, image, name, ndarray, operator, optimizer, random, recordio, registry
from . import runtime, util
from . import initializer as init
from . import image as img
from . import ndarray as nd
from . import optimizer as opt
from . import random as rnd
from ._names_1x import attributes as _attributes
from ._native.version import __version__ as __version__
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
from . import executor, rtc, symbol, visualization
from . import symbol as sym
from . import visualization as viz
from .executor import CachedOp as _CachedOp
from .executor import Executor
from .symbol import Symbol
from . import numpy, numpy_extension
from . import numpy as np
from . import numpy_extension as npx
from . import kvstore
from . import kvstore as kv
from .kvstore import kvstore_server
from . import contrib, gluon, io, parallel, profiler
from . import callback, module, monitor
from . import module as mod
from . import monitor as mon
from . import modules_1x
from .modules_1x import engine, error, executor_manager, libinfo, library, log, misc, model, rnn

if _typing.TYPE_CHECKING:  # imported on first use at run time
    from . import checkpoint, onnx, test_utils

__all__ = [
    "AttrScope", "Context", "Executor", "MXNetError", "NDArray", "Symbol", "attribute",
    "autograd", "base", "callback", "checkpoint", "context", "contrib", "cpu", "cpu_pinned",
    "current_context", "engine", "error", "executor", "executor_manager", "gluon", "gpu",
    "gpu_memory_info", "image", "img", "init", "initializer", "io", "is_np_array",
    "is_np_shape", "kv", "kvstore", "kvstore_server", "libinfo", "library", "log",
    "lr_scheduler", "metric", "mod", "model", "module", "mon", "monitor", "name", "nd",
    "ndarray", "np", "np_array", "np_shape", "npx", "num_gpus", "numpy", "numpy_extension",
    "onnx", "operator", "opt", "optimizer", "parallel", "profiler", "random", "recordio",
    "registry", "rnd", "rnn", "rtc", "runtime",
    "set_np_shape", "sym", "symbol", "test_utils", "use_np", "use_np_array", "use_np_shape",
    "util", "visualization", "viz", "waitall",
]  # fmt: skip

setattr(ndarray, "CachedOp", _CachedOp)  # noqa: B010 - of symbols, which need mx.nd
for _name, _module in (("np", numpy), ("npx", numpy_extension)):
    setattr(ndarray, _name, _module)

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)

# Processes with the role of a server or scheduler run here and then exit.
kvstore_server._init_kvstore_server_module()
