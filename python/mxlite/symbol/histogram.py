"""``mx.sym.histogram``: counts values when the graph runs, as an operator written in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core, operator
from .. import name as _name
from .. import ndarray as nd
from .._core import user_line
from ..base import TypeError_
from .custom import CustomCall
from .node import Node
from .symbol import Symbol


class _Histogram(operator.CustomOp):
    def __init__(self, bins: int | None, limits: tuple[float, float] | None) -> None:
        self._bins, self._limits = bins, limits

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        """Count the values in each interval."""
        data = in_data[0].as_nd_ndarray()
        bins = self._bins or in_data[1].as_nd_ndarray().astype(data.dtype)
        for i, made in enumerate(nd.histogram(data, bins, self._limits)):
            self.assign(out_data[i].as_nd_ndarray(), req[i], made)


@operator.register("_histogram")
class _HistogramProp(operator.CustomOpProp):
    def __init__(self, bin_cnt: str = "", range: str = "") -> None:  # noqa: A002
        super().__init__(need_top_grad=False)
        self._bins = int(bin_cnt) if bin_cnt else None
        ends = [float(part) for part in range.strip("()[] ").split(",") if part.strip()]
        self._limits = (ends[0], ends[1]) if ends else None

    def list_arguments(self) -> list[str]:
        """Return ``data``, and ``bins`` if the ends are an input."""
        return ["data", "bins"] if self._bins is None else ["data"]

    def list_outputs(self) -> list[str]:
        """Return the names of counts and ends."""
        return ["output0", "output1"]

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        """Return the shapes of counts and ends."""
        count = in_shape[1][0] - 1 if self._bins is None else self._bins
        return in_shape, [[count], [count + 1]], []

    def infer_type(self, in_type: list[Any]) -> Any:
        """Return int64 for the counts and the data's type for the ends."""
        return in_type, [np.int64, in_type[0]], []

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Histogram:
        """Return the operator for one call."""
        return _Histogram(self._bins, self._limits)


class HistogramCall(CustomCall):
    """The parameters of a ``_histogram`` node."""

    name = "_histogram"

    def __init__(self, attrs: Mapping[str, str]) -> None:
        own = {key: attrs[key] for key in ("bin_cnt", "range") if key in attrs}
        super().__init__({"op_type": "_histogram", **own})


_core.register_symbol_call("_histogram", HistogramCall)
_core.register_symbol_call("_npi_histogram", HistogramCall)


def histogram(
    a: Symbol,
    bins: Any = 10,
    range: Sequence[float] | None = None,  # noqa: A002 - name of 1.x
    name: str | None = None,
    attr: dict[str, Any] | None = None,
) -> Symbol:
    """Count values in intervals; see ``mx.nd.histogram``.

    Parameters
    ----------
    a : Symbol
    bins : int or Symbol
        The number of equal intervals, or their ends in ascending order.
    range : tuple of float
        Lowest and highest value for a number of intervals.
    name : str, optional
    attr : dict of str to str, optional

    Returns
    -------
    Symbol
        Two outputs: counts (int64) and ends.

    Raises
    ------
    TypeError
        If range is missing, or bins is something else.
    """
    inputs, params = list(a._outputs), {}
    if isinstance(bins, Symbol):
        inputs += bins._outputs
    elif isinstance(bins, int):
        if range is None:
            raise TypeError_("histogram: range must be given if bins is a number")
        params = {"bin_cnt": str(bins), "range": _core.text_of(tuple(range))}
    else:
        raise TypeError_(f"histogram: bins must be an int or a Symbol, got {bins!r}")
    full = _name.current().get(name, "_histogram")
    attrs = {**_core.scoped_attrs(attr), **params}
    return Symbol._single(
        Node("_histogram", full, attrs, inputs, HistogramCall(params), user_line())
    )
