"""The events during training for which handlers are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....base import ValueError_

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "EpochBegin",
    "EpochEnd",
    "EventHandler",
    "TrainBegin",
    "TrainEnd",
    "checked_handlers",
]


class EventHandler:
    """Base of all handlers; the classes below name the events for which a handler is called."""


class TrainBegin(EventHandler):
    """Called once before the first epoch."""

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


class TrainEnd(EventHandler):
    """Called once after the last epoch."""

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


class EpochBegin(EventHandler):
    """Called before each epoch."""

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


class EpochEnd(EventHandler):
    """Called after each epoch; returning True ends the training."""

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Continue the training."""
        return False


class BatchBegin(EventHandler):
    """Called before each batch with the keyword ``batch``."""

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


class BatchEnd(EventHandler):
    """Called after each batch with batch, pred, label and loss; returning True ends the epoch."""

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Continue the epoch."""
        return False


def checked_handlers(
    handlers: EventHandler | Sequence[EventHandler] | None,
) -> list[EventHandler]:
    """Return a new list of handlers."""
    if isinstance(handlers, EventHandler):
        return [handlers]
    found = list(handlers or ())
    if not all(isinstance(handler, EventHandler) for handler in found):
        raise ValueError_(
            f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}"
        )
    return found
