"""The order of one pass over a data set, which can be resumed within the pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Callable, TypeVar

from ..._files.likeness import check_like
from ...base import FileFormatError, ValueError_
from ...random import prepare_random_state, random_state, set_random_state

__all__ = ["Order", "batch_seed", "check_position", "left_over", "set_left_over", "settings"]

_T = TypeVar("_T")


class Order:
    """The sample numbers of each batch of a pass, from its beginning or from a later batch."""

    def __init__(self, batch_sampler: Any, resumed: dict[str, Any] | None) -> None:
        self.taken = 0 if resumed is None else int(resumed["taken"])
        self.ended = False  # whether the loop over the pass has ended, completely or early
        self.total: int | None = None  # number of batches, if the sampler knows it
        self.begin: dict[str, Any] | None = None if resumed is None else resumed["begin"]
        self._sampler = batch_sampler
        self._lists: Iterator[Any] | None = None

    def start(self, draw: Callable[[], _T]) -> _T:
        """Start the pass; return the seeds that ``draw`` returns before the order is drawn.

        If the pass is resumed, both are drawn with the random state of its start, and the lists of
        the batches that were taken before are skipped.
        """
        if self.begin is None:
            self.begin = {"random": random_state(), "left": left_over(self._sampler)}
            self.total = known_length(self._sampler)
            drawn = draw()
            self._lists = iter(self._sampler)
            return drawn
        now = random_state()
        try:
            set_random_state(self.begin["random"])
            set_left_over(self._sampler, self.begin["left"])
            self.total = known_length(self._sampler)
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
        assert self._lists is not None
        return next(self._lists)


def known_length(sampler: Any) -> int | None:
    """Return the number of batches or samples of a sampler; None if the sampler has no length."""
    try:
        return len(sampler)
    except (TypeError, NotImplementedError):
        return None


def settings(dataset: Any, batch_sampler: Any) -> dict[str, Any]:
    """Return the settings of the data set and the samplers that a saved position depends on."""
    sampler = getattr(batch_sampler, "_sampler", batch_sampler)
    return {
        "samples": known_length(dataset),
        "batch_size": getattr(batch_sampler, "_batch_size", None),
        "last_batch": getattr(batch_sampler, "_last_batch", None),
        "sampler": type(sampler).__name__,
        "sampler_length": known_length(sampler),
    }


def check_position(state: Any, own: dict[str, Any], batch_sampler: Any) -> None:
    """Raise if a saved position was saved by a loader with other settings."""
    who = "DataLoader: the saved position"
    if not isinstance(state, dict) or "begin" not in state:
        raise FileFormatError(f"{who} must be a dict with 'begin'")
    for key, value in own.items():
        if state.get(key, value) != value:
            raise ValueError_(
                f"{who} has {key} {state[key]!r}, but this loader has {value!r}; use the data "
                "set, sampler and batch settings with which the position was saved, or do not "
                "load it"
            )
    begin = state["begin"]
    if begin is not None:
        check_like(begin, {"random": {}, "left": []}, f"{who}: 'begin'")
        prepare_random_state(begin["random"], who)
    left = state.get("left") if begin is None else begin["left"]
    numbered = own["sampler"] in ("RandomSampler", "SequentialSampler")
    if not isinstance(left, list) or not all(
        type(index) is int and 0 <= index < own["samples"] for index in left if numbered
    ):
        raise FileFormatError(f"{who}: left-over samples must be a list of indices, got {left!r}")
    taken, total = state.get("taken"), known_length(batch_sampler)
    most = (1 << 31) if total is None else total + len(left) + 1
    if type(taken) is not int or not 0 <= taken <= most:
        raise FileFormatError(f"{who} must be after 0 to {most} batches, got {taken!r}")


def batch_seed(seed: int, batch: int) -> int:
    """Return the seed of ``mx.random`` for one batch of the pass that drew ``seed``."""
    return (seed + batch) % 2**64


def left_over(sampler: Any) -> list[Any]:
    """Return the indices that a `BatchSampler` keeps for the next pass."""
    return list(getattr(sampler, "_left", ()))


def set_left_over(sampler: Any, left: list[Any]) -> None:
    """Set the indices that a `BatchSampler` keeps for the next pass."""
    if hasattr(sampler, "_left"):
        sampler._left = list(left)
