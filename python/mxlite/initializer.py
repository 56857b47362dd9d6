"""Initial values of parameters (``mx.init``, ``mx.initializer``).

An initializer is called with a description of the parameter and the array to fill. The name's
suffix decides which rule applies: only ``weight`` gets the initializer's own distribution,
``bias``, ``beta`` and running means become 0, ``gamma`` and running variances 1.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import numpy as np

from . import ndarray as nd
from . import registry as _registry
from ._rnn_vector import GATES, RNNVector
from ._typed_init import TypedInit
from .base import ShapeError, TypeError_, ValueError_
from .ndarray import NDArray
from .ndarray.array_like import host_array

__all__ = [
    "Bilinear",
    "Constant",
    "FusedRNN",
    "InitDesc",
    "Initializer",
    "LSTMBias",
    "Load",
    "MSRAPrelu",
    "Mixed",
    "Normal",
    "One",
    "Orthogonal",
    "Uniform",
    "Xavier",
    "Zero",
    "create",
    "register",
]


class InitDesc(str):
    """A parameter's name with attributes for its initializer.

    Parameters
    ----------
    name : str
        Name of the parameter; the object is this string.
    attrs : dict of str to Any, optional
        Attributes; ``"__init__"`` is the parameter's own initializer.
    global_init : Initializer, optional
        The initializer of the whole network.
    """

    attrs: dict[str, Any]
    global_init: Initializer | None

    def __new__(
        cls,
        name: str,
        attrs: dict[str, Any] | None = None,
        global_init: Initializer | None = None,
    ) -> InitDesc:
        """Make the string and attach the attributes."""
        desc = super().__new__(cls, name)
        desc.attrs = attrs or {}
        desc.global_init = global_init
        return desc


class Initializer(TypedInit):
    """Base of all initializers.

    Parameters
    ----------
    **kwargs
        The arguments of the subclass, kept for `dumps`.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], Any] = _root_mean_square

    def set_verbosity(
        self, verbose: bool = False, print_func: Callable[[NDArray], Any] | None = None
    ) -> Initializer:
        """Log each initialized parameter from now on; return this object.

        ``print_func`` maps an array to what is logged, by default its root mean square.
        """
        self._verbose = verbose
        self._print_func = print_func or _root_mean_square
        return self

    def dumps(self) -> str:
        """Return JSON text for `create`, such as ``["xavier", {"magnitude": 3}]``."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, desc: str, arr: NDArray) -> None:
        """Fill ``arr`` by the rule for the name ``desc``.

        Parameters
        ----------
        desc : str or InitDesc
            The parameter's name.
        arr : NDArray
            The array to fill in place.

        Raises
        ------
        TypeError
            If ``desc`` is not a string.
        ValueError
            If the name's suffix is unknown.
        """
        if not isinstance(desc, str):
            raise TypeError_(
                f"initializer: the description must be a name or an InitDesc, got {desc!r}"
            )
        if isinstance(desc, InitDesc):
            if desc.global_init is None:
                desc.global_init = self
            own = desc.attrs.get("__init__", "")
            if own:
                initializer = create(own)
                initializer._init_weight(desc, arr)
                self._report(desc, initializer, arr)
                return
        for suffix, rule in _RULES:
            if desc.endswith(suffix):
                getattr(self, rule)(desc, arr)
                self._report(desc, self, arr)
                return
        self._init_default(desc, arr)

    def _report(self, desc: str, initializer: Initializer, arr: NDArray) -> None:
        if self._verbose:
            logging.info(
                "Initialized %s as %s: %s", desc, initializer.dumps(), self._print_func(arr)
            )

    def _init_zero(self, desc: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_one(self, desc: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_bias(self, desc: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_gamma(self, desc: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_beta(self, desc: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        """Fill a weight; every subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} does not define _init_weight")

    def _init_default(self, desc: str, arr: NDArray) -> None:
        if str(desc).endswith("label"):
            raise ValueError_(
                f"initializer: the name {str(desc)!r} looks like a label, not like a parameter; "
                f"name it in Module(..., label_names=[{str(desc)!r}]) and in the data iterator"
            )
        raise ValueError_(
            f"initializer: the name {str(desc)!r} ends in no known suffix "
            f"({', '.join(suffix for suffix, _ in _RULES)}); give the parameter its own "
            "initializer (init=...)"
        )

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self._kwargs.items())
        return f"{type(self).__name__}({options})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__


_RULES: tuple[tuple[str, str], ...] = (
    ("weight", "_init_weight"),
    ("bias", "_init_bias"),
    ("gamma", "_init_gamma"),
    ("beta", "_init_beta"),
    ("min", "_init_zero"),
    ("max", "_init_one"),
    ("moving_mean", "_init_zero"),
    ("running_mean", "_init_zero"),
    ("moving_var", "_init_one"),
    ("running_var", "_init_one"),
    ("moving_inv_var", "_init_zero"),
    ("moving_avg", "_init_zero"),
)


def _root_mean_square(arr: NDArray) -> str:
    values = arr.asnumpy().astype(np.float64)
    return f"rms {np.sqrt(np.mean(np.square(values))):.6g}"


register = _registry.get_register_func(Initializer, "initializer")
alias = _registry.get_alias_func(Initializer, "initializer")
create = _registry.get_create_func(Initializer, "initializer")


@alias("zeros")
@register
class Zero(Initializer):
    """All zeros."""

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        arr[:] = 0.0


@alias("ones")
@register
class One(Initializer):
    """All ones."""

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        arr[:] = 1.0


@register
class Constant(Initializer):
    """One value, or the values of an array.

    Parameters
    ----------
    value : float or NDArray
        An array is broadcast to the parameter's shape.
    """

    def __init__(self, value: Any) -> None:
        number = isinstance(value, (int, float, np.number))
        # Passes an array as a list, because the arguments are also written as JSON.
        super().__init__(value=value if number else host_array(value, "Constant").tolist())
        self.value = value

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        value = self.value
        if not isinstance(value, (NDArray, int, float, np.number)):
            value = host_array(value, "Constant", arr.dtype)
            value = value[()] if value.ndim == 0 else value
        try:
            arr[:] = value
        except ShapeError as error:
            raise ShapeError(
                f"Constant: the value must have a shape that is broadcast to that of parameter "
                f"{str(desc)!r}, {tuple(arr.shape)}, got {tuple(value.shape)}"
            ) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return self.dumps() == other.dumps()

    __hash__ = object.__hash__


@register
class Uniform(Initializer):
    """Uniform values in ``[-scale, scale)``; Gluon's default."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        nd.random.uniform(-self.scale, self.scale, out=arr)


@register
class Normal(Initializer):
    """Normal values with mean 0.

    Parameters
    ----------
    sigma : float
        Standard deviation.
    """

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        nd.random.normal(0, self.sigma, out=arr)


@register
class Orthogonal(Initializer):
    """Rows (or columns) of an orthogonal matrix, times ``scale`` (Saxe et al., 2013).

    Parameters
    ----------
    scale : float
    rand_type : {'uniform', 'normal'}
        Distribution of the matrix that is decomposed.
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        rows = arr.shape[0]
        shape = (rows, int(np.prod(arr.shape[1:])))
        if self.rand_type == "uniform":
            drawn = nd.random.uniform(-1.0, 1.0, shape=shape)
        elif self.rand_type == "normal":
            drawn = nd.random.normal(0.0, 1.0, shape=shape)
        else:
            raise ValueError_(
                f"Orthogonal: rand_type must be 'uniform' or 'normal', got {self.rand_type!r}"
            )
        u, _, v = np.linalg.svd(drawn.asnumpy(), full_matrices=False)
        basis = u if u.shape == shape else v
        arr[:] = (self.scale * basis).reshape(arr.shape).astype(np.float32)


@register
class Xavier(Initializer):
    """Values scaled by fan-in and fan-out (Glorot and Bengio, 2010).

    The scale is ``sqrt(magnitude / factor)`` with factor the fan-in, the fan-out or their mean;
    fan-in is ``shape[1] * prod(shape[2:])``, fan-out ``shape[0] * prod(shape[2:])``.

    Parameters
    ----------
    rnd_type : {'uniform', 'gaussian'}
    factor_type : {'avg', 'in', 'out'}
    magnitude : float
    """

    def __init__(
        self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3
    ) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ShapeError(
                f"Xavier: parameter {str(desc)!r} must have at least 2 dimensions, got shape "
                f"{tuple(shape)}"
            )
        area = float(np.prod(shape[2:]))
        fan_in, fan_out = shape[1] * area, shape[0] * area
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError_(
                f"Xavier: factor_type must be 'avg', 'in' or 'out', got {self.factor_type!r}"
            )
        scale = float(np.sqrt(self.magnitude / factors[self.factor_type]))
        if self.rnd_type == "uniform":
            nd.random.uniform(-scale, scale, out=arr)
        elif self.rnd_type == "gaussian":
            nd.random.normal(0, scale, out=arr)
        else:
            raise ValueError_(
                f"Xavier: rnd_type must be 'uniform' or 'gaussian', got {self.rnd_type!r}"
            )


@register
class MSRAPrelu(Xavier):
    """Normal values for networks with (P)ReLU (He et al., 2015).

    Parameters
    ----------
    factor_type : {'avg', 'in', 'out'}
    slope : float
        Initial slope of the PReLU.
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The kernel of bilinear upsampling, for `Deconvolution` weights."""

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        height, width = arr.shape[2], arr.shape[3]
        factor = np.ceil(width / 2.0)
        center = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        rows = 1 - np.abs(np.arange(height) / factor - center)
        columns = 1 - np.abs(np.arange(width) / factor - center)
        kernel = np.outer(rows, columns).astype(np.float32)
        arr[:] = np.broadcast_to(kernel, arr.shape).copy()


@register
class LSTMBias(Initializer):
    """Zeros, but ``forget_bias`` in the second quarter (gate order input, forget, cell, output)."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        values = np.zeros(arr.shape, np.float32)
        hidden = arr.shape[0] // 4
        values[hidden : 2 * hidden] = self.forget_bias
        arr[:] = values


@register
class FusedRNN(Initializer):
    """The parameter vector of a fused RNN; ``init`` initializes each of its matrices.

    Parameters
    ----------
    init : Initializer, str or None
        Initializer of the weights; None takes the network's.
    num_hidden, num_layers : int
    mode : {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'}
    bidirectional : bool
    forget_bias : float
        Value of both biases of the LSTM's forget gate, which are added.
    """

    def __init__(
        self,
        init: Initializer | str | None,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        if mode not in GATES:
            raise ValueError_(f"FusedRNN: mode must be one of {sorted(GATES)}, got {mode!r}")
        if init is not None:
            init = create(init)
        super().__init__(
            init=None if init is None else init.dumps(),
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        self._init = init
        self._vector = RNNVector(num_hidden, num_layers, mode, bidirectional)
        self._forget_bias = forget_bias

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        """Call the initializer for each gate with its name, as in ``l0_i2h_i_weight``."""
        network = getattr(desc, "global_init", None)
        initializer = self._init or network or Uniform()
        vector, parts = self._vector, []
        for name, shape in vector.pieces(vector.input_size(int(arr.size), "FusedRNN")):
            part = nd.zeros(shape)
            if vector.mode == "lstm" and name.endswith("_f_bias"):
                part[:] = self._forget_bias
            else:
                initializer(InitDesc(name, global_init=network), part)
            parts.append(part.reshape(-1))
        arr[:] = nd.concat(*parts, dim=0).reshape(arr.shape)


class Load:
    """Values from a file or a dict; ``default_init`` initializes names that are missing there.

    Parameters
    ----------
    param : str or dict of str to NDArray or array_like
        File written by ``nd.save`` or the arrays; ``arg:`` and ``aux:`` are dropped.
    default_init : callable, optional
    verbose : bool
        Log where each value came from.
    """

    def __init__(
        self,
        param: str | Mapping[str, NDArray],
        default_init: Callable[[str, NDArray], None] | None = None,
        verbose: bool = False,
    ) -> None:
        arrays = nd.load(param) if isinstance(param, str) else param
        if not isinstance(arrays, Mapping):
            raise TypeError_(f"Load: {param!r} must hold arrays with names, got a list")
        self.param = {
            name[4:] if name.startswith(("arg:", "aux:")) else name: value
            for name, value in arrays.items()
        }
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        """Fill ``arr`` with the value saved as ``name``."""
        if name in self.param:
            value = self.param[name]
            if not isinstance(value, NDArray):
                value = host_array(value, f"Load: parameter {str(name)!r}", arr.dtype)
            if tuple(value.shape) != tuple(arr.shape):
                raise ShapeError(
                    f"Load: the loaded value of parameter {str(name)!r} must have its shape, "
                    f"{tuple(arr.shape)}, got {tuple(value.shape)}"
                )
            arr[:] = value
            source = "loaded"
        elif self.default_init is not None:
            self.default_init(name, arr)
            source = "default initializer"
        else:
            raise ValueError_(
                f"Load: there is no value for parameter {str(name)!r} and no default_init"
            )
        if self.verbose:
            logging.info("Initialized %s by %s", name, source)


class Mixed:
    """Uses the initializer of the first pattern that matches the name.

    Parameters
    ----------
    patterns : sequence of str
        Regular expressions, matched at the start of the name; end with ``".*"``.
    initializers : sequence of callable
        One for each pattern.
    """

    def __init__(
        self, patterns: Sequence[str], initializers: Sequence[Callable[[str, NDArray], None]]
    ) -> None:
        if len(patterns) != len(initializers):
            raise ValueError_(
                f"Mixed: the number of initializers must be that of patterns, {len(patterns)}, got "
                f"{len(initializers)}"
            )
        self.map = [(re.compile(pattern), init) for pattern, init in zip(patterns, initializers)]

    def __call__(self, name: str, arr: NDArray) -> None:
        """Fill ``arr`` by the first initializer whose pattern matches ``name``."""
        for pattern, initializer in self.map:
            if pattern.match(name):
                initializer(name, arr)
                return
        raise ValueError_(
            f"Mixed: no pattern matches parameter {str(name)!r}; add '.*' as the last pattern"
        )
