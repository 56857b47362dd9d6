"""Blocks of graphs in which sizes depend on values: a compiled part, then operators one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ... import ndarray as nd
from ...base import ValueError_
from ...gluon.block.block import Block
from ...gluon.block.symbol_block import SymbolBlock
from ...gluon.parameter import ParameterDict
from ...ndarray import NDArray
from ...symbol import Group, var
from .model import Runner, Stages
from .table import Scope, Sizes, Value

__all__ = ["StagedBlock"]


# Inputs that are not trained: those that converters read as numbers (numbers have no gradients),
# and running statistics.
_UNTRAINED = {
    "BatchNormalization": (3, 4), "Clip": (1, 2), "GRU": (1, 2, 3), "LSTM": (1, 2, 3, 7),
    "NonMaxSuppression": (2, 3, 4), "OneHot": (2,), "Pad": (2,), "RNN": (1, 2, 3),
    "Resize": (1, 2), "Upsample": (1,),
}  # fmt: skip


class _ArrayScope(Scope):
    """A scope in which operators run eagerly, so that the numbers of every value are known."""

    eager = True

    def __init__(self, opset: int, ctx: Any, evaluators: dict[Any, Any]) -> None:
        super().__init__(opset)
        self.ctx, self.evaluators = ctx, evaluators

    def call(
        self, op: str, values: Sequence[Value], params: dict[str, Any], name: str, who: str
    ) -> list[tuple[Sizes, str, Any]]:
        made = _core.op(op)(*(self.symbol(value, who) for value in values), **params)
        arrays = made if isinstance(made, (list, tuple)) else [made]
        return [((a.shape, a.shape), np.dtype(a.dtype).name, a) for a in arrays]

    def numbers(self, value: Value) -> tuple[np.ndarray, np.ndarray]:
        if value.const is not None:
            return value.const
        array = value.symbol.asnumpy().reshape(value.shape)
        if array.dtype.kind in "iub":  # such numbers have no gradient, so nodes can be folded
            value.const = (array, array)
        return array, array

    def symbol(self, value: Value, who: str) -> Any:
        if value.symbol is None:
            array = self.numbers(value)[0]
            shape = array.shape or (1,)
            if array.size > 1 and not any(array.strides):  # a number that was expanded
                value.symbol = nd.full(shape, array.flat[0], self.ctx, value.dtype)
            else:
                value.symbol = nd.array(array.reshape(shape), self.ctx, value.dtype)
        return value.symbol


class StagedBlock(Block):
    """A block that computes an ONNX graph in which sizes depend on values.

    What comes before the first such size is compiled. The other operators run one by one, and the
    program waits for the numbers that decide sizes.

    Parameters
    ----------
    stages : Stages
    """

    def __init__(self, stages: Stages) -> None:
        super().__init__()
        self._prefix = ""
        self._params = ParameterDict("")
        self._stages, self._evaluators = stages, dict[Any, Any]()
        scope, values = stages.scope, stages.values
        untrained = {
            name
            for node in stages.later
            for index, name in enumerate(node.input)
            if index in _UNTRAINED.get(node.op_type, ())
        }
        self._held: dict[str, str] = {}  # names in the graph -> names of parameters
        self._computed: list[str] = []
        symbols = []
        for name, value in values.items():
            if name in stages.inputs:
                continue
            if value.const is None:
                symbols.append(scope.symbol(value, name))
                self._computed.append(name)
            elif value.const[0].dtype.kind == "f" and value.ndim and value.const[0].size:
                self._held[name] = scope.symbol(value, name).name
                if name in untrained:
                    scope.fixed.add(self._held[name])
        for name in self._held.values():
            array = scope.params[name]
            self._reg_params[name] = self._params.get(
                name, shape=array.shape, dtype=array.dtype.name
            )
        if symbols:
            inputs = [var(values[name].name) for name in stages.inputs]
            self.compiled = SymbolBlock(Group(symbols), inputs, params=self._params)

    def forward(self, *inputs: NDArray) -> Any:
        """Return the outputs of the graph."""
        stages = self._stages
        if len(inputs) != len(stages.inputs):
            raise ValueError_(
                f"{self.name}: the number of inputs must be {len(stages.inputs)} "
                f"({', '.join(stages.inputs)}), got {len(inputs)}"
            )
        ctx = inputs[0].context
        scope = _ArrayScope(stages.scope.opset, ctx, self._evaluators)
        arrays = dict(zip(stages.inputs, inputs))
        if self._computed:
            made = self.compiled(*inputs)
            made = made if isinstance(made, (list, tuple)) else [made]
            arrays.update(zip(self._computed, made))
        values = {}
        for name, value in stages.values.items():
            held = self._held.get(name)
            array = arrays.get(name) if held is None else self._reg_params[held].data(ctx)
            sizes = value.sizes if array is None or not value.ndim else (array.shape,) * 2
            const = value.const if held is None or not value.trainable else None
            values[name] = Value(sizes, value.dtype, array, const, trainable=value.trainable)
        runner = Runner(scope, values)
        for proto in stages.later:
            runner.convert(proto)
        outputs = [scope.symbol(values[name], name) for name in stages.outputs]
        return outputs[0] if len(outputs) == 1 else outputs
