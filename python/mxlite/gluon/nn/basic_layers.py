"""Dense, Dropout, Embedding, Flatten and functions as layers."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from ... import ndarray as nd
from ..._typed_init import check_sizes
from ...base import TypeError_, ValueError_, suggestion
from ...ndarray import NDArray
from ..block import Block, HybridBlock
from .activations import Activation
from .containers import HybridSequential, Sequential
from .norm_layers import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..call_types import BlockOptions

__all__ = [
    "BatchNorm",
    "BatchNormReLU",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "HybridLambda",
    "HybridSequential",
    "InstanceNorm",
    "Lambda",
    "LayerNorm",
    "Sequential",
]


class Dense(HybridBlock):
    """Fully connected layer: ``activation(x @ weight.T + bias)``.

    The weight has shape ``(units, in_units)``. Matches ``mxnet.gluon.nn.Dense``.

    Parameters
    ----------
    units : int
        Size of the output's last dimension.
    activation : str, optional
        As in `Activation`.
    use_bias : bool
    flatten : bool
        Join all but the first dimension of the input.
    dtype : str or numpy type
        Type of the parameters.
    weight_initializer, bias_initializer : Initializer or str
    in_units : int
        Size of the input; 0 takes it from the first input.
    """

    _node_op = "fullyconnected"

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        if units < 0:
            raise ValueError_(f"Dense: units must be 0 or more, got {units}")
        self._flatten = flatten
        self._units = units
        self._in_units = in_units
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(units, in_units),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
            )
            self.bias = (
                self.params.get(
                    "bias",
                    shape=(units,),
                    init=bias_initializer,
                    dtype=dtype,
                    allow_deferred_init=True,
                )
                if use_bias
                else None
            )
            self.act = (
                Activation(activation, prefix=activation + "_") if activation is not None else None
            )

    def _shape_hint(self, shape: tuple[int, ...]) -> str:
        wanted = (self.weight.shape or (0, 0))[1]
        given = math.prod(shape[1:]) if self._flatten else shape[-1]
        if wanted <= 0 or given == wanted:
            return ""
        return f"the layer has in_units={wanted}, but a row of the data has {given} values"

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> NDArray:  # noqa: N803
        """Multiply by the weight, add the bias, and apply the activation."""
        output = F.FullyConnected(
            x, weight, bias, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten
        )
        return output if self.act is None else self.act(output)

    def __repr__(self) -> str:
        shape = self.weight.shape
        assert shape is not None
        act = self.act if self.act is not None else "linear"
        return f"{type(self).__name__}({shape[1] or None} -> {shape[0]}, {act})"


class Dropout(HybridBlock):
    """In training, sets random elements to 0 and scales the others up.

    Parameters
    ----------
    rate : float
        Probability that an element is set to 0, from 0 to below 1.
    axes : tuple of int
        Axes along which all elements share one random draw.
    """

    _node_op = "dropout"

    def __init__(
        self, rate: float, axes: tuple[int, ...] = (), **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate <= 1:
            raise ValueError_(f"Dropout: rate must be a fraction from 0 to 1, got {rate}")
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Drop elements; a rate of 0 returns the input."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Looks up rows of a matrix by index.

    Parameters
    ----------
    input_dim : int
        Number of rows: largest index plus 1.
    output_dim : int
        Length of each row of the weight.
    dtype : str or numpy type
    weight_initializer : Initializer or str, optional
    sparse_grad : bool
        The weight's gradient is row-sparse: only rows that were looked up are updated.
    """

    _node_op = "embedding"

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        check_sizes("Embedding", 0, input_dim=input_dim, output_dim=output_dim)
        self._input_dim = input_dim
        self._output_dim = output_dim
        self._dtype = dtype
        self._sparse_grad = bool(sparse_grad)
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(input_dim, output_dim),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
                grad_stype="row_sparse" if sparse_grad else "default",
            )

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> NDArray:  # noqa: N803
        """Return the rows for the indices, shape ``x.shape + (output_dim,)``."""
        return F.Embedding(
            x,
            weight,
            input_dim=self._input_dim,
            output_dim=self._output_dim,
            dtype=self._dtype,
            sparse_grad=self._sparse_grad,
        )

    def cast(self, dtype: Any) -> None:
        """Convert the parameters; see `Block.cast`."""
        super().cast(dtype)
        self._dtype = dtype

    def __repr__(self) -> str:
        dtype = self._dtype if isinstance(self._dtype, str) else np.dtype(self._dtype).name
        return f"{type(self).__name__}({self._input_dim} -> {self._output_dim}, {dtype})"


class Flatten(HybridBlock):
    """Joins all dimensions except the first."""

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return ``x`` with shape ``(x.shape[0], -1)``."""
        return F.Flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


def _without_module(operator: Callable[..., Any], _: Any, *args: Any) -> Any:
    return operator(*args)


def _operator(layer: str, name: str) -> Callable[..., Any]:
    """Return the operator with a name."""
    found = getattr(nd, name, None)
    if found is None:
        raise ValueError_(f"{layer}: there is no operator {name!r}{suggestion(name, dir(nd))}")
    return found


class Lambda(Block):
    """Wraps a function as a block.

    Parameters
    ----------
    function : str or callable
        Name of an operator of ``mx.nd``, or a function of arrays.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            self._func_name = function
            function = _operator("Lambda", function)
        elif callable(function):
            self._func_name = getattr(function, "__name__", repr(function))
        else:
            raise TypeError_(
                f"Lambda: function must be a function or an operator's name, got {function!r} of "
                f"type {type(function).__name__}"
            )
        self._func_impl = function

    def forward(self, *args: Any) -> Any:
        """Call the function."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


class HybridLambda(HybridBlock):
    """Wraps a function of ``F`` and arrays as a block that can be hybridized.

    Parameters
    ----------
    function : str or callable
        Name of an operator, or ``f(F, x, *args)``.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            self._func_name = function
            operator = _operator("HybridLambda", function)
            self._func: Callable[..., Any] = functools.partial(_without_module, operator)
        elif callable(function):
            self._func_name = getattr(function, "__name__", repr(function))
            self._func = function
        else:
            raise TypeError_(
                "HybridLambda: function must be a function or an operator's name, got "
                f"{function!r} of type {type(function).__name__}"
            )

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> NDArray:  # noqa: N803
        """Call the function."""
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"
