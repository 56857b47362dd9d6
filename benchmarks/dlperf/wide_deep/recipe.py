"""Constants, values and batches of the training step (Python 3.8 and later)."""

import re
import zlib

import numpy as np

NUMBERS, WIDE_FIELDS, DEEP_FIELDS, HIDDEN, DROPOUT = 13, 2, 26, 1024, 0.5
WIDE_SHARE = 0.5  # rows of the wide table for each row of the deep table
LEARNING_RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8
TABLE_SCALE = 0.05
SEEDS = {"wide": 1, "deep": 2}
BATCHES = 8  # different batches, used in turn
# The first steps, whose losses are compared, have no dropout; worker.py runs them before it
# measures.
STEPS_WITHOUT_DROPOUT = 5


def sizes(spec):
    """Return the length of a deep row and the number of hidden layers: ``wdl_<dim>_<layers>``."""
    found = re.match(r"wdl_(\d+)_(\d+)$", spec["case"]["network"])
    if found is None:
        raise ValueError(
            "wide_deep: network must be wdl_DIM_LAYERS, got {!r}".format(spec["case"]["network"])
        )
    return tuple(int(number) for number in found.groups())


def rows(spec):
    """Return the rows of the wide and the deep table; the size of a case is those of the deep."""
    return {"wide": max(1, int(spec["case"]["size"] * WIDE_SHARE)), "deep": spec["case"]["size"]}


def batches(spec):
    """Return batches of this rank: labels, numbers, ids of both tables; synthetic, uniform ids.

    Uniform ids are the worst case for caches: nearly all ids of a batch are distinct.
    """
    count, tables = spec["case"]["batch"], rows(spec)
    found = []
    for number in range(BATCHES):
        random = np.random.RandomState(1000 * spec["rank"] + number)
        found.append(
            {
                "labels": (random.rand(count) < 0.25).astype(np.float32),
                "numbers": random.rand(count, NUMBERS).astype(np.float32),
                "wide": random.randint(0, tables["wide"], (count, WIDE_FIELDS)),
                "deep": random.randint(0, tables["deep"], (count, DEEP_FIELDS)),
            }
        )
    return found


def dense_values(spec):
    """Return weights and biases of the dense layers: Glorot uniform, 0."""
    dim, layers = sizes(spec)
    widths = [DEEP_FIELDS * dim + NUMBERS] + [HIDDEN] * layers + [1]
    found = []
    for number, (inside, outside) in enumerate(zip(widths, widths[1:])):
        random = np.random.RandomState(zlib.crc32(b"dense%d" % number))
        limit = np.sqrt(6 / (inside + outside))
        weight = random.uniform(-limit, limit, (outside, inside)).astype(np.float32)
        found.append((weight, np.zeros(outside, np.float32)))
    return found


def _mixed(x):
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def initial_rows(ids, dim, seed):
    """Return the initial rows of ids as ``ShardedEmbedding`` defines them, (ids, dim)."""
    key = _mixed(np.asarray(ids, np.uint64) ^ _mixed(np.uint64(seed)))[:, None]
    with np.errstate(over="ignore"):
        columns = np.arange(dim, dtype=np.uint32) * np.uint32(0x9E3779B9)
        x = key.astype(np.uint32) + columns
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    x = x ^ (x >> np.uint32(16)) ^ (key >> np.uint64(32)).astype(np.uint32)
    step = np.float32(TABLE_SCALE * 2.0**-23)
    return (x.view(np.int32) >> 8).astype(np.float32) * step
