"""Softmax cross-entropy of logits that are divided among ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..._typed_init import check_sizes
from ...base import ShapeError, ValueError_
from ...comm.groups import Group, group_of
from ...gluon.loss import Loss, _weighted
from ...ndarray import NDArray
from .shards import gathered, shard_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...gluon.call_types import BlockOptions

__all__ = ["VocabParallelSoftmaxCELoss"]


def margin_options(who: str, margin: Sequence[float], scale: float) -> dict[str, Any]:
    """Return the parameters of the operator margin_logsumexp."""
    if len(margin) != 3:
        raise ValueError_(f"{who}: margin must be three numbers, got {margin!r}")
    values = (*margin, scale)
    return {n: float(v) for n, v in zip(("factor", "angle", "distance", "scale"), values)}


def joined_logsumexp(F: Any, parts: Sequence[Any], group: Group) -> tuple[Any, Any, Any]:  # noqa: N803
    """Join the results that margin_logsumexp has for the classes of each rank.

    Return logsumexp of all classes and the label's logit, whose difference is the loss, and that
    logsumexp relative to this rank's highest logit. All ranks must use them in the same way.
    """
    highest, total, target = parts
    if group.size == 1:
        return total, target, total
    own = F.stack(F.BlockGrad(highest), total, target, axis=-1)
    every = F.reshape(gathered(F, own, [3] * group.size, group), shape=(-1, group.size, 3))
    each, totals, targets = F.split(every, num_outputs=3, axis=2, squeeze_axis=True)
    each = F.BlockGrad(each)
    distance = F.broadcast_sub(each, F.max(each, axis=1, keepdims=True))
    total = F.reshape_like(F.logsumexp(totals + distance, axis=1), target)
    own_distance = F.slice_axis(distance, axis=1, begin=group.index, end=group.index + 1)
    relative = total - F.reshape_like(own_distance, target)
    return total, F.reshape_like(F.max(targets + distance, axis=1), target), relative


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
        self._options = margin_options(name, margin, scale)
        self._dtype = dtype
        self._group = group_of(name, process_set)
        sizes = shard_sizes(name, "classes", classes, self._group, allow_uneven=True)
        self._begin = sum(sizes[: self._group.index])
        self._size = sizes[self._group.index]

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        if hasattr(pred, "shape"):
            self._check(pred.shape, label.shape)
        pred = F.cast(pred, dtype=self._dtype)
        label = F.cast(label, dtype="int64")
        position = F.clip(label, 0, self._classes - 1) - self._begin
        parts = F.contrib.margin_logsumexp(pred, position, **self._options)
        total, target, _ = joined_logsumexp(F, parts, self._group)
        loss = total - target
        if self._ignore_label is not None:
            loss = F.where(label != self._ignore_label, loss, F.zeros_like(loss))
        if sample_weight is not None:
            sample_weight = F.cast(sample_weight, dtype=self._dtype)
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))

    def _check(self, pred: tuple[int, ...], label: tuple[int, ...]) -> None:
        if tuple(pred[:-1]) != tuple(label) or pred[-1] != self._size:
            raise ShapeError(
                f"{type(self).__name__}: pred must have {self._size} logits in its last axis, "
                f"because rank {self._group.index} of the process set has classes {self._begin} to "
                f"{self._begin + self._size - 1} of {self._classes}, and label must have the shape "
                f"of pred's other axes, got pred {tuple(pred)} and label {tuple(label)}"
            )
