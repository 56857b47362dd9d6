"""``np.einsum``, and the contraction of two tensors that all products of this package use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .. import _core
from ..base import ShapeError, ValueError_
from .arguments import as_array, from_host, promoted, returned
from .ndarray import ndarray

__all__ = [
    "einsum",
]

_dot = _core.op("dot")
_batch_dot = _core.op("batch_dot")
_multiply = _core.op("broadcast_mul")
_transpose = _core.op("transpose")
_sum = _core.op("sum")
_cast = _core.op("Cast")
_take = _core.op("take")
_copy = _core.op("_copy")

Labels = tuple[Any, ...]


def operands_of(arrays: Sequence[Any], who: str) -> tuple[Sequence[ndarray], bool]:
    """Return operands in their common dtype, and whether bools are multiplied, as float32."""
    given = promoted([as_array(a, who) for a in arrays])
    if given[0].dtype != np.bool_:
        return given, False
    return [_cast(a, dtype="float32") for a in given], True


def finished(result: ndarray, is_bool: bool, out: Any, who: str) -> ndarray:
    if is_bool:
        result = _cast(result, dtype="bool")
    return returned(result, out, who)  # type: ignore[no-any-return]


def _ordered(a: ndarray, labels: Labels, wanted: Labels) -> ndarray:
    if labels == wanted:
        return a
    return _transpose(a, axes=tuple(labels.index(label) for label in wanted))


def _summed(a: ndarray, labels: Labels, kept: set[Any]) -> tuple[ndarray, Labels]:
    """Sum over the axes whose labels are not kept."""
    gone = tuple(i for i, label in enumerate(labels) if label not in kept)
    if not gone:
        return a, labels
    rest = tuple(label for label in labels if label in kept)
    shape = tuple(a.shape[i] for i, label in enumerate(labels) if label in kept)
    return _sum(a, axis=gone, keepdims=True)._reshape_view(shape), rest


def _without_ones(a: ndarray, labels: Labels, sizes: dict[Any, int]) -> tuple[ndarray, Labels]:
    """Drop axes of length 1 that broadcast."""
    kept = [i for i, label in enumerate(labels) if a.shape[i] == sizes[label]]
    if len(kept) == len(labels):
        return a, labels
    return a._reshape_view(tuple(a.shape[i] for i in kept)), tuple(labels[i] for i in kept)


def _matrices(
    a: ndarray, labels: Labels, batch: Labels, rows: Labels, cols: Labels
) -> tuple[ndarray, bool]:
    """Return (batch, rows, cols), or (batch, cols, rows) and True if that needs no transpose."""
    flipped = labels == (*batch, *cols, *rows) and labels != (*batch, *rows, *cols)
    if not flipped:
        a = _ordered(a, labels, (*batch, *rows, *cols))
    groups = (batch, cols, rows) if flipped else (batch, rows, cols)
    shape, at = [], 0
    for group in groups:
        shape.append(prod(a.shape[at : at + len(group)]))
        at += len(group)
    return a._reshape_view(tuple(shape if batch else shape[1:])), flipped


def _contract(
    a: ndarray, a_labels: Labels, b: ndarray, b_labels: Labels, kept: set[Any]
) -> tuple[ndarray, Labels]:
    """Multiply two labelled tensors and sum over all labels that are not kept."""
    sizes: dict[Any, int] = {}
    for label, n in [*zip(a_labels, a.shape), *zip(b_labels, b.shape)]:
        sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    a, a_labels = _without_ones(a, a_labels, sizes)
    b, b_labels = _without_ones(b, b_labels, sizes)
    a, a_labels = _summed(a, a_labels, kept | set(b_labels))
    b, b_labels = _summed(b, b_labels, kept | set(a_labels))
    shared = [label for label in a_labels if label in b_labels]
    batch = tuple(label for label in shared if label in kept)
    summed = tuple(label for label in shared if label not in kept)
    rows = tuple(label for label in a_labels if label not in shared)
    cols = tuple(label for label in b_labels if label not in shared)
    labels = (*batch, *rows, *cols)
    shape = tuple(sizes[label] for label in labels)
    if not summed:  # products of single elements
        a = _ordered(a, a_labels, (*batch, *rows))
        b = _ordered(b, b_labels, (*batch, *cols))
        a = a._reshape_view((*a.shape, *(1 for _ in cols)))
        b = b._reshape_view((*b.shape[: len(batch)], *(1 for _ in rows), *b.shape[len(batch) :]))
        return _multiply(a, b), labels
    left, left_flipped = _matrices(a, a_labels, batch, rows, summed)
    right, right_flipped = _matrices(b, b_labels, batch, summed, cols)
    product = (_batch_dot if batch else _dot)(
        left, right, transpose_a=left_flipped, transpose_b=right_flipped
    )
    return product._reshape_view(shape), labels


def product(a: ndarray, a_labels: Labels, b: ndarray, b_labels: Labels, wanted: Labels) -> ndarray:
    return _ordered(*_contract(a, a_labels, b, b_labels, set(wanted)), wanted)


def _parse(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[Labels], Labels]:
    """Return the labels of every operand and of the result; an ellipsis stands for numbers."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError_(
            f"einsum: '{subscripts}' has {len(terms)} operands, got {len(shapes)} arrays"
        )
    operands: list[Labels] = []
    widest = 0
    for term, shape in zip(terms, shapes):
        letters = term.replace("...", "")
        if not all(c.isalpha() for c in letters) or term.count(".") not in (0, 3):
            raise ValueError_(f"einsum: invalid subscripts '{subscripts}'")
        extra = len(shape) - len(letters)
        if extra < 0 or (extra and "..." not in term):
            raise ValueError_(
                f"einsum: operand '{term}' has {len(letters)} subscripts for an array of "
                f"{len(shape)} dimensions"
            )
        head, _, tail = term.partition("...")
        operands.append((*head, *range(-extra, 0), *tail))
        widest = max(widest, extra)
    if arrow:
        letters = right.replace("...", "")
        head, dots, tail = right.partition("...")
        result: Labels = (*head, *range(-widest, 0), *tail) if dots else tuple(letters)
        known = {label for labels in operands for label in labels}
        for letter in letters:
            if letter not in known or letters.count(letter) > 1:
                raise ValueError_(
                    f"einsum: output subscript '{letter}' must be in one operand and only once in "
                    f"the output, got '{subscripts}'"
                )
    else:
        letters = left.replace("...", "").replace(",", "")
        result = (*range(-widest, 0), *sorted(c for c in set(letters) if letters.count(c) == 1))
    if widest and arrow and "..." not in right:
        raise ValueError_(f"einsum: output of '{subscripts}' must have an ellipsis, too")
    return operands, result


@lru_cache(maxsize=512)
def _plan(
    subscripts: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[list[Labels], Labels, list[tuple[int, int]]]:
    """Return labels, and the pairs of operands to contract, the cheapest first."""
    operands, result = _parse(subscripts, shapes)
    sizes: dict[Any, int] = {}
    for labels, shape in zip(operands, shapes):
        for label, n in zip(labels, shape):
            known = sizes.setdefault(label, n)
            if known != n and 1 not in (known, n):
                raise ShapeError(
                    f"einsum: operands could not be broadcast together: subscript '{label}' of "
                    f"'{subscripts}' has lengths {known} and {n}"
                )
            sizes[label] = n if known == 1 else known
    left = [set(labels) for labels in operands]
    pairs = []
    while len(left) > 1:
        best: tuple[Any, int, int, set[Any]] | None = None
        for i in range(len(left)):
            for j in range(i + 1, len(left)):
                others = set(result).union(*(s for k, s in enumerate(left) if k not in (i, j)))
                both = left[i] | left[j]
                kept = both & others
                grown = prod(sizes[x] for x in kept) - sum(
                    prod(sizes[x] for x in left[k]) for k in (i, j)
                )
                cost = (grown, prod(sizes[x] for x in both))
                if best is None or cost < best[0]:
                    best = (cost, i, j, kept)
        assert best is not None
        _, i, j, kept = best
        pairs.append((i, j))
        left = [s for k, s in enumerate(left) if k not in (i, j)] + [kept]
    return operands, result, pairs


def _diagonals(a: ndarray, labels: Labels) -> tuple[ndarray, Labels]:
    """Replace axes with equal labels by their diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            one = labels.index(label)
            other = labels.index(label, one + 1)
            if a.shape[one] != a.shape[other]:
                raise ShapeError(
                    f"einsum: dimensions of one operand for subscript '{label}' must be equal, "
                    f"got {a.shape[one]} and {a.shape[other]}"
                )
            rest = tuple(i for i in range(a.ndim) if i not in (one, other))
            n = a.shape[one]
            shape = tuple(a.shape[i] for i in rest)
            flat = _transpose(a, axes=(*rest, one, other))._reshape_view((*shape, n * n))
            a = _take(flat, from_host(np.arange(n) * (n + 1), a.ctx), axis=len(rest))
            labels = (*(labels[i] for i in rest), label)
    return a, labels


def einsum(*operands: Any, out: Any = None, optimize: Any = False) -> ndarray:
    """Return sums of products over the axes that subscripts name (Einstein's notation).

    Parameters
    ----------
    subscripts : str
        As ``'ij,jk->ik'``; ``...`` stands for further axes, which broadcast.
    *operands : ndarray
        The arrays. Lists of axis numbers may follow every array instead of subscripts, as in NumPy.
    out : ndarray, optional
    optimize : bool or str
        Ignored: pairs of arrays are always contracted in a cheap order, as matrix products.

    Raises
    ------
    ValueError
        If the subscripts are invalid or do not fit the arrays.
    """
    if not operands:
        raise ValueError_("einsum: must specify the einstein sum subscripts string and operands")
    subscripts, arrays = operands[0], operands[1:]
    if not isinstance(subscripts, str):
        subscripts, arrays = _from_lists(operands)
    if not arrays:
        raise ValueError_("einsum: at least one array must be given, got only subscripts")
    given, is_bool = operands_of(arrays, "einsum")
    labels, wanted, pairs = _plan(subscripts, tuple(a.shape for a in given))
    tensors = [_diagonals(a, names) for a, names in zip(given, labels)]
    for i, j in pairs:
        rest = [t for k, t in enumerate(tensors) if k not in (i, j)]
        kept = set(wanted).union(*(names for _, names in rest))
        tensors = [*rest, _contract(*tensors[i], *tensors[j], kept)]
    a, names = _summed(*tensors[0], set(wanted))
    result = _ordered(a, names, wanted)
    result = _copy(result) if result is given[0] else result
    return finished(result, is_bool, out, "einsum")


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return subscripts and arrays of NumPy's other form: array, axis numbers, array, ..."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def term(numbers: Any) -> str:
        return "".join("..." if n is Ellipsis else letters[n] for n in numbers)

    arrays = list(operands[: len(operands) // 2 * 2 : 2])
    text = ",".join(term(numbers) for numbers in operands[1::2])
    return (f"{text}->{term(operands[-1])}" if len(operands) % 2 else text), arrays
