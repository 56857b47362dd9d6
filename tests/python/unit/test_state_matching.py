"""States of optimizers in files find their parameters, whatever the layers are called there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, checkpoint, gluon, nd
from mxlite.base import FileFormatError, ShapeError
from mxlite.checkpoint.format import read_file, write_file
from mxlite.gluon import nn

# Numbers of the two layers in the process that saves and in the one that loads. As text, 10 sorts
# before 9 and before 8.
COUNTERS = [((8, 9), (9, 10)), ((8, 9), (10, 11)), ((9, 10), (10, 11)), ((9, 10), (8, 9))]


class Training:
    """Two layers of equal shapes without a name scope, named as the process counts them."""

    def __init__(self, counters: Sequence[int], optimizer: str = "adam", **options: Any) -> None:
        self.net = nn.HybridSequential(prefix="net_")
        for counter in counters:
            self.net.add(nn.Dense(4, in_units=4, activation="tanh", prefix=f"dense{counter}_"))
        self.net.initialize(mx.init.Xavier())
        options = {"learning_rate": 0.05, **options}
        self.trainer = gluon.Trainer(self.net.collect_params(), optimizer, options)

    def run(self, first: int, last: int) -> list[bytes]:
        """Train some steps; return the values in the order of the layers."""
        for step in range(first, last):
            rng = np.random.RandomState(step)
            with autograd.record():
                loss = (self.net(nd.array(rng.randn(8, 4))) - nd.array(rng.randn(8, 4))) ** 2
            loss.backward()
            self.trainer.step(8)
        params = self.net._collect_params_with_prefix()
        return [param.data().asnumpy().tobytes() for param in params.values()]

    def states(self) -> dict[str, Any]:
        """Return the states by structural name."""
        index = {id(param): i for i, param in enumerate(self.trainer._params)}
        states = self.trainer._updaters[0].states
        return {
            name: [array.asnumpy().tolist() for array in states[index[id(param)]]]
            for name, param in self.net._collect_params_with_prefix().items()
        }


def seeded(counters: Sequence[int], **options: Any) -> Training:
    mx.random.seed(4)
    return Training(counters, **options)


def without_parameters(path: Path) -> None:
    """Remove the names of parameters, which early versions of mxlite did not write."""
    tree = read_file(str(path))
    assert tree["states"]["trainer"].pop("parameters")
    write_file(str(path), tree)


@pytest.mark.parametrize(("saved", "loaded"), COUNTERS)
@pytest.mark.parametrize("optimizer", ["adam", "lars"])
def test_a_checkpoint_goes_on_with_other_counters(
    tmp_path: Path, saved: Sequence[int], loaded: Sequence[int], optimizer: str
) -> None:
    path = tmp_path / "run.ckpt"
    options = {"momentum": 0.9} if optimizer == "lars" else {}
    expected = seeded(saved, optimizer=optimizer, **options).run(0, 6)
    first = seeded(saved, optimizer=optimizer, **options)
    first.run(0, 3)
    checkpoint.save(path, net=first.net, trainer=first.trainer)
    mx.random.seed(99)
    second = Training(loaded, optimizer, **options)
    checkpoint.load(path, net=second.net, trainer=second.trainer)
    assert second.run(3, 6) == expected


@pytest.mark.parametrize(("saved", "loaded"), COUNTERS)
@pytest.mark.parametrize("method", ["trainer only", "states", "dict"])
def test_without_a_block_names_are_ordered_by_number(
    tmp_path: Path, saved: Sequence[int], loaded: Sequence[int], method: str
) -> None:
    path = tmp_path / "file"
    first, second = Training(saved), Training(loaded)
    first.run(0, 2)
    if method == "trainer only":
        checkpoint.save(path, trainer=first.trainer)
        checkpoint.load(path, trainer=second.trainer)
    elif method == "states":
        first.trainer.save_states(path)
        second.trainer.load_states(path)
    else:
        second.trainer.load_state_dict(first.trainer.state_dict())
    assert second.states() == first.states()


def test_counts_move_with_their_states(tmp_path: Path) -> None:
    """Adam's correction depends on how often each parameter has been updated."""
    first, second = Training((8, 9)), Training((9, 10))
    first.run(0, 1)
    for param in first.net[1].collect_params().values():
        param.grad_req = "null"
    first.run(1, 4)
    checkpoint.save(tmp_path / "run.ckpt", net=first.net, trainer=first.trainer)
    checkpoint.load(tmp_path / "run.ckpt", net=second.net, trainer=second.trainer)
    counts = second.trainer.optimizer._index_update_count
    names = [param.name for param in second.trainer._params]
    assert {name: counts[i] for i, name in enumerate(names)} == {
        "dense9_weight": 4, "dense9_bias": 4, "dense10_weight": 1, "dense10_bias": 1
    }  # fmt: skip


def test_two_networks_with_equal_structures(tmp_path: Path) -> None:
    def models(begin: int) -> dict[str, Any]:
        both = {"one": Training((begin,)), "two": Training((begin + 1,))}
        params = {**both["one"].net.collect_params(), **both["two"].net.collect_params()}
        trainer = gluon.Trainer(params, "adam")
        for training in both.values():
            training.trainer = trainer
        return both

    first, second = models(8), models(9)
    for number, training in enumerate(first.values()):
        with autograd.record():
            loss = training.net(nd.ones((2, 4)) * (number + 1)).sum()
        loss.backward()
    first["one"].trainer.step(2)
    path = tmp_path / "run.ckpt"
    nets = {name: training.net for name, training in first.items()}
    checkpoint.save(path, nets, trainer=first["one"].trainer)
    nets = {name: training.net for name, training in second.items()}
    checkpoint.load(path, nets, trainer=second["one"].trainer)
    for name in first:
        assert second[name].states() == first[name].states()
    assert second["one"].states() != second["two"].states()


def test_old_checkpoints_are_read_by_position(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    first, second, crossed = Training((3, 4)), Training((5, 6)), Training((9, 10))
    first.run(0, 2)
    checkpoint.save(path, net=first.net, trainer=first.trainer)
    without_parameters(path)
    checkpoint.load(path, net=second.net, trainer=second.trainer)
    assert second.states() == first.states()
    checkpoint.load(path, net=crossed.net, trainer=crossed.trainer)
    by_position = first.trainer._updaters[0].states[0][0].asnumpy().tolist()
    assert crossed.trainer._updaters[0].states[0][0].asnumpy().tolist() == by_position


# -- what does not fit ---------------------------------------------------------------------------


def layers(*units: int, optimizer: str = "sgd") -> tuple[Any, gluon.Trainer]:
    net = nn.HybridSequential(prefix="net_")
    for number, count in enumerate(units):
        net.add(nn.Dense(count, in_units=4, use_bias=False, prefix=f"dense{number}_"))
    net.initialize()
    options = {"momentum": 0.9} if optimizer == "sgd" else {}
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    with autograd.record():
        loss = sum(layer(nd.ones((1, 4))).sum() for layer in net)
    loss.backward()
    trainer.step(1)
    return net, trainer


def momenta(trainer: gluon.Trainer) -> Any:
    states = trainer._updaters[0].states
    return {key: state.asnumpy().tolist() for key, state in states.items()}


@pytest.mark.parametrize("old", [False, True])
def test_shapes_that_differ_are_refused(tmp_path: Path, old: bool) -> None:
    path = tmp_path / "run.ckpt"
    net, trainer = layers(2, 3)
    checkpoint.save(path, net=net, trainer=trainer)
    if old:
        without_parameters(path)
    other, second = layers(3, 2)
    second.set_learning_rate(0.7)
    before = momenta(second)
    with pytest.raises(ShapeError, match=r"'dense0_weight'.*shape \(3, 4\), got .*shape \(2, 4\)"):
        checkpoint.load(path, trainer=second)
    with pytest.raises(ShapeError, match="'0.weight'"):
        checkpoint.load(path, net=other, trainer=second)
    trainer.save_states(tmp_path / "states")
    with pytest.raises(ShapeError, match=r"states'.*shape \(3, 4\), got .*shape \(2, 4\)"):
        second.load_states(tmp_path / "states")
    assert momenta(second) == before and second.learning_rate == 0.7


@pytest.mark.parametrize("units", [(2,), (2, 3, 2)])
def test_other_numbers_of_parameters_are_refused(tmp_path: Path, units: Sequence[int]) -> None:
    path = tmp_path / "run.ckpt"
    net, trainer = layers(2, 3)
    checkpoint.save(path, net=net, trainer=trainer)
    trainer.save_states(tmp_path / "states")
    _, second = layers(*units)
    words = f"2 parameters were saved, this trainer has {len(units)}"
    with pytest.raises(FileFormatError, match=words):
        checkpoint.load(path, trainer=second)
    with pytest.raises(FileFormatError, match=words):
        second.load_states(tmp_path / "states")


def test_a_trainer_of_other_layers_of_the_network_is_refused(tmp_path: Path) -> None:
    """The trainer has as many parameters of the same shapes, but not the same ones."""
    path = tmp_path / "run.ckpt"
    net, trainer = layers(2, 2, 2)
    trainer = gluon.Trainer([net[0].weight, net[1].weight], "adam")
    checkpoint.save(path, net=net, trainer=trainer)
    second = gluon.Trainer([net[1].weight, net[2].weight], "adam")
    with pytest.raises(FileFormatError, match=r"saved with parameter '0\.weight' of 'net'"):
        checkpoint.load(path, net=net, trainer=second)


@mx.optimizer.register
class Window(mx.optimizer.Optimizer):
    """Keeps its last two gradients in one array: a state of another shape than the weight."""

    def create_state(self, index: Any, weight: Any) -> Any:
        return nd.zeros((2, *weight.shape))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        state[0], state[1] = state[1], grad
        weight[:] = weight - self.lr * state.mean(axis=0)


def test_own_optimizers_may_have_states_of_any_shape(tmp_path: Path) -> None:
    net, trainer = layers(2, 3, optimizer="window")
    expected = momenta(trainer)
    assert np.shape(expected[0]) == (2, 2, 4)
    trainer.save_states(tmp_path / "states")
    params = list(net.collect_params().values())
    for order in (params, params[::-1]):  # equal names are found in any order
        second = gluon.Trainer(order, "window")
        second.load_states(tmp_path / "states")
        found = momenta(second)
        assert [found[0], found[1]] == [expected[0], expected[1]][:: 1 if order is params else -1]


@pytest.mark.parametrize("optimizer", ["groupadagrad", "rmsprop", "sgd"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_states_of_every_kind_fit(tmp_path: Path, optimizer: str, dtype: str) -> None:
    """A value for each row, tuples, and states beside a float32 copy of the weight."""
    param = gluon.Parameter("x", shape=(3, 2), dtype=dtype)
    param.initialize()
    options = {"momentum": 0.5} if optimizer == "sgd" else {}
    trainers = [
        gluon.Trainer([param], optimizer, {"multi_precision": True, **options}) for _ in range(2)
    ]
    with autograd.record():
        loss = (param.data() * 2).sum()
    loss.backward()
    trainers[0].step(1)
    trainers[0].save_states(tmp_path / "states")
    trainers[1].load_states(tmp_path / "states")
    assert len(trainers[1]._updaters[0].states) == 1


UNNAMED, UNSHAPED = {"name": 3, "shape": None}, {"name": "x", "shape": 3}


@pytest.mark.parametrize(
    "parameters", [3, ["x"], [UNNAMED], [UNSHAPED], [{"shape": (3, 2)}], [[]]], ids=str
)
def test_lists_of_parameters_that_mean_nothing(tmp_path: Path, parameters: Any) -> None:
    param = gluon.Parameter("x", shape=(3, 2))
    param.initialize()
    trainer = gluon.Trainer([param], "sgd")
    state = {**trainer.state_dict(), "parameters": parameters}
    with pytest.raises(FileFormatError, match="not understood|unexpected structure"):
        trainer.load_state_dict(state)
    path = tmp_path / "run.ckpt"
    checkpoint.save(path, trainer=trainer)
    tree = read_file(str(path))
    tree["states"]["trainer"]["parameters"] = parameters
    write_file(str(path), tree)
    with pytest.raises(FileFormatError, match="not understood|unexpected structure"):
        checkpoint.load(path, trainer=trainer)
