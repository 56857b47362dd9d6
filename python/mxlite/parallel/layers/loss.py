"""Softmax cross-entropy of logits that are divided among ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import autograd
from ..._typed_init import check_sizes
from ...base import ShapeError, ValueError_
from ...comm.groups import group_of
from ...gluon.loss import Loss, _weighted
from ...ndarray import NDArray
from .shards import shard_sizes, summed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...gluon.call_types import BlockOptions

__all__ = ["VocabParallelSoftmaxCELoss"]

_LARGEST_COSINE = 1 - 1e-6


class VocabParallelSoftmaxCELoss(Loss):
    """``-log(softmax(pred))`` at the label; each rank has the logits of a shard of the classes.

    For vocabularies of language models and for classification with many classes. Ranks exchange
    three numbers for each label, never logits. ``pred`` is what ``ColumnParallelDense(classes)``
    returns; labels and the loss are the same on all ranks.

    ``loss(pred, label, sample_weight=None)``: pred ``(..., classes of this rank)``, label of that
    shape without the last axis, sample_weight broadcast to it. Returns ``(batch,)``: the mean over
    all axes but the batch axis, ignored labels included.

    Parameters
    ----------
    classes : int
        Number of all classes, at least one for each rank; shards differ by one class at most.
    process_set : ProcessSet, int, str or None
        The ranks; None for all of the job. Usually the name of an axis of the current mesh.
    ignore_label : int, optional
        The loss at this label is 0, and the logits get no gradient from it. Other labels outside of
        the classes are clipped, as in `gluon.loss.SoftmaxCrossEntropyLoss`.
    weight : float, optional
    batch_axis : int
    margin : tuple of (float, float, float)
        For face recognition: ``pred`` are cosines, and the cosine of the label's class,
        ``cos(t)``, becomes ``cos(margin[0] * t + margin[1]) - margin[2]``. ArcFace has
        ``(1, 0.5, 0)``, CosFace ``(1, 0, 0.35)``.
    scale : float
        Factor of ``pred``, after the margin.
    dtype : str or numpy type
        Type in which the loss is computed and returned, independent of the logits' type.
    """

    def __init__(
        self,
        classes: int,
        process_set: Any = None,
        ignore_label: int | None = None,
        weight: float | None = None,
        batch_axis: int = 0,
        margin: tuple[float, float, float] = (1.0, 0.0, 0.0),
        scale: float = 1.0,
        dtype: Any = "float32",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        name = type(self).__name__
        check_sizes(name, 1, classes=classes)
        self._classes = classes
        self._ignore_label = ignore_label
        if len(margin) != 3:
            raise ValueError_(f"{name}: margin is {margin!r}, expected three numbers")
        self._margin = tuple(float(m) for m in margin)
        self._scale = float(scale)
        self._dtype = dtype
        self._group = group_of(name, process_set)
        sizes = shard_sizes(name, "classes", classes, self._group, allow_uneven=True)
        self._begin = sum(sizes[: self._group.index])
        self._size = sizes[self._group.index]

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        if hasattr(pred, "shape"):
            self._check(pred.shape, label.shape)
        group = self._group
        pred = F.cast(pred, dtype=self._dtype)
        label = F.cast(label, dtype="int64")
        position = F.clip(label, 0, self._classes - 1) - self._begin
        own = (position >= 0) * (position < self._size)
        pred = self._with_margin(F, pred, position, own)
        with autograd.pause(autograd.is_training()):  # in graphs, BlockGrad has this effect
            highest = F.max(F.BlockGrad(pred), axis=-1, keepdims=True)
            if group.size > 1:
                highest = F.contrib.all_reduce(highest, op="max", process_set=group.number)
        highest = F.BlockGrad(highest)
        shifted = F.broadcast_sub(pred, highest)
        target = F.pick(shifted, position, axis=-1)
        target = F.where(own, target, F.zeros_like(target))
        sums = F.stack(F.sum(F.exp(shifted), axis=-1), target, axis=0)
        sums = summed(F, sums, group)
        total, target = F.split(sums, num_outputs=2, axis=0, squeeze_axis=True)
        loss = F.log(total) - target
        if self._ignore_label is not None:
            loss = F.where(label != self._ignore_label, loss, F.zeros_like(loss))
        if sample_weight is not None:
            sample_weight = F.cast(sample_weight, dtype=self._dtype)
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))

    def _with_margin(self, F: Any, pred: Any, position: Any, own: Any) -> Any:  # noqa: N803
        """Return scaled logits; ``own`` marks the labels whose class is in this rank's shard."""
        factor, angle, distance = self._margin
        if self._margin != (1, 0, 0):
            cosine = moved = F.pick(pred, position, axis=-1)
            if (factor, angle) != (1, 0):
                # The derivative of arccos is infinite at 1 and -1.
                angles = F.arccos(F.clip(cosine, -_LARGEST_COSINE, _LARGEST_COSINE))
                moved = F.cos(angles * factor + angle)
            change = moved - distance - cosine
            change = F.where(own, change, F.zeros_like(change))
            chosen = F.one_hot(position, depth=self._size, dtype=self._dtype)
            pred = pred + F.broadcast_mul(chosen, F.expand_dims(change, axis=-1))
        return pred if self._scale == 1 else pred * self._scale

    def _check(self, pred: tuple[int, ...], label: tuple[int, ...]) -> None:
        if tuple(pred[:-1]) != tuple(label) or pred[-1] != self._size:
            raise ShapeError(
                f"{type(self).__name__}: pred of shape {tuple(pred)} and label of shape "
                f"{tuple(label)} given; expected {self._size} logits in the last axis of pred, the "
                f"classes {self._begin} to {self._begin + self._size - 1} of {self._classes} that "
                f"rank {self._group.index} of the process set has, and a label for all other axes"
            )
