"""The base classes of operators written in Python: ``CustomOp`` and ``CustomOpProp``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import NDArray
from ..base import ValueError_
from ..context import Context


class CustomOp:
    """Base of operators written in Python."""

    def forward(
        self,
        is_train: bool,
        req: Sequence[str],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        """Write the outputs.

        Parameters
        ----------
        is_train : bool
            Whether the call is inside ``autograd.train_mode`` or ``record``.
        req : list of str
            Argument of `assign` for each output: always 'write'.
        in_data, out_data, aux : list of NDArray
            Inputs, outputs, auxiliary states (which may be written).
        """
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[NDArray],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        in_grad: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        """Write the gradients of the inputs.

        Parameters
        ----------
        req : list of str
            Argument of `assign` for each input: 'write', or 'null' if no gradient is needed.
        out_grad, in_data, out_data, in_grad, aux : list of NDArray
            Gradients of the outputs, inputs, outputs, gradients to be written, auxiliary states.
            None for arrays that ``declare_backward_dependency`` did not list.

        Raises
        ------
        NotImplementedError
            If a gradient of an operator without a backward is needed.
        """
        if any(wanted != "null" for wanted in req):
            raise NotImplementedError(f"{type(self).__name__} does not define backward")

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Write into an array as requested.

        Parameters
        ----------
        dst : NDArray
        req : {'null', 'write', 'inplace', 'add'}
        src : NDArray or array-like or number
        """
        if req == "null":
            return
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src
        else:
            raise ValueError_(
                f"assign: req must be 'null', 'write', 'inplace' or 'add', got {req!r}"
            )


class CustomOpProp:
    """Base of the description of an operator: names, shapes, types, and creation.

    Parameters
    ----------
    need_top_grad : bool
        Whether backward uses the gradients of the outputs; False for losses.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        """Return shapes of inputs, outputs and, optionally, auxiliary states.

        Parameters
        ----------
        in_shape : list of list of int
            Shapes of the inputs; 0 for an unknown dimension, [] for an unknown shape. Results of
            arithmetic with an unknown dimension are unknown, too, and ordering it (``<``) raises a
            ValueError. If this method raises, the outputs' shapes stay unknown until those of the
            inputs are known.

        Returns
        -------
        tuple of 2 or 3 lists of shapes
            By default every output has the shape of the first input.
        """
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type: list[Any]) -> Any:
        """Return types of inputs, outputs and, optionally, auxiliary states: 2 or 3 lists.

        By default all are of the first input's type.
        """
        first = in_type[0]
        states = self.list_auxiliary_states()
        return in_type, [first] * len(self.list_outputs()), [first] * len(states)

    def infer_storage_type(self, in_stype: list[str]) -> Any:
        """Return storage types of inputs, outputs and states.

        If a class does not override this, it gets dense copies of sparse inputs.
        """
        outputs, states = self.list_outputs(), self.list_auxiliary_states()
        return in_stype, ["default"] * len(outputs), ["default"] * len(states)

    def infer_storage_type_backward(
        self,
        ograd_stype: list[str],
        in_stype: list[str],
        out_stype: list[str],
        igrad_stype: list[str],
        aux_stype: list[str],
    ) -> Any:
        """Return storage types of backward's arrays, in the order of the arguments."""
        groups = (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype)
        return tuple(["default"] * len(group) for group in groups)

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs; by default one, 'output'."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs; by default one, 'data'."""
        return ["data"]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of the auxiliary states; by default none."""
        return []

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Return the ids of the arrays that backward uses.

        Parameters
        ----------
        out_grad, in_data, out_data : list of int
            Ids of the gradients of outputs, of inputs, of outputs.

        Returns
        -------
        list of int
            By default all, without ``out_grad`` if ``need_top_grad`` is False.
        """
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(self, ctx: Context, in_shapes: list[list[int]], in_dtypes: Any) -> CustomOp:
        """Return the operator for one call; its backward is called on the same object.

        Parameters
        ----------
        ctx : Context
        in_shapes : list of list of int
        in_dtypes : list of numpy types
        """
        return CustomOp()
