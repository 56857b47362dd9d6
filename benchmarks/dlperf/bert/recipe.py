"""Constants, parameters and batches of the training step (Python 3.8 and later)."""

import re
import zlib

import numpy as np

from ..examples import load_example

VOCABULARY, POSITIONS = 30522, 512
MASK_SHARE, MOST_MASKS = 0.15, 80
LEARNING_RATE, BETAS, EPSILON, WEIGHT_DECAY, MAX_NORM = 1e-4, (0.9, 0.999), 1e-6, 0.01, 1.0
LOSS_SCALE = 128.0  # for float16
DROPOUT = 0.1
# The first steps, whose losses are compared, have no dropout; worker.py runs them before it
# measures.
STEPS_WITHOUT_DROPOUT = 5
NORM_EPSILON = 1e-12
KEYS = (
    "input_ids",
    "segment_ids",
    "valid_lengths",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)


def sizes(spec):
    """Return layers, units and heads of the network."""
    found = re.match(r"bert_(\d+)_(\d+)_(\d+)$", spec["network"])
    if found is None:
        raise ValueError("bert: network must be bert_L_U_H, got {!r}".format(spec["network"]))
    return tuple(int(number) for number in found.groups())


def masks(size):
    """Return the number of masks of a sequence with a number of tokens."""
    return min(MOST_MASKS, int(round(size * MASK_SHARE)) + 1)


def shapes(spec):
    """Return the shape of every parameter by PyTorch's name of BertForPreTraining."""
    layers, units, _ = sizes(spec)
    found = {
        "bert.embeddings.word_embeddings.weight": (VOCABULARY, units),
        "bert.embeddings.position_embeddings.weight": (POSITIONS, units),
        "bert.embeddings.token_type_embeddings.weight": (2, units),
        "cls.predictions.bias": (VOCABULARY,),
    }

    def add(name, *shape):
        found[name + ".weight"], found[name + ".bias"] = shape, shape[:1]

    add("bert.embeddings.LayerNorm", units)
    for number in range(layers):
        layer = f"bert.encoder.layer.{number}."
        for part in ("query", "key", "value"):
            add(layer + "attention.self." + part, units, units)
        add(layer + "attention.output.dense", units, units)
        add(layer + "attention.output.LayerNorm", units)
        add(layer + "intermediate.dense", 4 * units, units)
        add(layer + "output.dense", units, 4 * units)
        add(layer + "output.LayerNorm", units)
    add("bert.pooler.dense", units, units)
    add("cls.predictions.transform.dense", units, units)
    add("cls.predictions.transform.LayerNorm", units)
    add("cls.seq_relationship", 2, units)
    return found


def values(spec):
    """Return the values of every parameter: Normal(0.02), biases 0, LayerNorm's factors 1."""
    found = {}
    for name, shape in shapes(spec).items():
        if name.endswith("LayerNorm.weight"):
            found[name] = np.ones(shape, np.float32)
        elif name.endswith("bias"):
            found[name] = np.zeros(shape, np.float32)
        else:
            random = np.random.RandomState(zlib.crc32(name.encode()))
            found[name] = random.normal(0, 0.02, shape).astype(np.float32)
    return found


def decays(name):
    """Return whether a parameter has weight decay, by its name in any of the networks."""
    return not name.endswith(("bias", "beta", "gamma")) and "LayerNorm" not in name


def make_samples(count, size, seed=0):
    """Return samples of Zipf-distributed tokens in the arrays of gluon-nlp's files.

    Half of the sequences are as long as possible, the others have half of that length at least.
    """
    random = np.random.RandomState(seed)
    found = {key: [] for key in KEYS}
    special = 5
    for number in range(count):
        length = size if random.rand() < 0.5 else random.randint(size // 2, size + 1)
        tokens = special + (random.zipf(1.2, length) - 1) % (VOCABULARY - special)
        tokens[0], tokens[-1] = 2, 3
        positions = 1 + np.sort(random.permutation(length - 2)[: masks(length) - 1])
        found["masked_lm_ids"].append(tokens[positions].astype(np.int32))
        tokens[positions] = 4
        found["input_ids"].append(tokens.astype(np.int32))
        found["segment_ids"].append((np.arange(length) >= length // 2).astype(np.int32))
        found["masked_lm_positions"].append(positions.astype(np.int32))
        found["masked_lm_weights"].append(np.ones(len(positions), np.float32))
        found["next_sentence_labels"].append(number % 2)
        found["valid_lengths"].append(length)
    return found


def example_modules():
    """Return the modules of the example that check and pad samples, which all systems use."""
    return load_example("bert", "pretraining_samples"), load_example("bert", "pretraining_batches")


def resident_batch(spec):
    """Return the batch that lies on the device of this rank, by gluon-nlp's names."""
    samples, batches = example_modules()
    case, rank = spec["case"], spec["rank"]
    made = make_samples(case["batch"] * spec["ranks"], case["size"])
    checked = samples.checked("resident samples", made, VOCABULARY, case["size"])
    rows = np.arange(rank * case["batch"], (rank + 1) * case["batch"])
    return batches.padded(checked, rows, case["size"], masks(case["size"]))


def write_number_arrays(checked, target):
    """Write samples to the path as arrays of numbers and lengths of rows.

    The workers of all systems read them with NumPy alone, unlike gluon-nlp's files of objects.
    """
    samples, _ = example_modules()
    arrays = {key: getattr(checked, key) for key in samples.ROW_KEYS}
    for key in samples.TOKEN_KEYS + samples.MASK_KEYS:
        rows = getattr(checked, key)
        arrays[key] = np.concatenate(rows)
        arrays[key + "_lengths"] = np.array([len(row) for row in rows])
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        np.savez(file, **arrays)
    partial.replace(target)


def _read_number_arrays(path):
    """Return the samples of a file of ``write_number_arrays``."""
    samples, _ = example_modules()
    with np.load(path) as file:
        arrays = {key: file[key] for key in samples.ROW_KEYS}
        for key in samples.TOKEN_KEYS + samples.MASK_KEYS:
            ends = np.cumsum(file[key + "_lengths"])
            arrays[key] = np.split(file[key], ends[:-1])
    return samples.Samples(**arrays)


def file_batches(spec):
    """Return an endless iterator over padded batches of the samples in ``spec["record"]``."""
    _, batches = example_modules()
    case = spec["case"]
    read = _read_number_arrays(spec["record"])
    return batches.Batches(
        read, case["batch"], 1, case["size"], 0, spec["rank"], spec["ranks"]
    )  # fmt: skip
