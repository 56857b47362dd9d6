"""Executors: a symbol bound to arrays (MXNet 1.x: ``mxnet.executor.Executor``).

Executors run in C++ (cpp/symbol/bound_graph.h), by the same compiled graphs as hybridized blocks.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Callable

import numpy as np

from .. import _core, autograd
from .. import ndarray as nd
from ..base import ShapeError, TypeError_, ValueError_, suggestion
from ..context import Context
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name
from ..ndarray.sparse.storage import assign, is_sparse
from ..symbol.inference import Inference, infer
from ..symbol.node import Node
from ..symbol.placement import checked_groups, place
from ..symbol.shown import overwrite, renew, show
from .shapes import check_kept, resized, shared

Watch = Callable[[Node, list[NDArray], list[NDArray]], None]


class Executor:
    """A symbol with arrays for its variables; made by `Symbol.bind` and `Symbol.simple_bind`.

    Attributes
    ----------
    arg_arrays, grad_arrays, aux_arrays : list of NDArray
        In the order of ``list_arguments`` and ``list_auxiliary_states``; gradients may be None.
    """

    def __init__(
        self,
        symbol: Any,
        ctx: Context,
        args: list[NDArray],
        grads: list[NDArray | None],
        requests: list[str],
        aux: list[NDArray],
        group2ctx: Any = None,
        inference: Inference | None = None,
    ) -> None:
        self._symbol = symbol
        self._ctx = ctx
        self._group2ctx = group2ctx
        self.arg_arrays = args
        self.grad_arrays = grads
        self.aux_arrays = aux
        self._requests = requests
        self._arg_names = symbol.list_arguments()
        self._aux_names = symbol.list_auxiliary_states()
        self._outputs: list[NDArray] = []  # outputs of the last forward
        self._shown: list[NDArray] | None = None  # arrays that `outputs` returned most recently
        self._shares_outputs = False  # True if `reshape` has made an executor that shares them
        self._monitor: Callable[[str, NDArray], None] | None = None
        self._monitor_all = False
        self._watched: _core.RecordedSteps | None = None
        inference = inference or self._infer()  # simple_bind passes the inference that it has run
        self._output_specs: list[Any] = [
            (inference.shape(node, i), inference.type(node, i)) for node, i in symbol._outputs
        ]
        self._calls = inference.completed_calls()
        self._contexts = self._place(inference.nodes)
        self._bound = _core.BoundGraph(
            symbol._outputs,
            args,
            grads,
            [autograd.GRAD_REQ[request] for request in requests],
            aux,
            self._calls,
            symbol.name or "symbol group",
            self._contexts,
        )

    def _place(self, nodes: list[Node]) -> dict[Node, Context] | None:
        """Return the context of each node; None if the nodes run as one graph on one context.

        If the shape of a result depends on values, there is no graph, and nodes run one by one.
        """
        groups = checked_groups(self._group2ctx)
        if any(getattr(node.call, "needs_values", False) for node in nodes):
            return place(nodes, groups, self._ctx)
        if not groups:
            return None
        names, arrays = [*self._arg_names, *self._aux_names], [*self.arg_arrays, *self.aux_arrays]
        given = {name: array.ctx for name, array in zip(names, arrays)}
        found = place(nodes, groups, self._ctx, given)
        return found if any(context != self._ctx for context in found.values()) else None

    def _infer(self) -> Inference:
        arrays = dict(zip(self._arg_names, self.arg_arrays))
        arrays.update(zip(self._aux_names, self.aux_arrays))
        return infer(
            self._symbol._outputs,
            {name: tuple(array.shape) for name, array in arrays.items()},
            {name: dtype_name(array.dtype) for name, array in arrays.items()},
        )

    # -- arrays by name --------------------------------------------------------------------------

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """The arguments' arrays by name."""
        return self._by_name(self._arg_names, self.arg_arrays, "arguments")

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """The arguments' gradients by name; None for arguments without gradient."""
        return self._by_name(self._arg_names, self.grad_arrays, "arguments")

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """The auxiliary states by name."""
        return self._by_name(self._aux_names, self.aux_arrays, "auxiliary states")

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The outputs by name."""
        return self._by_name(self._symbol.list_outputs(), self.outputs, "outputs")

    @staticmethod
    def _by_name(names: list[str], arrays: Sequence[Any], what: str) -> dict[str, Any]:
        if len(set(names)) != len(names):
            raise ValueError_(f"Executor: names of the {what} must be distinct, got {names}")
        return dict(zip(names, arrays))

    @property
    def outputs(self) -> list[NDArray]:
        """The outputs of the last forward, always in the same arrays; initially zeros."""
        if self._shown is None:
            self._shown = show(self._outputs) or [
                nd.zeros(shape, ctx=(self._contexts or {}).get(node, self._ctx), dtype=dtype)
                for (shape, dtype), (node, _) in zip(self._output_specs, self._symbol._outputs)
            ]
        return self._shown

    def _keep(self, outputs: list[NDArray]) -> None:
        self._outputs = outputs
        if self._shares_outputs:
            overwrite(self.outputs, outputs)
        elif self._shown is not None:
            renew(self._shown, outputs)

    # -- running ---------------------------------------------------------------------------------

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Compute the outputs.

        Parameters
        ----------
        is_train : bool
            Behave as in training, and keep what `backward` needs.
        **kwargs : NDArray or numpy.ndarray
            New values of arguments by name.

        Raises
        ------
        TypeError
            For an unknown argument, or a value that is not an array.
        ValueError
            For a value of another shape.
        """
        arguments = self.arg_dict if kwargs else {}
        for name, value in kwargs.items():
            self._assign(arguments, name, value)
        if self._monitor is not None:
            return self._forward_watched(is_train)
        self._watched = None
        self._run(bool(is_train), bool(is_train))
        return self.outputs

    def _assign(self, arguments: dict[str, NDArray], name: str, value: Any) -> None:
        if not isinstance(value, (NDArray, np.ndarray)):
            raise ValueError_("only accept keyword argument of NDArrays and numpy.ndarray")
        if name not in arguments:
            raise TypeError_(f"Unknown argument {name}" + suggestion(name, arguments))
        target = arguments[name]
        if tuple(target.shape) != tuple(value.shape):
            raise ShapeError(
                f"Shape not match! Argument {name}, need: {tuple(target.shape)}, "
                f"received: {tuple(value.shape)}"
            )
        if is_sparse(target):
            assign(target, value if isinstance(value, NDArray) else nd.array(value))
        else:
            target[:] = value

    def _run(self, training: bool, record: bool) -> None:
        with self._ctx:
            self._keep(self._bound.forward(training, record))

    def _forward_watched(self, is_train: bool) -> list[NDArray]:
        """Run node by node, and call the monitor for every output."""
        monitor = self._monitor
        assert monitor is not None

        def watch(node: Node, inputs: list[NDArray], outputs: list[NDArray]) -> None:
            if self._monitor_all:
                for i, (array, (source, _)) in enumerate(zip(inputs, node.inputs)):
                    if source.op is None:  # as in 1.x, the monitor sees a variable at each use
                        monitor(source.name, array.detach())
                    monitor(node.input_name(i), array.detach())
            for i, array in enumerate(outputs):
                monitor(node.output_name(i), array.detach())

        self._watched = None
        self._bound.forget_forward()
        run = (self._symbol._outputs, self._bound.values, self._calls, watch, self._contexts)
        with self._ctx:
            if is_train:
                self._watched = _core.RecordedSteps(*run)
                self._keep(self._watched.outputs)
            else:
                with autograd.pause(False):
                    self._keep(_core.evaluate(*run))
        return self.outputs

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Compute gradients into ``grad_arrays``, according to ``grad_req``.

        Parameters
        ----------
        out_grads : NDArray, list of NDArray, or dict of str to NDArray, optional
            Gradients of the outputs, cast to the outputs' dtypes. Losses need none; for other
            outputs the default is ones.
        is_train : bool
            Mode in which forward is run again here if it did not run with ``is_train=True``.

        Raises
        ------
        TypeError
            If out_grads are not NDArrays.
        ValueError
            If there are more gradients than outputs; missing gradients are zeros.
        """
        if out_grads is None:
            heads: list[NDArray | None] = []
        elif isinstance(out_grads, NDArray):
            heads = [out_grads]
        elif isinstance(out_grads, dict):
            heads = [out_grads.get(name) for name in self._symbol.list_outputs()]
        elif isinstance(out_grads, (list, tuple)):
            heads = list(out_grads)
        else:
            raise TypeError_(
                f"backward: out_grads must be NDArrays, got {type(out_grads).__name__}"
            )
        for grad in heads:
            if grad is not None and not isinstance(grad, NDArray):
                raise TypeError_(
                    f"backward: out_grads must hold NDArrays, got {type(grad).__name__}"
                )
        if all(r == "null" or g is None for r, g in zip(self._requests, self.grad_arrays)):
            return
        with self._ctx:
            if self._watched is None:
                if self._bound.prepare_backward(bool(is_train)):
                    self._keep(self._bound.outputs)
                self._bound.backward(heads, bool(is_train))
                return
            outputs = self._outputs
            heads = [
                g if g is None or g.shape == output.shape else g.reshape(output.shape)
                for g, output in zip(
                    _core.head_gradients(self._symbol._outputs, outputs, heads), outputs
                )
            ]
            self._watched.backward(heads, self._monitor or (lambda name, gradient: None))

    def set_monitor_callback(
        self, callback: Callable[[str, NDArray], None] | None, monitor_all: bool = False
    ) -> None:
        """Call ``callback(name, array)`` for the outputs of every operator, and for gradients.

        Parameters
        ----------
        callback : callable
            None removes the callback.
        monitor_all : bool
            Also call it for each operator's inputs before the outputs, as ``fc1_data``.
        """
        self._monitor, self._monitor_all = callback, monitor_all

    # -- changing --------------------------------------------------------------------------------

    def copy_params_from(
        self,
        arg_params: Mapping[str, Any],
        aux_params: Mapping[str, Any] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy values into arguments and auxiliary states.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray or array_like
        allow_extra_params : bool
            Ignore names that the executor does not have.

        Raises
        ------
        ValueError
            For a name that the executor does not have, or a value of another shape.
        """
        targets = (
            (arg_params, self.arg_dict, "arguments"),
            (aux_params or {}, self.aux_dict, "auxiliary states"),
        )
        for params, arrays, what in targets:
            for name, value in params.items():
                target = arrays.get(name)
                if target is None:
                    if allow_extra_params:
                        continue
                    hint = suggestion(name, arrays)
                    raise ValueError_(f'Find name "{name}" that is not in the {what}{hint}')
                if not isinstance(value, NDArray):
                    value = nd.array(value, dtype=target.dtype)
                if tuple(value.shape) != tuple(target.shape):
                    raise ShapeError(
                        f"copy_params_from: {name} must have shape {tuple(target.shape)}, got "
                        f"{tuple(value.shape)}"
                    )
                if value.dtype != target.dtype:
                    value = value.astype(target.dtype)
                if is_sparse(target):
                    assign(target, value.as_in_context(target.context))
                else:
                    target[:] = value

    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any
    ) -> Executor:
        """Return an executor for other shapes that shares this one's arrays, including outputs.

        An array gets new memory if it is larger than the array of this executor.

        Parameters
        ----------
        partial_shaping : bool
            Allow shapes of arguments that were not given to change.
        allow_up_sizing : bool
            Allow arrays to grow.
        **kwargs : tuple of int
            New shapes by name.

        Raises
        ------
        ValueError
            If a change is not allowed.
        """
        named = {*self._arg_names, *self._aux_names} if partial_shaping else set(kwargs)
        reshaped = self._reshaped(kwargs, named, allow_up_sizing)
        self._shares_outputs = reshaped._shares_outputs = True
        reshaped._shown = shared(self.outputs, reshaped.outputs)
        return reshaped

    def _reshaped(
        self, new_shapes: Mapping[str, Any], changing: Container[str], allow_up_sizing: bool
    ) -> Executor:
        """Implement `reshape`; only the arrays in ``changing`` may change their shape."""
        shapes, _, aux_shapes = self._symbol.infer_shape(**new_shapes)
        if shapes is None:
            raise ValueError_("Insufficient argument shapes provided.")
        names = [*self._arg_names, *self._aux_names]
        check_kept(
            zip(names, [*self.arg_arrays, *self.aux_arrays], [*shapes, *aux_shapes]),
            changing,
            new_shapes,
        )
        args: list[NDArray] = []
        grads: list[NDArray | None] = []
        for name, shape, array, grad in zip(
            self._arg_names, shapes, self.arg_arrays, self.grad_arrays
        ):
            args.append(resized(name, array, shape, allow_up_sizing))
            grads.append(None if grad is None else resized(name, grad, shape, allow_up_sizing))
        states = zip(self._aux_names, self.aux_arrays, aux_shapes)
        aux = [resized(*state, allow_up_sizing) for state in states]
        reshaped = Executor(
            self._symbol, self._ctx, args, grads, list(self._requests), aux, self._group2ctx
        )
        reshaped._monitor, reshaped._monitor_all = self._monitor, self._monitor_all
        reshaped._bound.count_with(self._bound)
        return reshaped

    def get_optimized_symbol(self) -> Any:
        """Return the executor's symbol itself, because passes run on the graph compiled from it."""
        return self._symbol

    def debug_str(self) -> str:
        """Return a readable list of the symbol's nodes and the memory that results need.

        Returns
        -------
        str
            The last two lines are ``Total <n> MB allocated`` and, because kernels share scratch
            memory, ``Total 0 TempSpace resource requested``.
        """
        requests = zip(self._arg_names, self.grad_arrays, self._requests)
        wanted = {name for name, grad, req in requests if grad is not None and req != "null"}
        total = self._infer().bytes_of_results(wanted)
        return (
            f"{self._symbol.debug_str()}Total {total >> 20} MB allocated\n"
            "Total 0 TempSpace resource requested\n"
        )
