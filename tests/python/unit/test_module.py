"""Modules: training, prediction, files, several contexts; log lines and numbers of MXNet 1.9.1."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from module_nets import NAMES, TWO, Batches, X, Y, batches, bound, fitted, net, params, weight
from mxlite.base import MXNetError

# Results of 1.9.1 from the same start and data.
AFTER = [
    [3.7208, -0.4263, -0.7561, -2.2532],
    [-0.8973, 0.3145, 1.9097, -0.4320],
    [-3.6417, -0.1609, -0.8809, 3.5033],
]
ALONE = [  # two contexts without a store
    [2.1378, -0.2100, -0.7036, -0.8127],
    [-0.6007, 0.1093, 0.8208, -0.4172],
    [-2.3553, -0.1720, 0.1555, 2.0481],
]
COMPRESSED = [
    [2.5887, 1.7379, -0.6364, -1.0879],
    [-0.5202, 0.3380, 1.3728, -1.0680],
    [-3.5412, -2.3486, -0.4637, 2.3603],
]


def test_fit_logs_the_lines_of_1x(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    module = fitted(eval_metric=["acc", "ce"], batch_end_callback=mx.callback.Speedometer(4, 2))
    lines = [re.sub(r"(Speed: |cost=)[\d.]+", r"\1*", line) for line in caplog.messages]
    expected = [
        "Epoch[0] Batch [0-2]\tSpeed: * samples/sec\taccuracy=0.416667\tcross-entropy=1.592798",
        "Epoch[0] Batch [2-4]\tSpeed: * samples/sec\taccuracy=0.125000\tcross-entropy=1.480191",
        "Epoch[0] Train-accuracy=0.333333",
        "Epoch[0] Train-cross-entropy=1.406172",
        "Epoch[0] Time cost=*",
        "Epoch[0] Validation-accuracy=0.541667",
        "Epoch[0] Validation-cross-entropy=0.873208",
        "Epoch[1] Batch [0-2]\tSpeed: * samples/sec\taccuracy=0.583333\tcross-entropy=0.864195",
        "Epoch[1] Batch [2-4]\tSpeed: * samples/sec\taccuracy=0.625000\tcross-entropy=1.299012",
        "Epoch[1] Train-accuracy=0.541667",
        "Epoch[1] Train-cross-entropy=1.364751",
        "Epoch[1] Time cost=*",
        "Epoch[1] Validation-accuracy=0.666667",
        "Epoch[1] Validation-cross-entropy=1.151990",
    ]
    # Processors differ in the last decimal, because they add up in other orders.
    decimals = re.compile(r"\d\.\d{6}")
    assert [decimals.sub("*", line) for line in lines] == [
        decimals.sub("*", line) for line in expected
    ]
    found, values = (
        [float(number) for line in text for number in decimals.findall(line)]
        for text in (lines, expected)
    )
    np.testing.assert_allclose(found, values, rtol=0, atol=2e-6)
    np.testing.assert_allclose(weight(module), AFTER, atol=2e-4)
    assert module._kvstore is None


TWO_BITS = {"kvstore": "device", "compression_params": {"type": "2bit", "threshold": 0.5}}


@pytest.mark.parametrize(
    ("options", "expected", "on_store"),
    [
        ({}, AFTER, True),
        ({"kvstore": "device"}, AFTER, True),
        ({"kvstore": "teststore"}, AFTER, False),
        ({"kvstore": None}, ALONE, False),
        (TWO_BITS, COMPRESSED, True),
    ],
)
def test_two_contexts_train_as_in_1x(options: Any, expected: Any, on_store: bool) -> None:
    module = fitted(context=TWO, **options)
    assert module._update_on_kvstore == on_store
    np.testing.assert_allclose(weight(module), expected, atol=2e-4)
    shapes = [[out.shape for out in group] for group in module.get_outputs(False)]
    assert shapes == [[(2, 3), (2, 3)]]
    assert module.get_outputs()[0].shape == (4, 3)


def test_running_means_are_averaged_over_contexts() -> None:
    module = fitted(norm=True, context=TWO)
    aux = module.get_params()[1]
    expected = {
        "bn_moving_mean": [-0.3829, -0.1297, 0.3075, 0.4773],
        "bn_moving_var": [2.0196, 0.4435, 1.1808, 1.9938],
    }
    assert sorted(aux) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(aux[name].asnumpy(), values, atol=5e-4)


def test_fixed_parameters_stay() -> None:
    module = fitted(fixed_param_names=["fc1_weight"])
    np.testing.assert_array_equal(weight(module, "fc1_weight"), params()["fc1_weight"].asnumpy())
    assert np.abs(weight(module) - params()["fc2_weight"].asnumpy()).max() > 1


def test_digits_are_learned(caplog: pytest.LogCaptureFixture) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    data = (digits.data / 16).astype(np.float32)
    label = digits.target.astype(np.float32)
    order = np.random.RandomState(1).permutation(len(data))
    train, test = order[:1440], order[1440:]
    mx.random.seed(5)
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64, name="fc1")
    layer = mx.sym.Activation(layer, act_type="relu")
    layer = mx.sym.FullyConnected(layer, num_hidden=10, name="fc2")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(layer, name="softmax"))
    caplog.set_level(logging.INFO)
    held_out = Batches(data[test], label[test], 40)
    module.fit(
        Batches(data[train], label[train], 40),
        eval_data=held_out,
        num_epoch=8,
        initializer=mx.init.Xavier(),
        optimizer_params={"learning_rate": 0.2, "momentum": 0.9},
    )
    ((name, value),) = module.score(held_out, "acc")
    assert name == "accuracy"
    assert value > 0.95
    predicted = module.predict(held_out).asnumpy()
    assert predicted.shape == (len(test), 10)
    assert (predicted.argmax(1) == label[test]).mean() > 0.95
    assert sum("Validation-accuracy=" in line for line in caplog.messages) == 8


# -- the steps ------------------------------------------------------------------------------------


def test_steps_one_by_one() -> None:
    module = bound()
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    assert module._optimizer.rescale_grad == 0.25
    batch = next(batches())
    module.forward(batch)
    first = [[0, 0.0028, 0.9972], [0.1797, 0.3044, 0.5159]]  # 1.9.1
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy()[:2], first, atol=1e-4)
    module.backward()
    module.update()
    expected = [-1.0018, -0.8215, -0.6423, -0.4779]  # 1.9.1
    np.testing.assert_allclose(weight(module)[0], expected, atol=1e-4)
    metric = mx.metric.create("acc")
    module.update_metric(metric, batch.label)
    assert metric.get() == ("accuracy", 0.75)
    assert module.output_shapes == [("softmax_output", (4, 3))]
    assert module.data_names == ["data"]
    assert module.label_names == ["softmax_label"]
    assert module.output_names == ["softmax_output"]
    assert module.data_shapes[0].shape == (4, 5)


def test_prediction_drops_what_fills_the_batch() -> None:
    module = bound()
    whole = module.predict(batches())
    assert whole.shape == (22, 3)
    assert module.predict(batches(), num_batch=2).shape == (8, 3)
    assert [out.shape for out in module.predict(batches(), always_output_list=True)] == [(22, 3)]
    parts = module.predict(batches(), merge_batches=False)
    assert [[out.shape for out in outputs] for outputs in parts] == [[(4, 3)]] * 5 + [[(2, 3)]]
    found = [(len(outs), i, batch.pad) for outs, i, batch in module.iter_predict(batches())]
    assert found == [(1, i, 0) for i in range(5)] + [(1, 5, 2)]
    for data in (X[:6], mx.nd.array(X[:6])):
        np.testing.assert_allclose(
            module.predict(data).asnumpy(), whole.asnumpy()[:6], rtol=1e-5, atol=1e-6
        )
    assert module.score(batches(), ["acc", "ce"], num_batch=2)[0][0] == "accuracy"


def test_batches_of_any_size() -> None:
    module = bound(context=TWO)
    expected = bound().predict(batches()).asnumpy()
    for size in (5, 4, 7, 2, 22):
        batch = mx.io.DataBatch([mx.nd.array(X[:size])], [mx.nd.array(Y[:size])])
        module.forward(batch, is_train=False)
        parts = [out.shape[0] for out in module.get_outputs(merge_multi_context=False)[0]]
        assert sum(parts) == size
        assert abs(parts[0] - parts[1]) <= 1
        got = module.get_outputs()[0].asnumpy()
        np.testing.assert_allclose(got, expected[:size], rtol=1e-4, atol=1e-6)
    # Training continues with the shared parameters.
    module.reshape([("data", (6, 5))], [("softmax_label", (6,))])
    module.init_optimizer()
    module.forward_backward(mx.io.DataBatch([mx.nd.array(X[:6])], [mx.nd.array(Y[:6])]))
    module.update()
    assert module._exec_group.slices == [slice(0, 3), slice(3, 6)]


def test_shares_of_the_contexts() -> None:
    module = mx.mod.Module(net(), context=TWO, work_load_list=[1, 3])
    module.bind([("data", (8, 5))], [("softmax_label", (8,))])
    assert module._exec_group.slices == [slice(0, 2), slice(2, 8)]


def test_gradients_of_the_data() -> None:
    batch, found = next(batches()), []
    for context in (mx.cpu(), TWO):
        module = bound(context=context, inputs_need_grad=True)
        module.forward_backward(batch)
        found.append(module.get_input_grads()[0].asnumpy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(found[0][1], [-0.2059, -0.1030, 0, 0.1030, 0.2059], atol=1e-4)
    assert [grad.shape for grad in module.get_input_grads(False)[0]] == [(2, 5), (2, 5)]


def test_states_are_set_and_read() -> None:
    total = mx.sym.Variable("data") + mx.sym.Variable("state")
    module = mx.mod.Module(total, label_names=None, state_names=["state"], context=TWO)
    module.bind([("data", (4, 5))], for_training=False)
    module.init_params()
    module.set_states(value=3)
    module.forward(mx.io.DataBatch([mx.nd.ones((4, 5))]))
    assert module.get_outputs()[0].asnumpy().tolist() == [[4] * 5] * 4
    states = [[array * 2 for array in arrays] for arrays in module.get_states(False)]
    module.set_states(states=states)
    assert module.get_states()[0].asnumpy().max() == 6


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [mx.cpu(), TWO])
def test_a_checkpoint_goes_on_as_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, context: Any
) -> None:
    caplog.set_level(logging.INFO)
    prefix, batch = str(tmp_path / "a"), next(batches())
    module = fitted(context=context)
    module.save_checkpoint(prefix, 3, save_optimizer_states=True)
    assert caplog.messages[-2:] == [
        f'Saved checkpoint to "{prefix}-0003.params"',
        f'Saved optimizer state to "{prefix}-0003.states"',
    ]
    other = mx.mod.Module.load(prefix, 3, load_optimizer_states=True, context=context)
    other.bind([("data", (4, 5))], [("softmax_label", (4,))])
    other.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    for each in (module, other):
        each.forward_backward(batch)
        each.update()
    np.testing.assert_array_equal(weight(module), weight(other))
    assert not np.array_equal(weight(module), np.float32(AFTER))
    module.save_params(prefix + ".params")
    other.set_params(params(), {})
    other.load_params(prefix + ".params")
    np.testing.assert_array_equal(weight(module), weight(other))


def test_parameters_can_be_set_in_part() -> None:
    module = bound()
    module.set_params({"fc1_weight": mx.nd.ones((4, 5))}, {}, allow_missing=True)
    assert weight(module, "fc1_weight").min() == 1
    np.testing.assert_array_equal(weight(module), params()["fc2_weight"].asnumpy())
    extra = {"other": mx.nd.ones((1,))}
    module.set_params(extra, {}, allow_missing=True, allow_extra=True)
    with pytest.raises(ValueError, match='"other" that is not in the arguments'):
        module.set_params(extra, {}, allow_missing=True)
    with pytest.raises(RuntimeError, match="fc1_bias is not presented"):
        module.set_params({"fc1_weight": mx.nd.ones((4, 5))}, {})


# -- other modules --------------------------------------------------------------------------------


def test_buckets_share_parameters_and_optimizer() -> None:
    def sym_gen(length: int) -> tuple[Any, Any, Any]:
        total = mx.sym.sum(mx.sym.Variable("data"), axis=1)  # (batch, length, 5) to (batch, 5)
        layer = mx.sym.FullyConnected(total, num_hidden=3, name="fc")
        return mx.sym.SoftmaxOutput(layer, name="softmax"), ["data"], ["softmax_label"]

    def batch(length: int) -> mx.io.DataBatch:
        data = mx.nd.array(np.repeat(X[:4, None], length, 1) / length)
        return mx.io.DataBatch(
            [data],
            [mx.nd.array(Y[:4])],
            bucket_key=length,
            provide_data=[("data", data.shape)],
            provide_label=[("softmax_label", (4,))],
        )

    def train(lengths: list[int], context: Any) -> Any:
        module = mx.mod.BucketingModule(sym_gen, default_bucket_key=6, context=context)
        module.bind([("data", (4, 6, 5))], [("softmax_label", (4,))])
        module.init_params(arg_params={"fc_weight": mx.nd.ones((3, 5)), "fc_bias": mx.nd.ones(3)})
        module.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
        for length in lengths:
            module.forward_backward(batch(length))
            module.update()
        return module

    same, mixed = train([6] * 5, mx.cpu()), train([6, 2, 3, 2, 6], mx.cpu())
    np.testing.assert_allclose(weight(same, "fc_weight"), weight(mixed, "fc_weight"), rtol=1e-4)
    assert np.abs(weight(same, "fc_weight") - 1).max() > 0.1
    assert sorted(mixed._buckets) == [2, 3, 6]
    split = train([6, 2, 3, 2, 6], TWO)
    np.testing.assert_allclose(weight(same, "fc_weight"), weight(split, "fc_weight"), rtol=1e-4)
    metric = mx.metric.create("acc")
    mixed.update_metric(metric, [mx.nd.array(Y[:4])])
    assert metric.num_inst == 4
    assert mixed.data_shapes[0].shape == (4, 6, 5)


def test_buckets_are_saved_and_loaded(tmp_path: Path) -> None:
    def sym_gen(length: int) -> tuple[Any, Any, Any]:
        return net(), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(sym_gen, default_bucket_key=4)
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params(arg_params=params())
    prefix = str(tmp_path / "b")
    module.save_checkpoint(prefix, 1)
    saved = ["b-0001.params", "b-4-symbol.json", "b-symbol.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == saved
    other = mx.mod.BucketingModule.load(prefix, 1, sym_gen, default_bucket_key=4)
    other.bind([("data", (4, 5))], [("softmax_label", (4,))])
    np.testing.assert_array_equal(weight(other), weight(module))


def hidden_layer() -> Any:
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc1")
    return mx.sym.Activation(layer, act_type="relu")


def trained(module: Any) -> Any:
    module.fit(
        batches(),
        num_epoch=2,
        arg_params=params(),
        allow_missing=True,
        optimizer_params={"learning_rate": 0.5, "momentum": 0.9},
    )
    return weight(module)


def test_modules_in_a_chain_train_as_one() -> None:
    top = mx.sym.FullyConnected(mx.sym.Variable("hidden"), num_hidden=3, name="fc2")
    top = mx.sym.SoftmaxOutput(top, name="softmax")
    chain = mx.mod.SequentialModule()
    chain.add(mx.mod.Module(hidden_layer(), label_names=None))
    chain.add(mx.mod.Module(top, ["hidden"]), take_labels=True, auto_wiring=True)
    for module in (chain, mx.mod.Module(net())):
        np.testing.assert_allclose(trained(module), AFTER, atol=2e-4)
    assert chain.output_shapes == [("softmax_output", (4, 3))]
    with pytest.raises(ValueError, match='Unknown meta "take_label", a typo'):
        chain.add(mx.mod.Module(net()), take_label=True)


def test_a_loss_in_python() -> None:
    layer = mx.sym.FullyConnected(hidden_layer(), num_hidden=3, name="fc2")
    loss = mx.mod.PythonLossModule(
        grad_func=lambda scores, labels: mx.nd.softmax(scores) - mx.nd.one_hot(labels, 3)
    )
    chain = mx.mod.SequentialModule()
    chain.add(mx.mod.Module(layer, label_names=None))
    chain.add(loss, take_labels=True, auto_wiring=True)
    np.testing.assert_allclose(trained(chain), AFTER, atol=2e-4)


def test_the_monitor_watches_fit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fitted(monitor=mx.mon.Monitor(3, pattern="fc1_output|softmax_output"))
    lines = [line.split() for line in caplog.messages if line.startswith("Batch:")]
    assert [line[1:3] for line in lines] == [
        [str(step), name] for step in (1, 4, 7, 10) for name in ("fc1_output", "softmax_output")
    ]
    # 1.9.1's numbers.
    assert float(lines[0][3]) == pytest.approx(2.3348358, rel=1e-5)
    assert float(lines[-1][3]) == pytest.approx(0.40979996, rel=1e-4)


def test_callbacks_of_fit() -> None:
    seen: list[Any] = []
    fitted(
        validation_metric="ce",
        begin_epoch=1,
        eval_batch_end_callback=lambda p: seen.append(("batch", p.epoch, p.nbatch)),
        eval_end_callback=lambda p: seen.append(("end", p.epoch, p.nbatch, p.eval_metric.name)),
        epoch_end_callback=[lambda e, s, a, x: seen.append((e, sorted(a), sorted(x)))],
    )
    assert seen == [
        (1, sorted(NAMES), []),
        *[("batch", 1, i) for i in range(6)],
        ("end", 1, 6, "cross-entropy"),
    ]


def unbound(*args: Any, **options: Any) -> Any:
    return mx.mod.Module(net(), *args, **options)


LABEL3 = [("softmax_label", (3,))]
SMALL = {"fc1_weight": mx.nd.ones((2, 2))}


@pytest.mark.filterwarnings("ignore:Data provided by label_shapes")
@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: unbound().data_shapes, AssertionError, "call bind before"),
        (lambda: unbound().init_params(), AssertionError, "call bind before init"),
        (lambda: unbound().get_params(), AssertionError, "call init_params"),
        (lambda: bound().update(), AssertionError, "call init_optimizer"),
        (lambda: bound().get_input_grads(), AssertionError, "inputs_need_grad=True"),
        (lambda: bound().fit(batches()), AssertionError, "specify number of epochs"),
        (lambda: unbound(["dat"]), ValueError, r"'dat' is not found.*\n\tdata"),
        (lambda: unbound(fixed_param_names=["fc3"]), ValueError, r"param_names=\['fc3'\]"),
        (lambda: unbound(work_load_list=[1, 2]), ValueError, "1 entries for the contexts"),
        (lambda: unbound().bind([("dat", (4, 5))]), ValueError, r"data_names \(\[DataDesc\[dat"),
        (lambda: bound(size=1, context=TWO), ValueError, "Too many slices"),
        (
            lambda: unbound().bind([("data", (4, 5))], LABEL3),
            ValueError,
            "same batch size.*'data': 4, 'softmax_label': 3",
        ),
        (
            lambda: bound().forward(mx.io.DataBatch([mx.nd.ones((4, 5))] * 2)),
            ValueError,
            "number of data arrays must be 1, got 2",
        ),
        (
            lambda: bound().init_params(arg_params=SMALL, force_init=True),
            ValueError,
            r"fc1_bias is not presented|must have shape \(4, 5\), got \(2, 2\)",
        ),
        (lambda: mx.mod.SequentialModule().bind([("data", (1,))]), ValueError, "empty"),
        (lambda: mx.mod.BucketingModule(lambda key: None), ValueError, "default_bucket_key"),
    ],
)
def test_errors_say_what_was_given(act: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        act()
    assert isinstance(caught.value, MXNetError)


def test_repeated_calls_warn(caplog: pytest.LogCaptureFixture) -> None:
    module = bound()
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_optimizer()
    module.init_optimizer()
    assert caplog.messages == [
        "Already bound, ignoring bind()",
        "optimizer already initialized, ignoring...",
    ]
    with pytest.warns(UserWarning, match="init_params call ignored"):
        module.init_params()
    with pytest.warns(UserWarning, match="label_names=\\['lab'\\]"):
        mx.mod.Module(net(), label_names=["lab"])


def test_factors_of_variables_reach_the_optimizer() -> None:
    bias = mx.sym.var("fc1_bias", lr_mult=1.0)
    net = mx.sym.FullyConnected(mx.sym.var("data"), bias=bias, name="fc1", num_hidden=3, lr_mult=0)
    net = mx.sym.FullyConnected(net, name="fc2", num_hidden=2, wd_mult=0.5)
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (4, 5))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"learning_rate": 0.5, "wd": 0.1})
    assert module._optimizer.lr_mult == {"fc1_weight": 0, "fc1_bias": 1}
    assert module._optimizer.wd_mult == {"fc1_bias": 0, "fc2_weight": 0.5, "fc2_bias": 0.5}
    assert module._optimizer._get_lrs(range(4)) == [0, 0.5, 0.5, 0.5]
    assert module._optimizer._get_wds(range(4)) == pytest.approx([0.1, 0, 0.05, 0.05])
    module.forward(mx.io.DataBatch([mx.nd.ones((4, 5))]), is_train=True)
    module.backward([mx.nd.ones((4, 2))])
    module.update()
    params = {name: array.asnumpy() for name, array in module.get_params()[0].items()}
    assert (params["fc1_weight"] == 1).all() and (params["fc1_bias"] != 0).all()
