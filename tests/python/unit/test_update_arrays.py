"""Updates of many weights that read learning rates, decays and counts from arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxlite import _core, autograd, gluon, nd
from pairing import pairs

SHAPES = [(3, 5), (700,), (1,)]
LRS, WDS, COUNTS = [0.1, 0.02, 0.3], [0.0, 0.1, 0.01], [1, 7, 3]
# Each update has a number of states, parameters, and those of lr, wd and t that it takes.
UPDATES: dict[str, tuple[int, dict[str, Any], str]] = {
    "sgd_update": (0, {"clip_gradient": 0.5}, "lr wd"),
    "sgd_mom_update": (1, {"momentum": 0.9}, "lr wd"),
    "nag_mom_update": (1, {"momentum": 0.9}, "lr wd"),
    "adam_update": (2, {}, "lr wd t"),
    "adamw_update": (2, {"etas": [1.0, 0.5, 1.0]}, "lr wd t"),
    "sparse_adagrad_update": (1, {}, "lr wd"),
    "rmsprop_update": (1, {}, "lr wd"),
    "rmspropalex_update": (3, {}, "lr wd"),
    "ftrl_update": (2, {}, "lr wd"),
    "ftml_update": (3, {}, "lr wd t"),
    "signsgd_update": (0, {}, "lr wd"),
    "signum_update": (1, {"momentum": 0.9}, "lr wd"),
    "adamax_update": (2, {}, "lr wd t"),
    "nadam_update": (2, {"momentum": 0.8, "next_momentum": 0.7, "schedule": 0.5}, "lr wd t"),
    "adadelta_update": (2, {}, "wd"),
    "dcasgd_update": (1, {}, "lr wd"),
    "dcasgd_mom_update": (2, {"momentum": 0.9}, "lr wd"),
    "lamb_update": (2, {}, "lr wd t"),
}


def arrays_of(states: int, dtype: str, mixed: bool) -> list[nd.NDArray]:
    random = np.random.RandomState(3)
    arrays = []
    for shape in SHAPES:
        arrays += [nd.array(random.randn(*shape), dtype=dtype) for _ in range(2)]
        exact = "float32" if mixed else dtype
        arrays += [nd.array(random.rand(*shape) + 2, dtype=exact) for _ in range(states)]
        if mixed:
            arrays.append(arrays[-1 - states - 1].astype("float32"))
    return arrays


@pytest.mark.parametrize(
    ("dtype", "mixed"), [("float32", False), ("float64", False), ("float16", True)]
)
@pytest.mark.parametrize("name", UPDATES)
def test_numbers_in_arrays_give_the_bits_of_parameters(name: str, dtype: str, mixed: bool) -> None:
    states, options, takes = UPDATES[name]
    update = _core.op(f"_multi_{'mp_' if mixed else ''}{name}")
    count = "num_tensors" if name == "lamb_update" else "num_weights"
    options = {**options, count: len(SHAPES)}
    named = {"lr": ("lrs", LRS), "wd": ("wds", WDS), "t": ("t", COUNTS)}
    if name == "lamb_update":
        named |= {"lr": ("learning_rates", LRS), "t": ("step_count", COUNTS)}
    given = dict(named[key] for key in takes.split())
    first, second = (arrays_of(states, dtype, mixed) for _ in range(2))
    group = len(first) // len(SHAPES)
    scale = nd.array([0.25], dtype="float64")
    update(*first, scale, out=first[::group], **given, **options)
    numbers = nd.array([named[key][1] for key in takes.split()], dtype="float64")
    update(*second, numbers, scale, out=second[::group], **options)
    changed = 0
    for got, want, start in pairs(second, first, arrays_of(states, dtype, mixed)):
        np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
        changed += bool((got.asnumpy() != start.asnumpy()).any())
    assert changed >= len(SHAPES)


def test_all_updates_are_in_the_table() -> None:
    known = {name.lstrip("_") for name in _core.all_ops()}
    known = {name for name in known if name.startswith("multi_") and name.endswith("_update")}
    known = {name.removeprefix("multi_") for name in known}
    assert {name for name in known if not name.startswith("mp_")} == set(UPDATES)


def test_numbers_come_in_one_of_both_ways() -> None:
    arrays = [nd.ones(2) for _ in range(8)]
    numbers = nd.ones((3, 2))
    op = _core.op("_multi_adam_update")
    one, lrs = nd.ones(1), {"lrs": [1, 1]}
    for kind, text, more, options in (
        (TypeError, "_multi_adam_update.*lrs", [], {}),
        (TypeError, "_multi_adam_update.*wds", [], lrs),
        (ValueError, "lrs must be given either as a parameter or in an array", [numbers, one], lrs),
        (ValueError, "number of arrays must be 8 .*, got 11", [numbers, one, one], {}),
        (
            ValueError,
            "after the weights must have 6 numbers, got shape .2, 2.",
            [nd.ones((2, 2)), one],
            {},
        ),
        (
            ValueError,
            "after the weights must have 1 numbers, got shape .2,.",
            [numbers, nd.ones(2)],
            {},
        ),
    ):
        with pytest.raises(kind, match=text):
            op(*arrays, *more, num_weights=2, **options)
    with pytest.raises(
        ValueError, match="multi_sgd_update: .*arrays must be 6 .*lrs and wds.*, got 5"
    ):
        nd.preloaded_multi_sgd_update(*arrays[:4], nd.ones(2), num_weights=2)


def test_a_schedule_changes_numbers_of_a_compiled_step() -> None:
    """A graph with the update inside is traced once; gluon.Trainer gives the same bits."""
    count, shape = 3, (4, 6)
    random = np.random.RandomState(0)
    values = [random.randn(*shape).astype("float32") for _ in range(count)]
    weights = [nd.array(value) for value in values]
    states = [(nd.zeros(shape), nd.zeros(shape)) for _ in range(count)]
    params = [gluon.Parameter(f"p{i}", shape=shape) for i in range(count)]
    for param, value in pairs(params, values):
        param.initialize()
        param.set_data(nd.array(value))
    trainer = gluon.Trainer(params, "adam", {"learning_rate": 0.1, "wd": 0.01})
    traces = []

    class Step(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, numbers: Any, scale: Any, *weights: Any) -> Any:
            traces.append(1)
            data = []
            for weight, (mean, var) in pairs(weights, states):
                data += [weight, 2 * (weight - x), mean, var]
            return F._internal._multi_adam_update(*data, numbers, scale, num_weights=count)

    step = Step()
    step.hybridize(static_alloc=True, static_shape=True)
    x = nd.ones(shape)
    for turn, (rate, decay, factor) in enumerate([(0.1, 0.01, 1.0), (0.3, 0.0, 0.5), (0.01, 1, 2)]):
        table = np.repeat([[rate], [decay], [turn + 1]], count, axis=1)
        numbers = nd.array(table, dtype="float64")
        weights = step(x, numbers, nd.array([factor], dtype="float64"), *weights)
        trainer.set_learning_rate(rate)
        trainer.optimizer.wd = decay
        with autograd.record():
            loss = sum(nd.sum(nd.square(param.data() - x)) for param in params)
        loss.backward()
        trainer.step(1 / factor)
        for got, param in pairs(weights, params):
            np.testing.assert_array_equal(got.asnumpy(), param.data().asnumpy())
    assert len(traces) == 1


@pytest.mark.parametrize("name", ["adam", "adamax", "adamw"])
def test_operators_correct_the_rate_as_1x_does_before_the_call(name: str) -> None:
    op = _core.op({"adam": "adam_update"}.get(name, f"_{name}_update"))
    extra = {"eta": 1.0} if name == "adamw" else {}
    scale = [nd.ones(1)] if name == "adamw" else []
    random = np.random.RandomState(1)
    weight, grad = (nd.array(random.randn(50)) for _ in range(2))
    for count in (1, 2, 1000):
        rate = 0.1 / (1 - 0.9**count)
        if name != "adamax":
            rate = 0.1 * (np.sqrt(1 - 0.999**count) / (1 - 0.9**count))
        states = [[nd.ones(50), nd.ones(50)] for _ in range(2)]
        got = op(weight, grad, *states[0], *scale, lr=0.1, t=count, **extra)
        want = op(weight, grad, *states[1], *scale, lr=float(rate), **extra)
        np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
        assert (got.asnumpy() != weight.asnumpy()).any()
    with pytest.raises(ValueError, match="t must .*, got -1"):
        op(weight, grad, *states[0], *scale, lr=0.1, t=-1, **extra)
