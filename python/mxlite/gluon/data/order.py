"""The order of one pass over a data set, which can be resumed in its middle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Callable, TypeVar

from ...random import random_state, set_random_state

__all__ = ["Order", "left_over", "set_left_over"]

_T = TypeVar("_T")


class Order:
    """The lists of numbers of one pass, from its start or from a batch in its middle.

    Parameters
    ----------
    batch_sampler : Sampler
    resumed : dict, optional
        A loader's state: the start of the pass and the batches taken.
    """

    def __init__(self, batch_sampler: Any, resumed: dict[str, Any] | None) -> None:
        self.taken = 0 if resumed is None else int(resumed["taken"])
        self.ended = False
        self.begin: dict[str, Any] | None = None if resumed is None else resumed["begin"]
        self._sampler = batch_sampler
        self._lists: Iterator[Any] | None = None

    def start(self, draw: Callable[[], _T]) -> _T:
        """Begin the pass now; ``draw`` draws what it needs before the order.

        In the middle of a pass, random numbers are those of its start meanwhile, and the lists of
        the batches taken are dropped.
        """
        if self.begin is None:
            self.begin = {"random": random_state(), "left": left_over(self._sampler)}
            drawn = draw()
            self._lists = iter(self._sampler)
            return drawn
        now = random_state()
        try:
            set_random_state(self.begin["random"])
            set_left_over(self._sampler, self.begin["left"])
            drawn = draw()
            lists = itertools.islice(iter(self._sampler), self.taken, None)
            self._lists = itertools.chain(list(itertools.islice(lists, 1)), lists)
        finally:
            set_random_state(now)
        return drawn

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._lists is None:
            self.start(lambda: None)
        assert self._lists is not None
        return next(self._lists)


def left_over(sampler: Any) -> list[Any]:
    """Return what a `BatchSampler` keeps for the next pass."""
    return list(getattr(sampler, "_left", ()))


def set_left_over(sampler: Any, left: list[Any]) -> None:
    """Set what a `BatchSampler` keeps for the next pass."""
    if hasattr(sampler, "_left"):
        sampler._left = list(left)
