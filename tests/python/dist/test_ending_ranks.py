"""Ranks of a job that end before the others."""

from __future__ import annotations

import pytest

_ENDS_EARLY = """
some = hvd.ProcessSet([1, 2])
hvd.init(process_sets=[hvd.ProcessSet([0, 1]), some])
rank = hvd.rank()
hvd.allreduce(mx.nd.ones((2,)), name="all").wait_to_read()
if rank == 0:
    raise SystemExit
for step in range(20):
    time.sleep(0.02)
    x = hvd.allreduce(mx.nd.ones((2,)), name="x", op=hvd.Sum, process_set=some)
    y = mx.nd.contrib.all_reduce(x, process_set=some.process_set_id)
    if rank == 1:
        mx.nd.contrib.send(y, destination=2).wait_to_read()  # a message in the set of all ranks
    else:
        y = mx.nd.contrib.recv(y, source=1)
    assert y.asnumpy().tolist() == [4, 4]
"""


@pytest.mark.parametrize("variables", [{}, {"HOROVOD_CACHE_CAPACITY": "0"}], ids=str)
def test_a_rank_that_ends_waits_for_process_sets_of_others(start, variables) -> None:
    start(_ENDS_EARLY, 3, env=variables, timeout=30, done=[1, 2])


def test_an_operation_that_needs_a_rank_that_has_ended_is_an_error(start) -> None:
    program = """
reduce = mx.nd.contrib.all_reduce if rank > 1 else lambda x: hvd.allreduce(x, name="late")
words = "the job has been shut down by rank 0: it has ended"
fails(lambda: reduce(mx.nd.ones((2,))), words, seconds=10)
"""
    start(_ENDS_EARLY + program, 3, timeout=30, done=[1, 2])


def test_a_rank_that_ends_waits_no_longer_than_the_timeout_for_silent_ones(start) -> None:
    program = """
import atexit
begin = time.monotonic()
atexit.register(lambda: print("waited", time.monotonic() - begin, flush=True))
some = hvd.ProcessSet([1, 2])
hvd.init(process_sets=[some])
hvd.allreduce(mx.nd.ones((2,)), name="all").wait_to_read()
begin = time.monotonic()
if hvd.rank() > 0:
    time.sleep(6)
    fails(lambda: hvd.allreduce(mx.nd.ones((2,)), name="x", process_set=some),
          "shut down by rank 0")
"""
    result = start(program, 3, env={"MXLITE_COMM_TIMEOUT": "3"}, timeout=40)
    seconds = float(result.output[0].split("waited ")[1])
    assert 2.5 < seconds < 12, result.text


def test_training_of_others_is_communication_for_a_rank_that_ends(start) -> None:
    program = """
others = hvd.ProcessSet([1, 2])
hvd.init(process_sets=[others])
rank = hvd.rank()
if rank == 0:
    raise SystemExit
net = mx.gluon.nn.Dense(3, in_units=4)
net.initialize(mx.init.One())
trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", process_set=others)
begin = time.monotonic()
while time.monotonic() - begin < 4:
    with mx.autograd.record():
        loss = net(mx.nd.ones((2, 4))).sum()
    loss.backward()
    trainer.step(2)
    mx.nd.waitall()
    time.sleep(0.05)
"""
    start(program, 3, env={"MXLITE_COMM_TIMEOUT": "2"}, timeout=40, done=[1, 2])
