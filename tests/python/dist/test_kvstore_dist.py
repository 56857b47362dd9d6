"""Stores of several processes: under mpirun without servers, and with servers by launch.py."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("check", ["values", "optimizer", "updater", "2bit", "1bit"])
def test_processes_without_servers_get_what_servers_give(start, check: str) -> None:
    result = start("store_values.py", 3, "--check", check)
    assert len(result.output) == 3
    for rank, text in result.output.items():
        assert f"worker {rank} of 3: {check} passed" in text


def test_names_in_any_word_order_sum_over_processes(start) -> None:
    program = """
import mxlite as mx
for name in ("dist_sync_device", "dist_device_sync", "Dist_Sync", "dist", "p3", "horovod"):
    store = mx.kv.create(name)
    assert store.type == name.lower(), store.type
    assert store.num_workers == 2
    out = mx.nd.zeros((3,))
    store.broadcast("w", mx.nd.full((3,), store.rank + 5), out=out)
    assert out.asnumpy().tolist() == [5, 5, 5]
    grads = [mx.nd.full((3,), store.rank + 1), mx.nd.full((3,), 10)]
    store.pushpull("w", grads)
    for grad in grads:
        assert grad.asnumpy().tolist() == [23, 23, 23], (name, grad)
    one = mx.nd.full((3,), store.rank)
    store.pushpull("w", one)
    assert one.asnumpy().tolist() == [1, 1, 1]
    assert store.is_capable("optimizer") == (name != "horovod")
    store.barrier()
print("done", store.rank)
"""
    result = start(program, 2)
    assert all("done" in text for text in result.output.values())


@pytest.mark.parametrize(
    "options", [(), ("--on-workers",), ("--optimizer", "adam")], ids=["store", "workers", "adam"]
)
def test_a_trainer_learns_as_one_process_does(start, options: tuple[str, ...]) -> None:
    result = start("store_training.py", 2, *options)
    assert all("training passed" in text for text in result.output.values())


def test_mistakes_are_errors_on_every_rank_and_the_job_goes_on(start) -> None:
    program = """
import mxlite as mx
store = mx.kv.create("dist_sync")
rank = store.rank
try:
    store.init("w", mx.nd.zeros((2 + rank,)))
    raise SystemExit("shapes may differ")
except mx.MXNetError as error:
    assert "kvstore" in str(error) and "w" in str(error), error
    assert "(2,)" in str(error) and "(3,)" in str(error), error
store.init("v", mx.nd.zeros((2,)))
store.push("v", mx.nd.ones((2,)))
out = mx.nd.zeros((2,))
store.pull("v", out=out)
assert out.asnumpy().tolist() == [2, 2]
try:
    mx.kv.create("dist_async")
    raise SystemExit("asynchronous without servers")
except mx.MXNetError as error:
    assert "launch" in str(error) and "2 processes" in str(error), error
print("done", rank)
"""
    result = start(program, 2)
    assert all("done" in text for text in result.output.values()), result.text


def test_states_of_the_optimizer_are_saved_without_servers(start) -> None:
    program = """
import mxlite as mx, os
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((2,)))
store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, momentum=0.5))
def step():
    store.push("w", mx.nd.ones((2,)))
    out = mx.nd.zeros((2,))
    store.pull("w", out=out)
    return out.asnumpy().tolist()
assert step() == [-2, -2]
name = f"states{store.rank}"
store.save_optimizer_states(name)
assert step() == [-5, -5]  # momentum -2 * 0.5 - 2
store.load_optimizer_states(name)
assert step() == [-8, -8]
print("done", store.rank)
"""
    result = start(program, 2)
    assert all("done" in text for text in result.output.values()), result.text
