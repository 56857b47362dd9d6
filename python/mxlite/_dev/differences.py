"""Reasons why names of MXNet 1.9.1 differ here; ``docs/migrate/compat.md`` prints them.

Keys are full names of 1.9.1 (``mxnet.module.name`` or ``mxnet.module.Class.member``); a trailing
``*`` stands for all names with this beginning. Parameters that a function does not take need no
entry, because the generator finds them. Parameters that are accepted without an effect are no
difference.
"""

from __future__ import annotations

_REGIONS = (
    "raises an IndexError if a region names an image that is not in data (1.9.1 reads memory "
    "outside of the array); a region with NaN gives NaN"
)
_FFT = "also runs on the CPU (1.9.1: GPU only); data may have any number of dimensions"

DIFFERENCES: dict[str, str] = {
    # Faults of 1.9.1 that no script can rely on.
    "mxnet.ndarray.Activation": "relu of NaN is NaN (1.9.1: 0)",
    "mxnet.ndarray.relu": "relu of NaN is NaN (1.9.1: 0)",
    "mxnet.ndarray.Pooling": "a window with NaN gives NaN (1.9.1 ignores NaN)",
    "mxnet.ndarray.mean": "float16 is summed in float32 (1.9.1: NaN above 65504)",
    "mxnet.ndarray.sum": "float16 is summed in float32 (1.9.1: overflow inside the sum)",
    "mxnet.ndarray.norm": "the gradient at 0 is 0 (1.9.1: NaN)",
    "mxnet.ndarray.arcsinh": "the sign of the second derivative is correct",
    "mxnet.ndarray.ROIPooling": "a bin with NaN or -inf keeps this value (1.9.1: -3.4e38); "
    + _REGIONS,
    "mxnet.ndarray.contrib.ROIAlign": _REGIONS,
    "mxnet.ndarray.contrib.RROIAlign": "has a gradient; " + _REGIONS,
    "mxnet.ndarray.contrib.PSROIPooling": _REGIONS,
    "mxnet.ndarray.contrib.DeformablePSROIPooling": _REGIONS,
    "mxnet.ndarray.GridGenerator": "an axis of one pixel has coordinate 0 (1.9.1: NaN or inf)",
    "mxnet.ndarray.SpatialTransformer": "an axis of one pixel has coordinate 0 (1.9.1: NaN)",
    "mxnet.ndarray.contrib.DeformableConvolution": "an offset of NaN gives NaN (1.9.1: 0)",
    "mxnet.ndarray.contrib.ModulatedDeformableConvolution": "has a gradient on the CPU, too; an "
    "offset of NaN gives NaN (1.9.1: 0)",
    "mxnet.ndarray.contrib.count_sketch": "also runs on the CPU (1.9.1: GPU only)",
    "mxnet.ndarray.contrib.fft": _FFT,
    "mxnet.ndarray.contrib.ifft": _FFT,
    "mxnet.ndarray.contrib.hawkesll": "state, lags and max_time have gradients, too; raises an "
    "IndexError for a mark that is out of range (1.9.1 reads memory outside of the array)",
    "mxnet.ndarray.IdentityAttachKLSparseReg": "takes moving_avg as an array; data may have "
    "more than two dimensions; the mean is updated in forward (1.9.1: in backward)",
    "mxnet.ndarray.contrib.SyncBatchNorm": "the devices of all processes of the job share "
    "statistics, and ndev is their number (1.9.1: devices of one process); a call does not wait "
    "for other devices, so one thread may call them in turn (1.9.1: waits forever)",
    "mxnet.gluon.contrib.nn.SyncBatchNorm": "num_devices may be the number of devices of all "
    "processes, which then share statistics (1.9.1: devices of one process); one thread may run "
    "the devices in turn (1.9.1: waits forever)",
    # Names that raise an error or affect more than in 1.9.1.
    "mxnet.util.set_np": "switches the whole process (1.9.1: the calling thread)",
    "mxnet.library.load": "does not load libraries for MXNet's C interface",
    "mxnet.libinfo.find_include_path": "raises an error, because the headers of MXNet are not "
    "installed",
    "mxnet.libinfo.find_conf_path": "raises an error, because mxlite has no operators of TVM",
    # Other behaviour.
    "mxnet.base.add_fileline_to_docstring": "has no effect",
    "mxnet.autograd.record": "assignments to arrays and slices are recorded (1.9.1: an error)",
    "mxnet.engine.*": "the size is stored without effect; a hybridized block is one task anyway",
    "mxnet.random.seed": "the same seed gives other numbers than 1.9.1; they do not depend on the "
    "number of devices; the seed of a single context works as in 1.9.1",
    "mxnet.ndarray.random.normal": "the call checks the parameters (1.9.1: a later wait raises the "
    "error)",
    "mxnet.gluon.rnn.rnn_cell.RecurrentCell.unroll": "for symbols, the first states are zeros that "
    "are computed from the input (1.9.1: a `_zeros` node of unknown size)",
    "mxnet.kvstore.create": "an unknown name raises a ValueError (1.9.1: a local store); under "
    "mpirun, dist_sync needs no servers",
    "mxnet.kvstore.KVStore": "updaters get str keys as str (1.9.1: bytes); a value of another "
    "shape is an error; gradient compression supports 1bit, too",
    "mxnet.module.module.Module": "predict and forward accept batches without labels; if the "
    "weight of a FullyConnected is fixed, its bias has a gradient (1.9.1: 0)",
    "mxnet.monitor.Monitor": "monitor_all shows the inputs of operators only in forward",
    "mxnet.runtime.Feature": "a Python object, not a ctypes structure",
}
