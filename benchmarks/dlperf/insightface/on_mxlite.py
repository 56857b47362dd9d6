"""Face recognition on mxlite: the training of ``examples/insightface``."""

import mxlite as mx
import peer_values

from ..examples import load_example
from ..gluon_training import device_memory
from . import recipe

train, faces = load_example("insightface", "train"), load_example("insightface", "faces")


class Training:
    """The example's training with the network, classes and images of a case.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    """

    def __init__(self, spec):
        self.version, self.wait, self.synchronous = mx.__version__, mx.nd.waitall, False
        self._spec, case = spec, spec["case"]
        network, classes = recipe.sizes(case)
        is_replicated, share = recipe.division(case)
        options = {
            "network": network,
            "synthetic": classes,
            "image-size": case["size"],
            "batch-size": case["batch"],
            "head": "replicated" if is_replicated else "sharded",
            "sample-ratio": share,
            "margins": recipe.MARGINS,
            "scale": recipe.SCALE,
            "lr": recipe.LEARNING_RATE,
            "momentum": recipe.MOMENTUM,
            "wd": recipe.WEIGHT_DECAY,
            "dropout": recipe.DROPOUT,
            "threads": spec["threads"],
            "dtype": "float32" if case["dtype"] == "tf32" else case["dtype"],
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        self._args = train.make_parser().parse_args(arguments)
        self._training = train.Training(self._args)
        self._steps = 0

    def read_records(self):
        """Take the images of later steps from the file of records."""
        self._args.rec = self._spec["record"] + ".rec"
        mesh = self._training.mesh
        images = faces.FaceImages(self._args, mesh.coordinate("data"), mesh.axis_size("data"))
        self._training.images = images

    def step(self):
        """Queue a step; return its losses, which :meth:`fetch` reads."""
        self._steps += 1
        return self._training.step(self._steps - 1)

    def fetch(self, losses):
        """Return the mean loss of this rank's images, once the step has been computed."""
        return float(losses.mean().asscalar())

    def device_memory(self):
        """Return the MiB of the GPU that are in use; see :func:`device_memory`."""
        return device_memory(mx)


def prepare(spec, variant):
    """Return the training, ready for its first step; the only variant is ``"hybrid"``."""
    if peer_values.DEVICE == "gpu":
        mx.gpu(0).__enter__()  # the default context from here on
    return Training(spec)
