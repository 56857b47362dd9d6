"""`SVRGModule`: a module that trains by variance-reduced gradients."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ... import ndarray as nd
from ...base import TypeError_, ValueError_
from ...kvstore.choice import chosen_store
from ...module import Module, ModuleStateError
from ...ndarray import NDArray
from .svrg_optimizer import FULL_SUFFIX, _SVRGOptimizer

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """Trains a symbol by stochastic variance-reduced gradients.

    Every ``update_freq`` epochs, the module stores the weights w' and their gradient G' over all
    data. Each batch then updates by ``gradient(w) - gradient(w') + G'``.

    Parameters
    ----------
    symbol : Symbol
    data_names, label_names, logger, context, work_load_list, fixed_param_names, state_names,
    group2ctxs, compression_params
        As in `Module`.
    update_freq : int
        Epochs between gradients over all data.

    Raises
    ------
    TypeError, ValueError
        For an update_freq that is not a positive integer.

    Notes
    -----
    Matches ``mxnet.contrib.svrg_optimization.svrg_module.SVRGModule``, with two differences: the
    gradient over all data starts from zero (in 1.x: from the previous one), and it is the mean over
    the processes of a distributed store (in 1.x: the sum).
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
        update_freq: int | None = None,
    ) -> None:
        options = (
            data_names, label_names, logger, context, work_load_list, fixed_param_names,
            state_names, group2ctxs, compression_params,
        )  # fmt: skip
        super().__init__(symbol, *options)
        if not isinstance(update_freq, int):
            raise TypeError_(f"SVRGModule: update_freq must be an integer, got {update_freq!r}")
        if update_freq <= 0:
            raise ValueError_(f"SVRGModule: update_freq must be 1 or more, got {update_freq}")
        self.update_freq = update_freq
        # Computes the gradients of each batch at the stored weights.
        self._mod_aux = Module(symbol, *options)
        # By context: the mean gradient at the stored weights over all batches.
        self._param_dict: list[dict[str, NDArray]] = []
        self._ctx_len = len(self._context)

    # -- binding ---------------------------------------------------------------------------------

    def _reset_bind(self) -> None:
        super()._reset_bind()
        self._mod_aux._reset_bind()

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
        """Make executors for the weights and the stored weights, see `Module.bind`."""
        shapes = (data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind)
        super().bind(*shapes, shared_module, grad_req)
        if for_training:
            self._mod_aux.bind(*shapes, getattr(shared_module, "_mod_aux", None), grad_req)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Prepare for batches of other shapes, see `Module.reshape`."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    # -- optimizer -------------------------------------------------------------------------------

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimizer, and the store for several contexts, see `Module.init_optimizer`."""
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        args, _ = self.get_params()
        self._param_dict = [
            {name: nd.zeros(args[name].shape, ctx, args[name].dtype) for name in self._param_names}
            for ctx in self._context
        ]
        sizes = [math.prod(array.shape) for array in args.values()]
        store, on_store = chosen_store(kvstore, self._ctx_len, sizes)
        wrapped = self._svrg_optimizer(optimizer, dict(optimizer_params), store, on_store)
        super().init_optimizer(store, wrapped, optimizer_params, force_init)
        if store is not None:
            for name in self._param_names:
                grads = [block[name] for block in self._param_dict]
                store.broadcast(name + FULL_SUFFIX, nd.zeros_like(args[name]), grads)

    def _svrg_optimizer(
        self, optimizer: Any, options: dict[str, Any], store: Any, on_store: bool
    ) -> _SVRGOptimizer:
        """Return the optimizer, which maps names of weights to names of their gradients."""
        batch_size = self._exec_group.batch_size
        if store is not None and "dist" in store.type and "_sync" in store.type:
            batch_size *= store.num_workers
        copies = 1 if on_store else self._ctx_len
        names = [name for name in self._param_names for _ in range(copies)]
        names += [name + FULL_SUFFIX for name in self._param_names]
        options.setdefault("rescale_grad", 1.0 / max(batch_size, 1))
        return _SVRGOptimizer(
            optimizer, sym=self.symbol, param_idx2name=dict(enumerate(names)), **options
        )

    def update(self) -> None:
        """Update the parameters with variance-reduced gradients of the last backward."""
        self._need("binded", "params_initialized", "optimizer_initialized")
        kept = self._mod_aux._exec_group.grad_arrays
        for name, grads, kept_grads in zip(self._param_names, self._exec_group.grad_arrays, kept):
            if grads[0] is None:
                continue
            for grad, kept_grad, means in zip(grads, kept_grads, self._param_dict):
                reduced = grad - kept_grad + means[name]
                grad[:] = reduced.tostype(grad.stype)
        super().update()

    def update_full_grads(self, train_data: Any) -> None:
        """Store a copy of the weights; reset the data and compute the mean gradient over them."""
        self._need("binded", "params_initialized", "optimizer_initialized")
        self._mod_aux.set_params(*self.get_params())
        for block in self._param_dict:
            for mean in block.values():
                mean[:] = 0
        train_data.reset()
        batches = 0.0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            batches += 1 - (batch.pad or 0) / train_data.batch_size
            for name, grads in zip(self._param_names, self._mod_aux._exec_group.grad_arrays):
                for block, grad in zip(self._param_dict, grads):
                    if grad is not None:
                        block[name][:] = block[name] + grad
        for name in self._param_names:
            means = [block[name] for block in self._param_dict]
            for mean in means:
                mean[:] = mean / batches
            if self._kvstore is not None:
                self._accumulate_kvstore(name, means)

    def _accumulate_kvstore(self, key: str, value: list[NDArray]) -> None:
        """Replace the gradients of one weight by their mean over contexts and processes."""
        self._kvstore.pushpull(key + FULL_SUFFIX, value, out=value)
        count = self._ctx_len * self._kvstore.num_workers
        for block, total in zip(self._param_dict, value):
            block[key][:] = total / count

    # -- running ---------------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; in training, also at the stored weights."""
        super().forward(data_batch, is_train)
        if self.for_training if is_train is None else is_train:
            if not self._mod_aux.params_initialized:
                raise ModuleStateError("SVRGModule: call update_full_grads before training")
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients at the weights and at the stored weights."""
        super().backward(out_grads)
        self._mod_aux.backward(out_grads)

    def _begin_epoch(self, epoch: int, train_data: Any) -> None:
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
            train_data.reset()

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Prepare for a batch, see `Module.prepare`."""
        super().prepare(data_batch, sparse_row_id_fn)
        self._mod_aux.prepare(data_batch, sparse_row_id_fn)
