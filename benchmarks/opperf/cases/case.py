"""One row of the operator benchmark: plain values, read by mxlite and by PyTorch's process."""

from __future__ import annotations

from typing import Any, NamedTuple


class Array(NamedTuple):
    """An input made of random numbers.

    ``kind``: ``"normal"``, ``"positive"`` (uniform in (0.5, 1.5)), ``"unit"`` (uniform in (-0.9,
    0.9)), ``"index"`` (whole numbers below ``high``, in ``dtype``).
    """

    shape: tuple[int, ...]
    kind: str = "normal"
    high: int = 0
    dtype: str = ""


class Case(NamedTuple):
    """An operator with its inputs.

    ``arrays`` are the inputs by name, in the operator's order, and ``params`` its other arguments.
    ``torch`` is a PyTorch expression over the names of the arrays; if it is empty, ``note`` says
    why. ``grad`` names the arrays that get a gradient; if it is empty, only forward runs. ``setup``
    are NumPy statements that prepare the arrays for both systems, ``torch_setup`` those for PyTorch
    only.
    """

    op: str
    category: str
    arrays: dict[str, Array]
    params: dict[str, Any]
    torch: str
    grad: tuple[str, ...]
    note: str
    setup: str
    torch_setup: str

    @property
    def bytes(self) -> int:
        """Size of the largest array in float32."""
        sizes = [4]
        for array in self.arrays.values():
            size = 4
            for n in array.shape:
                size *= n
            sizes.append(size)
        shape = self.params.get("shape")
        if isinstance(shape, tuple):
            size = 4
            for n in shape:
                size *= n
            sizes.append(size)
        return max(sizes)


def case(
    op: str,
    category: str,
    torch: str = "",
    *,
    grad: str = "",
    note: str = "",
    setup: str = "",
    torch_setup: str = "",
    params: dict[str, Any] | None = None,
    **arrays: Any,
) -> Case:
    """Return a ``Case``; an array may be given as its shape, ``grad`` is a list of names.

    ``grad_`` is the array that is called ``grad``.
    """
    made = {
        k.rstrip("_"): v if isinstance(v, Array) else Array(tuple(v)) for k, v in arrays.items()
    }
    options = params or {}
    return Case(op, category, made, options, torch, tuple(grad.split()), note, setup, torch_setup)


def index(shape: tuple[int, ...], high: int, dtype: str = "") -> Array:
    """Whole numbers below ``high``."""
    return Array(tuple(shape), "index", high, dtype)


def positive(*shape: int) -> Array:
    """Numbers between 0.5 and 1.5."""
    return Array(shape, "positive")


def unit(*shape: int) -> Array:
    """Numbers between -0.9 and 0.9."""
    return Array(shape, "unit")
