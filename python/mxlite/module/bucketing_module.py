"""Modules for batches of different kinds that share parameters, such as sequence lengths."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..base import ValueError_
from ..name import NameManager
from ..ndarray import NDArray
from .base_module import BaseModule
from .checkpoint_files import load_params, save_checkpoint
from .common import DEFAULT_INITIALIZER
from .module import Module

__all__ = ["BucketingModule"]


class BucketingModule(BaseModule):
    """One module per bucket key; all share the same parameters.

    Parameters
    ----------
    sym_gen : callable
        ``sym_gen(bucket_key)`` gives (symbol, data_names, label_names).
    default_bucket_key : hashable
        The bucket that has all parameters, usually the largest.
    logger, context, work_load_list, fixed_param_names, state_names, group2ctxs, compression_params
        As in `Module`.
    """

    def __init__(
        self,
        sym_gen: Callable[[Any], tuple[Any, Any, Any]],
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Any = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger)
        if default_bucket_key is None:
            raise ValueError_("BucketingModule: default_bucket_key must be a key, got None")
        self._default_bucket_key = default_bucket_key
        self._sym_gen = sym_gen
        self._options = {
            "logger": logger,
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names,
            "state_names": state_names,
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        first = self._make(default_bucket_key)  # raises here if names are wrong
        # Libraries for 1.x read these attributes.
        self._context, self._work_load_list = first._context, first._work_load_list
        self._fixed_param_names, self._state_names = first._fixed_param_names, first._state_names
        self._compression_params = compression_params
        self._buckets: dict[Any, Module] = {}
        self._curr_module: Any = None
        self._curr_bucket_key: Any = None
        self._grad_req: Any = None
        self._monitor: Any = None
        self._loaded: tuple[dict[str, NDArray], dict[str, NDArray]] | None = None

    def _make(self, key: Any) -> Module:
        symbol, data_names, label_names = self._generate(key)
        return Module(symbol, data_names, label_names, **self._options)

    def _generate(self, key: Any) -> tuple[Any, Any, Any]:
        """Call ``sym_gen``; nodes without a name get equal names in all buckets."""
        with NameManager():
            return self._sym_gen(key)

    def _reset_bind(self) -> None:
        self.binded = False
        self._buckets = {}
        self._curr_module = self._curr_bucket_key = None

    @property
    def _default(self) -> Module:
        return self._buckets[self._default_bucket_key]

    @property
    def _params_dirty(self) -> bool:
        """Whether the devices have newer parameters than the host."""
        return self.binded and self._default._params_dirty

    @_params_dirty.setter
    def _params_dirty(self, dirty: bool) -> None:
        if self.binded:
            self._default._params_dirty = dirty

    @property
    def data_names(self) -> list[str]:
        """Names of the data."""
        if self.binded:
            return self._curr_module.data_names
        return list(self._generate(self._default_bucket_key)[1])

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        if self.binded:
            return self._curr_module.output_names
        return list(self._generate(self._default_bucket_key)[0].list_outputs())

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the current bucket's data."""
        self._need("binded")
        return self._curr_module.data_shapes

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the current bucket's labels."""
        self._need("binded")
        return self._curr_module.label_shapes

    @property
    def output_shapes(self) -> Any:
        """Pairs (name, shape) of the current bucket's outputs."""
        self._need("binded")
        return self._curr_module.output_shapes

    @property
    def symbol(self) -> Any:
        """The current bucket's symbol."""
        self._need("binded")
        return self._curr_module.symbol

    # -- parameters ------------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return arguments and auxiliary states by name, see ``Module.get_params``."""
        self._need("binded", "params_initialized")
        self._default._params_dirty = True
        return self._default.get_params()

    def init_params(
        self,
        initializer: Any = DEFAULT_INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Set the initial values of the parameters, see ``Module.init_params``."""
        if self.params_initialized and not force_init:
            if self._loaded is None:
                warnings.warn(
                    "Parameters already initialized and force_init=False. init_params call "
                    "ignored.",
                    UserWarning,
                    stacklevel=2,
                )
            return
        self._need("binded")
        self._default.init_params(
            initializer, arg_params, aux_params, allow_missing, force_init, allow_extra
        )
        self._share_params()
        self.params_initialized = True

    def _share_params(self) -> None:
        for module in self._buckets.values():
            module._arg_params, module._aux_params = (
                self._default._arg_params,
                self._default._aux_params,
            )
            module.params_initialized = True

    def set_params(
        self,
        arg_params: Any,
        aux_params: Any,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters, see ``BaseModule.set_params``."""
        self._need("binded")
        self._default.set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._share_params()
        self.params_initialized = True

    # -- binding ---------------------------------------------------------------------------------

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
        """Bind the default bucket, see `Module.bind`; ``shared_module`` must be None.

        The others are bound when their first batch arrives.
        """
        if shared_module is not None:
            raise ValueError_("shared_module for BucketingModule is not supported")
        params = self._loaded
        if self.binded and force_rebind and self.params_initialized:
            params = self.get_params()
        if force_rebind:
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req = grad_req
        module = self._make(self._default_bucket_key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self._buckets[self._default_bucket_key] = module
        self._curr_module, self._curr_bucket_key = module, self._default_bucket_key
        self.binded = True
        if params is not None:
            self.set_params(*params)

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Make the bucket of a hashable key current; bind it first if it is new, see `bind`."""
        self._need("binded")
        module = self._buckets.get(bucket_key)
        if module is None:
            module = self._make(bucket_key)
            shared = self._default
            if not shared.params_initialized:
                self._need("params_initialized")
            module.bind(
                data_shapes,
                label_shapes,
                shared.for_training,
                shared.inputs_need_grad,
                shared_module=shared,
                grad_req=self._grad_req,
            )
            if self._monitor is not None:
                module.install_monitor(self._monitor)
            self._buckets[bucket_key] = module
        self._curr_module, self._curr_bucket_key = module, bucket_key

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimizer of all buckets, see ``Module.init_optimizer``."""
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        self._default.init_optimizer(kvstore, optimizer, optimizer_params, force_init=force_init)
        for module in self._buckets.values():
            if module is not self._default:
                module.borrow_optimizer(self._default)
        self.optimizer_initialized = True

    # -- running ---------------------------------------------------------------------------------

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Bind the batch's bucket, see `Module.prepare`."""
        self._need("binded", "params_initialized")
        key, module = self._curr_bucket_key, self._curr_module
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.prepare(data_batch, sparse_row_id_fn)
        self._curr_bucket_key, self._curr_module = key, module

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch in its bucket, see `Module.forward`.

        The batch has ``bucket_key``, ``provide_data`` and ``provide_label``.
        """
        self._need("binded", "params_initialized")
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.forward(data_batch, is_train=is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients in the current bucket, see `Module.backward`."""
        self._need("binded", "params_initialized")
        self._curr_module.backward(out_grads=out_grads)

    def update(self) -> None:
        """Update the parameters with the gradients of the current bucket."""
        self._need("binded", "params_initialized", "optimizer_initialized")
        self._curr_module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the current bucket's outputs, see ``Module.get_outputs``."""
        self._need("binded", "params_initialized")
        return self._curr_module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the current bucket's data."""
        self._need("binded", "params_initialized", "inputs_need_grad")
        return self._curr_module.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the current bucket's states, see ``Module.get_states``."""
        self._need("binded", "params_initialized")
        return self._curr_module.get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the current bucket's states, see ``Module.set_states``."""
        self._need("binded", "params_initialized")
        self._curr_module.set_states(states, value)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the current bucket's outputs and the labels.

        See `Module.update_metric`.
        """
        self._need("binded", "params_initialized")
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor in all buckets, see `Module.install_monitor`."""
        self._need("binded")
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    # -- files -----------------------------------------------------------------------------------

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Save the parameters, the default bucket's symbol and those of all buckets.

        The symbol of a bucket is ``<prefix>-<key>-symbol.json``.
        """
        args, aux = self.get_params()
        save_checkpoint(prefix, epoch, self._default.symbol, args, aux, remove_amp_cast)
        for key, module in self._buckets.items():
            module.symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)

    @staticmethod
    def load(
        prefix: str,
        epoch: int,
        sym_gen: Callable[[Any], tuple[Any, Any, Any]] | None = None,
        default_bucket_key: Any = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """Make a `BucketingModule` with the parameters of a checkpoint."""
        return BucketingModule.load_dict(
            None, sym_gen, default_bucket_key, *load_params(prefix, epoch), **kwargs
        )

    @staticmethod
    def load_dict(
        sym_dict: Mapping[Any, Any] | None = None,
        sym_gen: Callable[[Any], tuple[Any, Any, Any]] | None = None,
        default_bucket_key: Any = None,
        arg_params: Any = None,
        aux_params: Any = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """Make a `BucketingModule` with given parameters by name.

        ``sym_dict`` is accepted and ignored: sym_gen makes the symbols.
        """
        if sym_gen is None or default_bucket_key is None:
            raise ValueError_(
                "BucketingModule.load: sym_gen and default_bucket_key must be given, got None"
            )
        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        module._loaded = dict(arg_params or {}), dict(aux_params or {})
        module.params_initialized = True
        return module
