"""Sharded parameters on several processes of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_blocks_are_those_of_one_process(start, ranks: int, tmp_path: Path) -> None:
    result = start("sharded_parameters.py", ranks, str(tmp_path), timeout=120)
    assert [text.strip() for _, text in sorted(result.output.items())] == [
        f"done {r}" for r in range(ranks)
    ]


def test_mistakes_are_errors_on_every_rank(start, tmp_path: Path) -> None:
    timeout = "4"
    result = start(
        "sharding_mistakes.py", 3, str(tmp_path), timeout, env={"MXLITE_COMM_TIMEOUT": timeout}
    )
    assert all("done" in text for text in result.output.values()) and len(result.output) == 3
