"""Training by variance-reduced gradients (``mx.contrib.svrg_optimization``)."""

from __future__ import annotations

from . import svrg_module, svrg_optimizer

__all__ = ["svrg_module", "svrg_optimizer"]
