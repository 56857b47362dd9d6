"""Constants, parameters and batches of the training step (Python 3.8 and later)."""

import re
import zlib

import numpy as np

from ..examples import load_example

LEARNING_RATE, BETAS, EPSILON, WEIGHT_DECAY, MAX_NORM = 1e-4, (0.9, 0.999), 1e-8, 0.01, 1.0
LOSS_SCALE = 128.0  # for float16
DEVIATION, NORM_EPSILON = 0.02, 1e-5
PADDING = 128
SAMPLING = "sampling"
WRITTEN = 128  # tokens that sampling writes after a prompt, before it starts again


def sizes(spec):
    """Return layers, units, heads and tokens of the vocabulary."""
    found = re.match(r"gpt_(\d+)_(\d+)_(\d+)_(\d+)$", spec["network"])
    if found is None:
        raise ValueError("gpt: network must be gpt_L_U_H_V, got {!r}".format(spec["network"]))
    if int(found.group(4)) % PADDING:
        raise ValueError(
            f"gpt: network must have a vocabulary that {PADDING} divides, to which examples/gpt "
            f"pads, got {spec['network']!r}"
        )
    return tuple(int(number) for number in found.groups())


def division(spec):
    """Return ranks along data, tensor and pipeline, the micro batch or None, and recomputation."""
    mode = spec["case"]["mode"]
    if not mode:
        return (spec["ranks"], 1, 1), None, False
    found = re.match(r"(\d+)x(\d+)x(\d+)(?:_m(\d+))?(_recompute)?$", mode)
    if found is None:
        raise ValueError(f"gpt: mode must be DATAxTENSORxPIPELINE, _mN, _recompute, got {mode!r}")
    data, tensor, pipeline, micro = (number and int(number) for number in found.groups()[:4])
    return (data, tensor, pipeline), micro, bool(found.group(5))


def positions(spec):
    """Return the rows of the position table."""
    case = spec["case"]
    return case["size"] + (WRITTEN if case["mode"] == SAMPLING else 0)


def shapes(spec):
    """Return the shape of every parameter by its name in mxlite's GPTModel."""
    layers, units, _, vocabulary = sizes(spec)
    found = {
        "word_embed.weight": (vocabulary, units),
        "position_embed.weight": (positions(spec), units),
    }

    def norm(name):
        found[name + ".gamma"] = found[name + ".beta"] = (units,)

    def dense(name, rows, columns):
        found[name + ".weight"], found[name + ".bias"] = (rows, columns), (rows,)

    for number in range(layers):
        layer = f"layers.{number}."
        norm(layer + "attention_norm")
        dense(layer + "attention.qkv", 3 * units, units)
        dense(layer + "attention.proj", units, units)
        norm(layer + "ffn_norm")
        dense(layer + "ffn.expand", 4 * units, units)
        dense(layer + "ffn.contract", units, 4 * units)
    norm("final_norm")
    return found


def values(spec):
    """Return the values of every parameter, which depend on its name and shape only."""
    narrow = DEVIATION / (2 * sizes(spec)[0]) ** 0.5
    found = {}
    for name, shape in shapes(spec).items():
        if name.endswith("gamma"):
            found[name] = np.ones(shape, np.float32)
        elif name.endswith(("beta", "bias")):
            found[name] = np.zeros(shape, np.float32)
        else:
            random = np.random.RandomState(zlib.crc32(name.encode()))
            is_narrow = name.endswith(("proj.weight", "contract.weight"))
            deviation = narrow if is_narrow else DEVIATION
            found[name] = random.normal(0, deviation, shape).astype(np.float32)
    return found


def random_tokens(vocabulary, shape, seed):
    """Return Zipf-distributed tokens."""
    random = np.random.RandomState(seed)
    return ((random.zipf(1.2, shape) - 1) % vocabulary).astype(np.int32)


def resident_batch(spec, copy, copies):
    """Return the inputs and targets of one of the network's data-parallel copies."""
    case = spec["case"]
    shape = (case["batch"] * copies, case["size"] + 1)
    rows = random_tokens(sizes(spec)[3], shape, 0)[copy * case["batch"] :][: case["batch"]]
    return rows[:, :-1], rows[:, 1:]


def prompt(spec):
    """Return the tokens that sampling begins with, (batch, size)."""
    case = spec["case"]
    return random_tokens(sizes(spec)[3], (case["batch"], case["size"]), 0)


def write_records(path, case, count):
    """Write documents of 64 to 1,023 random tokens to ``path`` with ``.bin`` and ``.idx``."""
    vocabulary = sizes(case)[3]
    lengths = np.random.RandomState(1).randint(64, 1024, count)
    tokens = random_tokens(vocabulary, lengths.sum(), 1)
    indexed = load_example("gpt", "indexed")
    indexed.write_indexed(path, np.split(tokens, np.cumsum(lengths)[:-1]), vocabulary)


def file_batches(spec, copy, copies):
    """Return an endless iterator over inputs and targets of the tokens in ``spec["record"]``."""
    indexed, case = load_example("gpt", "indexed"), spec["case"]
    tokens = indexed.IndexedTokens(spec["record"])
    documents = np.arange(len(tokens), dtype=np.int32)
    samples = indexed.Samples(tokens, documents, case["size"], 1, 0)
    first = copy * case["batch"]
    while True:
        yield samples.batch(range(first, first + case["batch"]))
        first += copies * case["batch"]
