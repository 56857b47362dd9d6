"""Layers that combine, rearrange or normalize (``mx.gluon.contrib.nn``)."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import autograd
from .... import ndarray as nd
from ....base import NotSupportedError, ShapeError
from ....comm.batch_norm import sync_batch_norm
from ....comm.device_exchange import DeviceExchange
from ....comm.groups import Group, group_of
from ....comm.process_sets import chosen_process_set
from ....ndarray import NDArray
from ...block import Block, HybridBlock
from ...nn.basic_layers import BatchNorm, HybridSequential, Sequential
from ...nn.conv_layers import Sizes, spatial_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...call_types import BlockOptions

__all__ = [
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
    "SparseEmbedding",
    "SyncBatchNorm",
]


class Concurrent(Sequential):
    """Passes the same input to all child blocks and concatenates their outputs.

    Parameters
    ----------
    axis : int
    prefix : str, optional
    params : ParameterDict, optional
    """

    def __init__(self, axis: int = -1, prefix: Any = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any, *args: Any) -> NDArray:
        """Run the children and concatenate."""
        outputs = [block(x) for block in self._children.values()]
        return nd.concat(*outputs, dim=self.axis)


class HybridConcurrent(HybridSequential):
    """Passes the same input to all child HybridBlocks and concatenates their outputs.

    Parameters
    ----------
    axis : int
    prefix : str, optional
    params : ParameterDict, optional
    """

    def __init__(self, axis: int = -1, prefix: Any = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Run the children and concatenate."""
        outputs = [block(x) for block in self._children.values()]
        return F.concat(*outputs, dim=self.axis)


class Identity(HybridBlock):
    """Returns its input, for example as a shortcut in `Concurrent`."""

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return ``x``."""
        return x


class SparseEmbedding(Block):
    """`nn.Embedding` with a row-sparse weight, of which a forward reads only the rows it needs.

    Parameters
    ----------
    input_dim : int
        Number of rows: largest index plus 1.
    output_dim : int
        Length of each row of the weight.
    dtype : str or numpy type
    weight_initializer : Initializer or str, optional
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype}
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(input_dim, output_dim),
                init=weight_initializer,
                dtype=dtype,
                grad_stype="row_sparse",
                stype="row_sparse",
            )

    def forward(self, x: Any) -> NDArray:
        """Return the rows for the indices, shape ``x.shape + (output_dim,)``."""
        weight = self.weight.row_sparse_data(x)
        return nd.Embedding(x, weight, sparse_grad=True, **self._kwargs)

    def __repr__(self) -> str:
        dims, dtype = self._kwargs, np.dtype(self._kwargs["dtype"]).name
        return f"{type(self).__name__}({dims['input_dim']} -> {dims['output_dim']}, {dtype})"


_exchanges: weakref.WeakKeyDictionary[SyncBatchNorm, DeviceExchange] = weakref.WeakKeyDictionary()


class SyncBatchNorm(BatchNorm):
    """`BatchNorm` over the batches of all devices of this process and of other ranks.

    In training, mean and variance are those of the joined batch, as are the gradients. Channels are
    axis 1.

    Parameters
    ----------
    in_channels : int
    num_devices : int, optional
        Number of devices that train the layer together: all devices of this process, all devices
        of all ranks of the process set (default), or 1 if each device normalizes alone.
    momentum, epsilon : float
    center, scale, use_global_stats : bool
    beta_initializer, gamma_initializer : Initializer or str
    running_mean_initializer, running_variance_initializer : Initializer or str
    process_set : ProcessSet, int or str, optional
        Ranks that normalize together; all of them call the layer in the same order, on equal
        numbers of devices. Default is all ranks.

    Raises
    ------
    NotSupportedError
        From a call in training mode: if num_devices is neither the number of devices of this
        process nor that of all ranks, or for several devices if operators run in the calling thread
        (``MXLITE_ENGINE=naive``).
    ValueError
        From a call in training mode, if this process does not belong to the process set.

    Notes
    -----
    Matches ``mxnet.gluon.contrib.nn.SyncBatchNorm``, which shares statistics between devices of a
    process only, and needs one thread for each of them. Here a call returns immediately: its result
    gets its value when the layer has run on all devices. The layer must run equally often on all
    devices before the program waits for a result; waiting raises a CommunicatorError if a device
    does not follow within ``MXLITE_COMM_TIMEOUT`` seconds. On several devices, hybridized blocks
    around the layer run operator by operator, and their other children keep their graphs. An
    exported symbol is for inference only.
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        *,
        process_set: Any = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            1, momentum, epsilon, center, scale, use_global_stats, beta_initializer,
            gamma_initializer, running_mean_initializer, running_variance_initializer, in_channels,
            **kwargs,
        )  # fmt: skip
        self._options = {key: value for key, value in self._kwargs.items() if key != "axis"}
        self._options["ndev"] = max(num_devices or 1, 1)
        self._options["key"] = self.prefix
        self._alone = num_devices == 1 and process_set is None
        if isinstance(process_set, str):  # the name of an axis of the current mesh
            process_set = chosen_process_set("SyncBatchNorm", process_set)
        self._process_set = process_set

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        x: Any,
        gamma: Any,
        beta: Any,
        running_mean: Any,
        running_var: Any,
    ) -> NDArray:
        """Normalize; in training mode the running statistics are updated."""
        arrays = x, gamma, beta, running_mean, running_var
        options = self._options
        is_array = isinstance(x, NDArray)
        trains = is_array and autograd.is_training() and not options["use_global_stats"]
        if not trains:
            ranks = options["ndev"] if is_array else max(options["ndev"], self._group().size)
            if ranks == 1:
                return super().hybrid_forward(F, *arrays)
            # This symbol raises an error in training, because its statistics would cover only one
            # rank.
            return F.contrib.SyncBatchNorm(*arrays, **{**options, "ndev": ranks})
        group = self._group()
        devices = 1 if self._alone else len(self.gamma.list_ctx())
        if options["ndev"] == devices > 1 and self._process_set is None:
            group = Group(0, (0,), 0)
        if options["ndev"] not in (1, devices * group.size):
            raise NotSupportedError(
                f"SyncBatchNorm: num_devices must be {devices * group.size} in training, got "
                f"{options['ndev']}: the layer is on {devices} device{'s' if devices > 1 else ''} "
                "of "
                f"this process, and process set {group.number} has {group.size} "
                f"rank{'s' if group.size > 1 else ''}"
            )
        if devices > 1:
            exchange = self._exchange(devices, group)
            numbers = options["eps"], options["momentum"], options["fix_gamma"]
            return sync_batch_norm(*arrays, None, 1, *numbers, exchange)[0]
        if group.size == 1:
            return super().hybrid_forward(F, *arrays)
        return F.contrib.SyncBatchNorm(*arrays, **options, process_set=group.number)

    def _exchange(self, devices: int, group: Group) -> DeviceExchange:
        """Return the object through which the devices of this process exchange statistics."""
        known = _exchanges.get(self)
        if known is None or (known.devices, known.group) != (devices, group):
            known = DeviceExchange(f"SyncBatchNorm {self.name!r}", devices, group)
            _exchanges[self] = known
        return known

    def _group(self) -> Group:
        """Return the ranks that normalize together."""
        if self._alone:
            return Group(0, (0,), 0)
        return group_of(f"SyncBatchNorm {self.name!r}", self._process_set)

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self._options.items())
        channels = (self.gamma.shape or (0,))[0] or None
        return f"{type(self).__name__}({options}, in_channels={channels})"


class _PixelShuffle(HybridBlock):
    """Base of the pixel shuffles, which move channels to one to three spatial dimensions."""

    _ndim = 0

    def __init__(self, factor: Sizes) -> None:
        super().__init__()
        self._factors = spatial_sizes(type(self).__name__, "factor", factor, self._ndim)

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return ``(N, C, f1 * D1, f2 * D2, ...)`` for ``(N, f1 * f2 * ... * C, D1, D2, ...)``."""
        ndim, factors = self._ndim, self._factors
        self._check(getattr(x, "shape", None))
        # reshape with codes instead of sizes also works for symbols: (N, C, f1, ..., D1, D2, ...).
        keep = (0,) * ndim
        x = F.reshape(x, shape=(0, -4, -1, math.prod(factors), *keep))
        for split in range(1, ndim):
            first, rest = factors[split - 1], math.prod(factors[split:])
            x = F.reshape(x, shape=(*(0,) * (split + 1), -4, first, rest, *keep))
        axes = [0, 1]
        for dimension in range(ndim):
            axes += [2 + ndim + dimension, 2 + dimension]
        x = F.transpose(x, axes=tuple(axes))
        return F.reshape(x, shape=(0, 0, *(-3,) * ndim))

    def _check(self, shape: Any) -> None:
        if shape is None:  # a symbol
            return
        ndim, blocks = self._ndim, math.prod(self._factors)
        if len(shape) != ndim + 2:
            raise ShapeError(
                f"{type(self).__name__}: data must have {ndim + 2} dimensions, got shape "
                f"{tuple(shape)}"
            )
        if shape[1] % blocks:
            raise ShapeError(
                f"{type(self).__name__}: number of channels must be a multiple of {blocks}, got "
                f"{shape[1]} in data of shape {tuple(shape)}"
            )

    def __repr__(self) -> str:
        shown = self._factors[0] if self._ndim == 1 else self._factors
        return f"{type(self).__name__}({shown})"


class PixelShuffle1D(_PixelShuffle):
    """Turns ``(N, f * C, W)`` into ``(N, C, f * W)``.

    Parameters
    ----------
    factor : int or tuple of int
    """

    _ndim = 1


class PixelShuffle2D(_PixelShuffle):
    """Turns ``(N, f1 * f2 * C, H, W)`` into ``(N, C, f1 * H, f2 * W)``.

    Parameters
    ----------
    factor : int or tuple of int
    """

    _ndim = 2


class PixelShuffle3D(_PixelShuffle):
    """Turns ``(N, f1 * f2 * f3 * C, D, H, W)`` into ``(N, C, f1 * D, f2 * H, f3 * W)``.

    Parameters
    ----------
    factor : int or tuple of int
    """

    _ndim = 3
