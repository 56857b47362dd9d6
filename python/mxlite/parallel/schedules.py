"""Orders in which a stage of a pipeline runs its micro-batches."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["forwards_then_backwards", "one_forward_one_backward"]


def one_forward_one_backward(
    stage: int, stages: int, micro_batches: int
) -> Iterator[tuple[str, int]]:
    """Yield the work of a stage in the order of the 1F1B schedule.

    A stage holds the activations of ``stages - stage`` micro-batches at most.

    Parameters
    ----------
    stage : int
        Position of the stage, from 0.
    stages : int
        Number of stages.
    micro_batches : int

    Yields
    ------
    kind : {'forward', 'backward'}
    micro_batch : int
    """
    ahead = min(micro_batches, stages - stage - 1)
    for index in range(ahead):
        yield "forward", index
    for index in range(micro_batches - ahead):
        yield "forward", index + ahead
        yield "backward", index
    for index in range(micro_batches - ahead, micro_batches):
        yield "backward", index


def forwards_then_backwards(micro_batches: int) -> Iterator[tuple[str, int]]:
    """Yield the work of a stage in a schedule with all forward passes before the first backward.

    A stage never sends forward while its neighbor sends backward, so blocking sends do not
    deadlock. A stage holds the activations of all micro-batches.
    """
    for kind in ("forward", "backward"):
        for index in range(micro_batches):
            yield kind, index
