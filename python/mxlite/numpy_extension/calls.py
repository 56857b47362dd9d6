"""Wrappers of operators that take and return ``mx.np`` arrays only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Callable

from .. import _core
from .._core import NDArray
from ..base import TypeError_
from ..numpy.arguments import set_name
from ..numpy.ndarray import ndarray

__all__ = ["check_arrays", "numpy_operator"]


def check_arrays(who: str, values: Iterable[Any]) -> None:
    """Raise TypeError if a value is an NDArray that is not an ``mx.np`` array."""
    for value in values:
        if value.__class__ is ndarray:
            continue
        if isinstance(value, NDArray):
            raise TypeError_(
                f"{who}: arrays must be mx.np.ndarray, got {type(value).__name__}; convert with "
                "as_np_ndarray()"
            )
        if isinstance(value, (list, tuple)):
            check_arrays(who, value)


def numpy_operator(name: str, operator: str) -> Callable[..., Any]:
    """Return a function that checks the classes of its arrays and calls an operator."""
    op = _core.op(operator)

    def call(*args: Any, **kwargs: Any) -> Any:
        check_arrays(name, args)
        if kwargs:
            check_arrays(name, kwargs.values())
        return op(*args, **kwargs)

    call.__wrapped__ = op  # type: ignore[attr-defined]  # has the signature
    doc, example, code = op.__doc__.partition("\nExamples\n")
    doc = f"Call the operator ``mx.nd.{operator}`` on ``mx.np`` arrays.\n\n{doc.rstrip()}\n"
    if "Parameters\n---" not in doc:
        doc += "\nParameters\n----------\n*args : ndarray\n    The inputs, in the order above.\n"
    doc += "\nReturns\n-------\nndarray, or a list of them for an operator with several outputs\n"
    doc += example + code
    call.__module__ = f"{__package__}.operators"
    return set_name(call, name, _numpy_example(doc, name))


def _numpy_example(doc: str, name: str) -> str:
    """Return the documentation with its example in terms of ``mx.np`` and ``mx.npx``."""
    doc = re.sub(
        r"^>>> result = mx\.nd\.[\w.]+\(", f">>> result = mx.npx.{name}(", doc, flags=re.MULTILINE
    )
    doc = re.sub(r"^(>>> \w+ = mx)\.nd\.(array|random)", r"\1.np.\2", doc, flags=re.MULTILINE)
    return re.sub(r"(mx\.np\.random\..*), shape=", r"\1, size=", doc)
