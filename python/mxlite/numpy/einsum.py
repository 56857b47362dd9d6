"""``np.einsum``, and the contraction of two tensors that all products of this package use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..base import ShapeError, ValueError_
from .arguments import as_array, from_host, promote, store
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
    """Return operands in their common dtype, and whether that is bool; bools become float32."""
    given = promote([as_array(a, who) for a in arrays])
    if given[0].dtype != np.bool_:
        return given, False
    return [_cast(a, dtype="float32") for a in given], True


def finished(result: ndarray, is_bool: bool, out: Any, who: str) -> ndarray:
    if is_bool:
        result = _cast(result, dtype="bool")
    return store(result, out, who)


class _Side(NamedTuple):
    """Steps that turn an operand into a matrix or a stack of matrices; None skips a step."""

    squeezed: tuple[int, ...] | None  # shape without axes of length 1 that broadcast
    summed: tuple[int, ...]  # axes that only this operand has and the result lacks
    kept: tuple[int, ...]  # shape after the sum
    order: tuple[int, ...] | None  # axes of a transpose
    shape: tuple[int, ...]
    flipped: bool  # whether the matrices stay transposed


class _Pairing(NamedTuple):
    """Plan of the product of two labelled tensors."""

    left: _Side
    right: _Side
    product: Any  # the operator
    shape: tuple[int, ...]
    labels: Labels


@lru_cache(maxsize=1024)
def _pairing(
    a_labels: Labels,
    a_shape: tuple[int, ...],
    b_labels: Labels,
    b_shape: tuple[int, ...],
    kept: frozenset[Any],
) -> _Pairing:
    """Plan a product that sums over all labels that are not kept."""
    sizes: dict[Any, int] = {}
    for label, n in [*zip(a_labels, a_shape), *zip(b_labels, b_shape)]:
        sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    # Drops axes of length 1 that broadcast against the other operand.
    a_left = tuple(x for x, n in zip(a_labels, a_shape) if n == sizes[x])
    b_left = tuple(x for x, n in zip(b_labels, b_shape) if n == sizes[x])
    a_kept = tuple(label for label in a_left if label in kept or label in b_left)
    b_kept = tuple(label for label in b_left if label in kept or label in a_left)
    shared = [label for label in a_kept if label in b_kept]
    batch = tuple(label for label in shared if label in kept)
    inner = tuple(label for label in shared if label not in kept)
    rows = tuple(label for label in a_kept if label not in shared)
    cols = tuple(label for label in b_kept if label not in shared)
    labels = (*batch, *rows, *cols)
    elements = not inner

    def side(given: Labels, left: Labels, rest: Labels, one: Labels, other: Labels) -> _Side:
        wanted, flipped = (*batch, *one, *other), False
        if not elements and rest != wanted and rest == (*batch, *other, *one):
            wanted, flipped = rest, True
        groups = ((other, one) if flipped else (one, other)) if not elements else ()
        matrix = [prod(sizes[x] for x in group) for group in groups]
        shape = (prod(sizes[x] for x in batch), *matrix) if batch else tuple(matrix)
        if elements:  # axes of the other operand have length 1
            shape = tuple(sizes[x] if x in rest else 1 for x in labels)
        return _Side(
            None if given == left else tuple(sizes[x] for x in left),
            tuple(i for i, x in enumerate(left) if x not in rest),
            tuple(sizes[x] for x in rest),
            None if rest == wanted else tuple(rest.index(x) for x in wanted),
            shape,
            flipped,
        )

    return _Pairing(
        side(a_labels, a_left, a_kept, rows, inner),
        side(b_labels, b_left, b_kept, inner, cols),
        _multiply if elements else _batch_dot if batch else _dot,
        tuple(sizes[x] for x in labels),
        labels,
    )


def _prepare(a: ndarray, side: _Side) -> ndarray:
    if side.squeezed is not None:
        a = a._reshape_view(side.squeezed)
    if side.summed:
        a = _sum(a, axis=side.summed, keepdims=True)._reshape_view(side.kept)
    if side.order is not None:
        a = _transpose(a, axes=side.order)
    return a if a.shape == side.shape else a._reshape_view(side.shape)


def _contract(
    a: ndarray, a_labels: Labels, b: ndarray, b_labels: Labels, kept: frozenset[Any]
) -> tuple[ndarray, Labels]:
    """Multiply two labelled tensors and sum over all labels that are not kept."""
    plan = _pairing(a_labels, a.shape, b_labels, b.shape, kept)
    left, right = _prepare(a, plan.left), _prepare(b, plan.right)
    if plan.product is _multiply:
        return _multiply(left, right), plan.labels
    result = plan.product(
        left, right, transpose_a=plan.left.flipped, transpose_b=plan.right.flipped
    )
    return (result if result.shape == plan.shape else result._reshape_view(plan.shape)), plan.labels


def _order(a: ndarray, labels: Labels, wanted: Labels) -> ndarray:
    if labels == wanted:
        return a
    return _transpose(a, axes=tuple(labels.index(label) for label in wanted))


def product(a: ndarray, a_labels: Labels, b: ndarray, b_labels: Labels, wanted: Labels) -> ndarray:
    """Multiply two tensors; sum over axes whose labels are not wanted in the result."""
    return _order(*_contract(a, a_labels, b, b_labels, frozenset(wanted)), wanted)


def _parse(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[Labels], Labels]:
    """Return the labels of each operand and of the result; axes of an ellipsis become numbers."""
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
        raise ValueError_(
            f"einsum: the output must have an ellipsis as the operands have, got '{subscripts}'"
        )
    return operands, result


@lru_cache(maxsize=512)
def _plan(
    subscripts: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[list[Labels], Labels, list[tuple[int, int, frozenset[Any]]]]:
    """Return the labels, and the order in which pairs of operands are contracted."""
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
        pairs.append((i, j, frozenset(kept)))
        left = [s for k, s in enumerate(left) if k not in (i, j)] + [kept]
    return operands, result, pairs


def _diagonals(a: ndarray, labels: Labels) -> tuple[ndarray, Labels]:
    """Replace axes with equal labels by their diagonal."""
    if len(set(labels)) == len(labels):
        return a, labels
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
        Labels of the axes, such as ``'ij,jk->ik'``; ``...`` stands for other axes, which broadcast.
    *operands : ndarray
        The arrays. Without subscripts, a list of axis numbers must follow each array, as in NumPy.
    out : ndarray, optional
    optimize : bool or str
        Ignored: pairs of arrays are always contracted in a cheap order by matrix products.

    Raises
    ------
    ValueError
        If the subscripts are invalid or do not fit the arrays.
    """
    if not operands:
        raise ValueError_("einsum: subscripts and operands must be given, got no arguments")
    subscripts, *arrays = operands
    if not isinstance(subscripts, str):
        subscripts, *arrays = _from_lists(operands)
    if not arrays:
        raise ValueError_("einsum: at least one array must be given, got only subscripts")
    given, is_bool = operands_of(arrays, "einsum")
    labels, wanted, pairs = _plan(subscripts, tuple(a.shape for a in given))
    tensors = [_diagonals(a, names) for a, names in zip(given, labels)]
    for i, j, kept in pairs:
        rest = [t for k, t in enumerate(tensors) if k not in (i, j)]
        tensors = [*rest, _contract(*tensors[i], *tensors[j], kept)]
    a, names = tensors[0]
    if len(names) != len(wanted):
        shape = tuple(n for n, label in zip(a.shape, names) if label in wanted)
        gone = tuple(i for i, label in enumerate(names) if label not in wanted)
        a = _sum(a, axis=gone, keepdims=True)._reshape_view(shape)
        names = tuple(label for label in names if label in wanted)
    result = _order(a, names, wanted)
    result = _copy(result) if result is given[0] else result
    return finished(result, is_bool, out, "einsum")


def _from_lists(operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return subscripts and arrays of NumPy's other form: array, axis numbers, array, ..."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def term(numbers: Any) -> str:
        return "".join("..." if n is Ellipsis else letters[n] for n in numbers)

    arrays = list(operands[: len(operands) // 2 * 2 : 2])
    text = ",".join(term(numbers) for numbers in operands[1::2])
    return (f"{text}->{term(operands[-1])}" if len(operands) % 2 else text), *arrays
