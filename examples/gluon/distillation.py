"""Loss of a student that learns from a teacher's probabilities. gluon-cv: ``gluoncv.loss``."""

from __future__ import annotations

from typing import Any

from mxlite import gluon


class DistillationSoftmaxCrossEntropyLoss(gluon.HybridBlock):
    """Weighted sum of the losses against the teacher's probabilities and against the labels.

    Parameters
    ----------
    temperature : float
        Divides both networks' scores; the first loss is multiplied by its square, so that its
        gradients keep their size.
    hard_weight : float
        Weight of the loss against the labels, from 0 to 1. The other loss has the weight ``1 -
        hard_weight``.
    sparse_label : bool
        Whether labels are classes instead of probabilities.
    """

    def __init__(
        self, temperature: float = 1.0, hard_weight: float = 0.0, sparse_label: bool = True
    ) -> None:
        super().__init__()
        self._temperature, self._hard_weight = temperature, hard_weight
        with self.name_scope():
            self.soft_loss = gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False)
            self.hard_loss = gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=sparse_label)

    def hybrid_forward(self, F: Any, output: Any, label: Any, soft_target: Any) -> Any:  # noqa: N803
        """Return the loss of each sample.

        Parameters
        ----------
        F : module
        output : NDArray or Symbol
            The student's scores, (batch, classes).
        label : NDArray or Symbol
            Classes, or probabilities of all classes.
        soft_target : NDArray or Symbol
            The teacher's probabilities at the temperature.
        """
        if self._hard_weight == 1:
            return self.hard_loss(output, label)
        soft = self.soft_loss(output / self._temperature, soft_target) * self._temperature**2
        if self._hard_weight == 0:
            return soft
        return (1 - self._hard_weight) * soft + self._hard_weight * self.hard_loss(output, label)
