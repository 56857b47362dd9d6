"""A chain of modules."""

from __future__ import annotations

import copy
import logging
from typing import Any

from ..base import ValueError_, suggestion
from ..io import DataDesc
from ..ndarray import NDArray
from .base_module import BaseModule
from .common import DEFAULT_INITIALIZER
from .executor_group import described

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """A chain of modules; each module's data are the outputs of the previous module.

    Parameters
    ----------
    logger : optional
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger)
        self._modules: list[Any] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None

    def add(self, module: BaseModule, **kwargs: Any) -> SequentialModule:
        """Add a module.

        Parameters
        ----------
        module : BaseModule
        **kwargs
            ``take_labels``: whether the module gets the labels. ``auto_wiring``: whether outputs of
            the module before are renamed to this module's data names.

        Returns
        -------
        SequentialModule
            This module.
        """
        known = (self.META_TAKE_LABELS, self.META_AUTO_WIRING)
        for name in kwargs:
            if name not in known:
                raise ValueError_(
                    f'Unknown meta "{name}", a typo? {known} expected{suggestion(name, known)}'
                )
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    @property
    def data_names(self) -> list[str]:
        """Names of the first module's data."""
        return list(self._modules[0].data_names) if self._modules else []

    @property
    def output_names(self) -> list[str]:
        """Names of the last module's outputs."""
        return list(self._modules[-1].output_names) if self._modules else []

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the first module's data."""
        self._need("binded")
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels; None if no module uses labels."""
        self._need("binded")
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Pairs (name, shape) of the last module's outputs."""
        self._need("binded")
        return self._modules[-1].output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return arguments and auxiliary states of all modules, each by name."""
        self._need("binded", "params_initialized")
        args: dict[str, NDArray] = {}
        aux: dict[str, NDArray] = {}
        for module in self._modules:
            more_args, more_aux = module.get_params()
            args.update(more_args)
            aux.update(more_aux)
        return args, aux

    def init_params(
        self,
        initializer: Any = DEFAULT_INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Set the initial values of all parameters, see ``Module.init_params``.

        Raises ValueError if two modules have a parameter of the same name.
        """
        if self.params_initialized and not force_init:
            return
        self._need("binded")
        for module in self._modules:
            module.init_params(
                initializer, arg_params, aux_params, allow_missing, force_init, allow_extra
            )
        owners: dict[str, int] = {}
        for number, module in enumerate(self._modules):
            for params in module.get_params():
                for name in params:
                    if name in owners:
                        raise ValueError_(
                            f'Duplicated parameter names: name "{name}" in layer {number} '
                            f"({type(module)}) is already used in layer {owners[name]} "
                            f"({type(self._modules[owners[name]])})."
                        )
                    owners[name] = number
        self.params_initialized = True

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
        """Bind all modules, each to the outputs of the previous one, see `Module.bind`.

        ``shared_module`` must be None and ``grad_req`` a str.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if not self._modules:
            raise ValueError_("Attempting to bind an empty SequentialModule")
        if shared_module is not None:
            raise ValueError_("SequentialModule.bind: shared_module is not supported")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        shapes = described(data_shapes)
        used = False
        for number, (module, meta) in enumerate(zip(self._modules, self._metas)):
            takes = bool(meta.get(self.META_TAKE_LABELS))
            used = used or takes
            if meta.get(self.META_AUTO_WIRING):
                shapes = [
                    DataDesc(name, entry[1]) for name, entry in zip(module.data_names, shapes or [])
                ]
            module.bind(
                data_shapes=shapes,
                label_shapes=label_shapes if takes else None,
                for_training=for_training,
                inputs_need_grad=for_training and (inputs_need_grad or number > 0),
                force_rebind=force_rebind,
                grad_req=grad_req,
            )
            shapes = described(module.output_shapes)
        self._label_shapes = described(label_shapes) if used else None
        self.binded = True

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make an optimizer for each module, see ``Module.init_optimizer``."""
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run all modules, see `Module.forward`."""
        self._need("binded", "params_initialized")
        batch = copy.copy(data_batch)
        for number, module in enumerate(self._modules):
            if number:
                batch.data = self._modules[number - 1].get_outputs()
                batch.provide_data = None
            module.forward(batch, is_train=is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients, from the last module to the first, see `Module.backward`."""
        self._need("binded", "params_initialized")
        for number in range(len(self._modules) - 1, -1, -1):
            self._modules[number].backward(out_grads=out_grads)
            if number:
                out_grads = self._modules[number].get_input_grads()

    def update(self) -> None:
        """Update the parameters of all modules."""
        self._need("binded", "params_initialized", "optimizer_initialized")
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the outputs of the last module, see `Module.get_outputs`."""
        self._need("binded", "params_initialized")
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the first module's data, see `Module.get_input_grads`."""
        self._need("binded", "params_initialized", "inputs_need_grad")
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with outputs and labels, in the modules that use labels.

        See `Module.update_metric`.
        """
        self._need("binded", "params_initialized")
        for module, meta in zip(self._modules, self._metas):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor in all modules, see `Module.install_monitor`."""
        self._need("binded")
        for module in self._modules:
            module.install_monitor(mon)
