"""Metrics for TensorBoard (``mx.contrib.tensorboard``)."""

from __future__ import annotations

from typing import Any

from ..base import NotSupportedError

__all__ = ["LogMetricsCallback"]


def _writer(folder: str) -> Any:
    """Return a SummaryWriter of mxboard, tensorboardX or PyTorch, whichever is installed."""
    for module in ("mxboard", "tensorboardX", "torch.utils.tensorboard"):
        try:
            found = __import__(module, fromlist=["SummaryWriter"])
        except ImportError:
            continue
        return found.SummaryWriter(folder)
    raise NotSupportedError(
        "LogMetricsCallback: needs a SummaryWriter; install mxboard or tensorboardX with pip"
    )


class LogMetricsCallback:
    """A callback for the end of batches or epochs that writes the metric's values.

    Parameters
    ----------
    logging_dir : str
    prefix : str, optional
        Text before the metric's name, followed by a dash.

    Raises
    ------
    NotSupportedError
        If no package with a SummaryWriter is installed.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None) -> None:
        self.prefix = prefix
        self.summary_writer = _writer(logging_dir)

    def __call__(self, param: Any) -> None:
        """Write the values of a `BatchEndParam`'s metric."""
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            full = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(full, value, global_step=param.epoch)
