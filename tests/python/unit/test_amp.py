"""Mixed precision: which operator runs in which type, loss scaling, training, converted models."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from custom_ops import custom
from mxlite import autograd, gluon, nd
from mxlite.contrib import amp
from mxlite.gluon import nn
from mxlite.ndarray.serialization import dtype_name
from recording import differentiated, variable


@pytest.fixture(autouse=True)
def _amp_is_off_again() -> Iterator[None]:
    yield
    amp.switch_off()


@pytest.fixture(params=["bfloat16", "float16"])
def target(request: Any) -> str:
    amp.init(request.param)
    return request.param


@pytest.fixture
def bf16() -> None:
    amp.init("bfloat16")


def kind(array: Any) -> str:
    return dtype_name(array.dtype)


def small_net(hybrid: bool) -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize(hybrid)
    return net


# -- casts ---------------------------------------------------------------------------------------


def test_each_class_has_its_type(target: str) -> None:
    x, w = nd.ones((2, 3)), nd.ones((4, 3))
    low = nd.FullyConnected(x, w, num_hidden=4, no_bias=True)
    assert kind(low) == target
    assert kind(nd.softmax(low)) == "float32"
    assert kind(nd.relu(low)) == target
    assert kind(low + nd.ones((2, 4))) == "float32"
    assert kind(low + low) == target
    assert kind(nd.concat(low, nd.ones((2, 4)), dim=1)) == "float32"
    assert kind(nd.LeakyReLU(low, act_type="elu")) == "float32"
    assert kind(nd.LeakyReLU(low, act_type="leaky")) == target
    assert kind(nd.Activation(low, act_type="softrelu")) == "float32"


def test_integers_and_doubles_stay(bf16: None) -> None:
    x64 = nd.ones((2, 3), dtype="float64")
    assert kind(nd.FullyConnected(x64, nd.ones((4, 3), dtype="float64"), num_hidden=4,
                                  no_bias=True)) == "float64"  # fmt: skip
    assert kind(nd.ones((2,), dtype="int32") + nd.ones((2,), dtype="int32")) == "int32"


def test_gradients_have_the_type_of_their_arrays(target: str) -> None:
    w = variable(nd.array(np.eye(3, dtype=np.float32)))
    x = nd.array([[1.0, 2.0, 3.0]])
    with autograd.record():
        y = nd.FullyConnected(x, w, num_hidden=3, no_bias=True)
        loss = (nd.softmax(y) * nd.array([[1.0, 0, 0]])).sum()
    loss.backward()
    assert kind(y) == target
    assert kind(w.grad) == "float32"
    probability = np.exp([1.0, 2, 3]) / np.exp([1.0, 2, 3]).sum()
    delta = probability[0] * (np.array([1.0, 0, 0]) - probability)
    np.testing.assert_allclose(w.grad.asnumpy(), np.outer(delta, [1, 2, 3]), rtol=2e-2, atol=1e-3)


def test_running_statistics_stay_float32(target: str) -> None:
    net = small_net(hybrid=False)
    x = nd.random.uniform(shape=(4, 1, 8, 8))
    out = differentiated(lambda: net(x))
    assert kind(out) == target
    for param in net.collect_params().values():
        assert kind(param.data()) == "float32", param.name
    running = net[1].running_mean.data().asnumpy()
    assert (running != 0).any()


@pytest.mark.parametrize("deferred", [False, True])
def test_hybridized_and_eager_agree(target: str, deferred: bool) -> None:
    net = small_net(hybrid=False)
    x = nd.random.uniform(shape=(4, 1, 8, 8))
    if not deferred:
        net(x)
    net.hybridize()
    out = net(x)
    net.hybridize(False)
    eager = net(x).asnumpy()
    assert kind(out) == target
    np.testing.assert_allclose(
        out.asnumpy().astype("float32"), eager.astype("float32"), rtol=2e-2, atol=2e-2
    )


def test_graphs_compiled_before_are_compiled_anew() -> None:
    net = small_net(hybrid=True)
    x = nd.random.uniform(shape=(4, 1, 8, 8))
    assert kind(net(x)) == "float32"
    amp.init("bfloat16")
    assert kind(net(x)) == "bfloat16"
    amp.switch_off()
    assert kind(net(x)) == "float32"


def test_own_lists() -> None:
    amp.init("bfloat16", target_precision_ops=["exp"], fp32_ops=["FullyConnected"],
             conditional_fp32_ops=[("Activation", "act_type", ["relu"])])  # fmt: skip
    x = nd.ones((2, 3))
    assert kind(nd.exp(x)) == "bfloat16"
    assert kind(nd.FullyConnected(nd.exp(x), nd.ones((4, 3)), num_hidden=4,
                                  no_bias=True)) == "float32"  # fmt: skip
    assert kind(nd.Activation(nd.exp(x), act_type="relu")) == "float32"
    assert kind(nd.Activation(nd.exp(x), act_type="tanh")) == "bfloat16"
    assert kind(nd.softmax(nd.exp(x))) == "bfloat16"  # dropped out of fp32_ops


def test_wrong_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="float64"):
        amp.init("float64")
    with pytest.raises(ValueError, match="one list, got FullyConnected in two"):
        amp.init("bfloat16", target_precision_ops=["FullyConnected"], fp32_ops=["FullyConnected"])
    with pytest.raises(ValueError, match="Convolutoin"):
        amp.init("bfloat16", target_precision_ops=["Convolutoin"])
    assert kind(nd.dot(nd.ones((2, 2)), nd.ones((2, 2)))) == "float32"


def test_operators_in_python_get_float32(bf16: None) -> None:
    seen = []

    def forward(self, is_train, req, in_data, out_data, aux):  # type: ignore[no-untyped-def]
        seen.append((kind(in_data[0]), in_data[0].stype))
        self.assign(out_data[0], req[0], in_data[0].tostype("default") * 2)

    infer = lambda self, in_stype: (in_stype, ["default"], [])  # noqa: E731
    custom("amp_double", forward, infer_storage_type=infer)
    low = nd.FullyConnected(nd.ones((2, 3)), nd.ones((4, 3)), num_hidden=4, no_bias=True)
    out = nd.Custom(low, op_type="amp_double")
    np.testing.assert_array_equal(out.asnumpy(), np.full((2, 4), 6.0))
    nd.Custom(low.tostype("csr"), op_type="amp_double").wait_to_read()
    assert seen == [("float32", "default"), ("float32", "csr")]


# -- the loss scaler -----------------------------------------------------------------------------


def make_trainer(value: float = 1.0) -> tuple[gluon.Trainer, gluon.Parameter]:
    param = gluon.Parameter("x", shape=(1,))
    param.initialize(init=mx.init.Constant(value))
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 1.0})
    amp.init_trainer(trainer)
    return trainer, param


def scaled_step(trainer: gluon.Trainer, param: gluon.Parameter, factor: float) -> None:
    with autograd.record():
        loss = param.data() * factor
        with amp.scale_loss(loss, trainer) as scaled:
            autograd.backward(scaled)
    trainer.step(1)


def test_scaling_cancels(bf16: None) -> None:
    trainer, param = make_trainer()
    scaled_step(trainer, param, 0.25)
    assert param.grad().asscalar() == 0.25 * 2**16
    assert param.data().asscalar() == 0.75


def test_an_overflow_skips_the_step_and_halves_the_scale(
    bf16: None, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, param = make_trainer()
    with caplog.at_level(logging.INFO):
        scaled_step(trainer, param, 1e38)
    assert param.data().asscalar() == 1.0
    # The new scale counts from the check after next, as in 1.x.
    assert trainer._amp_loss_scaler.loss_scale == 2**16
    with caplog.at_level(logging.INFO):
        scaled_step(trainer, param, 0.5)
    assert "AMP: decreasing loss scale to 32768.000000" in caplog.text  # read by this step
    assert param.data().asscalar() == 0.5
    assert trainer._amp_loss_scaler.loss_scale == 2**15


def test_the_scale_grows_after_2000_clean_steps(
    bf16: None, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, param = make_trainer()
    scaler = trainer._amp_loss_scaler
    grad = param.grad()
    grad[:] = 1.0
    with caplog.at_level(logging.INFO):
        for _ in range(1999):
            assert not scaler.has_overflow([param])
        assert "increasing" not in caplog.text
        assert not scaler.has_overflow([param])
    assert "AMP: increasing loss scale to 131072.000000" in caplog.text
    scaler._next_loss_scale = 2.0**24
    for _ in range(2001):
        scaler.has_overflow([param])
    assert scaler.loss_scale == 2**24


def test_unscale_gives_true_gradients(bf16: None) -> None:
    trainer, param = make_trainer()
    with autograd.record():
        loss = param.data() * 3
        with amp.scale_loss(loss, trainer) as scaled:
            scaled.backward()
    amp.unscale(trainer)
    assert param.grad().asscalar() == 3
    trainer.step(1)
    assert param.data().asscalar() == -2


@pytest.mark.parametrize("on_store", [None, True])
def test_overflow_on_one_of_several_contexts(bf16: None, on_store: bool | None) -> None:
    param = gluon.Parameter("x", shape=(1,))
    param.initialize(init="ones", ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 1.0}, update_on_kvstore=on_store)
    amp.init_trainer(trainer)

    def step(factors: list[float]) -> None:
        with autograd.record():
            losses = [param.data(mx.cpu(i)) * f for i, f in enumerate(factors)]
            with amp.scale_loss(losses, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(1)

    step([0.25, 1e38])
    assert [a.asscalar() for a in param.list_data()] == [1, 1]
    step([0.25, 0.25])
    assert [a.asscalar() for a in param.list_data()] == [0.5, 0.5]


def test_loss_outputs_follow_the_scale(bf16: None) -> None:
    trainer, _ = make_trainer()
    x = nd.array([[1.0, 2.0]])
    differentiated(lambda x: nd.SoftmaxOutput(x, nd.array([1.0])), x)
    p = np.exp([1.0, 2]) / np.exp([1.0, 2]).sum()
    np.testing.assert_allclose(x.grad.asnumpy()[0], (p - [0, 1]) * 2**16, rtol=1e-5)


def test_order_of_calls_is_checked() -> None:
    trainer = gluon.Trainer([gluon.Parameter("x", shape=(1,))], "sgd")
    with pytest.raises(AssertionError, match=r"amp\.init\(\)"):
        amp.init_trainer(trainer)
    with pytest.raises(AssertionError, match="init_trainer"), amp.scale_loss(nd.ones(1), trainer):
        pass
    amp.init("bfloat16")
    with pytest.raises(TypeError, match="Trainer"):
        amp.init_trainer(mx.optimizer.create("sgd"))


# -- training ------------------------------------------------------------------------------------


def digits() -> tuple[np.ndarray, ...]:
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images / 16.0).astype("float32")[:, None]
    order = np.random.RandomState(0).permutation(len(images))
    images, labels = images[order], data.target[order].astype("float32")
    return images[:1500], labels[:1500], images[1500:], labels[1500:]


def train(hybrid: bool, scaled: bool, **options: Any) -> float:
    images, labels, test_images, test_labels = digits()
    net = small_net(hybrid)
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9, **options}
    )
    if scaled:
        amp.init_trainer(trainer)
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(8):
        for at in range(0, 1500, 100):
            x, y = nd.array(images[at : at + 100]), nd.array(labels[at : at + 100])
            with autograd.record():
                loss = loss_fn(net(x), y)
                if scaled:
                    with amp.scale_loss(loss, trainer) as big:
                        autograd.backward(big)
            if not scaled:
                loss.backward()
            trainer.step(100)
    found = net(nd.array(test_images)).asnumpy().argmax(axis=1)
    return float((found == test_labels).mean())


@pytest.mark.parametrize("hybrid", [False, True])
def test_digits_in_bfloat16_are_as_good_as_in_float32(hybrid: bool) -> None:
    mx.random.seed(3)
    plain = train(hybrid, scaled=False)
    amp.init("bfloat16")
    mx.random.seed(3)
    mixed = train(hybrid, scaled=True)
    assert plain > 0.95
    assert mixed > plain - 0.02


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "nag"])
def test_multi_precision_keeps_small_updates(optimizer: str) -> None:
    """A bfloat16 weight of 1 cannot take steps of 1e-3; its float32 copy can."""
    results = {}
    for multi in (False, True):
        weight = nd.ones((4,), dtype="bfloat16")
        updater = mx.optimizer.get_updater(
            mx.optimizer.create(optimizer, learning_rate=1e-3, multi_precision=multi)
        )
        for _ in range(50):
            updater(0, nd.ones((4,), dtype="bfloat16"), weight)
        results[multi] = float(weight.astype("float32").asnumpy()[0])
    assert results[False] == 1.0
    assert results[True] == pytest.approx(0.95, abs=5e-3)


# -- lists ---------------------------------------------------------------------------------------


def test_lists_come_from_the_schemas() -> None:
    assert {"Convolution", "FullyConnected", "Deconvolution", "RNN"} <= set(
        amp.list_lp16_ops("bfloat16")
    )
    assert {"softmax", "log_softmax", "exp", "sum", "mean", "LayerNorm", "Custom"} <= set(
        amp.list_fp32_ops("float16")
    )
    assert {"broadcast_add", "elemwise_mul", "Concat", "stack", "where"} <= set(
        amp.list_widest_type_cast("bfloat16")
    )
    assert {"Pooling", "BatchNorm", "Dropout", "reshape"} <= set(amp.list_lp16_fp32_ops("float16"))
    assert amp.list_lp16_ops(np.float16) == amp.lists.symbol_fp16.FP16_FUNCS
    kinds = [amp.list_lp16_ops, amp.list_fp32_ops, amp.list_widest_type_cast]
    names = [name for kind_list in kinds for name in kind_list("bfloat16")]
    assert len(names) == len(set(names))
    for name in names:
        assert name == "Custom" or mx._core.op(name)


def test_the_inner_module_has_the_conversions_too() -> None:
    for name in ("convert_model", "convert_symbol", "convert_hybrid_block", "lists"):
        assert getattr(amp.amp, name) is getattr(amp, name)


def test_bfloat16_is_named_as_in_1x() -> None:
    field = np.dtype([("bfloat16", np.uint16)])
    x = mx.nd.amp_cast(mx.nd.array([1.0, 2.5]), dtype=field)
    assert np.dtype(x.dtype).name == "bfloat16"
    assert mx.nd.zeros((2,), dtype=field).dtype == x.dtype
    assert mx.sym.Variable("x", dtype=field).infer_type()[0] == [x.dtype]
    cast = mx.sym.amp_cast(mx.sym.Variable("y"), dtype=field)
    assert cast.infer_type(y=np.float32)[1] == [x.dtype]
    with pytest.raises(TypeError, match="dtype"):
        mx.nd.zeros((2,), dtype=np.dtype([("a", np.uint16), ("b", np.uint16)]))


def test_a_second_init_is_checked_and_warns_of_another_type(bf16: None) -> None:
    amp.init("bfloat16")
    with pytest.raises(ValueError, match="'float8'"):
        amp.init("float8")
    with pytest.warns(UserWarning, match="float16 given, amp runs in bfloat16 already"):
        amp.init("float16")


def test_bfloat16_needs_no_scale(bf16: None) -> None:
    weight = gluon.Parameter("weight", shape=(1,), init="ones")
    weight.initialize()
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 0.5})
    with autograd.record():
        loss = weight.data() * 3
        with amp.scale_loss(loss, trainer) as scaled:
            autograd.backward(scaled)
    trainer.step(1)
    assert weight.data().asscalar() == -0.5
