"""Wraps an optimizer to average gradients over ranks before each update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import optimizer as opt
from ..base import TypeError_, ValueError_
from ..comm.buckets import GradientBuckets
from ..comm.groups import group_of
from ..comm.job import JOB
from ..comm.process_sets import GivenProcessSet, chosen_process_set, global_process_set
from ..ndarray import NDArray
from .mpi_ops import Sum, allreduce_


def checked_predivide(factor: float) -> float:
    """Return the factor as a float above 0."""
    if not factor > 0:
        raise ValueError_(f"gradient_predivide_factor must be a number above 0, got {factor!r}")
    return float(factor)


class DistributedOptimizer(opt.Optimizer):
    """Averages gradients over all ranks, then updates like the wrapped optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        Its ``rescale_grad`` is divided by the number of ranks when it is wrapped.
    gradient_predivide_factor : float
        Gradients are divided by it before the sum, and by ``size / factor`` after.
    num_groups : int
        Above 0: gradients given in one call are reduced in this many groups. 0: sizes are tuned.
    process_set : ProcessSet, int, str or None
        Ranks whose gradients are averaged; other ranks update alone.

    Notes
    -----
    Matches ``horovod.mxnet.DistributedOptimizer``; for `mx.mod.Module` and for own loops. With
    `gluon.Trainer` use `DistributedTrainer`.
    """

    # Both are False, because an update sums gradients over all ranks, and ranks may have different
    # shards of a weight.
    _by_element = False
    _by_weight = False

    def __init__(
        self,
        optimizer: opt.Optimizer,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: GivenProcessSet = global_process_set,
    ) -> None:
        if not isinstance(optimizer, opt.Optimizer):
            raise TypeError_(
                "DistributedOptimizer: optimizer must be an Optimizer, got "
                f"{type(optimizer).__name__}"
            )
        self._optimizer = optimizer
        self._process_set = chosen_process_set("DistributedOptimizer", process_set)
        self._prescale = 1.0 / checked_predivide(gradient_predivide_factor)
        self._buckets = GradientBuckets("DistributedOptimizer", groups=num_groups)
        self._size = self._process_set.size() or 1
        self._optimizer.rescale_grad *= gradient_predivide_factor / self._size
        JOB.followers.add(self)

    def _follow_size(self) -> None:
        """Average over the current number of ranks."""
        before, self._size = self._size, self._process_set.size() or 1
        self._optimizer.rescale_grad *= before / self._size

    def __getattr__(self, item: str) -> Any:
        if item == "_optimizer":  # copy and pickle read attributes before __init__ has run
            raise AttributeError(item)
        return getattr(self._optimizer, item)

    def __setattr__(self, item: str, value: Any) -> None:
        # Module and Trainer set rescale_grad, idx2name, ... on this object; pass them on.
        own = ("_optimizer", "_process_set", "_prescale", "_size", "_buckets")
        if item in own or "_optimizer" not in vars(self):
            super().__setattr__(item, value)
        else:
            setattr(self._optimizer, item, value)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the wrapped optimizer's state for a weight."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the wrapped optimizer's state, with a float32 copy of 16-bit float weights."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def _reduce(self, index: Any, grad: Any) -> None:
        if not self._process_set.included() or self._process_set.size() == 1:
            return
        terms: dict[str, Any] = {
            "op": Sum,
            "prescale_factor": self._prescale,
            "process_set": self._process_set,
        }
        if not isinstance(index, (list, tuple)):
            allreduce_(grad, name=str(index), **terms)
            return
        group = group_of("DistributedOptimizer", self._process_set)
        names = [str(key) for key in index]
        self._buckets.sum(names, [[array] for array in grad], group, self._prescale)

    def _takes_lists(self) -> bool:
        return self._optimizer._takes_lists()

    def _update_list(
        self,
        indices: Sequence[Any],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[Any],
        scale: NDArray | None = None,
    ) -> None:
        self._reduce(list(indices), list(grads))
        self._optimizer._update_list(indices, weights, grads, states, scale)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Average the gradient, then change the weight in place; also accepts lists."""
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Average the gradient, then change the weight, using its float32 copy if there is one."""
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    @property
    def learning_rate(self) -> float:
        """The wrapped optimizer's current learning rate."""
        return float(self._optimizer.learning_rate)

    def set_learning_rate(self, lr: float) -> None:
        """Set the wrapped optimizer's learning rate."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        """Set the wrapped optimizer's factors of the learning rate."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set the wrapped optimizer's factors of weight decay."""
        self._optimizer.set_wd_mult(args_wd_mult)
