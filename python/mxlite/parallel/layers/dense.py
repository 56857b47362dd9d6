"""Dense layers that are divided by outputs (columns) or by inputs (rows)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base import ValueError_
from ...comm.groups import group_of
from ...gluon.block import HybridBlock
from ...gluon.nn.activations import Activation
from ...gluon.parameter import Parameter
from ...ndarray import NDArray
from .shards import entering, gathered, shard_sizes, summed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...gluon.call_types import BlockOptions, ParallelDenseOptions

__all__ = ["ColumnParallelDense", "RowParallelDense"]


class _ParallelDense(HybridBlock):
    """Base of both layers: options, parameters and repr."""

    _node_op = "fullyconnected"
    _axis: int  # divided axis of the weight
    weight: Parameter

    def __init__(
        self,
        units: int,
        process_set: Any,
        *,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        allow_uneven: bool = False,
        sequence_axis: int | None = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        name = type(self).__name__
        if units < 1 or in_units < 0:
            raise ValueError_(
                f"{name}: units must be at least 1 and in_units at least 0, got {units} and "
                f"{in_units}"
            )
        self._units = units
        self._in_units = in_units
        self._flatten = flatten
        self._sequence_axis = sequence_axis
        self._group = group_of(name, process_set)
        what, extent = (("units", units), ("in_units", in_units))[self._axis]
        # If in_units is unknown, the sizes are computed at the first call.
        self._sizes = shard_sizes(name, what, extent, self._group, allow_uneven) if extent else None
        common = {"dtype": dtype, "allow_deferred_init": True}
        divided = {**common, "shard": (self._axis, process_set), "allow_uneven": allow_uneven}
        with self.name_scope():
            self.act = (
                Activation(activation, prefix=activation + "_") if activation is not None else None
            )
            self.weight = self.params.get(
                "weight", shape=(units, in_units), init=weight_initializer, **divided
            )
            self.weight._same_loss = True
            self.bias: Parameter | None = None
            if use_bias:
                of_bias = divided if self._axis == 0 else common
                self.bias = self.params.get(
                    "bias", shape=(units,), init=bias_initializer, **of_bias
                )
                self.bias._same_loss = self._axis == 0

    def __repr__(self) -> str:
        act = self.act if self.act is not None else "linear"
        shape = self.weight.shape
        assert shape is not None
        return (
            f"{type(self).__name__}({shape[1] or None} -> {self._units}, {act}, "
            f"rank {self._group.index} of {self._group.size})"
        )


class ColumnParallelDense(_ParallelDense):
    """Dense layer of which each rank of a process set computes a part of the outputs.

    The input is the same on all ranks. The output is this rank's shard of the outputs, which is
    the input of `RowParallelDense`, or with ``gather_output`` the whole output.

    The weight has the shape ``(units, in_units)`` and the bias ``(units,)``; both are sharded along
    axis 0. Input ``(..., in_units)``, output ``(..., units of this rank)``.

    Parameters
    ----------
    units : int
        Size of the whole output's last dimension.
    process_set : ProcessSet, int, str or None
        The ranks; None for all of the job. Usually the name of an axis of the current mesh.
    activation : str, optional
        As in `gluon.nn.Activation`.
    use_bias, flatten, dtype, weight_initializer, bias_initializer, in_units
        As in `gluon.nn.Dense`.
    gather_output : bool
        Return the whole output on all ranks.
    allow_uneven : bool
        Accept ``units`` that do not divide evenly; the first ranks then have one unit more.
    sequence_axis : int, optional
        The input is this rank's part along this axis (sequence parallelism), which must divide
        evenly; the output has the whole axis.

    Raises
    ------
    ShapeError
        If ``units`` does not divide evenly among the ranks.
    """

    _axis = 0

    def __init__(
        self,
        units: int,
        process_set: Any = None,
        *,
        gather_output: bool = False,
        **options: Unpack[ParallelDenseOptions],
    ) -> None:
        super().__init__(units, process_set, **options)
        self._gather_output = bool(gather_output)
        self.weight._graph_of_rank |= self._gather_output  # another layer may share the weight

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> NDArray:  # noqa: N803
        """Compute this rank's outputs."""
        group = self._group
        assert self._sizes is not None
        output = F.FullyConnected(
            entering(F, x, group, self._sequence_axis),
            weight,
            bias,
            no_bias=bias is None,
            num_hidden=self._sizes[group.index],
            flatten=self._flatten,
        )
        if self.act is not None:
            output = self.act(output)
        return gathered(F, output, self._sizes, group) if self._gather_output else output


class RowParallelDense(_ParallelDense):
    """Dense layer of which each rank of a process set computes with a part of the inputs.

    The input is this rank's shard along the last dimension, as `ColumnParallelDense` returns it, or
    without ``input_is_parallel`` the whole input, which is the same on all ranks. The output is
    the sum of the products of all ranks, and the same on all of them unless ``sequence_axis``
    divides it.

    The weight has the shape ``(units, in_units)`` and is sharded along axis 1; the bias
    ``(units,)`` is whole on every rank.

    Parameters
    ----------
    units : int
        Size of the output's last dimension.
    process_set : ProcessSet, int, str or None
        The ranks; None for all of the job. Usually the name of an axis of the current mesh.
    activation : str, optional
        As in `gluon.nn.Activation`.
    use_bias, flatten, dtype, weight_initializer, bias_initializer
        As in `gluon.nn.Dense`.
    in_units : int
        Size of the whole input; 0 takes it from the first input, which needs equal shards.
    input_is_parallel : bool
        Whether inputs are shards.
    allow_uneven : bool
        Accept ``in_units`` that do not divide evenly; the first ranks then have one more.
    sequence_axis : int, optional
        The output is this rank's part along this axis (sequence parallelism), which must divide
        evenly.

    Raises
    ------
    ShapeError
        If ``in_units`` does not divide evenly among the ranks.
    """

    _axis = 1

    def __init__(
        self,
        units: int,
        process_set: Any = None,
        *,
        input_is_parallel: bool = True,
        **options: Unpack[ParallelDenseOptions],
    ) -> None:
        if not options.get("in_units") and (options.get("allow_uneven") or not input_is_parallel):
            raise ValueError_(
                f"{type(self).__name__}: in_units must be the size of the whole input with "
                "allow_uneven or without input_is_parallel, got 0"
            )
        super().__init__(units, process_set, **options)
        self._input_is_parallel = bool(input_is_parallel)
        self.weight._graph_of_rank |= not self._input_is_parallel
        if self._sizes is not None:
            self._begin = sum(self._sizes[: self._group.index])
            self._end = self._begin + self._sizes[self._group.index]

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> NDArray:  # noqa: N803
        """Multiply by this rank's shard, sum over ranks, add the bias, activate."""
        if not self._input_is_parallel:
            x = entering(F, x, self._group)
            if self._flatten:
                x = F.flatten(x)
            x = F.slice_axis(x, axis=-1, begin=self._begin, end=self._end)
        part = F.FullyConnected(
            x, weight, no_bias=True, num_hidden=self._units, flatten=self._flatten
        )
        output = summed(F, part, self._group, self._sequence_axis)
        if bias is not None:
            if self._sequence_axis is not None:
                bias = entering(F, bias, self._group)
            output = F.broadcast_add(output, bias)
        return output if self.act is None else self.act(output)
