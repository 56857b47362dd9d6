"""Functions of ``mx.sym.contrib`` made of several operators."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from . import random
from .symbol import Symbol

__all__ = ["SparseEmbedding", "rand_zipfian"]

_embedding = _core.op("_contrib_SparseEmbedding", composes=True)


def SparseEmbedding(  # noqa: N802 - the operator's name
    data: Symbol | None = None,
    weight: Symbol | None = None,
    input_dim: int | None = None,
    output_dim: int | None = None,
    dtype: Any = "float32",
    sparse_grad: bool = True,
    name: str | None = None,
    attr: Any = None,
    out: Any = None,
    deterministic: bool = False,
) -> Symbol:
    """Look up rows of a table with a row-sparse gradient; see ``mx.nd.contrib.SparseEmbedding``.

    ``attr``, a dict of str to str, holds the node's attributes; ``out`` has no effect.
    """
    params = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype}
    return _embedding(data, weight, **params, name=name, attr=attr)


def rand_zipfian(
    true_classes: Symbol, num_sampled: int, range_max: int
) -> tuple[Symbol, Symbol, Symbol]:
    """Draw classes from an approximately Zipfian distribution; see ``mx.nd.contrib.rand_zipfian``.

    Parameters
    ----------
    true_classes : Symbol, shape (n,)
    num_sampled : int
        Number of classes to draw, with replacement.
    range_max : int
        Number of classes.

    Returns
    -------
    samples : Symbol of int64, shape (num_sampled,)
    expected_count_true : Symbol of float64, shape (n,)
    expected_count_sample : Symbol of float64, shape (num_sampled,)
    """
    log_range = math.log(range_max + 1)
    draws = random.uniform(0, log_range, shape=(num_sampled,), dtype="float64")
    samples = (draws.exp() - 1).astype("int64") % range_max

    def expected_count(classes: Symbol) -> Symbol:
        exact = classes.astype("float64")
        return ((exact + 2) / (exact + 1)).log() * (num_sampled / log_range)

    return samples, expected_count(true_classes), expected_count(samples)
