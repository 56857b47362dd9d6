"""Parameters and images that every process of the comparison makes alike (Python 3.8 and later)."""

import zlib

import numpy as np

BERT = "bert-base"  # the network that reads tokens, 128 unless its name ends with another number
DEVICE = "cpu"  # or "gpu", the first one; set by the worker before a system is loaded


def bert_length(network):
    """Return the tokens of a sequence of ``bert-base`` or ``bert-base-<tokens>``.

    Parameters
    ----------
    network : str
        A name on the command line.

    Returns
    -------
    int or None
        None for another network.

    Raises
    ------
    ValueError
        The name ends with something else than a positive number.
    """
    if network == BERT:
        return 128
    if not network.startswith(BERT + "-"):
        return None
    tokens = network[len(BERT) + 1 :]
    if not tokens.isdigit() or int(tokens) < 1:
        raise ValueError(f"network must be {BERT}-<tokens>, such as {BERT}-512, got {network!r}")
    return int(tokens)


def parameter(name, shape):
    """Return the values of a parameter; they depend on its name and shape only.

    Parameters
    ----------
    name : str
        Dotted name in the network.
    shape : sequence of int
        Its shape.

    Returns
    -------
    numpy.ndarray
        float32; weights keep the size of activations about constant through the layers.
    """
    random = np.random.RandomState(zlib.crc32(name.encode()))
    kind = name.rsplit(".", 1)[-1]
    if kind == "weight":
        middle, span = 0.0, np.sqrt(6.0 / np.prod(shape[1:]))
    elif kind in ("gamma", "running_var"):
        middle, span = 1.0, 0.2
    else:
        middle, span = 0.0, 0.1
    values = np.empty(int(np.prod(shape)), np.float32)
    # The values are made in pieces, because the largest weight in float64 would dominate the
    # measured peak memory.
    for begin in range(0, values.size, 1 << 20):
        piece = values[begin : begin + (1 << 20)]
        piece[:] = random.uniform(middle - span, middle + span, piece.size)
    return values.reshape(shape)


def inputs(spec, batch):
    """Return the input of a network.

    Parameters
    ----------
    spec : dict
        ``size`` and ``layers``: the first layer shows whether inputs are images or tokens.
    batch : int
        Number of images or sequences.

    Returns
    -------
    numpy.ndarray
        :func:`images`, or int32 token ids of shape ``(batch, size)``.
    """
    first = spec["layers"][0]
    if first["op"] != "embedding":
        return images(batch, spec["size"])
    vocabulary = first["params"]["weight"][1][0]
    random = np.random.RandomState(batch)
    return random.randint(0, vocabulary, (batch, spec["size"])).astype(np.int32)


def queries_keys_values(array, heads):
    """Return the three parts of an interleaved projection's weight or bias.

    Parameters
    ----------
    array : numpy.ndarray
        Rows of the queries, keys and values of one head follow each other.
    heads : int
        Attention heads.

    Returns
    -------
    list of numpy.ndarray
        Each contiguous, a third of the rows.
    """
    parts = array.reshape(heads, 3, -1, *array.shape[1:])
    return [np.ascontiguousarray(parts[:, i]).reshape(-1, *array.shape[1:]) for i in range(3)]


def images(batch, size):
    """Return random images.

    Parameters
    ----------
    batch : int
        Number of images.
    size : int
        Height and width.

    Returns
    -------
    numpy.ndarray
        float32 of shape ``(batch, 3, size, size)``, uniform in [-1, 1).
    """
    random = np.random.RandomState(batch)
    return random.uniform(-1, 1, (batch, 3, size, size)).astype(np.float32)
