"""Networks of the comparison: those of the scoring benchmark, and BERT-base."""

from __future__ import annotations

from typing import Any

import mxlite as mx
from bert import LENGTH, bert_base
from peer_values import BERT
from scoring import networks as scoring


def check_name(network: str) -> None:
    """Raise ValueError for a network that is not known."""
    if network != BERT:
        scoring.zoo_name(network)


def build(network: str) -> Any:
    """Return a network with random parameters."""
    return bert_base() if network == BERT else scoring.build(network)


def input_size(network: str) -> int:
    """Return height and width of the images, or the length of the sequences."""
    return LENGTH if network == BERT else scoring.image_size(network)


def example(network: str) -> mx.nd.NDArray:
    """Return a batch of one, for the first call."""
    size = input_size(network)
    return mx.nd.zeros((1, size) if network == BERT else (1, 3, size, size))
