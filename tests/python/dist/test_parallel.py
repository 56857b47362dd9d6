"""Meshes, parallel layers, pipelines and checkpoints on several processes of this machine."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_layers_equal_those_of_one_process(start, ranks: int) -> None:
    result = start("parallel_layers.py", ranks, timeout=120)
    assert [text.strip() for _, text in sorted(result.output.items())] == [
        f"done {r}" for r in range(ranks)
    ]
