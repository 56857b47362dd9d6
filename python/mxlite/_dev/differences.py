"""Reasons why names of MXNet 1.9.1 differ here; ``docs/migrate/compat.md`` prints them.

Keys are full names of 1.9.1 (``mxnet.module.name`` or ``mxnet.module.Class.member``); a trailing
``*`` stands for the rest. What a signature shows (parameters that are not taken) is found by the
generator and needs no entry. Parameters with no meaning here that are accepted are no difference.
"""

from __future__ import annotations

_REGIONS = (
    "a region of an image that data lacks is an IndexError (1.9.1: reads foreign memory), a region "
    "with NaN is NaN"
)

DIFFERENCES: dict[str, str] = {
    # Faults of 1.9.1 that no script can rely on.
    "mxnet.ndarray.Activation": "relu keeps NaN (1.9.1: 0)",
    "mxnet.ndarray.relu": "keeps NaN (1.9.1: 0)",
    "mxnet.ndarray.Pooling": "a window with NaN gives NaN (1.9.1 dropped it from the maximum)",
    "mxnet.ndarray.mean": "float16 is summed in float32 (1.9.1: NaN above 65504)",
    "mxnet.ndarray.sum": "float16 is summed in float32 (1.9.1: overflow inside the sum)",
    "mxnet.ndarray.norm": "gradient at 0 is 0 (1.9.1: NaN)",
    "mxnet.ndarray.arcsinh": "second derivative with the right sign",
    "mxnet.ndarray.ROIPooling": "NaN and -inf in a bin are kept (1.9.1: -3.4e38); " + _REGIONS,
    "mxnet.ndarray.contrib.ROIAlign": _REGIONS,
    "mxnet.ndarray.contrib.RROIAlign": "has a gradient; " + _REGIONS,
    "mxnet.ndarray.contrib.PSROIPooling": _REGIONS,
    "mxnet.ndarray.contrib.DeformablePSROIPooling": _REGIONS,
    "mxnet.ndarray.GridGenerator": "an axis of one pixel has coordinate 0 (1.9.1: NaN or inf)",
    "mxnet.ndarray.SpatialTransformer": "an axis of one pixel has coordinate 0 (1.9.1: NaN)",
    "mxnet.ndarray.contrib.DeformableConvolution": "a NaN offset gives NaN (1.9.1: 0)",
    "mxnet.ndarray.contrib.ModulatedDeformableConvolution": "has a gradient on the CPU, too; a NaN "
    "offset gives NaN (1.9.1: 0)",
    "mxnet.ndarray.contrib.count_sketch": "also runs on the CPU (1.9.1: GPU only)",
    "mxnet.ndarray.contrib.fft": "also runs on the CPU (1.9.1: GPU only), any number of dimensions",
    "mxnet.ndarray.contrib.ifft": "also runs on the CPU (1.9.1: GPU only), any number of "
    "dimensions",
    "mxnet.ndarray.contrib.hawkesll": "state, lags and max_time have gradients, too; a mark out of "
    "range is an IndexError (1.9.1: reads foreign memory)",
    "mxnet.ndarray.IdentityAttachKLSparseReg": "takes moving_avg as an array, and data of more "
    "than two dimensions; the mean moves in forward (1.9.1: in backward)",
    "mxnet.ndarray.contrib.SyncBatchNorm": "ndev is the number of devices of all processes of the "
    "job, which share statistics (1.9.1: of one process); the call does not wait for other "
    "devices, so one thread may make them all (1.9.1: waits for ever)",
    "mxnet.gluon.contrib.nn.SyncBatchNorm": "num_devices may be that of all processes, which then "
    "share statistics (1.9.1: of one process); one thread may run the devices one after another "
    "(1.9.1: waits for ever)",
    # Refusals.
    "mxnet.util.set_np": "switches the whole process (1.9.1: the thread)",
    "mxnet.library.load": "libraries for MXNet's C interface are refused",
    "mxnet.libinfo.find_include_path": "refused: mxlite installs no C headers",
    "mxnet.libinfo.find_conf_path": "refused: there are no operators made by TVM",
    # Other behaviour.
    "mxnet.base.add_fileline_to_docstring": "accepted, does nothing",
    "mxnet.autograd.record": "assignments to arrays and slices are recorded (1.9.1: an error)",
    "mxnet.engine.*": "the size is kept; nothing is bulked, hybridized blocks are one task",
    "mxnet.random.seed": "other numbers than 1.9.1 for the same seed, the same on every device "
    "count; seed of one context as in 1.9.1",
    "mxnet.ndarray.random.normal": "impossible parameters are an error of the call, not of a wait",
    "mxnet.gluon.rnn.rnn_cell.RecurrentCell.unroll": "over symbols, states begin as zeros made "
    "from the input, not as a `_zeros` node of unknown size",
    "mxnet.kvstore.create": "an unknown name is a ValueError (1.9.1: a local store); dist_sync "
    "under mpirun needs no servers",
    "mxnet.kvstore.KVStore": "updaters get str keys as str (1.9.1: bytes); a value of another "
    "shape is refused; gradient compression knows 1bit, too",
    "mxnet.module.module.Module": "predict and forward take batches without labels; the bias of a "
    "FullyConnected with a fixed weight has a gradient (1.9.1: 0)",
    "mxnet.monitor.Monitor": "with monitor_all inputs of operators in forward, not in backward",
    "mxnet.runtime.Feature": "a Python object, no ctypes structure",
}
