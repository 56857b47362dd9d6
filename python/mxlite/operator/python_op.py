"""Early interfaces for operators in Python: ``NumpyOp`` and ``NDArrayOp`` of ``mx.operator``.

Each object of such a class is an operator. It is registered under a name of this process and runs
like any other custom operator, so saved symbols of it cannot be loaded in another process.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .. import name
from .._core import NDArray
from ..base import NotSupportedError
from .custom_op import custom_symbol
from .definition import REGISTRY

_numbers = itertools.count()


class PythonOp:
    """Base of operators that are defined by objects.

    Parameters
    ----------
    need_top_grad : bool
        Whether backward uses the gradients of the outputs; False for losses.

    Notes
    -----
    Matches ``mxnet.operator.PythonOp``; use `NumpyOp` or `NDArrayOp`, or better `CustomOp`.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad
        self._op_type: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbol of a call; see `get_symbol`."""
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: derive from `NumpyOp` or `NDArrayOp` instead."""
        raise NotSupportedError(
            f"{type(self).__name__}.get_symbol: derive the operator from NumpyOp or NDArrayOp"
        )

    def forward(self, in_data: Sequence[Any], out_data: Sequence[Any]) -> None:
        """Write the outputs; by default, copy the first input to the first output."""
        out_data[0][:] = in_data[0]

    def backward(
        self,
        out_grad: Sequence[Any],
        in_data: Sequence[Any],
        out_data: Sequence[Any],
        in_grad: Sequence[Any],
    ) -> None:
        """Write the gradients of the inputs; by default, set the first one to 1."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        """Return the shapes of inputs and outputs; by default, one output like the first input."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs; by default one, 'output'."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs; by default one, 'data'."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Return whether backward uses the gradients of the outputs."""
        return self.need_top_grad_

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Return the ids of the arrays that backward uses; by default all."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]

    def _run(self, function: Any, groups: Sequence[Sequence[NDArray | None]]) -> None:
        """Call forward or backward, which writes the arrays of the last group."""
        function(*groups)

    def _symbol(self, args: tuple[Any, ...], kwargs: dict[str, Any], hint: str) -> Any:
        if self._op_type is None:
            self._op_type = f"_python_op{next(_numbers)}"
            REGISTRY[self._op_type] = lambda: _Description(self)
        kwargs["name"] = name.current().get(kwargs.get("name"), hint)
        return custom_symbol(*args, op_type=self._op_type, **kwargs)


class NumpyOp(PythonOp):
    """Base of operators on NumPy arrays."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbol of a call.

        Parameters
        ----------
        *args : Symbol
        **kwargs : Symbol
            Inputs by the names of `list_arguments`, and ``name``.
        """
        return self._symbol(args, kwargs, "_native")

    def _run(self, function: Any, groups: Sequence[Sequence[NDArray | None]]) -> None:
        arrays = [[None if a is None else a.asnumpy() for a in group] for group in groups]
        function(*arrays)
        for target, value in zip(groups[-1], arrays[-1]):
            if target is not None:
                target[:] = value


class NDArrayOp(PythonOp):
    """Base of operators on arrays."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbol of a call; see `NumpyOp.get_symbol`."""
        return self._symbol(args, kwargs, "_ndarray")


class _Description:
    """Adapts a `PythonOp` to the methods of CustomOpProp and CustomOp."""

    def __init__(self, op: PythonOp) -> None:
        self._op = op
        self.infer_shape = op.infer_shape
        self.list_arguments = op.list_arguments
        self.list_outputs = op.list_outputs
        self.declare_backward_dependency = op.declare_backward_dependency

    def list_auxiliary_states(self) -> list[str]:
        """Return an empty list, because these operators have no states."""
        return []

    def infer_type(self, in_type: list[Any]) -> Any:
        """Return the first input's type for everything."""
        first = in_type[0]
        return [first] * len(in_type), [first] * len(self.list_outputs()), []

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Description:
        """Return this object, because the operator keeps no state between calls."""
        return self

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        """Run the operator's forward."""
        self._op._run(self._op.forward, [in_data, out_data])

    def backward(
        self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
    ) -> None:
        """Run the operator's backward."""
        self._op._run(self._op.backward, [out_grad, in_data, out_data, in_grad])
