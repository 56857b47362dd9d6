"""Module: trains one symbol on one or several contexts."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .. import optimizer as opt
from ..base import TypeError_, ValueError_
from ..io import DataDesc
from ..kvstore.choice import chosen_store
from ..kvstore.gradients import pushpull_all
from ..ndarray import NDArray
from ..symbol import Symbol
from .checkpoint_files import load_checkpoint
from .common import ModuleStateError, as_contexts, as_list, check_input_names
from .executor_group import DataParallelExecutorGroup, described
from .state import ModuleState

__all__ = ["Module"]


class Module(ModuleState):
    """Trains a symbol.

    Parameters
    ----------
    symbol : Symbol
    data_names, label_names : list of str
        Arguments that batches give.
    logger : optional
    context : Context or list of Context
        Batches are divided over them.
    work_load_list : list of float, optional
        Share of each context; equal shares by default.
    fixed_param_names : list of str, optional
        Parameters that are not trained.
    state_names : list of str, optional
        Arguments that neither batches nor the optimizer set.
    group2ctxs : optional
        Contexts of nodes with the attribute ``ctx_group``, as in `DataParallelExecutorGroup`.
    compression_params : dict, optional
        See ``KVStore.set_gradient_compression``.
    """

    def __init__(
        self,
        symbol: Any,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Any = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger)
        if not isinstance(symbol, Symbol):
            raise TypeError_(f"Module: symbol must be a Symbol, got {symbol!r}")
        self._context = as_contexts(context)
        self._work_load_list = list(work_load_list or [1] * len(self._context))
        if len(self._work_load_list) != len(self._context):
            raise ValueError_(
                f"Module: work_load_list must have {len(self._context)} entries for the contexts "
                f"{self._context}, got {self._work_load_list}"
            )
        self._symbol = symbol
        self._data_names = as_list(data_names)
        self._label_names = as_list(label_names)
        self._state_names = as_list(state_names)
        self._fixed_param_names = as_list(fixed_param_names)
        check_input_names(symbol, self._data_names, "data", True)
        check_input_names(symbol, self._label_names, "label", False)
        check_input_names(symbol, self._state_names, "state", True)
        check_input_names(symbol, self._fixed_param_names, "fixed_param", True)
        given = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in given]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._group2ctxs = group2ctxs
        self._compression_params = compression_params
        self._arg_params: dict[str, NDArray] | None = None
        self._aux_params: dict[str, NDArray] | None = None
        self._params_dirty = False
        self._optimizer: Any = None
        self._kvstore: Any = None
        self._update_on_kvstore = False
        self._updater: Any = None
        self._update_index: dict[str, int] = {}
        self._preload_opt_states: str | None = None
        self._grad_req: Any = None
        self._exec_group: Any = None
        self._data_shapes: Any = None
        self._label_shapes: Any = None

    # -- files -----------------------------------------------------------------------------------

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Make a module from a checkpoint.

        Parameters
        ----------
        prefix : str
        epoch : int
        load_optimizer_states : bool
            Whether ``init_optimizer`` loads ``<prefix>-<epoch>.states``.
        **kwargs
            Arguments of `Module`.
        """
        symbol, args, aux = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._arg_params, module._aux_params = args, aux
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    # -- binding ---------------------------------------------------------------------------------

    def _reset_bind(self) -> None:
        self.binded = False
        self._exec_group = self._data_shapes = self._label_shapes = None

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Make executors.

        Parameters
        ----------
        data_shapes, label_shapes : list of DataDesc or of (name, shape)
        for_training, inputs_need_grad : bool
            Which gradients are computed.
        force_rebind : bool
            Bind again if bound.
        shared_module : Module, optional
            Module whose parameters are shared.
        grad_req : str, or list or dict of str

        Raises
        ------
        ValueError
            If names do not match those of the symbol.
        """
        if force_rebind:
            if self._params_dirty:
                self._sync_params_from_devices()
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise ModuleStateError("bind: inputs_need_grad=True needs for_training=True")
        self._data_shapes, self._label_shapes = self._described(data_shapes, label_shapes)
        shared = None
        if shared_module is not None:
            shared_module._need("binded", "params_initialized")
            shared = shared_module._exec_group
            if len(shared.execs) < len(self._context):
                raise ValueError_(
                    f"bind: the shared module must have {len(self._context)} contexts as this "
                    f"one, got {len(shared.execs)}"
                )
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req = grad_req
        self._exec_group = DataParallelExecutorGroup(
            self._symbol,
            self._context,
            self._work_load_list,
            self._data_shapes,
            self._label_shapes,
            self._param_names,
            for_training,
            inputs_need_grad,
            shared,
            self.logger,
            self._fixed_param_names,
            grad_req,
            self._state_names,
            self._group2ctxs,
        )
        self.binded = True
        if shared_module is not None:
            self.params_initialized = True
            self._arg_params = shared_module._arg_params
            self._aux_params = shared_module._aux_params
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self.params_initialized:
            self._exec_group.set_params(self._arg_params, self._aux_params)

    def _described(self, data_shapes: Any, label_shapes: Any) -> tuple[Any, Any]:
        data, label = described(data_shapes) or [], described(label_shapes)
        if sorted(entry.name for entry in data) != sorted(self._data_names):
            raise ValueError_(
                "Data provided by data_shapes don't match names specified by data_names "
                f"({data} vs. {self._data_names})"
            )
        if label is not None and sorted(e.name for e in label) != sorted(self._label_names):
            warnings.warn(
                "Data provided by label_shapes don't match names specified by label_names "
                f"({label} vs. {self._label_names})",
                UserWarning,
                stacklevel=3,
            )
        return data, label

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Prepare for batches of other shapes, see `bind`; parameters and optimizer are kept."""
        self._need("binded")
        data, label = self._described(data_shapes, label_shapes)
        self._exec_group.reshape(data, label)
        self._data_shapes, self._label_shapes = data, label

    # -- optimizer -------------------------------------------------------------------------------

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimizer, and the store for several contexts.

        Parameters
        ----------
        kvstore : str, KVStoreBase or None
            Not used for one context, unless an object is given or the type spans processes.
        optimizer : str or Optimizer
        optimizer_params : dict or list of pairs
            ``rescale_grad`` is 1 / batch size if it is not given.
        force_init : bool
            Replace an existing optimizer.
        """
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        args, _ = self.get_params()
        count = len(self._context)
        sizes = [math.prod(array.shape) for array in args.values()]
        store, on_store = chosen_store(kvstore, count, sizes, optimizer=optimizer)
        batch_size = self._exec_group.batch_size
        if store is not None and "dist" in store.type and "_sync" in store.type:
            batch_size *= store.num_workers
        rescale = 1.0 / max(batch_size, 1)
        names = self._param_names
        if on_store:
            idx2name = dict(enumerate(names))
        else:
            idx2name = {i * count + k: n for i, n in enumerate(names) for k in range(count)}
        if isinstance(optimizer, str):
            options = {"rescale_grad": rescale, **dict(optimizer_params)}
            optimizer = opt.create(optimizer, sym=self.symbol, param_idx2name=idx2name, **options)
        else:
            if optimizer.rescale_grad != rescale:
                warnings.warn(
                    "Optimizer created manually outside Module but rescale_grad is not normalized "
                    f"to 1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. {rescale}). Is "
                    "this intended?",
                    UserWarning,
                    stacklevel=2,
                )
            if not optimizer.idx2name:
                optimizer.idx2name = idx2name.copy()
        self._optimizer, self._kvstore, self._update_on_kvstore = optimizer, store, on_store
        self._updater = None if on_store else opt.get_updater(optimizer)
        self._update_index = {name: i for i, name in enumerate(names)}
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)  # type: ignore[attr-defined]
            if on_store:
                store.set_optimizer(optimizer)
            for name, arrays in zip(names, self._exec_group.param_arrays):
                store.broadcast(name, args[name], arrays)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Use the optimizer and the store of another module."""
        shared_module._need("optimizer_initialized")
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self._update_index = shared_module._update_index
        self.optimizer_initialized = True

    def update(self) -> None:
        """Update the parameters with the gradients of the last backward."""
        self._need("binded", "params_initialized", "optimizer_initialized")
        self._params_dirty = True
        group, count = self._exec_group, len(self._context)
        blocks = zip(self._param_names, group.param_arrays, group.grad_arrays)
        entries = [(self._update_index[n], n, w, g) for n, w, g in blocks if g[0] is not None]
        if self._kvstore is not None:
            pushpull_all(self._kvstore, entries, self._update_on_kvstore)
        if self._update_on_kvstore or not entries:
            return
        updates = [
            (index * count + k, grad, array)
            for index, _, arrays, grads in entries
            for k, (array, grad) in enumerate(zip(arrays, grads))
        ]
        self._updater(*map(list, zip(*updates)))

    @property
    def _total_exec_bytes(self) -> int:
        """Number of bytes of the bound arrays; 0 before `bind`."""
        return 0 if self._exec_group is None else self._exec_group._total_exec_bytes

    # -- running ---------------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch, which may have any size.

        Parameters
        ----------
        data_batch : DataBatch
            A batch, or a list with one batch for each context.
        is_train : bool, optional
            None takes the mode that `bind` was given.
        """
        self._need("binded", "params_initialized")
        if not isinstance(data_batch, list):
            self._fit_shapes(data_batch)
            self._exec_group.forward(data_batch, is_train)
            return
        data = [list(parts) for parts in zip(*(batch.data for batch in data_batch))]
        labels = [list(parts) for parts in zip(*(batch.label or () for batch in data_batch))]
        joined = type(data_batch[0])(data, labels)
        self._exec_group.forward(joined, is_train)

    def _fit_shapes(self, batch: Any) -> None:
        """Change the executors' shapes to those of the batch, if they differ."""
        if len(batch.data) != len(self._data_shapes):
            raise ValueError_(
                f"Module.forward: number of data arrays must be {len(self._data_shapes)}, got "
                f"{len(batch.data)}; the names are {self._data_names}"
            )
        shapes = [tuple(array.shape) for array in batch.data]
        if shapes == [tuple(entry.shape) for entry in self._data_shapes]:
            return
        data = getattr(batch, "provide_data", None) or [
            DataDesc(entry.name, shape, entry.dtype, entry.layout)
            for entry, shape in zip(self._data_shapes, shapes)
        ]
        labels = getattr(batch, "provide_label", None)
        arrays = getattr(batch, "label", None)
        if not labels and arrays and self._label_shapes:
            labels = [
                DataDesc(entry.name, tuple(array.shape), entry.dtype, entry.layout)
                for entry, array in zip(self._label_shapes, arrays)
            ]
        elif not labels and self._label_shapes:  # predictions do not read labels
            labels = self._resized_labels(shapes[0], self._data_shapes[0])
        self.reshape(data, labels or None)

    def _resized_labels(self, shape: tuple[int, ...], entry: DataDesc) -> list[DataDesc]:
        size = shape[DataDesc.get_batch_axis(entry.layout)]
        found = []
        for label in self._label_shapes:
            dims = list(label.shape)
            dims[DataDesc.get_batch_axis(label.layout)] = size
            found.append(DataDesc(label.name, tuple(dims), label.dtype, label.layout))
        return found

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients; out_grads are the outputs' gradients as NDArrays (not for losses)."""
        self._need("binded", "params_initialized", "for_training")
        self._exec_group.backward(out_grads)

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the outputs of the last forward.

        Each is one array, or a list with one array per context if merge_multi_context is False.
        """
        self._need("binded", "params_initialized")
        return self._exec_group.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the data, in the form of `get_outputs`."""
        self._need("binded", "params_initialized", "inputs_need_grad")
        return self._exec_group.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the arrays of ``state_names``, in the form of `get_outputs`."""
        self._need("binded", "params_initialized")
        return self._exec_group.get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the arrays of ``state_names`` to a number, or each to one list of NDArrays."""
        self._need("binded", "params_initialized")
        self._exec_group.set_states(states, value)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with outputs and labels.

        Parameters
        ----------
        eval_metric : EvalMetric
        labels : list of NDArray
        pre_sliced : bool
            Labels are one list for each context.
        """
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Install a `Monitor` in the executors."""
        self._need("binded")
        self._exec_group.install_monitor(mon)

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Prepare for a batch; does nothing, because executors always have whole parameters.

        See `BaseModule.prepare`.
        """
        self._need("binded")
