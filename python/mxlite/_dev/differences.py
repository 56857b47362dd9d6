"""How names of MXNet 1.9.1 behave differently here: the reasons that ``docs/compat.md`` prints.

Keys are full names of 1.9.1 (``mxnet.module.name`` or ``mxnet.module.Class.member``); a trailing
``*`` stands for the rest. What a signature shows (parameters that are not taken) is found by the
generator and needs no entry. Parameters with no meaning here that are accepted are no difference.
"""

from __future__ import annotations

_NUMPY_MODE = "numpy mode is not part of mxlite: off is accepted, on raises NotSupportedError"

DIFFERENCES: dict[str, str] = {
    # Faults of 1.9.1 that no script can rely on.
    "mxnet.ndarray.Activation": "relu keeps NaN (1.9.1: 0)",
    "mxnet.ndarray.relu": "keeps NaN (1.9.1: 0)",
    "mxnet.ndarray.Pooling": "a window with NaN gives NaN (1.9.1 dropped it from the maximum)",
    "mxnet.ndarray.mean": "float16 is summed in float32 (1.9.1: NaN above 65504)",
    "mxnet.ndarray.sum": "float16 is summed in float32 (1.9.1: overflow inside the sum)",
    "mxnet.ndarray.norm": "gradient at 0 is 0 (1.9.1: NaN)",
    "mxnet.ndarray.arcsinh": "second derivative with the right sign",
    # Refusals.
    "mxnet.util.set_np*": _NUMPY_MODE,
    "mxnet.util.use_np*": _NUMPY_MODE,
    "mxnet.util.np_shape": _NUMPY_MODE,
    "mxnet.util.np_array": _NUMPY_MODE,
    "mxnet.np_shape": _NUMPY_MODE,
    "mxnet.np_array": _NUMPY_MODE,
    "mxnet.set_np_shape": _NUMPY_MODE,
    "mxnet.use_np*": _NUMPY_MODE,
    "mxnet.library.load": "libraries for MXNet's C interface are refused",
    "mxnet.libinfo.find_include_path": "refused: mxlite installs no C headers",
    "mxnet.libinfo.find_conf_path": "refused: there are no operators made by TVM",
    # Other behaviour.
    "mxnet.base.add_fileline_to_docstring": "accepted, does nothing",
    "mxnet.ndarray.ndarray.NDArray.__setitem__": "recorded by autograd (1.9.1: an error)",
    "mxnet.engine.*": "the size is kept; nothing is bulked, hybridized blocks are one task",
    "mxnet.random.seed": "other numbers than 1.9.1 for the same seed, the same on every device "
    "count; seed of one context as in 1.9.1",
    "mxnet.runtime.Feature": "a Python object, no ctypes structure",
}

# Parameters that say how CUDA or the 1.x engine should work: not taking them harms no script.
HINTS = frozenset({"workspace", "cudnn_tune", "cudnn_off", "name", "out", "attr"})
