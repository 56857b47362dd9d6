"""Stores of several processes: under mpirun without servers, and with servers by launch.py."""

from __future__ import annotations

import sys

import pytest


@pytest.mark.parametrize("check", ["values", "optimizer", "updater", "2bit", "1bit"])
def test_processes_without_servers_get_what_servers_give(start, check: str) -> None:
    start("store_values.py", 3 if check == "values" else 2, check)


@pytest.mark.parametrize("check", ["values", "optimizer", "2bit", "1bit"])
def test_servers_give_sums_rows_and_rounded_gradients(serve, check: str) -> None:
    serve("store_values.py", check)


def test_names_in_any_word_order_sum_over_processes(start) -> None:
    program = """
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
"""
    start(program, 2)


def test_a_trainer_learns_as_one_process_does(start) -> None:
    start("store_training.py", 2)


def test_mistakes_are_errors_on_every_rank_and_the_job_goes_on(start) -> None:
    program = """
store = mx.kv.create("dist_sync")
fails(lambda: store.init("w", mx.nd.zeros((2 + store.rank,))), "kvstore", "w", "(2,)", "(3,)")
store.init("v", mx.nd.zeros((2,)))
store.push("v", mx.nd.ones((2,)))
assert pulled(store, "v").asnumpy().tolist() == [2, 2]
fails(lambda: mx.kv.create("dist_async"), "launch", "2 processes")
"""
    start(program, 2)


def test_asynchronous_servers_update_with_each_push(serve) -> None:
    program = """
store = mx.kv.create("dist_async")
assert (store.type, store.num_workers) == ("dist_async", 2)
store.init("w", mx.nd.zeros((3,)))
store.set_optimizer(mx.optimizer.create("test", rescale_grad=2))
if store.rank == 0:
    for i in range(1, 4):  # no other worker pushes, so there is no wait
        store.push("w", mx.nd.ones((3,)))
        assert pulled(store, "w", (3,)).asnumpy().tolist() == [2 * i] * 3
store.barrier()
store.push("w", mx.nd.full((3,), 10))
pulled(store, "w", (3,)).wait_to_read()
store.barrier()
assert pulled(store, "w", (3,)).asnumpy().tolist() == [46] * 3
trainer = gluon.Trainer({}, "sgd", kvstore=store, update_on_kvstore=False)
fails(trainer._init_kvstore, "update_on_kvstore=True when training in async mode", kind=ValueError)
"""
    serve(program, servers=1)


def test_asynchronous_servers_without_optimizer_say_so(serve) -> None:
    program = """
store = mx.kv.create("dist_async")
store.init("w", mx.nd.zeros((3,)))
def update():
    store.push("w", mx.nd.ones((3,)))
    return pulled(store, "w", (3,))
fails(update, "ptimizer")
store.barrier()
"""
    serve(program, servers=1)


def test_optimizers_of_servers_go_by_name_and_number(serve) -> None:
    program = """
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((2,)))
fails(lambda: store.set_optimizer(mx.optimizer.create("nadam")), "update_on_kvstore=False")
fails(lambda: store.set_optimizer("sgd"), "got str")
fails(lambda: store.set_updater(lambda key, grad, weight: None), "set_optimizer",
      kind=NotImplementedError)
scheduler = mx.lr_scheduler.MultiFactorScheduler([1, 2], factor=0.5, base_lr=1.0)
store.set_optimizer(mx.optimizer.SGD(lr_scheduler=scheduler, momentum=0.5))
def step():
    store.push("w", mx.nd.full((2,), 0.5))
    return float(pulled(store, "w").asnumpy()[0])
found = [step() for _ in range(4)]
expected, weight, momentum = [], 0.0, 0.0
for rate in (1.0, 0.5, 0.25, 0.25):
    momentum = 0.5 * momentum - rate
    weight += momentum
    expected.append(weight)
assert found == expected, (found, expected)
store.save_optimizer_states("states")
store.barrier()
first = step()
store.load_optimizer_states("states")
assert step() - first == first - expected[-1], first
assert store.num_servers == 2
"""
    serve(program)


def test_a_worker_that_fails_ends_the_job(serve) -> None:
    program = """
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((2,)))
if store.rank == 1:
    raise RuntimeError("out of luck")
store.push("w", mx.nd.ones((2,)))
pulled(store, "w").wait_to_read()
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
assert mx.__version__ == "1.9.1"
print("done")
"""
    serve(program, command=(sys.executable, "-m", "mxlite.compat"), prelude="")
