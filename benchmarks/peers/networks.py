"""Networks of the comparison: those of the scoring benchmark, and BERT-base."""

from __future__ import annotations

from typing import Any

import mxlite as mx
from bert import bert_base
from peer_values import bert_length
from scoring import networks as scoring


def check_name(network: str) -> None:
    """Raise ValueError for an unknown network."""
    if bert_length(network) is None:
        scoring.zoo_name(network)


def build(network: str) -> Any:
    """Return a network with random parameters."""
    length = bert_length(network)
    return scoring.build(network) if length is None else bert_base(length)


def input_size(network: str) -> int:
    """Return height and width of the images, or the length of the sequences."""
    return bert_length(network) or scoring.image_size(network)


def example(network: str) -> mx.nd.NDArray:
    """Return a batch of one, for the first call."""
    size = input_size(network)
    return mx.nd.zeros((1, 3, size, size) if bert_length(network) is None else (1, size))
