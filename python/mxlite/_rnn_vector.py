"""Layout of the one parameter vector of the operator RNN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .base import ShapeError

__all__ = ["GATES", "RNNVector"]

# Suffixes of the gates of each mode, in the order of the vector.
GATES = {
    "rnn_relu": ("",),
    "rnn_tanh": ("",),
    "lstm": ("_i", "_f", "_c", "_o"),
    "gru": ("_r", "_z", "_o"),
}


class RNNVector(NamedTuple):
    """Sizes of a recurrent network whose parameters are one vector.

    Attributes
    ----------
    num_hidden, num_layers : int
    mode : {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'}
    bidirectional : bool
    """

    num_hidden: int
    num_layers: int
    mode: str
    bidirectional: bool

    @property
    def directions(self) -> tuple[str, ...]:
        """First letters of the parameter names for each direction: left to right, right to left."""
        return ("l", "r") if self.bidirectional else ("l",)

    def input_size(self, size: int, who: str) -> int:
        """Return the input width of the first layer for a vector of this length."""
        rows, count = self.num_hidden, len(self.directions)
        deeper = (self.num_layers - 1) * (rows + count * rows + 2)
        width = size / (len(GATES[self.mode]) * rows * count) - deeper - rows - 2
        if width < 1 or width != int(width):
            raise ShapeError(
                f"{who}: a vector of {size} parameters fits no input size for num_hidden {rows}, "
                f"num_layers {self.num_layers} and {count} directions"
            )
        return int(width)

    def pieces(self, inputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield name and shape of each gate's matrices and biases, in the order of the vector."""
        rows = self.num_hidden
        for kind in ("weight", "bias"):
            width = inputs
            for layer in range(self.num_layers):
                for side in self.directions:
                    for group, columns in (("i2h", width), ("h2h", rows)):
                        for gate in GATES[self.mode]:
                            name = f"{side}{layer}_{group}{gate}_{kind}"
                            yield name, ((rows, columns) if kind == "weight" else (rows,))
                width = rows * len(self.directions)
