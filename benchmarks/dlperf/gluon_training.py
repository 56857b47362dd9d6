"""Shared parts of the trainings in Gluon's API (Python 3.8 and later)."""

import peer_values


def device_memory(mx):
    """Return the MiB of the GPU that are in use, as the driver reports it; {} on a CPU."""
    if peer_values.DEVICE != "gpu":
        return {}
    free, total = mx.context.gpu_memory_info(0)
    return {"driver_mib": (total - free) / 2**20}


class GluonTraining:
    """A network with its trainer and its batches.

    Parameters
    ----------
    mx : module
        mxnet or mxlite.
    net : HybridBlock
        With its parameters filled; it is moved to the device and cast.
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    loss_scale : float
        Factor of the loss in float16.
    """

    def __init__(self, mx, net, spec, loss_scale):
        self.version = mx.__version__
        self.wait = mx.nd.waitall
        self.synchronous = False
        self._mx, self._spec = mx, spec
        dtype = spec["case"]["dtype"]
        self._dtype = "float32" if dtype == "tf32" else dtype
        self._scale = loss_scale if self._dtype == "float16" else 1.0
        self._device = mx.gpu(0) if peer_values.DEVICE == "gpu" else mx.cpu(0)
        net.collect_params().reset_ctx(self._device)
        mx.nd.waitall()
        if self._dtype != "float32":
            net.cast(self._dtype)

    def _scaled(self, loss):
        return loss * self._scale if self._scale != 1 else loss

    def fetch(self, loss):
        """Return a loss as a float, once its step has been computed."""
        return float(loss.asscalar())

    def device_memory(self):
        """Return the MiB of the GPU that are in use; see :func:`device_memory`."""
        return device_memory(self._mx)
