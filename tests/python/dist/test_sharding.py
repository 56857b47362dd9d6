"""Sharded parameters on several processes of this machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_blocks_are_those_of_one_process(start, tmp_path: Path) -> None:
    # Each job also reads the files of the job before it, which had another number of ranks.
    folder = tmp_path / "0"
    for ranks in (3, 2, 1):
        before, folder = folder, tmp_path / str(ranks)
        folder.mkdir()
        if before.exists():
            before.rename(folder / "earlier")
        result = start("sharded_parameters.py", ranks, str(folder), timeout=120)
        assert [text.strip() for _, text in sorted(result.output.items())] == [
            f"done {r}" for r in range(ranks)
        ]


def test_mistakes_are_errors_on_every_rank(start, tmp_path: Path) -> None:
    result = start("sharding_mistakes.py", 3, str(tmp_path), timeout=120)
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
        result = start("zero_training.py", ranks, str(folder), str(ranks), timeout=150)
        assert all("done" in text for text in result.output.values())
        assert len(result.output) == ranks


def test_a_process_of_a_job_must_join_it(start) -> None:
    program = """
import mxlite as mx
from mxlite.gluon import Parameter
try:
    Parameter("a_weight", shape=(4, 3), shard=(0, None)).initialize()
    raise SystemExit("no error")
except mx.MXNetError as error:
    assert "'a_weight': this process was started as one of 2" in str(error), error
"""
    start(program, 2)


_KILLED = """
import os, signal
import mxlite as mx, mxlite.horovod as hvd
from mxlite import autograd, gluon
hvd.init()
net = gluon.nn.Dense(4, in_units=3)
net.weight.shard = (1, None)
net.initialize()
trainer = hvd.DistributedTrainer(net.collect_params(), "adam", zero=1)
for step in range(1000000):
    if step == 20 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        with autograd.record():
            x = mx.nd.ones((2, net.weight.local_shape[1]))
            y = mx.nd.contrib.all_reduce(net(x))
        y.backward()
        trainer.step(2)
        net.bias.data().wait_to_read()
    except mx.MXNetError as error:
        print("error", str(error).replace(chr(10), " "), flush=True)
        break
os._exit(0)
"""


def test_survivors_name_a_killed_rank(start) -> None:
    options = ("--mca", "orte_abort_on_non_zero_status", "0", "--enable-recovery")
    result = start(_KILLED, 3, ok=False, timeout=60, options=options)
    for rank in (0, 2):
        assert re.search(r"error .*rank 1", result.output.get(rank, "")), result.text


def test_servers_divide_no_states(serve) -> None:
    program = """
import mxlite as mx
from mxlite import gluon
net = gluon.nn.Dense(4, in_units=3)
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "adam", kvstore="dist_sync", zero=1)
try:
    trainer._ready()
    raise SystemExit("no error")
except NotImplementedError as error:
    assert "has 2 workers of parameter servers" in str(error), error
print("done")
"""
    result = serve(program)
    assert len(result.output) == 2 and all("done" in text for text in result.output.values())


@pytest.mark.parametrize("kvstore", ["dist_sync", "horovod"])
def test_trainers_of_different_options_are_errors_on_all_ranks(start, kvstore: str) -> None:
    for ranks in (2, 3):
        result = start("trainer_mistakes.py", ranks, kvstore, timeout=120)
        assert all("done" in text for text in result.output.values()), result.text
        assert len(result.output) == ranks
