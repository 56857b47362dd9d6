"""Learning rates that depend on the number of updates (``mx.lr_scheduler``)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from math import cos, pi
from typing import TYPE_CHECKING

from ._names_1x import attributes as _attributes
from ._typed_init import TypedInit, check_number
from .base import TypeError_, ValueError_

__all__ = [
    "CosineScheduler",
    "FactorScheduler",
    "LRScheduler",
    "MultiFactorScheduler",
    "PolyScheduler",
]


def _log_change(num_update: int, rate: float) -> None:
    logging.info("Update[%d]: Change learning rate to %0.5e", num_update, rate)


class LRScheduler(TypedInit):
    """Base of the schedules: a warm-up and a base rate.

    Parameters
    ----------
    base_lr : float
        Rate after the warm-up. An explicit ``learning_rate`` of the optimizer replaces it, except
        in `PolyScheduler` and `CosineScheduler`.
    warmup_steps : int
        Number of updates of the warm-up.
    warmup_begin_lr : float
        Rate at its start; must not exceed ``base_lr``.
    warmup_mode : {'linear', 'constant'}
        Rise in a line, or stay at ``warmup_begin_lr``.
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        name = type(self).__name__
        if not isinstance(warmup_steps, int):
            raise TypeError_(f"{name}: warmup_steps must be an integer, got {warmup_steps!r}")
        if warmup_steps < 0:
            raise ValueError_(f"{name}: warmup_steps must be 0 or more, got {warmup_steps}")
        if warmup_begin_lr > base_lr:
            raise ValueError_(
                f"{name}: warmup_begin_lr must be at most base_lr {base_lr}, got {warmup_begin_lr}"
            )
        if warmup_mode not in ("linear", "constant"):
            raise ValueError_(
                f"{name}: warmup_mode must be 'linear' or 'constant', got {warmup_mode!r}"
            )
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_final_lr = base_lr
        self.warmup_mode = warmup_mode

    def __repr__(self) -> str:
        names = inspect.signature(type(self)).parameters
        given = [f"{name}={vars(self)[name]!r}" for name in names if name in vars(self)]
        return f"{type(self).__name__}({', '.join(given)})"

    def get_warmup_lr(self, num_update: int) -> float:
        """Return the rate of an update inside the warm-up, below ``warmup_steps``."""
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = self.warmup_final_lr - self.warmup_begin_lr
        return self.warmup_begin_lr + rise * num_update / self.warmup_steps

    def __call__(self, num_update: int) -> float:
        """Return the learning rate for the largest number of updates that any parameter has had."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


class FactorScheduler(LRScheduler):
    """Multiplies the rate by ``factor`` every ``step`` updates.

    Parameters
    ----------
    step : int
    factor : float
        Factor of at most 1.
    stop_factor_lr : float
        The rate never falls below it.
    base_lr, warmup_steps, warmup_begin_lr, warmup_mode
        As in `LRScheduler`.
    """

    def __init__(
        self,
        step: float,
        factor: float = 1,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ValueError_(f"FactorScheduler: step must be 1 or more, got {step}")
        if factor > 1.0:
            raise ValueError_(f"FactorScheduler: factor must be at most 1, got {factor}")
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count: float = 0

    def __call__(self, num_update: int) -> float:
        """Return the learning rate; see `LRScheduler.__call__`."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        # As in MXNet 1.x, the rate changes in the first update after the step.
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                logging.info(
                    "Update[%d]: now learning rate arrived at %0.5e, will not change in the future",
                    num_update,
                    self.base_lr,
                )
            else:
                _log_change(num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiplies the rate by ``factor`` after each number of updates in ``step``.

    Parameters
    ----------
    step : list of int
        Increasing.
    factor : float
        Factor of at most 1.
    base_lr, warmup_steps, warmup_begin_lr, warmup_mode
        As in `LRScheduler`.
    """

    def __init__(
        self,
        step: Sequence[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, list) or not step:
            raise TypeError_(f"MultiFactorScheduler: step must be a list of integers, got {step!r}")
        for i, number in enumerate(step):
            check_number("MultiFactorScheduler", f"step[{i}]", number)
        if step[0] < 1 or any(late <= early for early, late in zip(step, step[1:])):
            raise ValueError_(
                "MultiFactorScheduler: step must be increasing integers, the first at least 1, got "
                f"{step}"
            )
        if factor > 1.0:
            raise ValueError_(f"MultiFactorScheduler: factor must be at most 1, got {factor}")
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def __call__(self, num_update: int) -> float:
        """Return the learning rate; see `LRScheduler.__call__`."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            _log_change(num_update, self.base_lr)
        return self.base_lr


class _DecayScheduler(LRScheduler):
    """Base of schedules from ``base_lr`` to ``final_lr``, which is kept after ``max_update``."""

    _follows_base_lr = False  # rates are computed from `base_lr_orig`

    def __init__(
        self,
        max_update: int,
        base_lr: float,
        final_lr: float,
        warmup_steps: int,
        warmup_begin_lr: float,
        warmup_mode: str,
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        name = type(self).__name__
        if not isinstance(max_update, int):
            raise TypeError_(f"{name}: max_update must be an integer, got {max_update!r}")
        if max_update < 1:
            raise ValueError_(f"{name}: max_update must be 1 or more, got {max_update}")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _shape(self, fraction: float) -> float:
        """Map the completed fraction (0 to 1) to the remaining fraction of the rate (1 to 0)."""
        raise NotImplementedError(f"{type(self).__name__} does not define _shape")

    def __call__(self, num_update: int) -> float:
        """Return the learning rate; see `LRScheduler.__call__`."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        done = 1.0
        if num_update < self.max_update:
            done = (num_update - self.warmup_steps) / self.max_steps
        fall = self.base_lr_orig - self.final_lr
        self.base_lr = self.final_lr + fall * self._shape(done)
        return self.base_lr


class PolyScheduler(_DecayScheduler):
    """Returns ``final_lr + (base_lr - final_lr) * (1 - done) ** pwr``.

    Parameters
    ----------
    max_update : int
        Number of updates at which ``final_lr`` is reached, warm-up included.
    base_lr : float
    pwr : float
        Power of the decay.
    final_lr : float
    warmup_steps, warmup_begin_lr, warmup_mode
        As in `LRScheduler`.
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _shape(self, fraction: float) -> float:
        return float((1 - fraction) ** self.power)


class CosineScheduler(_DecayScheduler):
    """Returns ``final_lr + (base_lr - final_lr) * (1 + cos(pi * done)) / 2``.

    Parameters
    ----------
    max_update : int
        Number of updates at which ``final_lr`` is reached, warm-up included.
    base_lr, final_lr : float
    warmup_steps, warmup_begin_lr, warmup_mode
        As in `LRScheduler`.
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)

    def _shape(self, fraction: float) -> float:
        return (1 + cos(pi * fraction)) / 2


if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
