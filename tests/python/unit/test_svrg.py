"""Training by variance-reduced gradients (mx.contrib.svrg_optimization)."""

import mxlite as mx
import numpy as np
import pytest
from mxlite.contrib.svrg_optimization.svrg_module import SVRGModule
from mxlite.contrib.svrg_optimization.svrg_optimizer import _SVRGOptimizer

DATA = np.float32([[1, 2], [3, 1], [2, 2], [4, 3], [1, 1], [2, 4]])
LABEL = DATA @ np.float32([1, 2]) + 1
START = np.float32([1, 1, 0])  # One() sets weights to 1 and biases to 0


def _net():
    line = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fullyconnected0")
    return mx.sym.LinearRegressionOutput(line, mx.sym.var("label"), name="out")


def _iter(batch_size=2, count=6):
    return mx.io.NDArrayIter(
        DATA[:count], LABEL[:count], batch_size, label_name="label", last_batch_handle="pad"
    )


def _module(data, optimizer="sgd", kvstore="local", **options):
    module = SVRGModule(_net(), label_names=["label"], **{"update_freq": 2, **options})
    module.bind(data.provide_data, data.provide_label)
    module.init_params(mx.init.One())
    module.init_optimizer(kvstore, optimizer, {"learning_rate": 0.05})
    return module


def _weights(module):
    args, _ = module.get_params()
    weight, bias = args["fullyconnected0_weight"], args["fullyconnected0_bias"]
    return np.append(weight.asnumpy()[0], bias.asnumpy())


def _gradient(weights, rows):
    inputs = np.column_stack([DATA[rows], np.ones(len(DATA[rows]), np.float32)])
    return inputs.T @ (inputs @ weights - LABEL[rows])


def _reference(epochs, update_freq=2, batch_size=2, rate=0.05):
    weights = START
    batches = [slice(i, i + batch_size) for i in range(0, len(DATA), batch_size)]
    for epoch in range(epochs):
        if epoch % update_freq == 0:
            kept = weights.copy()
            mean = sum(_gradient(kept, rows) for rows in batches) / len(batches)
        for rows in batches:
            reduced = _gradient(weights, rows) - _gradient(kept, rows) + mean
            weights = weights - rate / batch_size * reduced
    return weights


TWO = {"context": [mx.cpu(0), mx.cpu(1)]}


@pytest.mark.parametrize("options", [{}, {"kvstore": None}, TWO, {**TWO, "kvstore": "device"}])
@pytest.mark.parametrize("on_store", ["0", "1"])
def test_fit_takes_variance_reduced_steps(monkeypatch, options, on_store):
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", on_store)
    data = _iter()
    kvstore = options.get("kvstore", "local")
    context = options.get("context")
    module = SVRGModule(_net(), label_names=["label"], context=context, update_freq=2)
    arguments = {"optimizer_params": {"learning_rate": 0.05}, "initializer": mx.init.One()}
    module.fit(data, eval_metric="mse", kvstore=kvstore, num_epoch=5, **arguments)
    np.testing.assert_allclose(_weights(module), _reference(5), rtol=1e-5)


def test_fit_learns():
    module = SVRGModule(_net(), label_names=["label"], update_freq=2)
    metric = mx.metric.create("mse")
    options = {"optimizer_params": {"learning_rate": 0.1}, "initializer": mx.init.One()}
    module.fit(_iter(), eval_metric=metric, num_epoch=200, **options)
    assert metric.get()[1] < 1e-3
    np.testing.assert_allclose(_weights(module), [1, 2, 1], atol=0.1)


def test_full_gradients_count_a_padded_batch_by_its_share():
    data = _iter(batch_size=4)
    module = _module(data)
    module.update_full_grads(data)
    module.update_full_grads(data)  # starts from zero again
    # The last batch has samples 4, 5 and, to fill it, 0 and 1: one and a half batches of data.
    filled = [*range(6), 0, 1]
    expected = _gradient(START, filled) / 1.5
    found = module._param_dict[0]
    np.testing.assert_allclose(found["fullyconnected0_weight"].asnumpy()[0], expected[:2], 1e-6)
    np.testing.assert_allclose(found["fullyconnected0_bias"].asnumpy(), expected[2:], 1e-6)


def test_sparse_weights_are_trained():
    values = np.float32([[1, 0, 2, 0], [0, 0, 3, 0]])
    data = mx.io.NDArrayIter(mx.nd.array(values).tostype("csr"), {"label": np.ones((2, 1))}, 2,
                             last_batch_handle="discard")  # fmt: skip
    weight = mx.sym.var("v", shape=(4, 1), stype="row_sparse", init=mx.init.One())
    line = mx.sym.sparse.dot(mx.sym.var("data", stype="csr"), weight)
    net = mx.sym.LinearRegressionOutput(line, mx.sym.var("label"))
    module = SVRGModule(net, label_names=["label"], update_freq=1)
    module.fit(data, eval_metric="mse", num_epoch=1, optimizer_params={"learning_rate": 0.1})
    error = values @ np.ones((4, 1)) - 1
    np.testing.assert_allclose(
        module.get_params()[0]["v"].asnumpy(), 1 - 0.05 * values.T @ error, rtol=1e-6
    )


def test_training_before_a_full_gradient_is_refused():
    data = _iter()
    module = _module(data)
    batch = next(data)
    module.forward(batch, is_train=False)
    assert module.get_outputs()[0].shape == (2, 1)
    with pytest.raises(AssertionError, match="call update_full_grads before"):
        module.forward(batch)


def test_batches_of_other_sizes_reach_both_modules():
    data = _iter()
    module = _module(data)
    module.update_full_grads(data)
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((3, 2))], [mx.nd.ones((3,))]))
    module.update()
    assert module.get_outputs()[0].shape == (3, 1)
    assert module._mod_aux.get_outputs()[0].shape == (3, 1)


@pytest.mark.parametrize("freq, error", [(None, TypeError), (1.5, TypeError), (0, ValueError)])
def test_update_freq_is_a_positive_integer(freq, error):
    with pytest.raises(error, match=f"update_freq must be .*got {freq}"):
        SVRGModule(_net(), label_names=["label"], update_freq=freq)


def test_the_optimizer_assigns_to_keys_of_full_gradients_only():
    names = {0: "fully_weight", 1: "fully_weight_full"}
    optimizer = _SVRGOptimizer("sgd", param_idx2name=names, learning_rate=0.5, momentum=0.9)
    updater = mx.optimizer.get_updater(optimizer)
    weight, full = mx.nd.ones((2,)), mx.nd.ones((2,))
    updater(0, mx.nd.array([1, 2]), weight)
    updater(1, mx.nd.array([3, 4]), full)
    np.testing.assert_array_equal(weight.asnumpy(), [0.5, 0])
    np.testing.assert_array_equal(full.asnumpy(), [3, 4])
    optimizer.set_learning_rate(0.25)
    assert optimizer.learning_rate == optimizer.default_opt.lr == 0.25
