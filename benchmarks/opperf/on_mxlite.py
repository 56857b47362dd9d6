"""A case on mxlite, operator by operator."""

from __future__ import annotations

import operator
from typing import Any, Callable

import mxlite as mx
from cases import Case
from values import arrays


def version() -> str:
    """Return mxlite's version."""
    return mx.__version__


def set_threads(count: int) -> None:
    """Use ``count`` threads (MXLITE_CPU_THREADS is read from OMP_NUM_THREADS already)."""


def function(name: str) -> Any:
    """Return the operator ``mx.nd.<name>``."""
    return operator.attrgetter(name)(mx.nd)


def prepare(case: Case, dtype: str) -> tuple[Callable[[], Any], Callable[[], Any] | None]:
    """Return functions that run forward, and forward with backward; both return when done.

    Parameters
    ----------
    case : Case
        The row.
    dtype : str
        Type of the arrays.

    Returns
    -------
    tuple
        The second is None if there is no gradient.
    """
    op, params = function(case.op), case.params
    inputs = {k: mx.nd.array(v, dtype=v.dtype) for k, v in arrays(case, dtype).items()}
    values = list(inputs.values())
    if case.category == "optimizer":
        params = {**params, "out": inputs["weight"]}

    def wait(result: Any) -> Any:
        for value in result if isinstance(result, (list, tuple)) else [result]:
            value.wait_to_read()
        return result

    def forward() -> Any:
        return wait(op(*values, **params))

    if not case.grad:
        return forward, None
    wanted = [inputs[name] for name in case.grad]
    for value in wanted:
        value.attach_grad()

    def both() -> Any:
        with mx.autograd.record():
            result = op(*values, **params)
        result.backward()
        return wait([value.grad for value in wanted])

    return forward, both
