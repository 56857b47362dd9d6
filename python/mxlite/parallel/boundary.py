"""Messages that cross a boundary between two stages of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import ndarray as nd
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name

__all__ = [
    "DESCRIPTION_BYTES",
    "STATUS",
    "Boundary",
    "Spec",
    "spec_of",
    "specs_back",
    "status_of",
]

# Bytes of the message that describes the arrays of a boundary.
DESCRIPTION_BYTES = 1024


class Spec(NamedTuple):
    """Shape and dtype of an array that crosses a boundary."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def has_gradient(self) -> bool:
        """Whether the array is differentiated."""
        return "float" in self.dtype


STATUS = Spec((1,), "uint8")  # sent back if no array has a gradient; failed if the stage failed


class Boundary:
    """The messages of one step between this stage and a neighbor.

    Attributes
    ----------
    peer : int
        The neighbor's rank.
    specs : list of Spec or None
        Arrays that are sent forward for each micro-batch; None until both sides know them.
    sent, received : int
        Messages of this step so far.
    """

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.specs: list[Spec] | None = None
        self.sent = self.received = 0

    def rest(self, is_before: bool, forwards: int, backwards: int | None) -> tuple[int, list[Spec]]:
        """Return how many messages the neighbor still expects, and specs that it still sends."""
        forward = [Spec((DESCRIPTION_BYTES,), "uint8"), *(self.specs or []) * forwards]
        if backwards is None:
            back = [STATUS]
        else:
            back = [] if self.specs is None else specs_back(self.specs) * backwards
        sends, receives = (back, forward) if is_before else (forward, back)
        return len(sends) - self.sent, receives[self.received :]


def specs_back(specs: Sequence[Spec]) -> list[Spec]:
    """Return the specs that backward sends across a boundary: gradients, or one status value."""
    return [spec for spec in specs if spec.has_gradient] or [STATUS]


def status_of(arrays: Sequence[NDArray]) -> NDArray:
    """Return an array of one zero, whose computation fails if one of the arrays has failed."""
    firsts = [nd.slice_axis(x.reshape((-1,)), axis=0, begin=0, end=1) for x in arrays]
    return nd.add_n(*[nd.zeros_like(x).astype("uint8") for x in firsts])


def spec_of(array: NDArray) -> Spec:
    """Return shape and dtype of an array."""
    return Spec(tuple(array.shape), dtype_name(array.dtype))
