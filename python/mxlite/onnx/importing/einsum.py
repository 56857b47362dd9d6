"""Converter of Einsum to matrix products, one for each operand after the first."""

from __future__ import annotations

from math import prod

import numpy as np

from .table import Node, Value, constant, converter

__all__: list[str] = []


def _parsed(n: Node) -> tuple[list[str], str]:
    """Return the labels of operands and result; digits label the axes of an ellipsis."""
    text = n.get("equation").replace(" ", "")
    left, arrow, right = text.partition("->")
    operands = left.split(",")
    if len(operands) != len(n.x):
        raise n.refuse(f"the equation must have {len(n.x)} operands, got {text!r}")
    names = []
    for labels, value in zip(operands, n.x):
        count = value.ndim - len(labels.replace("...", ""))
        names.append(labels.replace("...", "0123456789"[10 - count :] if count else ""))
    every = "".join(names)
    shared = "".join(sorted({label for label in every if label.isdigit()}))
    if arrow:
        return names, right.replace("...", shared)
    once = sorted(label for label in set(every) if label.isalpha() and every.count(label) == 1)
    return names, shared + "".join(once)


def _diagonal(n: Node, x: Value, labels: str) -> tuple[Value, str]:
    """Return the diagonal of axes with equal labels, and the remaining labels."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, second = (i for i, name in enumerate(labels) if name == label)
            rest = [i for i in range(len(labels)) if i not in (first, second)]
            moved = n.mx("transpose", x, axes=(first, second, *rest))
            places = np.tile(np.arange(x.shape[first]), (2, 1))
            x = n.mx("gather_nd", moved, constant(places))
            labels = label + "".join(labels[i] for i in rest)
    return x, labels


def _reduced(n: Node, x: Value, labels: str, kept: str) -> tuple[Value, str]:
    """Return a value summed over labels that are not kept, and the remaining labels."""
    gone = tuple(i for i, label in enumerate(labels) if label not in kept)
    if not gone:
        return x, labels
    first, second = (
        tuple(extent for i, extent in enumerate(sizes) if i not in gone) for sizes in x.sizes
    )
    left = "".join(label for label in labels if label in kept)
    return n.mx("sum", x, sizes=(first, second), axis=gone), left


def _arranged(n: Node, x: Value, labels: str, groups: list[str]) -> Value:
    """Return a value with one axis for each group of labels."""
    order = "".join(groups)
    if order != labels:
        x = n.mx("transpose", x, axes=tuple(labels.index(label) for label in order))
    sizes: list[tuple[int, ...]] = []
    for own in x.sizes:
        extents = dict(zip(order, own))
        sizes.append(tuple(prod(extents[label] for label in group) for group in groups))
    return n.reshape(x, (sizes[0], sizes[1]))


def _product(n: Node, a: tuple[Value, str], b: tuple[Value, str], kept: str) -> tuple[Value, str]:
    """Return the product of two operands, summed over labels that are not kept."""
    a = _reduced(n, *a, kept + b[1])
    b = _reduced(n, *b, kept + a[1])
    (left, left_labels), (right, right_labels) = a, b
    both = [label for label in left_labels if label in right_labels]
    batch = "".join(label for label in both if label in kept)
    summed = "".join(label for label in both if label not in kept)
    own = "".join(label for label in left_labels if label not in both)
    other = "".join(label for label in right_labels if label not in both)
    out = n.mx(
        "batch_dot",
        _arranged(n, left, left_labels, [batch, own, summed]),
        _arranged(n, right, right_labels, [batch, summed, other]),
    )
    extents: list[dict[str, int]] = [
        {**dict(zip(left_labels, left.sizes[i])), **dict(zip(right_labels, right.sizes[i]))}
        for i in (0, 1)
    ]
    labels = batch + own + other
    first, second = (tuple(extent[label] for label in labels) for extent in extents)
    return n.reshape(out, (first, second)), labels


@converter("Einsum")
def _einsum(n: Node) -> Value:
    names, result = _parsed(n)
    operands = [_diagonal(n, x, labels) for x, labels in zip(n.x, names)]
    out = operands[0]
    for i, operand in enumerate(operands[1:], 1):
        needed = result + "".join(labels for _, labels in operands[i + 1 :])
        out = _product(n, out, operand, needed)
    value, labels = _reduced(n, *out, result)
    if labels == result:
        return value
    return n.mx("transpose", value, axes=tuple(labels.index(label) for label in result))
