"""Sharded parameters on several processes of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("script", "sizes"), [("sharded_parameters.py", (3, 2, 1)), ("zero_training.py", (2, 3))]
)
def test_jobs_compute_what_one_process_does(
    start, script: str, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    # Each job also reads the files of the job before it, which had another number of ranks.
    folder = tmp_path / "0"
    for ranks in sizes:
        before, folder = folder, tmp_path / str(ranks)
        folder.mkdir()
        if before.exists():
            before.rename(folder / "earlier")
        start(script, ranks, str(folder), str(ranks), timeout=150)


def test_mistakes_are_errors_on_every_rank(start, tmp_path: Path) -> None:
    start("sharding_mistakes.py", 3, str(tmp_path))


@pytest.mark.parametrize(("tensor", "ranks"), [(1, 2), (2, 2), (2, 4)])
def test_sharded_networks_train_as_whole_ones(
    start, tensor: int, ranks: int, tmp_path: Path
) -> None:
    start("sharded_training.py", ranks, str(tmp_path), str(tensor), str(ranks), timeout=150)


def test_servers_divide_no_states(serve) -> None:
    program = """
net = gluon.nn.Dense(4, in_units=3)
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "adam", kvstore="dist_sync", zero=1)
fails(trainer._ready, "has 2 workers of parameter servers", kind=NotImplementedError)
"""
    serve(program)


@pytest.mark.parametrize("kvstore", ["dist_sync", "horovod"])
def test_trainers_of_different_options_are_errors_on_all_ranks(start, kvstore: str) -> None:
    for ranks in (2, 3):
        start("trainer_mistakes.py", ranks, kvstore, timeout=120)
