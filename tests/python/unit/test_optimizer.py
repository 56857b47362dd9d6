"""Optimizers against the weights of MXNet 1.9.1 (tests/data/make_gluon.py), states and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite import optimizer as opt
from mxlite.base import FileFormatError, MXNetError
from pairing import pairs

DATA = Path(__file__).parents[2] / "data" / "mxnet_1_9_1"
GOLDEN = json.loads((DATA / "golden.json").read_text())
WEIGHT = np.float32(GOLDEN["weight"])
GRADS = [np.float32(grad) for grad in GOLDEN["grads"]]
NAMES = (
    "adadelta adagrad adam adamax ccsgd dcasgd ftml ftrl groupadagrad lamb lars lbsgd nadam "
    "nag rmsprop sgd sgld signum"
).split()


@pytest.mark.parametrize("case", GOLDEN["optimizers"], ids=lambda c: f"{c['name']}-{c['options']}")
def test_an_optimizer_goes_the_way_of_mxnet(case: dict[str, Any]) -> None:
    update = opt.get_updater(opt.create(case["name"], rescale_grad=0.5, **case["options"]))
    weight = nd.array(WEIGHT)
    for grad, expected in pairs(GRADS, case["weights"]):
        update(0, nd.array(grad), weight)
        np.testing.assert_allclose(weight.asnumpy(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", sorted({case["name"] for case in GOLDEN["optimizers"]} - {"sgld"}))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision_follows_the_float32_copy(name: str, dtype: str) -> None:
    options = {"momentum": 0.9} if name in ("sgd", "nag", "lars") else {}
    half = opt.get_updater(opt.create(name, multi_precision=True, **options))
    full = opt.get_updater(opt.create(name, **options))
    weight, copy = nd.array(WEIGHT).astype(dtype), nd.array(WEIGHT).astype(dtype).astype("float32")
    for grad in GRADS:
        rounded = nd.array(grad).astype(dtype)
        half(0, rounded, weight)
        full(0, rounded.astype("float32"), copy)
    assert weight.dtype == nd.array([1]).astype(dtype).dtype
    np.testing.assert_allclose(
        weight.astype("float32").asnumpy(), copy.asnumpy(), rtol=1e-2, atol=1e-2
    )


def test_langevin_dynamics_adds_noise_of_the_rate_s_variance() -> None:
    mx.random.seed(5)
    update = opt.get_updater(opt.create("sgld", learning_rate=0.04))
    weight = nd.zeros((200, 200))
    update(0, nd.zeros((200, 200)), weight)
    values = weight.asnumpy()
    assert abs(values.mean()) < 0.005
    assert abs(values.std() - 0.2) < 0.005


def test_adamw_decays_weights_apart_from_the_gradient() -> None:
    update = opt.get_updater(opt.create("adamw", learning_rate=0.1, wd=0.5))
    weight = nd.array([2.0, -4.0])
    update(0, nd.zeros((2,)), weight)
    np.testing.assert_allclose(weight.asnumpy(), [2.0 - 0.1, -4.0 + 0.2], rtol=1e-6)


def test_multipliers_of_parameters_scale_rate_and_decay() -> None:
    class Fixed:
        lr_mult = 0.5
        wd_mult = 0.0
        name = "w"

    sgd = opt.create("sgd", learning_rate=1.0, wd=0.1, param_dict={0: Fixed()})
    weight = nd.array([1.0])
    opt.get_updater(sgd)(0, nd.array([1.0]), weight)
    assert weight.asscalar() == pytest.approx(0.5)


def test_weight_decay_spares_biases_when_names_are_known() -> None:
    sgd = opt.create("sgd", learning_rate=1.0, wd=0.1, param_idx2name={0: "a_weight", 1: "a_bias"})
    update = opt.get_updater(sgd)
    weight, bias = nd.array([1.0]), nd.array([1.0])
    update([0, 1], [nd.zeros((1,)), nd.zeros((1,))], [weight, bias])
    assert weight.asscalar() == pytest.approx(0.9)
    assert bias.asscalar() == 1.0


def test_the_scheduler_gives_the_rate_and_forbids_setting_it() -> None:
    scheduler = mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=1.0)
    sgd = opt.create("sgd", lr_scheduler=scheduler)
    update = opt.get_updater(sgd)
    seen = []
    for _ in range(3):
        update(0, nd.array([0.0]), nd.array([0.0]))
        seen.append(sgd.learning_rate)
    assert seen == [1.0, 0.5, 0.25]
    with pytest.raises(ValueError, match="LRScheduler of the optimizer has already been defined"):
        sgd.set_learning_rate(0.1)


def test_large_batches_gather_gradients() -> None:
    update = opt.get_updater(opt.create("lbsgd", learning_rate=1.0, batch_scale=2))
    weight = nd.array([0.0])
    update(0, nd.array([1.0]), weight)
    assert weight.asscalar() == 0.0
    update(0, nd.array([3.0]), weight)
    assert weight.asscalar() < 0.0


# -- states -------------------------------------------------------------------------------------


def stepped(name: str, steps: int, **options: Any) -> tuple[opt.Updater, mx.nd.NDArray]:
    update, weight = opt.get_updater(opt.create(name, **options)), nd.array(WEIGHT)
    for grad in GRADS[:steps]:
        update(0, nd.array(grad), weight)
    return update, weight


@pytest.mark.parametrize("name", sorted({case["name"] for case in GOLDEN["optimizers"]}))
def test_states_saved_and_loaded_go_on_as_before(name: str) -> None:
    first, weight = stepped(name, 2)
    content = first.get_states(dump_optimizer=True)
    second = opt.get_updater(opt.create(name, learning_rate=123.0))
    second.set_states(content)
    other = weight.copy()
    for grad in GRADS[2:]:
        first(0, nd.array(grad), weight)
        second(0, nd.array(grad), other)
    np.testing.assert_array_equal(weight.asnumpy(), other.asnumpy())


class Sequence(mx.lr_scheduler.LRScheduler):
    """Schedulers one after the other, as gluoncv has them."""

    def __init__(self, schedulers: list[mx.lr_scheduler.LRScheduler]) -> None:
        super().__init__()
        self.schedulers = schedulers
        self.calls = 0

    def __call__(self, num_update: int) -> float:
        self.calls += 1
        return float(self.schedulers[num_update >= 3](num_update))


def sequence() -> Sequence:
    """Return a sequence of schedulers whose second part counts the factors that it has applied."""
    return Sequence(
        [mx.lr_scheduler.PolyScheduler(3, 0.5), mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=1)]
    )


def test_states_keep_schedulers_of_schedulers() -> None:
    first, second = (opt.get_updater(opt.create("sgd", lr_scheduler=sequence())) for _ in range(2))
    scheduler = first.optimizer.lr_scheduler
    for update in range(9):
        scheduler(update)
    content = first.get_states(dump_optimizer=True)
    second.set_states(content)
    restored = second.optimizer.lr_scheduler
    assert isinstance(restored, Sequence)
    assert restored.calls == 9
    assert isinstance(restored.schedulers[0], mx.lr_scheduler.PolyScheduler)
    assert vars(restored.schedulers[1]) == vars(scheduler.schedulers[1])
    assert restored.schedulers[1].count == 6
    assert [restored(i) for i in range(9, 20)] == [scheduler(i) for i in range(9, 20)]
    with pytest.raises(FileFormatError, match="class 'Sequence'; set optimizer.lr_scheduler"):
        opt.get_updater(opt.create("sgd")).set_states(content)


def test_states_are_no_pickle_and_any_damage_is_found() -> None:
    content = stepped("adam", 1)[0].get_states(dump_optimizer=True)
    assert content.startswith(b"MXLSTATE")
    fresh = opt.get_updater(opt.create("adam"))
    for position in range(8, len(content), 37):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        with pytest.raises(FileFormatError, match="truncated or damaged"):
            fresh.set_states(bytes(damaged))
    with pytest.raises(FileFormatError, match="truncated or damaged"):
        fresh.set_states(content[:-5])


def test_states_and_optimizers_pickled_by_mxnet_are_read() -> None:
    fresh = opt.get_updater(opt.create("sgd", momentum=0.9))
    fresh.set_states((DATA / "sgd_only.states").read_bytes())
    np.testing.assert_allclose(fresh.states[0].asnumpy(), -0.01 * GRADS[0], rtol=1e-6)
    with pytest.raises(FileFormatError, match="neither mxlite's states .* nor a pickle"):
        fresh.set_states(b"\x89PNG....")
    update = opt.get_updater(opt.create("adam"))
    update.set_states((DATA / "net.states").read_bytes())
    adam = update.optimizer
    assert isinstance(adam, opt.Adam)
    assert adam.wd == 0.01
    assert adam.num_update == 2
    assert isinstance(adam.lr_scheduler, mx.lr_scheduler.FactorScheduler)
    assert adam.lr_scheduler.factor == 0.5
    mean, variance = update.states[0]
    assert mean.shape == variance.shape


def test_unknown_optimizers_and_options_are_named() -> None:
    assert {*NAMES, "test"} <= set(opt.Optimizer.opt_registry)
    assert isinstance(opt.create("AdaGrad"), opt.AdaGrad)
    for call, kind, words in (
        (lambda: opt.create("adamm"), ValueError, "optimizer 'adamm'; did you mean 'adam'"),
        (lambda: opt.create("sgd", momentun=0.9), TypeError, "optimizer 'sgd': .*momentun"),
    ):
        with pytest.raises(kind, match=words) as caught:
            call()
        assert isinstance(caught.value, MXNetError)


def test_lars_scales_biases_that_have_no_names():
    """Trainer gives the optimizer numbers, Module gives it names, as in 1.x."""
    bias, grad = np.array([3.0, 4.0], "float32"), np.array([0.6, 0.8], "float32")
    layer_rate = 0.1 * 0.001 * 5 / (1 + 0 * 5)  # lr * eta * |w| / |grad|
    net = mx.gluon.nn.Dense(2, in_units=1, prefix="fc_")
    net.initialize()
    net.bias.set_data(bias)
    trainer = mx.gluon.Trainer(net.collect_params(), "lars", {"learning_rate": 0.1})
    with mx.autograd.record():
        loss = (net(nd.zeros((1, 1))) * nd.array(grad)).sum()
    loss.backward()
    trainer.step(1)
    np.testing.assert_allclose(net.bias.data().asnumpy(), bias - layer_rate * grad, rtol=1e-6)
    named = nd.array(bias)
    optimizer = opt.create("lars", learning_rate=0.1, param_idx2name={0: "fc_bias"})
    opt.get_updater(optimizer)(0, nd.array(grad), named)
    np.testing.assert_allclose(named.asnumpy(), bias - 0.1 * grad, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", [*NAMES, "adamw"])
def test_weights_without_gradients_or_rate_stay_finite(name: str, dtype: str) -> None:
    """Inputs that are always 0 give gradients of 0; warm-ups begin with a rate of 0."""
    start = nd.array([[1.5, -2.0], [0.25, 3.0]], dtype=dtype)
    for rate, grad in ((0.1, 0.0), (0.0, 0.5), (0.0, 0.0)):
        # Adagrad by rows takes no weight decay, and AdaDelta has no learning rate.
        update = opt.get_updater(opt.create(name, learning_rate=rate, wd=0.0))
        weight = start.copy()
        for _ in range(3):
            update(0, nd.full(start.shape, grad, dtype=dtype), weight)
        values = weight.astype("float32").asnumpy()
        assert np.isfinite(values).all(), (rate, grad, values)
        if rate == 0 and name != "adadelta":
            np.testing.assert_array_equal(values, start.astype("float32").asnumpy())


@pytest.mark.parametrize("name", ["ftrl", "ftml"])
def test_a_warm_up_from_a_rate_of_0_goes_on_as_without_it(name: str) -> None:
    grad = nd.array(GRADS[0])
    warmed, plain = nd.array(WEIGHT), nd.array(WEIGHT)
    optimizer = opt.create(name, learning_rate=0.0)
    update = opt.get_updater(optimizer)
    update(0, grad, warmed)
    optimizer.set_learning_rate(0.1)
    optimizer._index_update_count.clear()
    optimizer.num_update = optimizer.begin_num_update
    update(0, grad, warmed)
    opt.get_updater(opt.create(name, learning_rate=0.1))(0, grad, plain)
    assert (plain != nd.array(WEIGHT)).asnumpy().any()
    np.testing.assert_array_equal(warmed.asnumpy(), plain.asnumpy())
