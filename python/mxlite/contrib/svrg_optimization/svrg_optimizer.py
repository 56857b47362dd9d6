"""The optimizer of `SVRGModule`: updates weights, and stores gradients under other keys."""

from __future__ import annotations

import inspect
from typing import Any

from ... import optimizer as opt
from ...ndarray import NDArray

__all__ = ["FULL_SUFFIX"]

# A store keeps the gradient of a weight over all data under the weight's key with this suffix.
FULL_SUFFIX = "_full"


@opt.register
class _AssignmentOptimizer(opt.Optimizer):
    """Overwrites the weight with the gradient."""

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Overwrite a weight."""
        weight[:] = grad


@opt.register
class _SVRGOptimizer(opt.Optimizer):
    """Updates weights by another optimizer and keys ``<name>_full`` by assignment.

    Notes
    -----
    Matches ``mxnet.contrib.svrg_optimization.svrg_optimizer._SVRGOptimizer``. In 1.x, any
    name that contains "full" is a key of gradients; here, only names that end with ``_full`` are.
    """

    # If a store refuses this optimizer, workers cannot update instead, because the store keeps the
    # gradients over all data (keys ``<name>_full``).
    _same_everywhere = False

    def __init__(self, default_optimizer: Any, **kwargs: Any) -> None:
        own = inspect.signature(opt.Optimizer.__init__).parameters
        super().__init__(**{name: value for name, value in kwargs.items() if name in own})
        if isinstance(default_optimizer, str):
            default_optimizer = opt.create(default_optimizer, **kwargs)
        self.default_opt: opt.Optimizer = default_optimizer
        self.aux_opt = _AssignmentOptimizer()

    @property
    def learning_rate(self) -> float:
        """The current learning rate of the optimizer that updates weights."""
        return self.default_opt.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate of the optimizer that updates weights."""
        self.default_opt.set_learning_rate(lr)

    def _optimizer_of(self, index: Any) -> opt.Optimizer:
        name = self.idx2name.get(index, index)
        collects = isinstance(name, str) and name.endswith(FULL_SUFFIX)
        return self.aux_opt if collects else self.default_opt

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the state of one weight; None for gradients."""
        return self._optimizer_of(index).create_state(index, weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight, or store a gradient, in place."""
        self._optimizer_of(index).update(index, weight, grad, state)
