"""Modules without parameters, written in Python."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Callable

from .. import ndarray as nd
from ..base import TypeError_, ValueError_
from ..ndarray import NDArray
from .base_module import BaseModule
from .common import DEFAULT_INITIALIZER
from .executor_group import described

__all__ = ["PythonLossModule", "PythonModule"]


class PythonModule(BaseModule):
    """Base of modules without parameters. A module defines forward, backward, get_outputs, ...

    Parameters
    ----------
    data_names, label_names, output_names : list of str
    logger : optional
    """

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Any = logging,
    ) -> None:
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = list(label_names or [])
        self._output_names = list(output_names)
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        """Names of the data."""
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the data."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels; None if there are no labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Pairs (name, shape) of the outputs."""
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return two empty dicts."""
        return {}, {}

    def init_params(
        self,
        initializer: Any = DEFAULT_INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Do nothing: there are no parameters."""

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Do nothing: there are no parameters."""

    def update(self) -> None:
        """Do nothing: there are no parameters."""

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric, see `Module.update_metric`, if the module has labels.

        ``pre_sliced`` must be False.
        """
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise ValueError_(
                "PythonModule.update_metric: pre_sliced must be False, got True; the labels are "
                "one list for the whole batch"
            )
        eval_metric.update(labels, self.get_outputs())

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
        """Store the shapes, see `Module.bind`; shared_module has no effect, grad_req is write."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if grad_req != "write":
            raise ValueError_(f"Python module only supports write gradient, {grad_req!r} given")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        data, label = described(data_shapes) or [], described(label_shapes)
        names = [entry.name for entry in data]
        if names != self._data_names:
            raise ValueError_(f"bind: names of data must be {self._data_names}, got {names}")
        if label is not None and [entry.name for entry in label] != self._label_names:
            raise ValueError_(
                f"bind: names of labels must be {self._label_names}, got {[e.name for e in label]}"
            )
        self._data_shapes, self._label_shapes = data, label
        self._output_shapes = self._compute_output_shapes()
        self.binded = self.params_initialized = self.optimizer_initialized = True

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        raise self._undefined("_compute_output_shapes")


class PythonLossModule(PythonModule):
    """A loss whose output is its input and whose gradient is given by a function.

    Parameters
    ----------
    name : str
        The output is ``<name>_output``.
    data_names, label_names : list of str
        One name in each list.
    logger : optional
    grad_func : callable, optional
        ``grad_func(scores, labels)`` gives the gradient; else define ``_backward_impl``.
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Any = logging,
        grad_func: Callable[[NDArray, Any], Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [name + "_output"], logger)
        if len(self._data_names) != 1 or len(self._label_names) != 1:
            raise ValueError_(
                "PythonLossModule: data and labels must have one name each, got "
                f"{self._data_names} and {self._label_names}"
            )
        if grad_func is not None and not callable(grad_func):
            raise TypeError_(f"PythonLossModule: grad_func must be callable, got {grad_func!r}")
        self._name = name
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None
        self._grad_func = grad_func

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(self._output_names[0], tuple(self._data_shapes[0].shape))]

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Store scores and, in training, labels, see `Module.forward`."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the scores, see `Module.get_outputs`."""
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradient of the scores; out_grads must be None, because this is a loss."""
        if out_grads is not None:
            raise ValueError_("For a loss module, out_grads should be None")
        self._need("for_training")
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise self._undefined("_backward_impl, and was given no grad_func")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradient of the scores, see `Module.get_input_grads`."""
        return [self._scores_grad]

    def install_monitor(self, mon: Any) -> None:
        """Raise, because there is no executor."""
        raise self._undefined("install_monitor")
