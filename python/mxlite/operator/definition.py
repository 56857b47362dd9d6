"""Interface between the core and an operator written in Python; users see ``mx.operator``."""

from __future__ import annotations

import time
import traceback
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray
from ..base import MXNetError, OutOfMemoryError, TypeError_, ValueError_, suggestion
from ..context import Context
from ..profiler.record import CUSTOM, record

#: The classes of ``mx.operator.register``, by name.
REGISTRY: dict[str, Any] = {}


class Definition:
    """The methods of one CustomOpProp that the core calls; one object per call.

    Attributes
    ----------
    attrs : dict of str to str
        Parameters of a symbol's node for this operator.
    num_inputs : int
        Number of inputs without auxiliary states.
    needs_grad, needs_input, needs_output : list of int
        1 for each output gradient, input and output that backward uses, else 0.
    """

    def __init__(self, op_type: str, kwargs: dict[str, Any]) -> None:
        self.op_type = op_type
        prop_cls: Any = REGISTRY.get(op_type)
        if prop_cls is None:
            raise ValueError_(
                f"Custom: no operator is registered as {op_type!r}{suggestion(op_type, REGISTRY)}"
            )
        # 1.x passes every parameter as text.
        params = {name: str(value) for name, value in kwargs.items()}
        self.prop = prop_cls(**params)
        self.attrs = {"op_type": op_type, **params}
        self.arguments = list(self.prop.list_arguments())
        self.outputs = list(self.prop.list_outputs())
        self.states = list(self.prop.list_auxiliary_states())
        self.num_inputs = len(self.arguments)
        self.needs_grad, self.needs_input, self.needs_output = self._dependencies()

    def _dependencies(self) -> tuple[list[int], list[int], list[int]]:
        """Return which output gradients, inputs and outputs backward uses, as 0 and 1."""
        counts = (len(self.outputs), len(self.arguments), len(self.outputs))
        ids, first = [], 0
        for count in counts:
            ids.append(list(range(first, first + count)))
            first += count
        used = set(self._ask("declare_backward_dependency", *ids))
        grads, inputs, outputs = ([int(i in used) for i in group] for group in ids)
        return grads, inputs, outputs

    def _ask(self, method: str, *args: Any) -> Any:
        try:
            return getattr(self.prop, method)(*args)
        except Exception as error:
            raise MXNetError(
                f"Custom: {method} of {self.op_type!r} raised {type(error).__name__}: {error}"
            ) from error

    def _groups(self, method: str, *args: Any) -> list[list[Any]]:
        """Call a method; return its lists for inputs, outputs and states after checking lengths."""
        answer = self._ask(method, *args)
        if not isinstance(answer, (list, tuple)) or not all(map(_is_list, answer)):
            raise TypeError_(
                f"Custom: {method} of {self.op_type!r} must return a list for inputs, one for "
                f"outputs and one for auxiliary states, got {answer!r}"
            )
        groups = [list(group) for group in answer]
        names = (self.arguments, self.outputs, self.states)
        if len(groups) == 2:
            groups.append([] if method == "infer_shape" else [groups[0][0]] * len(self.states))
        if len(groups) != 3:
            raise MXNetError(
                f"Custom: {method} of {self.op_type!r} must return 2 or 3 lists, got {len(groups)}"
            )
        for group, wanted, label in zip(groups, names, ("inputs", "outputs", "auxiliary states")):
            if len(group) != len(wanted):
                raise MXNetError(
                    f"Custom: {method} of {self.op_type!r} must return {len(wanted)} entries for "
                    f"{label}, got {len(group)}"
                )
        return groups

    def infer_types(self, in_types: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return types of inputs and states, and of outputs."""
        inputs, outputs, states = self._groups("infer_type", in_types)
        return inputs + states, outputs

    def infer(self, shapes: list[list[int]], dtypes: list[Any]) -> Any:
        """Return (shape, dtype) of inputs and states, and of outputs."""
        count = self.num_inputs
        in_shapes, out_shapes, aux_shapes = self._groups("infer_shape", shapes[:count])
        in_types, out_types = self.infer_types(dtypes[:count])
        return (
            [(tuple(s), np.dtype(t)) for s, t in zip([*in_shapes, *aux_shapes], in_types)],
            [(tuple(shape), np.dtype(dtype)) for shape, dtype in zip(out_shapes, out_types)],
        )

    def storage_types(self, in_stypes: list[str]) -> list[list[str]]:
        """Return the storage types of inputs, outputs and states."""
        return self._groups("infer_storage_type", in_stypes)

    def backward_storage_types(self, *stypes: list[str]) -> list[list[str]]:
        """Return the storage types of backward's arrays."""
        found = [list(group) for group in self._ask("infer_storage_type_backward", *stypes)]
        if [len(group) for group in found] != [len(group) for group in stypes]:
            raise MXNetError(
                f"Custom: infer_storage_type_backward of {self.op_type!r} must return "
                f"{[len(g) for g in stypes]} entries, got {[len(group) for group in found]}"
            )
        return found

    def create(self, ctx: Context, shapes: list[list[int]], dtypes: list[Any]) -> tuple[Any, ...]:
        """Return the operator for one call and its context."""
        op = self._ask("create_operator", ctx, shapes, dtypes)
        if not hasattr(op, "forward"):
            raise TypeError_(
                f"Custom: create_operator of {self.op_type!r} must return a CustomOp, got {op!r}"
            )
        return op, ctx

    def forward(
        self,
        made: tuple[Any, Context],
        is_train: bool,
        in_data: list[NDArray],
        out_data: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        """Run the operator's forward."""
        op, ctx = made
        req = ["write"] * len(out_data)
        with self._failures("forward"), ctx:
            self._profiled(
                self.op_type,
                lambda: op.forward(
                    is_train=is_train, req=req, in_data=in_data, out_data=out_data, aux=aux
                ),
            )

    def backward(
        self,
        made: tuple[Any, Context],
        is_train: bool,
        req: list[str],
        out_grad: list[NDArray],
        in_data: list[NDArray],
        out_data: list[NDArray],
        in_grad: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        """Run the operator's backward."""
        op, ctx = made
        with self._failures("backward"), ctx:
            self._profiled(
                f"_backward_{self.op_type}",
                lambda: op.backward(
                    req=req, out_grad=out_grad, in_data=in_data, out_data=out_data,
                    in_grad=in_grad, aux=aux,
                ),
            )  # fmt: skip

    @staticmethod
    def _profiled(name: str, run: Any) -> None:
        """Run the user's code; record it and the operators that it calls, as ``name::op``."""
        if not record.running:
            run()
            return
        begin = last = time.perf_counter_ns()
        inside = 0

        def called(op: str, names: Any, inputs: Any, outputs: list[NDArray]) -> None:
            nonlocal last, inside
            for array in outputs:
                array.wait_to_read()
            now = time.perf_counter_ns()
            record.add_span(f"{name}::{op}", CUSTOM, last, now)
            inside += now - last
            last = now

        _core.call_observed(called, run)
        end = time.perf_counter_ns()
        record.add_span(f"{name}::pure_python", CUSTOM, begin + inside, end)

    def _failures(self, method: str) -> _Failures:
        return _Failures(f"Error in CustomOp.{method} of {self.op_type!r}")


def _is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)


class _Failures:
    """Converts an exception of the user's code to an MXNetError with its traceback."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, KeyboardInterrupt):
            return
        # Skip the first traceback entry, which is the call in this file.
        lines = traceback.format_exception(kind, error, trace.tb_next or trace)
        made = OutOfMemoryError if isinstance(error, MemoryError) else MXNetError
        raise made(f"{self._label}: {''.join(lines).rstrip()}") from None
