"""Networks that mx.contrib.quantization makes: structure, numbers, files, errors."""

from __future__ import annotations

import logging
import re

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd
from mxlite.contrib import quantization as quant
from mxlite.gluon import nn


def _close(got, expected, parts: float) -> None:
    """Compare with a tolerance of a part of the largest value."""
    got, expected = got.asnumpy(), expected.asnumpy()
    assert np.abs(got - expected).max() <= np.abs(expected).max() * parts


class Residual(gluon.HybridBlock):
    """Two convolutions with BatchNorm, whose sum has relu."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(
                nn.Conv2D(channels, 3, padding=1, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.Conv2D(channels, 3, padding=1),
                nn.BatchNorm(),
            )

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.Activation(self.body(x) + x, act_type="relu")


def _network(residuals: int = 1) -> nn.HybridSequential:
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(*[Residual(8) for _ in range(residuals)])
    net.add(nn.MaxPool2D(), nn.Conv2D(16, 3, groups=2), nn.Activation("relu"))
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dropout(0.5))
    net.add(nn.Dense(32, activation="relu"), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    with mx.autograd.record():  # running statistics other than 0 and 1
        net(nd.random.normal(shape=(16, 3, 16, 16)))
    return net


def _batches(count: int = 3, size: int = 4) -> list:
    return [nd.random.normal(shape=(size, 3, 16, 16)) for _ in range(count)]


@pytest.mark.parametrize("mode", ["none", "naive", "entropy"])
@pytest.mark.parametrize("how", ["full", "smart"])
@pytest.mark.parametrize("dtype", ["int8", "auto"])
def test_a_network_stays_close(mode, how, dtype, tmp_path) -> None:
    net, batches = _network(), _batches()
    qnet = quant.quantize_net_v2(
        net, dtype, how, "channel-wise", calib_data=batches, calib_mode=mode
    )
    expected = net(batches[0])
    _close(qnet(batches[0]), expected, 0.15)
    qnet.hybridize(static_alloc=True)
    hybrid = qnet(batches[0])
    _close(hybrid, expected, 0.15)
    qnet.export(str(tmp_path / "net"))
    files = [str(tmp_path / name) for name in ("net-symbol.json", "net-0000.params")]
    again = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
    np.testing.assert_array_equal(again(batches[0]).asnumpy(), hybrid.asnumpy())


def _calibrated_ops(net, batches, **options):
    symbol = net(mx.sym.var("data"))
    params = {name: p.data() for name, p in net.collect_params().items()}
    states = symbol.list_auxiliary_states()
    args = {k: v for k, v in params.items() if k not in states}
    aux = {k: v for k, v in params.items() if k in states}
    data = mx.io.NDArrayIter(nd.concat(*batches, dim=0), batch_size=4)
    options = {"calib_mode": "naive", "quantize_mode": "full", **options}
    return quant.quantize_model(symbol, args, aux, calib_data=data, **options)


def _names(symbol) -> list[str]:
    return [node.name for node in symbol._nodes() if node.op]


def test_calibrated_layers_exchange_int8() -> None:
    net, batches = _network(2), _batches()
    qsym, qargs, qaux = _calibrated_ops(net, batches)
    ops = [node.op for node in qsym._nodes() if node.op]
    assert ops.count("_contrib_quantize_v2") == 1
    assert "_contrib_dequantize" not in ops[:-1]
    assert not qaux
    assert "BatchNorm" not in ops
    names = _names(qsym)
    assert "quantized_sg_mkldnn_conv_bn_act_0" in names
    assert "quantized_sg_mkldnn_conv_bn_add_act_2" in names
    assert "quantized_sg_mkldnn_fully_connected_eltwise_0" in names
    weights = [a for name, a in qargs.items() if name.endswith("weight_quantize")]
    assert len(weights) == 8
    assert all(w.dtype == np.int8 for w in weights)


class FeedForward(gluon.HybridBlock):
    """The second half of a transformer's layer."""

    def __init__(self, units: int) -> None:
        super().__init__()
        with self.name_scope():
            self.expand = nn.Dense(4 * units, flatten=False, in_units=units)
            self.activation = nn.GELU()
            self.contract = nn.Dense(units, flatten=False, in_units=4 * units)
            self.norm = nn.LayerNorm(in_channels=units)

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.norm(x + self.contract(self.activation(self.expand(x))))


def test_linear_layers_apply_gelu_and_add() -> None:
    mx.random.seed(4)
    net = nn.HybridSequential()
    net.add(FeedForward(16), FeedForward(16))
    net.initialize(mx.init.Xavier())
    batches = [nd.random.normal(shape=(4, 5, 16)) for _ in range(3)]
    qsym, qargs, _ = _calibrated_ops(net, batches)
    executor = qsym.bind(mx.cpu(), {"data": batches[0], **qargs})
    _close(executor.forward()[0], net(batches[0]), 0.05)
    expected = [
        name
        for i in (0, 2)
        for name in (
            f"quantized_sg_mkldnn_fully_connected_eltwise_{i}",
            f"quantized_sg_mkldnn_fully_connected_add_{i + 1}",
        )
    ]
    assert [name for name in _names(qsym) if name.startswith("quantized")] == expected
    assert {node.op for node in qsym._nodes() if node.op} == {
        "_contrib_quantize_v2",
        "_sg_mkldnn_fully_connected",
        "LayerNorm",
    }


def test_module_and_executor_run_the_symbol() -> None:
    net, batches = _network(), _batches()
    qsym, qargs, qaux = _calibrated_ops(net, batches)
    module = mx.mod.Module(qsym, label_names=None)
    module.bind([("data", batches[0].shape)], for_training=False)
    module.set_params(qargs, qaux)
    module.forward(mx.io.DataBatch([batches[0]]), is_train=False)
    executor = qsym.bind(mx.cpu(), {"data": batches[0], **qargs}, aux_states=qaux)
    out = executor.forward()[0]
    _close(out, net(batches[0]), 0.15)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), out.asnumpy())


def test_a_graph_is_calibrated_by_a_monitor() -> None:
    net, batches = _network(), _batches()
    symbol = net(mx.sym.var("data"))
    params = {name: p.data() for name, p in net.collect_params().items()}
    aux = {k: params[k] for k in symbol.list_auxiliary_states()}
    args = {k: params[k] for k in symbol.list_arguments() if k in params}
    qsym, qargs, qaux, collector = quant.quantize_graph(symbol, args, aux, calib_mode="naive")
    executor = symbol.bind(mx.cpu(), {"data": batches[0], **args}, aux_states=aux)
    executor.set_monitor_callback(collector.collect, monitor_all=True)
    executor.forward()
    assert set(collector.min_max_dict) == set(collector.include_layer)
    for given in (args, qargs):
        result = quant.calib_graph(qsym, given, {**aux, **qaux}, collector, "naive", logger=None)
        run = result[0].bind(mx.cpu(), {"data": batches[0], **result[1]})
        _close(run.forward()[0], net(batches[0]), 0.15)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"exclude_operators": ["FullyConnected"]}, "FullyConnected"),
        ({"exclude_layers_match": ["conv"]}, "Convolution"),
        ({"exclude_operators": ["Pooling", "Flatten"]}, "Pooling"),
    ],
)
def test_excluded_layers_stay_float(options, kept) -> None:
    net, batches = _network(), _batches()
    qnet = quant.quantize_net_v2(net, calib_data=batches, calib_mode="naive", **options)
    ops = [node.op for node in qnet(mx.sym.var("data"))._nodes() if node.op]
    assert kept in ops
    _close(qnet(batches[0]), net(batches[0]), 0.15)


class Branches(gluon.HybridBlock):
    """Concat, products, pre-activation BatchNorm, embedding."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.norm = nn.BatchNorm()
            self.left = nn.Conv2D(8, 1)
            self.right = nn.Conv2D(8, 3, padding=1)
            self.table = nn.Embedding(10, 16)

    def hybrid_forward(self, F, x, rows):  # noqa: N803
        x = F.relu(self.norm(x))
        joined = F.concat(self.left(x), self.right(x), F.relu(self.left(x)), dim=1)
        both = F.elemwise_mul(joined, joined) + F.elemwise_add(joined, F.relu(joined))
        pooled = F.Pooling(both, pool_type="max", kernel=(2, 2), stride=(2, 2))
        capped = F.clip(self.right(x), 0, 0.5)
        return F.flatten(pooled), self.table(rows), F.flatten(capped)


@pytest.mark.parametrize("mode", ["none", "naive", "entropy"])
@pytest.mark.parametrize("how", ["full", "smart"])
def test_branches_stay_close(mode, how) -> None:
    net = Branches()
    net.initialize(mx.init.Xavier())
    rows = nd.array([[1, 9], [0, 3]])
    batch = nd.random.normal(shape=(2, 4, 8, 8))
    with mx.autograd.record():
        net(batch, rows)
    qnet = quant.quantize_net_v2(
        net, "auto", how, calib_data=[(batch, rows, nd.zeros(2))], calib_mode=mode
    )
    for got, expected in zip(qnet(batch, rows), net(batch, rows)):
        if mode == "entropy":  # rare large values are clipped
            error = (got - expected).abs().mean() / expected.abs().mean()
            assert error.asscalar() < 0.15
        else:
            _close(got, expected, 0.15)


def test_accuracy_of_trained_digits_stays() -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.RandomState(0).permutation(len(digits.target))
    images = nd.array(digits.images[order][:, None] / 16.0)
    labels = nd.array(digits.target[order])
    split = 1300
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), Residual(8))
    net.add(nn.MaxPool2D(), nn.Conv2D(16, 3, padding=1, activation="relu"), nn.Flatten())
    net.add(nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    train = gluon.data.ArrayDataset(images[:split], labels[:split])
    for _ in range(10):
        for x, y in gluon.data.DataLoader(train, 100, shuffle=True):
            with mx.autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(len(x))

    def accuracy(block) -> float:
        return float((block(images[split:]).argmax(axis=1) == labels[split:]).mean().asscalar())

    before = accuracy(net)
    assert before > 0.95
    loader = gluon.data.DataLoader(train, 100)
    for mode in ("naive", "entropy"):
        qnet = quant.quantize_net_v2(
            net, calib_data=loader, calib_mode=mode, num_calib_examples=400
        )
        assert accuracy(qnet) >= before - 0.01, mode


def test_files_hold_int8_weights(tmp_path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 3), nn.BatchNorm(), nn.Dense(100))
    net.initialize()
    batch = nd.random.normal(shape=(1, 32, 6, 6))
    net(batch)
    net.save_parameters(str(tmp_path / "float"))
    qnet = quant.quantize_net_v2(net, calib_data=[batch], calib_mode="naive")
    qnet.save_parameters(str(tmp_path / "int8"))
    sizes = [(tmp_path / name).stat().st_size for name in ("int8", "float")]
    assert sizes[0] < 0.27 * sizes[1]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"calib_mode": "best"}, "calib_mode must be one of"),
        ({"quantized_dtype": "int4"}, "quantized_dtype must be one of"),
        ({"quantize_mode": "all"}, "quantize_mode must be one of"),
        ({"quantize_granularity": "row-wise"}, "quantize_granularity must be one of"),
        ({"calib_mode": "naive", "calib_data": None}, "calib_data must be given"),
        ({"calib_mode": "naive", "calib_data": []}, "at least one batch"),
        ({"calib_mode": "naive", "num_calib_examples": 0}, "num_calib_examples must be at least 1"),
        ({"calib_mode": "customize"}, "LayerOutputCollector must be"),
        ({"ctx": [mx.cpu()]}, "single context"),
        ({"ctx": mx.gpu()}, "must be a CPU context"),
        ({"exclude_layers": "conv0"}, "exclude_layers must be a list"),
        ({"calib_data": None}, "data_shapes required"),
        (
            {"calib_mode": "entropy", "calib_data": [nd.full((1, 3, 16, 16), np.nan)]},
            "values of data must be finite",
        ),
    ],
)
def test_wrong_arguments_are_named(options, match) -> None:
    with pytest.raises(ValueError, match=match):
        quant.quantize_net_v2(_network(), **{"calib_data": _batches(1), **options})


def test_parameters_must_be_finite() -> None:
    net = _network()
    weight = next(p for name, p in net.collect_params().items() if name.endswith("weight"))
    weight.set_data(weight.data() * np.inf)
    with pytest.raises(ValueError, match="must be finite"):
        quant.quantize_net_v2(net, calib_data=_batches(1), calib_mode="none")


def test_parameters_must_be_float32() -> None:
    net = nn.Dense(4)
    net.initialize()
    net.cast("float16")
    data = nd.ones((1, 3), dtype="float16")
    with pytest.raises(TypeError, match="weight must be of dtype float32, got float16"):
        quant.quantize_net_v2(net, calib_data=[data], calib_mode="none")


def test_a_generator_of_batches_is_read_once() -> None:
    net, batches, seen = _network(), _batches(), []

    class Collector:
        min_max_dict: dict[str, tuple[float, float]] = {}  # noqa: RUF012

        def collect(self, name, array) -> None:
            low, high = self.min_max_dict.get(name, (0.0, 0.0))
            if name == "data":
                seen.append(array.asnumpy())
            self.min_max_dict[name] = (
                min(low, float(array.min().asscalar())),
                max(high, float(array.max().asscalar())),
            )

    quant.quantize_net_v2(
        net, calib_data=iter(batches), calib_mode="customize", LayerOutputCollector=Collector()
    )
    np.testing.assert_array_equal(seen, [batch.asnumpy() for batch in batches])


def test_a_custom_collector_gets_the_outputs() -> None:
    class Collector:
        def __init__(self) -> None:
            self.min_max_dict = {}

        def collect(self, name, arr) -> None:
            self.min_max_dict[name] = (-4.0, 4.0)

    collector = Collector()
    qnet = quant.quantize_net_v2(
        _network(), calib_data=_batches(1), calib_mode="customize", LayerOutputCollector=collector
    )
    text = qnet(mx.sym.var("data")).tojson()
    assert collector.min_max_dict
    assert '"max_calib_range": "4"' in text


def test_progress_is_logged(caplog) -> None:
    logger = logging.getLogger("quantization-test")
    with caplog.at_level(logging.INFO, logger.name), pytest.warns(UserWarning, match="deprecated"):
        quant.quantize_net(_network(), calib_data=_batches(2), calib_mode="entropy", logger=logger)
    text = " | ".join(caplog.messages)
    for part in (
        "Export HybridBlock",
        "Quantizing graph",
        "Create a layer output collector for entropy calibration.",
        "Collected statistics from 2 batches with batch_size=4",
        "Collected layer output values from FP32 model using 8 examples",
        "Calculating optimal thresholds for quantization",
    ):
        assert re.search(re.escape(part), text)


def test_histograms_are_widened_in_whole_bins() -> None:
    rng = np.random.RandomState(0)
    first, second = rng.uniform(-1, 1, 1000), rng.uniform(-3, 3, 1000)
    old = (*np.histogram(first, bins=21, range=(-1, 1)), first.min(), first.max(), 1.0)
    counts, edges, low, high, end = quant.combine_histogram(
        old, second, second.min(), second.max(), np.abs(second).max()
    )
    assert len(counts) % 2 == 1
    assert counts.sum() == 2000
    np.testing.assert_allclose(np.diff(edges), 2 / 21)
    np.testing.assert_allclose([edges[-1], low, high], [end, second.min(), second.max()])
    inside = np.histogram(second, bins=len(counts), range=(-end, end))[0]
    added = (len(counts) - 21) // 2
    np.testing.assert_array_equal(counts[added:-added] - inside[added:-added], old[0])


def test_thresholds_leave_outliers_out() -> None:
    values = np.concatenate([np.random.RandomState(0).normal(size=20000), [100.0]])
    collector = quant._LayerHistogramCollector()
    collector.collect("layer", nd.array(values))
    collector.collect("layer", nd.array(values[:100]))
    ((low, high),) = quant._get_optimal_thresholds(collector.hist_dict, "int8").values()
    assert low == -high
    assert 2 < high < 50


def test_a_distribution_is_smoothed() -> None:
    smooth = quant._smooth_distribution(np.array([0, 4.0, 6.0]))
    np.testing.assert_allclose(smooth, [1e-4, 4 - 5e-5, 6 - 5e-5], rtol=1e-6)
    with pytest.raises(ValueError, match="other than 0"):
        quant._smooth_distribution(np.zeros(3))
