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


@pytest.mark.parametrize(("tensor", "ranks"), [(1, 2), (2, 2), (2, 4)])
def test_sharded_networks_train_as_whole_ones(
    start, tensor: int, ranks: int, tmp_path: Path
) -> None:
    options = (str(tmp_path), str(tensor), str(ranks))
    result = start("sharded_training.py", ranks, *options, timeout=150)
    assert all("done" in text for text in result.output.values()) and len(result.output) == ranks


def test_divided_optimizer_states_change_no_bit(start, tmp_path: Path) -> None:
    # The second job, of another size, also reads the states of the first.
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, ranks in zip(folders, (2, 3)):
        folder.mkdir()
        if ranks == 3:
            folders[0].rename(folder / "earlier")
        result = start("zero_training.py", ranks, str(folder), timeout=150)
        assert all("done" in text for text in result.output.values())
        assert len(result.output) == ranks
