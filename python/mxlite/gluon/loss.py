"""Losses (``mx.gluon.loss``): one value per sample, usually the mean over all other axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from .._names_1x import attributes as _attributes
from ..base import ShapeError, TypeError_, ValueError_
from ..ndarray import NDArray
from ..symbol import Symbol
from .block import HybridBlock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .call_types import BlockOptions

__all__ = [
    "CTCLoss",
    "CosineEmbeddingLoss",
    "HingeLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "L2Loss",
    "LogisticLoss",
    "Loss",
    "PoissonNLLLoss",
    "SDMLLoss",
    "SigmoidBCELoss",
    "SigmoidBinaryCrossEntropyLoss",
    "SoftmaxCELoss",
    "SoftmaxCrossEntropyLoss",
    "SquaredHingeLoss",
    "TripletLoss",
]


def _weighted(
    F: Any,  # noqa: N803
    loss: Any,
    weight: float | None = None,
    sample_weight: Any = None,
) -> Any:
    """Multiply the loss by ``sample_weight`` and ``weight``, if given."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        if not isinstance(weight, (int, float)):
            raise TypeError_(f"loss: weight must be a number, got {weight!r}")
        loss = loss * weight
    return loss


_apply_weighting = _weighted  # subclasses in other packages call it by this name of 1.x


def _reshape_like(F: Any, x: Any, y: Any) -> Any:  # noqa: N803
    """Return x in the shape of y; losses in other packages import this name of 1.x."""
    return F.reshape_like(x, y)


def _softplus_of_minus_abs(F: Any, x: Any) -> Any:  # noqa: N803
    """``log(1 + exp(-|x|))``, which cannot overflow."""
    return F.Activation(-F.abs(x), act_type="softrelu")


class Loss(HybridBlock):
    """Base of the losses.

    Parameters
    ----------
    weight : float or None
        Factor of the loss.
    batch_axis : int
        Axis that the mean leaves out.
    """

    def __init__(
        self, weight: float | None, batch_axis: int, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    if TYPE_CHECKING:

        @overload
        def __call__(self, pred: Symbol, label: Symbol, *args: Any) -> Symbol: ...
        @overload
        def __call__(self, pred: NDArray, label: NDArray, *args: NDArray | None) -> NDArray: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Compute the loss of each sample."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _mean(self, F: Any, loss: Any) -> Any:  # noqa: N803
        return F.mean(loss, axis=self._batch_axis, exclude=True)


class L2Loss(Loss):
    """``(pred - label)^2 / 2``.

    Parameters
    ----------
    weight : float
    batch_axis : int
    """

    def __init__(
        self, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        loss = F.square(F.reshape_like(label, pred) - pred)
        half = None if self._weight is None else self._weight / 2
        return self._mean(F, _weighted(F, loss, half, sample_weight))


class L1Loss(Loss):
    """``|pred - label|``."""

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        loss = F.abs(F.reshape_like(label, pred) - pred)
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))


class SigmoidBinaryCrossEntropyLoss(Loss):
    """``-log(p) * label - log(1 - p) * (1 - label)`` with ``p = sigmoid(pred)``.

    Parameters
    ----------
    from_sigmoid : bool
        ``pred`` is already a probability.
    weight : float, optional
    batch_axis : int
    """

    def __init__(
        self,
        from_sigmoid: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(
        self,
        F: Any,
        pred: Any,
        label: Any,
        sample_weight: Any = None,
        pos_weight: Any = None,  # noqa: N803
    ) -> NDArray:
        """Return the loss of each sample; ``pos_weight`` is the factor of positive labels."""
        label = F.reshape_like(label, pred)
        if not self._from_sigmoid:
            softplus = _softplus_of_minus_abs(F, pred)
            if pos_weight is None:
                loss = F.relu(pred) - pred * label + softplus
            else:
                factor = 1 + F.broadcast_mul(pos_weight - 1, label)
                loss = pred - pred * label + factor * (softplus + F.relu(-pred))
        else:
            eps = 1e-12
            positive = F.log(pred + eps) * label
            if pos_weight is not None:
                positive = F.broadcast_mul(positive, pos_weight)
            loss = -(positive + F.log(1.0 - pred + eps) * (1.0 - label))
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """``-log(softmax(pred))`` at the label, or weighted by label probabilities.

    Parameters
    ----------
    axis : int
        The class axis.
    sparse_label : bool
        Labels are class numbers; else probabilities of the shape of ``pred``.
    from_logits : bool
        ``pred`` is already the logarithm of probabilities.
    weight : float, optional
    batch_axis : int
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._from_logits = from_logits

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        # Uses one operator where possible, because this operator does not store the logarithms of
        # all probabilities. MXNet lacks the operator, so symbols get log_softmax and pick.
        fused = self._sparse_label and self._axis == -1 and not self._from_logits
        fused = fused and not isinstance(pred, Symbol)
        if not self._from_logits and not fused:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            try:
                if fused:
                    loss = -F.contrib.pick_log_softmax(pred, label)
                else:
                    loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
            except ShapeError:
                raise self._wrong_label(pred.shape, label.shape) from None
        else:
            loss = -F.sum(pred * F.reshape_like(label, pred), axis=self._axis, keepdims=True)
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))

    def _wrong_label(self, pred: tuple[int, ...], label: tuple[int, ...]) -> ShapeError:
        hint = ""
        if len(label) > len(pred):
            hint = "; the arguments seem to be swapped"
        elif label == pred:
            hint = "; for one-hot labels or probabilities use sparse_label=False"
        return ShapeError(
            f"{type(self).__name__}: label must have pred's shape without axis {self._axis} (the "
            f"classes), got pred of shape {pred} and label of shape {label}{hint}"
        )


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """Sum of ``label * (log(label) - pred)``, the Kullback-Leibler divergence.

    Parameters
    ----------
    from_logits : bool
        ``pred`` is the logarithm of probabilities; else log_softmax is applied.
    axis : int
        Axis along which log_softmax is applied.
    weight : float, optional
    batch_axis : int
    """

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        loss = label * (F.log(label + 1e-12) - pred)
        loss = _weighted(F, loss, self._weight, sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class CTCLoss(Loss):
    """Connectionist temporal classification (Graves et al., 2006); the last class is blank.

    Parameters
    ----------
    layout : {'NTC', 'TNC'}
        Order of the dimensions of ``pred``.
    label_layout : {'NT', 'TN'}
    weight : float, optional
    """

    def __init__(
        self,
        layout: str = "NTC",
        label_layout: str = "NT",
        weight: float | None = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        if layout not in ("NTC", "TNC"):
            raise ValueError_(f"CTCLoss: layout must be 'NTC' or 'TNC', got {layout!r}")
        if label_layout not in ("NT", "TN"):
            raise ValueError_(f"CTCLoss: label_layout must be 'NT' or 'TN', got {label_layout!r}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout = layout
        self._label_layout = label_layout

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        pred: Any,
        label: Any,
        pred_lengths: Any = None,
        label_lengths: Any = None,
        sample_weight: Any = None,
    ) -> NDArray:
        """Return the loss of each sequence, shape ``(batch,)``."""
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        lengths = {"data_lengths": pred_lengths, "label_lengths": label_lengths}
        loss = F.CTCLoss(
            pred,
            label,
            **{name: array for name, array in lengths.items() if array is not None},
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None,
            blank_label="last",
        )
        return _weighted(F, loss, self._weight, sample_weight)


class HuberLoss(Loss):
    """Squared below ``rho``, linear above."""

    def __init__(
        self,
        rho: float = 1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        loss = F.abs(F.reshape_like(label, pred) - pred)
        loss = F.where(loss > self._rho, loss - 0.5 * self._rho, (0.5 / self._rho) * F.square(loss))
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))


class HingeLoss(Loss):
    """``max(0, margin - pred * label)`` with labels -1 and 1."""

    def __init__(
        self,
        margin: float = 1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        loss = F.relu(self._margin - pred * F.reshape_like(label, pred))
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))


class SquaredHingeLoss(HingeLoss):
    """``max(0, margin - pred * label)^2`` with labels -1 and 1; the arguments of `HingeLoss`."""

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        loss = F.square(F.relu(self._margin - pred * F.reshape_like(label, pred)))
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))


class LogisticLoss(Loss):
    """``log(1 + exp(-pred * label))`` with labels -1 and 1.

    Parameters
    ----------
    weight : float, optional
    batch_axis : int
    label_format : {'signed', 'binary'}
        Labels are -1 and 1, or 0 and 1.
    """

    def __init__(
        self,
        weight: float | None = None,
        batch_axis: int = 0,
        label_format: str = "signed",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError_(
                f"LogisticLoss: label_format must be 'signed' or 'binary', got {label_format!r}"
            )
        self._label_format = label_format

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> NDArray:  # noqa: N803
        """Return the loss of each sample, shape ``(batch,)``."""
        label = F.reshape_like(label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + _softplus_of_minus_abs(F, pred)
        return self._mean(F, _weighted(F, loss, self._weight, sample_weight))


class TripletLoss(Loss):
    """``max(0, |pred - positive|^2 - |pred - negative|^2 + margin)``."""

    def __init__(
        self,
        margin: float = 1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(
        self,
        F: Any,
        pred: Any,
        positive: Any,
        negative: Any,
        sample_weight: Any = None,  # noqa: N803
    ) -> NDArray:
        """Return the loss of each sample, shape ``(batch,)``."""
        nearer = F.square(F.reshape_like(positive, pred) - pred)
        farther = F.square(F.reshape_like(negative, pred) - pred)
        loss = F.sum(nearer - farther, axis=self._batch_axis, exclude=True)
        return _weighted(F, F.relu(loss + self._margin), self._weight, sample_weight)


class PoissonNLLLoss(Loss):
    """``pred - target * log(pred)``, the negative logarithm of a Poisson likelihood.

    Parameters
    ----------
    weight : float, optional
    from_logits : bool
        ``pred`` is the logarithm of the rate.
    batch_axis : int
    compute_full : bool
        Add Stirling's approximation of ``log(target!)``.
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        pred: Any,
        target: Any,
        sample_weight: Any = None,
        epsilon: float = 1e-08,
    ) -> NDArray:
        """Return the mean loss of the batch, shape ``(1,)``."""
        target = F.reshape_like(target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target) - target + 0.5 * F.log(2 * target * math.pi)
            loss = loss + F.where(target > 1, stirling, F.zeros_like(target))
        return F.mean(_weighted(F, loss, self._weight, sample_weight))


class CosineEmbeddingLoss(Loss):
    """``1 - cos(x, y)`` for label 1, ``max(0, cos(x, y) - margin)`` for label -1.

    Parameters
    ----------
    weight : float, optional
    batch_axis : int
    margin : float
        Between -1 and 1.
    """

    def __init__(
        self,
        weight: float | None = None,
        batch_axis: int = 0,
        margin: float = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(
        self,
        F: Any,
        input1: Any,
        input2: Any,
        label: Any,
        sample_weight: Any = None,  # noqa: N803
    ) -> NDArray:
        """Return the loss of each pair, shape ``(batch, 1)``."""
        input1 = F.reshape_like(input1, input2)
        product = F.sum(input1 * input2, axis=-1).reshape((-1, 1))
        lengths = F.norm(input1, axis=-1).reshape((-1, 1)) * F.norm(input2, axis=-1).reshape(
            (-1, 1)
        )
        cosine = product / F.maximum(lengths, 1e-12)
        label = label.reshape((-1, 1))
        apart = F.clip(cosine - self._margin, 0, 1 - self._margin)
        loss = F.where(label == 1, 1.0 - cosine, apart)
        return _weighted(F, loss, self._weight, sample_weight)


class SDMLLoss(Loss):
    """Smoothed deep metric learning (Bonadiman et al., 2019): row i of both inputs is a pair.

    Parameters
    ----------
    smoothing_parameter : float
        Probability mass given to rows that are not a pair.
    weight : float, optional
    batch_axis : int
    """

    def __init__(
        self,
        smoothing_parameter: float = 0.3,
        weight: float | None = 1.0,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> NDArray:  # noqa: N803
        """Return the loss of each row, shape ``(batch,)``."""
        count = x1.shape[0]
        difference = F.broadcast_sub(F.expand_dims(x1, 1), F.expand_dims(x2, 0))
        log_probabilities = F.log_softmax(-F.sum(F.square(difference), axis=2), axis=1)
        pairs = F.one_hot(F.contrib.arange_like(x1, axis=0), count)
        spread: float | int = self.smoothing_parameter / (count - 1)
        labels = pairs * (1 - self.smoothing_parameter) + (1 - pairs) * spread
        return self.kl_loss(log_probabilities, labels)


if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
