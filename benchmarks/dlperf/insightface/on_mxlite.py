"""Face recognition on mxlite: the training of ``examples/insightface``."""

import mxlite as mx

from ..examples import load_example
from ..gluon_training import ExampleTraining
from . import recipe

train, faces = load_example("insightface", "train"), load_example("insightface", "faces")


class Training(ExampleTraining):
    """The example's training with the network, classes and images of a case.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    """

    def __init__(self, spec):
        case = spec["case"]
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
        }
        super().__init__(mx, spec, train, options)
        self._steps = 0

    def read_records(self):
        """Take the images of later steps from the file of records."""
        self._options.rec = self._spec["record"] + ".rec"
        mesh = self._training.mesh
        images = faces.FaceImages(self._options, mesh.coordinate("data"), mesh.axis_size("data"))
        self._training.images = images

    def step(self):
        """Queue a step; return its losses, which :meth:`fetch` reads."""
        self._steps += 1
        return self._training.step(self._steps - 1)

    def fetch(self, losses):
        """Return the mean loss of this rank's images, once the step has been computed."""
        return float(losses.mean().asscalar())


def prepare(spec, variant):
    """Return the training, ready for its first step; the only variant is ``"hybrid"``."""
    return Training(spec)
