"""A Trainer for jobs of several processes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .. import autograd
from .. import optimizer as opt
from ..base import TypeError_
from ..comm.basics import rank
from ..comm.buckets import GradientBuckets
from ..comm.groups import Group, group_of
from ..comm.job import JOB
from ..comm.process_sets import GivenProcessSet, chosen_process_set, global_process_set
from ..gluon.parameter import Parameter, ParameterDict
from ..gluon.trainer import Trainer
from ..ndarray import NDArray
from .compression import BF16Compressor, Compression, FP16Compressor
from .optimizer import DistributedOptimizer, checked_predivide

# Compression classes that buckets implement, with the dtype in which buckets are sent.
_WIRES: dict[Any, str] = {FP16Compressor: FP16Compressor.wire, BF16Compressor: BF16Compressor.wire}


class DistributedTrainer(Trainer):
    """Averages gradients over all ranks, then updates like `gluon.Trainer`.

    Parameters
    ----------
    params : ParameterDict, dict or list of Parameter
        Sorted by name, so that all ranks agree on the order.
    optimizer : str or Optimizer
    optimizer_params : dict, optional
    compression : class
        ``Compression.none``, ``fp16`` or ``bf16``, or a class with the methods of these.
    gradient_predivide_factor : float
        Gradients are divided by it before the sum, and by ``size / factor`` after.
    prefix : str, optional
        Prefix of the names in error messages.
    num_groups : int
        Above 0: gradients are reduced in this many groups of near-equal size, each of one dtype by
        one operation. 0: sizes are tuned.
    process_set : ProcessSet, int, str or None
        Ranks whose gradients are averaged; other ranks train alone.
    zero : {0, 1}
        1: each rank of the set keeps the optimizer's states of some parameters, updates them, and
        sends the weights to the other ranks; see `gluon.Trainer`.
    clip_global_norm : float, optional
        As in `gluon.Trainer`: greatest norm of all averaged gradients together.

    Notes
    -----
    Matches ``horovod.mxnet.DistributedTrainer``: one context per process.
    ``step(batch_size)`` takes the batch size of this rank. Gradients of a sharded parameter are
    summed over those ranks of the set that hold the same shard. Several trainers of one job make
    their steps in the same order on all ranks; Horovod finds them by name.
    """

    def __init__(
        self,
        params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
        optimizer: str | opt.Optimizer,
        optimizer_params: Mapping[str, Any] | None = None,
        compression: Any = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
        process_set: GivenProcessSet = global_process_set,
        *,
        zero: int = 0,
        clip_global_norm: float | None = None,
    ) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
            warnings.warn(
                "DistributedTrainer does not take DistributedOptimizer as its optimizer. We have "
                "unwrapped it for you.",
                stacklevel=2,
            )
        if prefix is not None and not isinstance(prefix, str):
            raise TypeError_(f"DistributedTrainer: prefix must be a str, got {prefix!r}")
        if isinstance(params, (list, tuple)):
            params = sorted(params, key=lambda p: getattr(p, "name", ""))
        self._compression = compression
        self._process_set = chosen_process_set("DistributedTrainer", process_set)
        self._prefix = prefix or ""
        self._num_groups = num_groups
        self._buckets: dict[Group, GradientBuckets] = {}
        self._predivide = checked_predivide(gradient_predivide_factor)
        self._prescale = 1.0 / self._predivide
        super().__init__(
            params,
            optimizer,
            optimizer_params,
            kvstore=None,
            clip_global_norm=clip_global_norm,
            zero=zero,
        )
        self._scale_alone = self._scale
        self._follow_size()
        JOB.followers.add(self)

    def _follow_size(self) -> None:
        """Average over the current number of ranks."""
        self._scale = self._scale_alone * (self._predivide / (self._process_set.size() or 1))
        self._amp_original_scale = self._scale
        self._buckets.clear()
        self._forget_groups()

    def _data_group(self, store: Any) -> Group:
        """Return the ranks over which gradients are averaged."""
        if self._process_set.included():
            return group_of("DistributedTrainer", self._process_set)
        return Group(0, (rank(),), 0)

    def _allreduce_grads(self) -> None:
        """Sum all gradients over ranks, even those that backward has not computed on this rank."""
        self._ready()
        assert self._division is not None
        if self._data_group(None) != self._division.replicas.group:
            self._forget_groups()  # the process set was removed and added again
            self._ready()
        replicas = self._division.replicas
        replicas.compare()
        by_group: dict[Group, list[tuple[str, NDArray]]] = {replicas.group: []}
        for i, param in enumerate(self._params):
            if param.grad_req != "null":
                entries = by_group.setdefault(replicas.of(param), [])
                entries.append((f"{i} {param.name}", param.list_grad()[0]))
        for group, entries in by_group.items():
            if group.size > 1 and entries:
                self._sum(entries, group)

    def _sum(self, entries: list[tuple[str, NDArray]], group: Group) -> None:
        names = [name for name, _ in entries]
        grads = [grad for _, grad in entries]
        compression = self._compression
        wire = _WIRES.get(compression) if isinstance(compression, type) else None
        is_own = compression is not Compression.none and wire is None
        if group not in self._buckets:
            label = f"DistributedTrainer{self._prefix and f' {self._prefix}'}"
            self._buckets[group] = GradientBuckets(
                label,
                in_place=not is_own,
                wire=wire,
                groups=self._num_groups,
                terms=f"optimizer {type(self._optimizer).__name__}, zero={self._zero}",
            )
        buckets = self._buckets[group]
        if not is_own:
            buckets.sum(names, [[grad] for grad in grads], group, self._prescale)
            return
        with autograd.pause():
            sent = [compression.compress(grad) for grad in grads]
            sums = buckets.sum(names, [[tensor] for tensor, _ in sent], group, self._prescale)
            for grad, (_, ctx), total in zip(grads, sent, sums):
                grad[:] = compression.decompress(total, ctx)
