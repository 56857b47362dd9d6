"""Module, Trainer and sparse tables on several workers, with mpirun and with servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

MODES = ["mpirun", "servers"]


def run(start: Any, serve: Any, mode: str, script: str, *args: str, **options: Any) -> Any:
    """Run a script on two workers."""
    if mode == "mpirun":
        return start(script, 2, *args, **options)
    return serve(script, *args, **options)


def check_equal_bits(folder: Path) -> None:
    first, second = (dict(np.load(folder / f"found-{rank}.npz")) for rank in range(2))
    assert first and first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


@pytest.mark.parametrize("mode", MODES)
def test_fit_learns_as_one_process_does_and_goes_on_from_its_checkpoint(
    start, serve, tmp_path: Path, mode: str
) -> None:
    for options in ((), ("--resume",)):
        run(start, serve, mode, "module_training.py", *options)
        check_equal_bits(tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_fit_makes_the_store_and_updates_on_workers(
    start, serve, tmp_path: Path, mode: str
) -> None:
    env = {"MXNET_UPDATE_ON_KVSTORE": "0"}
    run(start, serve, mode, "module_training.py", "--by-name", env=env)
    check_equal_bits(tmp_path)


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [("mpirun", ("gradient", "weight")), ("servers", ("gradient",)), ("servers", ("weight",))],
)
def test_sparse_tables_learn_as_in_one_process(
    start, serve, mode: str, kinds: tuple[str, ...]
) -> None:
    run(start, serve, mode, "sparse_training.py", *kinds)


ASYNC = """

GOAL = np.array([[1.0, -2.0, 3.0]], "float32")


def trained(kvstore, steps, seed, optimizer="sgd", **options):
    mx.random.seed(1)
    net = gluon.nn.Dense(1, in_units=3, use_bias=False)
    net.initialize(mx.init.Normal(1.0))
    trainer = gluon.Trainer(net.collect_params(), optimizer, options, kvstore=kvstore)
    random = np.random.RandomState(seed)
    for _ in range(steps):
        inputs = random.uniform(-1, 1, (16, 3)).astype("float32")
        with autograd.record():
            loss = ((net(mx.nd.array(inputs)) - mx.nd.array(inputs @ GOAL.T)) ** 2).sum()
        loss.backward()
        trainer.step(16)
    assert trainer._update_on_kvstore or kvstore is None
    return net.weight.data().asnumpy()


def close(found, expected, limit):
    assert np.abs(found - expected).max() < limit, (found, expected)
"""


def test_an_asynchronous_worker_alone_is_plain_sgd(serve) -> None:
    program = """
found = trained("dist_async", 6, 0, learning_rate=0.3, momentum=0.9)
close(found, trained(None, 6, 0, learning_rate=0.3, momentum=0.9), 1e-6)
"""
    serve(ASYNC + program, workers=1, servers=1)


def test_asynchronous_workers_learn_together(serve) -> None:
    program = """
store = mx.kv.create("dist_async")
trained(store, 60, store.rank, learning_rate=0.2)
store.barrier()
close(pulled(store, 0, (1, 3)).asnumpy(), GOAL, 0.05)  # both have learned it from different data
report = store.report()
assert sum(server["pushes"] for server in report["servers"]) == 120, report
"""
    serve(ASYNC + program)


def test_module_learns_asynchronously(serve) -> None:
    program = """
store = mx.kv.create("dist_async")
inputs = np.random.RandomState(store.rank).uniform(-1, 1, (64, 3)).astype("float32")
output = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, no_bias=True, name="fc")
net = mx.sym.LinearRegressionOutput(output, mx.sym.var("softmax_label"), name="out")
module = mx.mod.Module(net)
data = mx.io.NDArrayIter(inputs, inputs @ GOAL.T, 16)
options = (("learning_rate", 0.1),)
module.fit(
    data, eval_metric="mse", kvstore=store, optimizer="adam", optimizer_params=options, num_epoch=20
)
assert module._update_on_kvstore
assert module._optimizer.rescale_grad == 1 / 16, module._optimizer.rescale_grad
store.barrier()
close(pulled(store, "fc_weight", (1, 3)).asnumpy(), GOAL, 0.1)
"""
    serve(ASYNC + program)


def test_stores_of_a_process_have_optimizers_of_their_own(serve) -> None:
    result = serve("store_training.py")
    # rank 0 warns that workers update, because servers cannot
    assert result.text.count("servers have no optimizer 'LAMB'") == 1


def test_keys_and_numbers_of_several_stores_are_apart(serve) -> None:
    program = """
stores = [mx.kv.create("dist_sync") for _ in range(3)]
one = mx.nd.ones((3,))
for store in stores:
    store.init(["1:w", "w"], [one, one])
sgd = mx.optimizer.create("sgd", learning_rate=0.25)
stores[0].set_optimizer(sgd)
stores[1].set_optimizer(mx.optimizer.create("test", rescale_grad=2))
for key in ("1:w", "w"):
    for store in stores:
        store.push(key, one)
    for store, value in zip(stores, (0.5, 5, 2)):  # the last one has no optimizer: the sum
        assert pulled(store, key, (3,)).asnumpy().tolist() == [value] * 3
sgd.set_learning_rate(1.0)
for store in stores:
    store.push("w", one)
for store, value in zip(stores, (-1.5, 9)):
    assert pulled(store, "w", (3,)).asnumpy().tolist() == [value] * 3
"""
    serve(program)


FOREIGN = """
@mx.optimizer.register
class Halver(mx.optimizer.Optimizer):
    def update(self, index, weight, grad, state):
        weight[:] -= 0.5 * grad * self.rescale_grad


def one_step(**options):
    param = gluon.Parameter("w", shape=(2,))
    param.initialize(mx.init.Zero())
    trainer = gluon.Trainer([param], "halver", {}, **options)
    with autograd.record():
        loss = (param.data() * (store.rank + 1)).sum()
    loss.backward()
    trainer.step(1)
    return trainer, param.data().asnumpy().tolist()


store = mx.kv.create(TYPE)
"""


def test_optimizers_of_ones_own_run_on_the_workers(serve) -> None:
    program = """
trainer, found = one_step(kvstore=store)
assert trainer._update_on_kvstore is False
assert found == [-1.5, -1.5], found
inputs = mx.nd.array([[1.0], [2.0]])
net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, no_bias=True, name="fc")
net = mx.sym.LinearRegressionOutput(net, mx.sym.var("softmax_label"), name="out")
module = mx.mod.Module(net)
data = mx.io.NDArrayIter(inputs, mx.nd.zeros((2, 1)), 2)
module.fit(data, kvstore="dist_sync", optimizer="halver", initializer=mx.init.One(), num_epoch=1)
assert module._update_on_kvstore is False
weight = module.get_params()[0]["fc_weight"].asnumpy().item()
assert weight == 1 - 0.5 * (2 * 5) / 4, weight  # both workers' gradients, of 4 samples
fails(lambda: one_step(kvstore=mx.kv.create("dist_sync"), update_on_kvstore=True),
      "no optimizer 'Halver'", "update_on_kvstore=False", kind=NotImplementedError)
"""
    result = serve(FOREIGN.replace("TYPE", "'dist_sync'") + program)
    assert "servers have no optimizer 'Halver'" in result.text


def test_asynchronous_servers_refuse_what_they_do_not_have(serve) -> None:
    program = """
fails(lambda: one_step(kvstore=store), "no optimizer 'Halver'", kind=NotImplementedError)
"""
    serve(FOREIGN.replace("TYPE", "'dist_async'") + program, workers=1, servers=1)


TRAINER_STATES = """
def check(on_store, refused):
    store = mx.kv.create("dist_sync")
    param = gluon.Parameter("w", shape=(2,))
    param.initialize(mx.init.Zero())
    options = {"learning_rate": 1.0, "momentum": 0.5}
    trainer = gluon.Trainer(
        [param], "sgd", options, kvstore=store, update_on_kvstore=on_store
    )

    def step():
        with autograd.record():
            loss = (param.data() * (store.rank + 1)).sum()
        loss.backward()
        trainer.step(1)
        return param.data().asnumpy().tolist()

    name = f"states{store.rank}"
    assert step() == [-3, -3]
    if refused:
        fails(lambda: trainer.save_states(name), "states are on the servers", kind=AssertionError)
        return
    trainer.save_states(name)
    assert step() == [-7.5, -7.5]
    trainer.load_states(name)
    assert step() == [-12, -12]  # the momentum of the first step again


for _ in range(2):
    check(on_store=False, refused=False)
    check(on_store=True, refused=REFUSED)
"""


@pytest.mark.parametrize("mode", MODES)
def test_states_of_a_trainer(start, serve, mode: str) -> None:
    refused = mode == "servers"  # with the optimizer there, as in 1.x
    run(start, serve, mode, TRAINER_STATES.replace("REFUSED", str(refused)))
