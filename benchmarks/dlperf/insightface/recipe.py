"""Constants, options and records of the training step (Python 3.8 and later)."""

import re

import numpy as np

from ..examples import load_example

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 1e-3, 0.9, 5e-4
MARGINS, SCALE, DROPOUT = "1,0.5,0", 64.0, 0.4
PATCH, NOISE = 14, 12.0  # side of a patch in pixels, standard deviation of the noise


def sizes(case):
    """Return the network and the number of classes of ``<network>_<classes>``."""
    found = re.match(r"([a-z]+\d+)_(\d+)$", case["network"])
    if found is None:
        raise ValueError(
            "insightface: network must be NETWORK_CLASSES, got {!r}".format(case["network"])
        )
    return found.group(1), int(found.group(2))


def division(case):
    """Return whether each rank has all classes, and the share of classes that a step uses."""
    if case["mode"] == "data":
        return True, 1.0
    found = re.match(r"(?:model|partial_(\d*\.?\d+))$", case["mode"])
    if found is None:
        raise ValueError(
            "insightface: mode must be data, model or partial_SHARE, got {!r}".format(case["mode"])
        )
    return False, float(found.group(1) or 1)


def write_records(path, case, count):
    """Write a face set with ``count`` JPEG images of patches with noise; most classes are empty.

    The set is ``path`` with ``.rec`` and ``.idx``. Images belong to evenly spaced classes.
    """
    from mxlite import recordio

    (_, classes), side = sizes(case), case["size"]
    random = np.random.RandomState(1)
    identities = [[] for _ in range(classes)]
    for label in np.linspace(0, classes - 1, count).astype(int):
        patches = random.randint(0, 256, (-(-side // PATCH), -(-side // PATCH), 3))
        pixels = patches.repeat(PATCH, 0).repeat(PATCH, 1)[:side, :side]
        pixels = (pixels + random.normal(0, NOISE, pixels.shape)).clip(0, 255).astype(np.uint8)
        packed = recordio.pack_img(recordio.IRHeader(0, 0.0, 0, 0), pixels)
        identities[label].append(recordio.unpack(packed)[1])
    load_example("insightface", "faces").write_face_records(str(path) + ".rec", identities)
