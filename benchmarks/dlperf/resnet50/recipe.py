"""Constants of the training step that all systems share (Python 3.8 and later)."""

import numpy as np
import peer_values

# The rate is multiplied by the number of ranks, whose gradients are averaged. See step.md.
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 1e-6, 0.875, 3.0518e-5
LOSS_SCALE = 128.0  # for float16
CLASSES = 1000
MEAN, STD = (123.68, 116.779, 103.939), (58.393, 57.12, 57.375)
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
JITTER, PCA_NOISE = 0.4, 0.1


def resident_batch(spec):
    """Return the images and labels that lie on the device of this rank.

    Parameters
    ----------
    spec : dict
        ``case``, ``rank`` and ``ranks``.

    Returns
    -------
    tuple of numpy.ndarray
        float32 of shape (batch, 3, size, size) and int64 of shape (batch,).
    """
    case, rank = spec["case"], spec["rank"]
    part = slice(rank * case["batch"], (rank + 1) * case["batch"])
    total = case["batch"] * spec["ranks"]
    labels = np.arange(total) * 37 % CLASSES
    return peer_values.images(total, case["size"])[part], labels[part].astype(np.int64)


def shapes(spec):
    """Return the shape of every parameter by its name."""
    return {name: shape for layer in spec["layers"] for name, shape in layer["params"].values()}
