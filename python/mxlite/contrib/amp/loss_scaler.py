"""The dynamic scale of a loss."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ... import autograd
from ... import ndarray as nd
from ...comm.groups import Group
from ...context import Context
from ...ndarray import NDArray
from ...optimizer.settling import Settled, Settling
from ...parallel.replicas import shard_groups

__all__ = ["LossScaler", "OverflowCheck"]

_START, _LARGEST, _FACTOR = 2.0**16, 2.0**24, 2.0
_WINDOW = 2000
# Number of gradients in one check operator, which gets slow with many inputs.
_GROUP = 200


class OverflowCheck:
    """A check of gradients for infinities and NaN, which runs on their devices.

    Parameters
    ----------
    groups : list of list of NDArray
        The dense gradients of each context; no list may be empty.
    process_sets : list of Group, optional
        Ranks that hold shards of the parameters; all of them skip a step together.
    """

    def __init__(self, groups: Sequence[list[NDArray]], process_sets: Sequence[Group] = ()) -> None:
        with autograd.pause():
            flags = [
                nd.multi_all_finite(*some, num_arrays=len(some))
                for group in groups
                for some in (group[at : at + _GROUP] for at in range(0, len(group), _GROUP))
            ]
            self._flag = flags[0] if flags else nd.ones(1)
            for flag in flags[1:]:  # if one context overflows, all contexts skip the step
                self._flag = self._flag * flag.as_in_context(self._flag.ctx)
            for ranks in process_sets:
                self._flag = nd.contrib.all_reduce(self._flag, op="min", process_set=ranks.number)
        self._overflow: bool | None = None
        self._followers: list[Callable[[bool], None]] = []

    def factor(self, context: Context) -> NDArray:
        """Return 1 if all gradients are finite, else 0, as an array of one number."""
        return self._flag.as_in_context(context)

    def add_follower(self, follower: Callable[[bool], None]) -> None:
        """Call a function with the result when the result is read."""
        self._followers.append(follower)

    def overflow(self) -> bool:
        """Wait for the result; return whether there was an infinity or NaN."""
        if self._overflow is None:
            self._overflow = not bool(self._flag.asnumpy()[0])
            followers, self._followers = self._followers, []
            for follower in followers:
                follower(self._overflow)
        return self._overflow


class LossScaler(Settling):
    """Doubles the scale after 2,000 steps without overflow, and halves it after an overflow.

    Notes
    -----
    Matches ``mxnet.contrib.amp.loss_scaler.LossScaler``: it starts at 2^16, its
    maximum is 2^24, and a new scale is used one step after its check. So the next step reads the
    result of the check, while the device computes that step's gradients.
    """

    _next_loss_scale = Settled[float]()
    _unskipped = Settled[int]()

    def __init_subclass__(cls) -> None:
        if "has_overflow" in vars(cls):  # such subclasses decide on the host before the update
            cls._begin_check = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._loss_scale = _START
        self._next_loss_scale = self._loss_scale
        self._max_loss_scale = _LARGEST
        self._scale_seq_len = _WINDOW
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The scale of this step's loss."""
        return self._loss_scale

    def has_overflow(self, params: Iterable[Any]) -> bool:
        """Return whether a gradient has an infinity or NaN, and choose the next scale.

        Parameters without gradient are ignored.
        """
        groups: dict[Context, list[NDArray]] = {}
        params = list(params)
        for param in params:
            if param.grad_req != "null" and param._data is not None:
                for grad in param.list_grad():
                    values = grad if grad.stype == "default" else grad.data
                    groups.setdefault(values.ctx, []).append(values)
        check = LossScaler._begin_check(self, list(groups.values()), shard_groups(params))
        self._settle()
        return check.overflow()

    def _begin_check(
        self, groups: Sequence[list[NDArray]], process_sets: Sequence[Group] = ()
    ) -> OverflowCheck:
        """Start a step's check; the next scale is chosen when its result is read."""
        check = OverflowCheck(groups, process_sets)
        self._loss_scale = self._next_loss_scale  # waits for the previous step's check
        self._unsettled = lambda: self._choose_next(check.overflow())
        return check

    def _choose_next(self, overflow: bool) -> None:
        if overflow:
            self._next_loss_scale = self._loss_scale / _FACTOR
            self._unskipped = 0
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
        else:
            self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * _FACTOR)
            logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
