"""Batch normalization over several processes of this machine."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_normalize_as_the_joined_batch(start, ranks: int) -> None:
    result = start("sync_batch_norm.py", ranks, str(ranks), timeout=120)
    assert all("done" in text for text in result.output.values()) and len(result.output) == ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_devices_of_all_ranks_normalize_as_the_joined_batch(start, ranks: int) -> None:
    result = start("sync_batch_norm_devices.py", ranks, timeout=120)
    assert all("done" in text for text in result.output.values()) and len(result.output) == ranks
