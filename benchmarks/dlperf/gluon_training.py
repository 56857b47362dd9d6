"""Shared parts of the trainings in Gluon's API (Python 3.8 and later)."""

import peer_values


class Measured:
    """A model that worker.py measures; subclasses define ``step``, and ``read_records`` for files.

    Parameters
    ----------
    mx : module
        mxnet or mxlite.
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    synchronous : bool
        Whether the loss of a step is read before the next step begins.
    """

    def __init__(self, mx, spec, synchronous=False):
        self.version, self.wait, self.synchronous = mx.__version__, mx.nd.waitall, synchronous
        self._mx, self._spec = mx, spec
        dtype = spec["case"]["dtype"]
        self._dtype = "float32" if dtype == "tf32" else dtype

    def fetch(self, loss):
        """Return a loss as a float, once its step has been computed."""
        return float(loss.asscalar())

    def device_memory(self):
        """Return the MiB of the GPU that are in use, as the driver reports it; {} on a CPU."""
        if peer_values.DEVICE != "gpu":
            return {}
        free, total = self._mx.context.gpu_memory_info(0)
        return {"driver_mib": (total - free) / 2**20}


class ExampleTraining(Measured):
    """The training of a script in ``examples``, on the GPU if the case is for one.

    Parameters
    ----------
    mx, spec
        As in :class:`Measured`.
    script : module
        Has ``make_parser()``, whose options include ``--dtype``, and ``Training(options)``.
    options : dict
        Values of the script's options by their names.
    *flags : str
        Options without a value.
    """

    def __init__(self, mx, spec, script, options, *flags):
        super().__init__(mx, spec)
        use_device(mx)
        arguments = [f"--{name}={value}" for name, value in options.items()]
        arguments += [f"--dtype={self._dtype}", *flags]
        self._options = script.make_parser().parse_args(arguments)
        self._training = script.Training(self._options)


def use_device(mx):
    """Make the GPU the default context from here on if the case is for one."""
    if peer_values.DEVICE == "gpu":
        mx.gpu(0).__enter__()


class GluonTraining(Measured):
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
        super().__init__(mx, spec)
        self._scale = loss_scale if self._dtype == "float16" else 1.0
        self._device = mx.gpu(0) if peer_values.DEVICE == "gpu" else mx.cpu(0)
        net.collect_params().reset_ctx(self._device)
        mx.nd.waitall()
        if self._dtype != "float32":
            net.cast(self._dtype)

    def _scaled(self, loss):
        return loss * self._scale if self._scale != 1 else loss
