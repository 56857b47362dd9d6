"""Parameters: named arrays with a gradient and an initializer; the shape may be deferred."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ... import _core, autograd, initializer
from ... import ndarray as nd
from ..._typed_init import TypedInit
from ...base import (
    DTypeError,
    MXNetError,
    ShapeError,
    TracedWriteError,
    TypeError_,
    ValueError_,
    shape_tuple,
)
from ...comm.job import JOB
from ...context import Context, cpu, current_context
from ...ndarray import NDArray
from ...ndarray.array_like import host_array
from ...ndarray.serialization import dtype_name
from ...numpy_mode import is_np_array, is_np_shape, of_mode
from ...parallel.shard import SHARD_ATTRIBUTE, Shard
from ...symbol import var
from . import private_names
from .bindings import Bindings
from .cast_check import check_cast
from .private_names import ParameterArrays
from .tracing import STATE, note_use, stand_ins

__all__ = [
    "Constant",
    "DeferredInitializationError",
    "Parameter",
    "UninitializedParameterError",
    "tensor_types",
]

tensor_types = (NDArray,)

_NOT_INITIALIZED = (
    "has not been initialized. Call net.initialize() before the network is used. Note that you "
    "should initialize parameters and create Trainer with Block.collect_params() instead of "
    "Block.params because the latter does not include Parameters of nested child Blocks"
)


class UninitializedParameterError(MXNetError):
    """A parameter's value was read before it was initialized."""


class StorageTypeError(ValueError_, AssertionError):
    """A storage type that does not exist (1.x: ``AssertionError``)."""


class DeferredInitializationError(UninitializedParameterError):
    """A parameter's value was read before the first forward, which determines its shape."""


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Return whether every dimension is known (0, -1 and an empty shape mean unknown)."""
    return bool(shape) and all(extent > 0 for extent in shape or ())


def _as_context_list(ctx: Context | Sequence[Context] | None) -> list[Context]:
    if ctx is None:
        return [current_context()]
    if isinstance(ctx, Context):
        return [ctx]
    contexts = list(ctx) if isinstance(ctx, Iterable) and not isinstance(ctx, str) else [ctx]
    for entry in contexts:
        if not isinstance(entry, Context):
            raise TypeError_(
                f"ctx must be mx.cpu(), mx.gpu(0) or a list of contexts, got {entry!r}"
            )
    if not contexts:
        raise ValueError_("ctx must have at least 1 context, got an empty list")
    return contexts


class Parameter(TypedInit):
    """A named array, one copy per context, with its gradient.

    Matches ``mxnet.gluon.Parameter``, which has no ``shard``. Initialization, loading and saving
    of a sharded parameter need all ranks of the process set: they make these calls in the same
    order. Files hold the whole array.

    Parameters
    ----------
    name : str
        Full name, such as ``"dense0_weight"``.
    grad_req : {'write', 'add', 'null'}
        Overwrite the gradient, add to it, or have none.
    shape : int or tuple of int, optional
        0 or -1 for a dimension that is inferred in the first forward pass.
    dtype : str or numpy type
        Type of the elements.
    lr_mult, wd_mult : float
        Factors of learning rate and weight decay.
    init : Initializer or str, optional
        Initializer of this parameter; None uses that of the network.
    allow_deferred_init : bool
        Whether an unknown shape is allowed in `initialize`.
    differentiable : bool
        False for running statistics; their ``grad_req`` stays ``'null'``.
    stype, grad_stype : {'default', 'row_sparse', 'csr'}
        Storage types of data and gradient. Row-sparse data is read with `row_sparse_data`.
    shard : tuple of (int, ProcessSet or str), optional
        Axis and process set: the array is divided along the axis, and each rank of the set holds
        its shard. ``shape`` is that of the whole array. The process set may be given by the
        name of an axis of the current mesh, by its number, and as None for all ranks. May be set
        until the parameter is initialized.
    allow_uneven : bool
        Accept an axis that does not divide evenly; the first ranks then have one index more.
    """

    # True if all ranks with a shard compute the same loss; their gradients are not summed.
    _same_loss = False
    _numpy = False  # for pickles of earlier versions, which lack the attribute
    # True if the graph of the layer depends on which shard this rank has.
    _graph_of_rank = False
    # Process set with one rank per stage of the pipeline; None outside of pipelines, or -1 if a
    # stage has no trained parameters.
    _stages: int | None = None
    # False for a copy of an earlier stage's parameter, because norms count the gradient there.
    _is_counted = True
    # True if a pipeline zeroes the gradient at each step, so that grad_req 'add' sums
    # micro-batches.
    _cleared_by_pipelines = False
    _grad = private_names.grads
    _ctx_list = private_names.contexts
    _ctx_map = private_names.positions
    _check_and_get = private_names.check_and_get

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: int | Sequence[int] | None = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
        shard: tuple[int, Any] | None = None,
        allow_uneven: bool = False,
    ) -> None:
        for label, value in (("stype", stype), ("grad_stype", grad_stype)):
            if value not in ("default", "row_sparse", "csr"):
                raise StorageTypeError(
                    f"Parameter {name!r}: {label} must be 'default', 'row_sparse' or 'csr', got "
                    f"{value!r}"
                )
        self._bindings = Bindings()
        self._data: list[NDArray] | None = None
        self._deferred_init: tuple[Any, ...] = ()
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._grad_req = "null"
        self._trainer: Any = None
        self._var: tuple[Any, Any] | None = None
        self._stype = stype
        self._grad_stype = grad_stype
        self._numpy = is_np_array()  # the mode in which the parameter is made
        self._shape = None if shape is None else shape_tuple(shape, "Parameter: shape")
        self._shard: Shard | None = None
        self._allow_uneven = bool(allow_uneven)
        self.name = name
        self._dtype = dtype
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self.grad_req = grad_req
        self.shard = shard

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name} (shape={self.shape}, dtype={self.dtype})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the trainer, because a trainer does not train copies."""
        contexts = [array.ctx for array in self._data or ()]
        return {**self.__dict__, "_trainer": None, "_contexts": contexts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        contexts = state.pop("_contexts")
        if state["_data"] is not None:  # loaded arrays are on the CPU after unpickling
            pairs = zip(state["_data"], contexts)
            arrays = [array.as_in_context(ctx) for array, ctx in pairs]
            state["_data"] = ParameterArrays(arrays)
        self.__dict__.update(state)
        # Deep copies of arrays have no gradient; a shallow copy shares arrays and gradients.
        if self._data is not None and any(array.grad is None for array in self._data):
            self._attach_grads()

    # -- description -----------------------------------------------------------------------------

    @property
    def stype(self) -> str:
        """Storage type of the data."""
        return self._stype

    @property
    def grad_stype(self) -> str:
        """Storage type of the gradient."""
        return self._grad_stype

    @property
    def dtype(self) -> Any:
        """Type of the elements; setting it casts data and gradient."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape, with 0 (NumPy shapes: -1) for unknown dimensions; None when nothing is known."""
        if self._shape is None or not is_np_shape():
            return self._shape
        return tuple(extent or -1 for extent in self._shape)

    @shape.setter
    def shape(self, new_shape: Sequence[int]) -> None:
        new = shape_tuple(new_shape, "Parameter: shape")
        old = self._shape
        if old is not None and (
            len(old) != len(new) or any(i > 0 and i != j for i, j in zip(old, new))
        ):
            raise ShapeError(
                f"Parameter {self.name!r}: the shape {new} is incompatible with the known shape "
                f"{old}"
            )
        self._shape = new

    @property
    def local_shape(self) -> tuple[int, ...] | None:
        """Shape of this rank's shard if the parameter is sharded, else `shape`."""
        if self._shard is None or not self._shape:
            return self.shape
        local = self._shard.local_shape(self._shape)
        return tuple(extent or -1 for extent in local) if is_np_shape() else local

    def _set_local_shape(self, local: tuple[int, ...]) -> None:
        """Set the shape from that of this rank's shard, which a forward pass found."""
        if self._shard is not None:
            local = self._shard.whole_shape(tuple(local), self._shape)
        self.shape = local

    @property
    def shard(self) -> tuple[int, Any] | None:
        """Axis and process set of a sharded parameter, else None."""
        return None if self._shard is None else self._shard.given

    @shard.setter
    def shard(self, shard: tuple[int, Any] | None) -> None:
        if shard is None and self._shard is None:
            return
        who = f"Parameter {self.name!r}"
        new = None if shard is None else Shard(who, shard, self._allow_uneven)
        if self._data is not None or self._deferred_init:
            raise MXNetError(
                f"{who}: shard cannot be changed to {shard!r} after initialize; set it before, or "
                "save the parameter and load it into a new one"
            )
        if new is not None and (self._stype, self._grad_stype) != ("default", "default"):
            raise ValueError_(
                f"{who}: a parameter with shard {shard!r} must be dense, got the storage types "
                f"{self._stype!r} and {self._grad_stype!r}"
            )
        if new is not None and JOB.info is not None:
            new.group()  # raises if this process does not belong to the process set
            if self._shape:
                new.axis(self._shape)
        self._shard = new
        self._var = None

    @property
    def allow_uneven(self) -> bool:
        """Whether the shards of a sharded parameter may differ by one index."""
        return self._allow_uneven

    @allow_uneven.setter
    def allow_uneven(self, allow_uneven: bool) -> None:
        before, self._allow_uneven = self._allow_uneven, bool(allow_uneven)
        try:
            self.shard = self.shard
        except MXNetError:
            self._allow_uneven = before
            raise

    @property
    def grad_req(self) -> str:
        """Mode in which backward stores the gradient: ``'write'``, ``'add'`` or ``'null'``."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in ("write", "add", "null"):
            raise ValueError_(
                f"Parameter {self.name!r}: grad_req must be 'write', 'add' or 'null', got {req!r}"
            )
        if not self._differentiable:
            req = "null"
        if req == self._grad_req:
            return
        self._grad_req = req
        if self._data is None:
            return
        if req == "null":
            self._set_arrays([array.detach() for array in self._data])
        else:
            self._attach_grads()

    # -- initialization --------------------------------------------------------------------------

    def initialize(
        self,
        init: Any = None,
        ctx: Context | Sequence[Context] | None = None,
        default_init: Any = None,
        force_reinit: bool = False,
    ) -> None:
        """Allocate and fill data and gradient, or defer this until the shape is known.

        Parameters
        ----------
        init : Initializer or str, optional
            Overrides the parameter's own initializer.
        ctx : Context or list of Context, optional
            One copy is made on each.
        default_init : Initializer or str, optional
            Used if neither ``init`` nor an own initializer is given; default is `Uniform()`.
        force_reinit : bool
            Initialize again even if there is a value.

        Raises
        ------
        ValueError
            If the shape is unknown and deferred initialization is not allowed.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter {self.name!r} is already initialized, ignoring. Set force_reinit=True "
                "to re-initialize.",
                stacklevel=2,
            )
            return
        contexts = _as_context_list(ctx)
        default_init = initializer.Uniform() if default_init is None else default_init
        if init is None:
            init = default_init if self.init is None else self.init
        self._set_arrays(None)
        if not shape_is_known(self._shape) and not self._allow_deferred_init:
            raise ValueError_(
                f"Cannot initialize Parameter {self.name!r} because it has invalid shape: "
                f"{self._shape}."
            )
        self._deferred_init = (init, contexts, default_init, None)
        if shape_is_known(self._shape):
            self._finish_deferred_init()

    def _finish_deferred_init(self) -> None:
        """Create the arrays after the shape has become known."""
        if not self._deferred_init:
            return
        init, contexts, default_init, data = self._deferred_init
        if not shape_is_known(self._shape):
            raise ValueError_(
                f"Cannot initialize Parameter {self.name!r} because it has invalid shape: "
                f"{self._shape}. Please specify in_units, in_channels, etc for `Block`s."
            )
        with autograd.pause():
            if data is None:
                data = self._drawn(init, default_init)
            else:  # set_data has set the value, perhaps before a cast
                data = data.astype(self._dtype, copy=False)
            self._init_impl(data, contexts)
        self._deferred_init = ()

    def _drawn(self, init: Any, default_init: Any) -> NDArray:
        """Return a new array that the initializer has filled, or this rank's shard of it."""
        shape = self._shape or ()
        if self._shard is None:
            return self._filled(shape, init, default_init)
        return self._shard.draw(
            shape, dtype_name(self._dtype), lambda: self._filled(shape, init, default_init)
        )

    def _filled(self, shape: tuple[int, ...], init: Any, default_init: Any) -> NDArray:
        data = self._in_class(nd.zeros(shape, dtype=self._dtype, ctx=cpu()))
        description = initializer.InitDesc(self.name, {"__init__": init})
        if not callable(init) and not isinstance(init, str):
            raise TypeError_(
                f"Parameter {self.name!r}: the initializer must be an Initializer or its name, "
                f"got {init!r}"
            )
        if hasattr(init, "_init_weight") or isinstance(init, str):
            if not hasattr(default_init, "_init_weight"):
                default_init = initializer.Uniform()
            initializer.create(default_init)(description, data)
        else:
            init(initializer.InitDesc(self.name), data)
        return data

    def _init_impl(self, data: NDArray, contexts: Sequence[Context]) -> None:
        """Store ``data`` on its context without a copy, and copies on the other contexts."""
        if self._shard is None:
            self._shape = tuple(int(extent) for extent in data.shape)
        data = self._stored(data)
        arrays = []
        taken = False
        for ctx in contexts:
            if not taken and data.ctx == ctx:
                arrays.append(data)
                taken = True
            else:
                arrays.append(data.copyto(ctx))
        self._set_arrays(arrays)
        self._attach_grads()

    def _in_class(self, data: NDArray) -> NDArray:
        """Return a dense array as ``mx.np.ndarray`` if the parameter belongs to numpy mode."""
        return _core.with_numpy(data, True) if self._numpy else of_mode(data)

    def _stored(self, data: NDArray) -> NDArray:
        """Return a value in the parameter's storage type."""
        if data.stype == self._stype:
            return self._in_class(data) if data.stype == "default" else data
        return nd.cast_storage(nd.cast_storage(data, "default"), self._stype)

    def _set_arrays(self, arrays: list[NDArray] | None) -> None:
        self._data = None if arrays is None else ParameterArrays(arrays)
        self._bindings.expire()

    def _attach_grads(self) -> None:
        if self._grad_req == "null" or self._data is None:
            return
        for array in self._data:
            array.attach_grad(self._grad_req, stype=self._grad_stype)
        self._bindings.expire()

    def _load_init(
        self,
        data: NDArray,
        ctx: Context | Sequence[Context] | None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Set the whole value read from a file; the parameter takes ownership of the array."""
        self._check_loaded(data, ctx, cast_dtype, dtype_source)
        saved = tuple(int(extent) for extent in data.shape)
        self._shape = saved
        if dtype_name(self._dtype) != dtype_name(data.dtype):
            if dtype_source == "current":
                data = data.astype(self._dtype)
            else:
                self.cast(data.dtype)
        data = self._stored(data)
        if self._shard is not None:
            if self._data is None:
                self._shard.check_ranks(saved, dtype_name(self._dtype))
            data = self._shard.part(data)
        if self._data is None:
            contexts = None if ctx is None else _as_context_list(ctx)
            if self._deferred_init:
                contexts = self._deferred_init[1]
            with autograd.pause():
                self._init_impl(data, contexts or [cpu()])
        else:
            self.set_data(data)
        self._deferred_init = ()

    def _check_loaded(
        self,
        data: NDArray,
        ctx: Context | Sequence[Context] | None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Raise if `_load_init` would reject a value, without changing the parameter."""
        saved = tuple(int(extent) for extent in data.shape)
        known = self._shape
        if known is not None and (
            len(known) != len(saved) or any(i > 0 and i != j for i, j in zip(known, saved))
        ):
            raise ShapeError(
                f"Failed loading Parameter {self.name!r} from saved params: shape incompatible "
                f"expected {known} vs saved {saved}"
            )
        if self._shard is not None:
            self._shard.bounds(saved)
        if dtype_source not in ("current", "saved"):
            raise ValueError_(
                f"load: dtype_source must be 'current' or 'saved', got {dtype_source!r}"
            )
        own, given = dtype_name(self._dtype), dtype_name(data.dtype)
        if own != given and not cast_dtype:
            raise DTypeError(
                f"Failed loading Parameter {self.name!r} from saved params: dtype incompatible "
                f"expected {own} vs saved {given}. Set cast_dtype=True to cast the dtype of saved "
                "params."
            )
        if ctx is None or (self._data is None and not self._deferred_init):
            return
        contexts, before = _as_context_list(ctx), self.list_ctx()
        if set(contexts) != set(before):
            raise ValueError_(
                f"Failed to load Parameter {self.name!r} on {contexts} because it was previously "
                f"initialized on {before}."
            )

    def reset_ctx(self, ctx: Context | Sequence[Context]) -> None:
        """Move the parameter to other contexts.

        Raises
        ------
        ValueError
            If it has not been initialized.
        """
        contexts = _as_context_list(ctx)
        if self._data is not None:
            data = self._mean()
            with autograd.pause():
                self._init_impl(data, contexts)
        elif self._deferred_init:
            init, _, default_init, data = self._deferred_init
            self._deferred_init = (init, contexts, default_init, data)
        else:
            raise ValueError_(
                f"Cannot reset context for Parameter {self.name!r} because it has not been "
                "initialized."
            )

    def cast(self, dtype: Any) -> None:
        """Convert data and gradient to another type.

        Parameters
        ----------
        dtype : str or numpy type
        """
        check_cast(self, dtype)
        self._dtype = dtype
        if self._data is None:
            return
        with autograd.pause():
            self._set_arrays([array.astype(dtype) for array in self._data])
            self._attach_grads()

    # -- values ----------------------------------------------------------------------------------

    def _pick(self, ctx: Context | None) -> NDArray:
        """Return the array on ``ctx``, or raise an error with the reason why it does not exist."""
        data = self._data
        if data is None:
            raise self._missing()
        if ctx is None:
            if len(data) == 1:
                return data[0]
            ctx = current_context()
        array = next((entry for entry in data if entry.ctx == ctx), None)
        if array is None:
            raise UninitializedParameterError(
                f"Parameter {self.name!r} was not initialized on context {ctx}. It was only "
                f"initialized on {self.list_ctx()}."
            )
        return array

    def _stand_in(self) -> Any:
        """Return the traced array that replaces this parameter in this thread's trace, or None."""
        arrays = stand_ins()
        if arrays is None:
            return None
        note_use(id(self))
        array = arrays.get(id(self))
        if array is None:
            if self._data is None:
                raise self._missing()
            raise MXNetError(
                f"Parameter {self.name!r} is used in the forward of a hybridized block that does "
                "not own it; register it, or the block it belongs to, as an attribute"
            )
        return array

    def _missing(self) -> UninitializedParameterError:
        if self._deferred_init:
            return DeferredInitializationError(
                f"Parameter {self.name!r} has not been initialized yet because initialization was "
                "deferred. Actual initialization happens during the first forward pass. Please "
                "pass one batch of data through the network before accessing Parameters. You can "
                "also avoid deferred initialization by specifying in_units, num_features, etc., "
                "for network layers."
            )
        return UninitializedParameterError(f"Parameter {self.name!r} {_NOT_INITIALIZED}")

    def data(self, ctx: Context | None = None) -> NDArray:
        """Return the value on one context.

        Parameters
        ----------
        ctx : Context, optional
            Default is the only context, else the current one.

        Returns
        -------
        NDArray
            Inside the trace of a hybridized block, the traced array of this parameter.

        Raises
        ------
        UninitializedParameterError
            If there is no value, or none on ``ctx``.
        """
        if STATE.traces:
            array = self._stand_in()
            if array is not None:
                return array
        if self._stype != "default":
            raise MXNetError(
                f"Cannot return a copy of Parameter {self.name!r} on ctx {ctx} via data() because "
                f"its storage type is {self._stype}. Please use row_sparse_data() instead."
            )
        return self._pick(ctx)

    def list_data(self) -> list[NDArray]:
        """Return the values on all contexts, in the order of creation."""
        if self._stype != "default":
            raise MXNetError(
                f"Cannot return copies of Parameter {self.name!r} on all contexts via list_data() "
                f"because its storage type is {self._stype}. Please use row_sparse_data() instead."
            )
        return self._arrays()

    def _arrays(self) -> list[NDArray]:
        """Return the arrays on all contexts, in any storage type."""
        if self._data is None:
            raise self._missing()
        return list(self._data)

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """Return rows of a row-sparse parameter, on the context of ``row_id``.

        Parameters
        ----------
        row_id : NDArray
            Numbers of the rows, in any order.

        Returns
        -------
        RowSparseNDArray
            The chosen rows, each once; their gradients flow into the parameter.

        Raises
        ------
        MXNetError
            If the parameter is not row-sparse or belongs to no `Trainer`.
        """
        self._check_rows("row_sparse_data", row_id)
        return self._rows(self._pick(row_id.ctx), row_id)

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """Return rows of a row-sparse parameter on all contexts; see `row_sparse_data`.

        Returns
        -------
        list of RowSparseNDArray
        """
        self._check_rows("list_row_sparse_data", row_id)
        return [self._rows(array, row_id) for array in self._arrays()]

    def _check_rows(self, method: str, row_id: Any) -> None:
        if self._stype != "row_sparse":
            raise MXNetError(
                f"Cannot return copies of Parameter {self.name!r} via {method}() because its "
                f"storage type is {self._stype}. Please use data() instead."
            )
        if not isinstance(row_id, NDArray):
            raise TypeError_(f"{method}: row_id must be an NDArray, got {type(row_id).__name__}")
        if self._trainer is None:
            raise MXNetError(
                f"Cannot get row_sparse data for Parameter {self.name!r} when no Trainer is "
                "created with it."
            )
        self._trainer._ready()  # gives all workers the values of rank 0

    @staticmethod
    def _rows(array: NDArray, row_id: NDArray) -> NDArray:
        rows = nd.array(np.unique(row_id.asnumpy().astype(np.int64)), ctx=array.ctx, dtype=np.int64)
        # Always records, so that rows that are read before record() also get gradients.
        with autograd.record(train_mode=autograd.is_training()):
            return nd.sparse.retain(array, rows)

    def grad(self, ctx: Context | None = None) -> NDArray:
        """Return the gradient on one context.

        Raises
        ------
        UninitializedParameterError
            If ``grad_req`` is ``'null'`` or there is no value.
        """
        self._require_grad()
        return self._pick(ctx).grad

    def list_grad(self) -> list[NDArray]:
        """Return the gradients on all contexts, in the order of `list_data`."""
        self._require_grad()
        return [array.grad for array in self._arrays()]

    def _require_grad(self) -> None:
        if self._data is not None and self._grad_req == "null":
            raise UninitializedParameterError(
                f"Cannot get gradient array for Parameter {self.name!r} because grad_req='null'"
            )

    def list_ctx(self) -> list[Context]:
        """Return the contexts on which this parameter is or will be initialized."""
        if self._data is not None:
            return [array.ctx for array in self._data]
        if self._deferred_init:
            return list(self._deferred_init[1])
        raise self._missing()

    def _set_trainer(self, trainer: Any) -> None:
        """Set the trainer that updates this parameter; None removes it."""
        if self._stype != "default" and None not in (self._trainer, trainer):
            if self._trainer is not trainer:
                raise MXNetError(
                    f"Failed to set the trainer for Parameter {self.name!r} because it was already "
                    "set. More than one trainers for a sparse Parameter is not supported."
                )
        self._trainer = trainer

    def set_data(self, data: Any) -> None:
        """Write a new value into the arrays on all contexts.

        Parameters
        ----------
        data : NDArray or array-like
            Value of the parameter's shape. For a sharded parameter, the whole value or this rank's
            shard.

        Raises
        ------
        ShapeError
            If the shape does not fit.
        UninitializedParameterError
            If the parameter has not been initialized.
        """
        if not isinstance(data, NDArray):
            data = host_array(data, f"Parameter {self.name}: set_data", self._dtype)
        elif data._traced:
            raise TracedWriteError(
                f"Parameter {self.name}: set_data: the value must have values, got a traced array "
                "inside a hybridized forward"
            )
        data = self._own_part(data)
        if self._data is None:
            if not self._deferred_init:
                raise self._missing()
            known = isinstance(data, NDArray)
            value = data.copy() if known else nd.array(data, ctx=cpu(), dtype=self._dtype)
            self._deferred_init = (*self._deferred_init[:3], value.astype(self._dtype))
            return
        with autograd.pause():
            for array in self._data:
                array[:] = data
        if self._trainer is not None:
            self._trainer._value_was_set(self)

    def _own_part(self, data: Any) -> Any:
        """Return the part of a new value that this rank stores; set the shape from the value."""
        shape = tuple(data.shape)
        if self._shard is not None and shape == self.local_shape:
            return data
        before = self._shape
        self.shape = shape
        if self._shard is None:
            return data
        try:
            return self._shard.part(data)
        except MXNetError:
            self._shape = before
            raise

    def full_data(self) -> NDArray:
        """Return the whole value of a sharded parameter; all ranks of its process set call this.

        Returns
        -------
        NDArray
            A new array on the CPU, with the mean of the copies on all contexts.

        Raises
        ------
        UninitializedParameterError
            If the parameter has not been initialized.
        MXNetError
            If another rank does not call this within the deadline.
        """
        return self._reduce()

    def zero_grad(self) -> None:
        """Set the gradients on all contexts to 0; does nothing if there are none."""
        if self._data is None or self._grad_req == "null":
            return
        with autograd.pause():
            for array in self.list_grad():
                array[:] = 0

    def _reduce(self) -> NDArray:
        """Return the mean of the copies as a new array on the CPU; the whole array if sharded."""
        return self._whole(self._mean())

    def _whole(self, part: NDArray) -> NDArray:
        """Return a whole array from this rank's shard; all ranks of the process set call this."""
        if self._shard is None:
            return part
        with autograd.pause():
            return self._shard.gather(part, self._shape or ())

    def _mean(self) -> NDArray:
        """Return the mean of this rank's copies as a new array on the CPU."""
        copies = self._arrays()
        with autograd.pause():
            if len(copies) == 1:
                return copies[0].copyto(cpu())
            return nd.add_n(*(copy.copyto(cpu()) for copy in copies)) / len(copies)

    def var(self) -> Any:
        """Return the variable that stands for this parameter in symbols.

        Returns
        -------
        Symbol
            The same object until shape, type or a factor changes.
        """
        shard = None
        if self._shard is not None:
            shard = self._shard.attribute(self._shape, self._graph_of_rank)
        # Shards of unequal size have different shapes, which an exported file must not contain.
        shape = None if shard is not None and self._allow_uneven else self.local_shape
        described = (shape, dtype_name(self._dtype), self.lr_mult, self.wd_mult, shard)
        if self._var is None or self._var[0] != described:
            init = self.init
            if init is not None and not isinstance(init, str) and not hasattr(init, "dumps"):
                init = None
            attr = None if shard is None else {SHARD_ATTRIBUTE: shard}
            self._var = described, var(
                self.name, attr=attr, shape=shape, dtype=described[1], lr_mult=self.lr_mult,
                wd_mult=self.wd_mult, init=init, stype=self._stype,
            )  # fmt: skip
        return self._var[1]


class Constant(Parameter):
    """A parameter with a fixed value and no gradient.

    Matches ``mxnet.gluon.Constant``.

    Parameters
    ----------
    name : str
    value : NDArray or array-like
        The value; its type becomes the parameter's (float32 for lists).
    """

    def __init__(self, name: str, value: Any) -> None:
        if not isinstance(value, NDArray):
            value = of_mode(nd.array(value))
        self.value = value
        super().__init__(
            name,
            grad_req="null",
            shape=value.shape,
            dtype=value.dtype,
            init=initializer.Constant(value),
            differentiable=False,
        )
