"""Stores of several processes: under mpirun without servers, and with servers by launch.py."""

from __future__ import annotations

import sys

import pytest


@pytest.mark.parametrize("check", ["values", "optimizer", "updater", "2bit", "1bit"])
def test_processes_without_servers_get_what_servers_give(start, check: str) -> None:
    ranks = 3 if check == "values" else 2
    result = start("store_values.py", ranks, "--check", check)
    assert len(result.output) == ranks
    for rank, text in result.output.items():
        assert f"worker {rank} of {ranks}: {check} passed" in text


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


def test_a_trainer_learns_as_one_process_does(start) -> None:
    result = start("store_training.py", 2, "--all")
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


@pytest.mark.parametrize("check", ["values", "optimizer", "2bit", "1bit"])
def test_servers_give_sums_rows_and_rounded_gradients(serve, check: str) -> None:
    result = serve("store_values.py", "--check", check)
    for rank in range(2):
        assert f"worker {rank} of 2: {check} passed" in result.output[rank]


@pytest.mark.parametrize(
    "options", [(), ("--on-workers",), ("--optimizer", "adam")], ids=["store", "workers", "adam"]
)
def test_a_trainer_learns_with_servers_as_one_process_does(serve, options) -> None:
    result = serve("store_training.py", "--type", "dist_sync_device", *options)
    for rank in range(2):
        assert f"worker {rank}: training passed" in result.output[rank]


def test_asynchronous_servers_update_with_each_push(serve) -> None:
    program = """
import mxlite as mx
store = mx.kv.create("dist_async")
assert (store.type, store.num_workers) == ("dist_async", 2)
store.init("w", mx.nd.zeros((3,)))
store.set_optimizer(mx.optimizer.create("test", rescale_grad=2))
out = mx.nd.zeros((3,))
if store.rank == 0:
    for i in range(1, 4):  # no other worker pushes, so there is no wait
        store.push("w", mx.nd.ones((3,)))
        store.pull("w", out=out)
        assert out.asnumpy().tolist() == [2 * i] * 3
store.barrier()
store.push("w", mx.nd.full((3,), 10))
store.pull("w", out=out)
out.wait_to_read()
store.barrier()
store.pull("w", out=out)
assert out.asnumpy().tolist() == [46] * 3, out
trainer = mx.gluon.Trainer({}, "sgd", kvstore=store, update_on_kvstore=False)
try:
    trainer._init_kvstore()
    raise SystemExit("asynchronous updates on workers")
except ValueError as error:
    assert "update_on_kvstore=True when training in async mode" in str(error), error
print("done", store.rank)
"""
    result = serve(program, servers=1)
    assert all("done" in text for text in result.output.values()), result.text


def test_asynchronous_servers_without_optimizer_say_so(serve) -> None:
    program = """
import mxlite as mx
store = mx.kv.create("dist_async")
store.init("w", mx.nd.zeros((3,)))
out = mx.nd.zeros((3,))
try:
    store.push("w", mx.nd.ones((3,)))
    store.pull("w", out=out)
    out.wait_to_read()
    raise SystemExit("updated by nothing")
except mx.MXNetError as error:
    assert "pdater" in str(error) or "ptimizer" in str(error), error
store.barrier()
print("done", store.rank)
"""
    result = serve(program, servers=1)
    assert all("done" in text for text in result.output.values()), result.text


def test_optimizers_of_servers_go_by_name_and_number(serve) -> None:
    program = """
import mxlite as mx
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((2,)))
for wrong, words in (
    (mx.optimizer.create("nadam"), "update_on_kvstore=False"),
    ("sgd", "a str given"),
):
    try:
        store.set_optimizer(wrong)
        raise SystemExit("accepted")
    except mx.MXNetError as error:
        assert words in str(error), error
try:
    store.set_updater(lambda key, grad, weight: None)
    raise SystemExit("accepted")
except NotImplementedError as error:
    assert "set_optimizer" in str(error)
scheduler = mx.lr_scheduler.MultiFactorScheduler([1, 2], factor=0.5, base_lr=1.0)
store.set_optimizer(mx.optimizer.SGD(lr_scheduler=scheduler, momentum=0.5))
found = []
for _ in range(4):
    store.push("w", mx.nd.full((2,), 0.5))
    out = mx.nd.zeros((2,))
    store.pull("w", out=out)
    found.append(float(out.asnumpy()[0]))
expected, weight, momentum = [], 0.0, 0.0
for rate in (1.0, 0.5, 0.25, 0.25):
    momentum = 0.5 * momentum - rate
    weight += momentum
    expected.append(weight)
assert found == expected, (found, expected)
store.save_optimizer_states("states")
store.barrier()
store.push("w", mx.nd.full((2,), 0.5))
store.pull("w", out=out)
first = float(out.asnumpy()[0])
store.load_optimizer_states("states")
store.push("w", mx.nd.full((2,), 0.5))
store.pull("w", out=out)
assert float(out.asnumpy()[0]) - first == first - expected[-1], (first, out)
print("done", store.rank, store.num_servers)
"""
    result = serve(program)
    assert all(f"done {rank} 2" in text for rank, text in result.output.items()), result.text


def test_a_worker_that_fails_ends_the_job(serve) -> None:
    program = """
import mxlite as mx
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((2,)))
if store.rank == 1:
    raise RuntimeError("out of luck")
store.push("w", mx.nd.ones((2,)))
out = mx.nd.zeros((2,))
store.pull("w", out=out)
out.wait_to_read()
"""
    result = serve(program, ok=False)
    assert result.code == 1
    assert "out of luck" in result.output[1]
    assert "worker 1" in result.output[0], result.text


def test_scripts_for_mxnet_find_servers_through_the_alias(serve) -> None:
    program = """
import mxnet as mx
store = mx.kv.create("dist_device_sync")
store.init(3, mx.nd.ones((2, 3)))
store.push(3, [mx.nd.ones((2, 3)) * (store.rank + 1), mx.nd.ones((2, 3))])
out = mx.nd.zeros((2, 3))
store.pull(3, out=out)
assert out.asnumpy().tolist() == [[5] * 3] * 2
print("done", store.rank, mx.__version__)
"""
    command = (sys.executable, "-m", "mxlite.compat")
    result = serve(program, command=command)
    assert all(f"done {rank} 1.9.1" in text for rank, text in result.output.items()), result.text
