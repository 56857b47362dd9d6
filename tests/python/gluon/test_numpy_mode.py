"""Gluon in numpy mode: every layer and loss computes what it computes on NDArrays."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as onp
import pytest
from mxlite import autograd, gluon
from mxlite.gluon import loss, nn, rnn
from mxlite.gluon.contrib import nn as contrib_nn
from mxlite.gluon.contrib import rnn as contrib_rnn

ndarray = mx.np.ndarray
_rng = onp.random.RandomState(0)


def _values(*shape: int) -> Any:
    return _rng.uniform(-1, 1, shape).astype("float32")


VECTORS, SEQUENCE, IMAGE, VOLUME = (
    _values(3, 4), _values(2, 4, 6), _values(2, 4, 6, 6), _values(2, 4, 4, 4, 4),
)  # fmt: skip
STEPS, IDS = _values(2, 6, 4), onp.array([[0, 1], [2, 1]], "float32")
POSITIVE, SIGNS = onp.abs(_values(3, 4)) + 0.01, onp.sign(_values(3, 4))
CLASSES = onp.array([0, 1, 3], "float32")


@pytest.fixture
def numpy_mode() -> Iterator[None]:
    with mx.np_shape(), mx.np_array():
        yield


def array(values: Any, numpy: bool = True) -> Any:
    values = onp.asarray(values)
    made = mx.nd.array(values, dtype="float32" if values.dtype == "float64" else values.dtype)
    return mx._core.with_numpy(made, numpy)


def _leaves(nested: Any) -> list[Any]:
    if isinstance(nested, (list, tuple)):
        return [leaf for part in nested for leaf in _leaves(part)]
    return [nested]


def _run(make: Any, inputs: list[Any], call: Any, numpy: bool, hybridize: bool) -> list[Any]:
    """Return outputs and gradients of a new block, all of the mode's class."""
    mx.random.seed(3)
    with mx.np_shape(numpy), mx.np_array(numpy):
        net = make()
        net.initialize(mx.init.Uniform(0.5))
        if hybridize:
            net.hybridize()
        arrays = [array(values, numpy) for values in inputs]
        for a in arrays:
            a.attach_grad()
        with autograd.record():
            outputs = _leaves(call(net, *arrays))
        autograd.backward(outputs)
        params = [p for p in net.collect_params().values() if p.grad_req != "null"]
        found = [*outputs, *(a.grad for a in arrays), *(p.grad() for p in params)]
        assert {type(a) for a in found} == {ndarray if numpy else mx.nd.NDArray}
        return [a.asnumpy() for a in found]


def _concurrent(cls: Any) -> Callable[[], Any]:
    def make() -> Any:
        block = cls(axis=1)
        block.add(nn.Dense(3), nn.Dense(2))
        return block

    return make


def _cells() -> Any:
    cell = rnn.SequentialRNNCell()
    for part in (rnn.LSTMCell(5), rnn.ResidualCell(rnn.GRUCell(5)),
                 rnn.ZoneoutCell(rnn.RNNCell(3), 0, 0), rnn.DropoutCell(0)):  # fmt: skip
        cell.add(part)
    return cell


def _unroll(cell: Any, inputs: Any) -> Any:
    return cell.unroll(inputs.shape[1], inputs, layout="NTC", merge_outputs=True)


def _unroll_valid(cell: Any, inputs: Any) -> Any:
    lengths = array(onp.array([3.0, 6.0], "float32"), type(inputs) is ndarray)
    return cell.unroll(6, inputs, layout="NTC", merge_outputs=True, valid_length=lengths)


def _call(net: Any, *arrays: Any) -> Any:
    return net(*arrays)


LAYERS: dict[str, tuple[Any, list[Any]]] = {
    "Dense": (lambda: nn.Dense(5, activation="relu"), [VECTORS]),
    "Conv1D": (lambda: nn.Conv1D(3, 3), [SEQUENCE]),
    "Conv2D": (lambda: nn.Conv2D(3, 3, activation="tanh"), [IMAGE]),
    "Conv3D": (lambda: nn.Conv3D(3, 3), [VOLUME]),
    "Conv1DTranspose": (lambda: nn.Conv1DTranspose(3, 3), [SEQUENCE]),
    "Conv2DTranspose": (lambda: nn.Conv2DTranspose(3, 3), [IMAGE]),
    "Conv3DTranspose": (lambda: nn.Conv3DTranspose(3, 3), [VOLUME]),
    "MaxPool2D": (nn.MaxPool2D, [IMAGE]),
    "AvgPool2D": (nn.AvgPool2D, [IMAGE]),
    "GlobalAvgPool1D": (nn.GlobalAvgPool1D, [SEQUENCE]),
    "GlobalMaxPool2D": (nn.GlobalMaxPool2D, [IMAGE]),
    "MaxPool3D": (nn.MaxPool3D, [VOLUME]),
    "BatchNorm": (nn.BatchNorm, [IMAGE]),
    "LayerNorm": (nn.LayerNorm, [VECTORS]),
    "GroupNorm": (lambda: nn.GroupNorm(2), [IMAGE]),
    "InstanceNorm": (nn.InstanceNorm, [IMAGE]),
    "InstanceNorm axis": (lambda: nn.InstanceNorm(axis=2), [IMAGE]),
    "Embedding": (lambda: nn.Embedding(3, 4), [IDS]),
    "Flatten": (nn.Flatten, [IMAGE]),
    "Dropout": (lambda: nn.Dropout(0), [IMAGE]),
    "Activation": (lambda: nn.Activation("softrelu"), [VECTORS]),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.1), [VECTORS]),
    "PReLU": (nn.PReLU, [VECTORS]),
    "ELU": (nn.ELU, [VECTORS]),
    "SELU": (nn.SELU, [VECTORS]),
    "GELU": (nn.GELU, [VECTORS]),
    "Swish": (nn.Swish, [VECTORS]),
    "ReflectionPad2D": (lambda: nn.ReflectionPad2D(1), [IMAGE]),
    "Lambda": (lambda: nn.Lambda("tanh"), [VECTORS]),
    "HybridLambda": (lambda: nn.HybridLambda("relu"), [VECTORS]),
    "SyncBatchNorm": (contrib_nn.SyncBatchNorm, [IMAGE]),
    "PixelShuffle1D": (lambda: contrib_nn.PixelShuffle1D(2), [SEQUENCE]),
    "PixelShuffle2D": (lambda: contrib_nn.PixelShuffle2D(2), [IMAGE]),
    "PixelShuffle3D": (lambda: contrib_nn.PixelShuffle3D((2, 1, 2)), [VOLUME]),
    "Identity": (contrib_nn.Identity, [VECTORS]),
    "Concurrent": (_concurrent(contrib_nn.Concurrent), [VECTORS]),
    "HybridConcurrent": (_concurrent(contrib_nn.HybridConcurrent), [VECTORS]),
    "RNN": (lambda: rnn.RNN(5, 2), [SEQUENCE]),
    "LSTM": (lambda: rnn.LSTM(5, 2, bidirectional=True), [SEQUENCE]),
    "GRU": (lambda: rnn.GRU(5, layout="NTC"), [SEQUENCE]),
    "L1Loss": (loss.L1Loss, [VECTORS, POSITIVE]),
    "L2Loss": (loss.L2Loss, [VECTORS, POSITIVE]),
    "SoftmaxCELoss": (loss.SoftmaxCELoss, [VECTORS, CLASSES]),
    "SoftmaxCELoss dense": (lambda: loss.SoftmaxCELoss(sparse_label=False), [VECTORS, POSITIVE]),
    "SigmoidBCELoss": (loss.SigmoidBCELoss, [VECTORS, POSITIVE]),
    "SigmoidBCELoss of sigmoid": (
        lambda: loss.SigmoidBCELoss(from_sigmoid=True), [POSITIVE * 0.9, POSITIVE],
    ),
    "SigmoidBCELoss weighted": (
        loss.SigmoidBCELoss, [VECTORS, POSITIVE, onp.ones((3, 1), "float32"), POSITIVE],
    ),
    "HuberLoss": (loss.HuberLoss, [VECTORS, POSITIVE]),
    "HingeLoss": (loss.HingeLoss, [VECTORS, SIGNS]),
    "SquaredHingeLoss": (loss.SquaredHingeLoss, [VECTORS, SIGNS]),
    "LogisticLoss": (loss.LogisticLoss, [VECTORS, SIGNS]),
    "KLDivLoss": (loss.KLDivLoss, [VECTORS, POSITIVE]),
    "KLDivLoss of values": (lambda: loss.KLDivLoss(from_logits=False), [VECTORS, POSITIVE]),
    "CTCLoss": (loss.CTCLoss, [STEPS, IDS]),
    "CosineEmbeddingLoss": (
        loss.CosineEmbeddingLoss, [VECTORS, POSITIVE, onp.array([1, -1, 1], "float32")],
    ),
    "TripletLoss": (loss.TripletLoss, [VECTORS, POSITIVE, SIGNS]),
    "PoissonNLLLoss": (loss.PoissonNLLLoss, [VECTORS, POSITIVE]),
    "PoissonNLLLoss full": (
        lambda: loss.PoissonNLLLoss(from_logits=False, compute_full=True),
        [POSITIVE, POSITIVE * 3],
    ),
    "SDMLLoss": (loss.SDMLLoss, [VECTORS, POSITIVE]),
}  # fmt: skip
CELLS: dict[str, Any] = {
    "RNNCell": lambda: rnn.RNNCell(5),
    "LSTMCell": lambda: rnn.LSTMCell(5),
    "GRUCell": lambda: rnn.GRUCell(5),
    "LSTMPCell": lambda: contrib_rnn.LSTMPCell(5, 3),
    "SequentialRNNCell": _cells,
    "BidirectionalCell": lambda: rnn.BidirectionalCell(rnn.LSTMCell(5), rnn.GRUCell(3)),
    "VariationalDropoutCell": lambda: contrib_rnn.VariationalDropoutCell(rnn.LSTMCell(5)),
}
CASES: dict[str, tuple[Any, list[Any], Any]] = {
    **{name: (make, inputs, _call) for name, (make, inputs) in LAYERS.items()},
    **{name: (make, [STEPS], _unroll) for name, make in CELLS.items()},
    **{
        f"{name} valid_length": (CELLS[name], [STEPS], _unroll_valid)
        for name in ("RNNCell", "LSTMCell", "GRUCell")
    },
    "Conv2DLSTMCell": (
        lambda: contrib_rnn.Conv2DLSTMCell((4, 6, 6), 3, 3, 3, i2h_pad=1),
        [_values(2, 3, 4, 6, 6)],
        _unroll,
    ),
}


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_layers_and_losses_compute_what_they_compute_on_ndarrays(name: str, hybridize: bool):
    make, inputs, call = CASES[name]
    classic = _run(make, inputs, call, False, hybridize)
    for want, got in zip(classic, _run(make, inputs, call, True, hybridize), strict=True):
        onp.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


class _Net(gluon.HybridBlock):
    """Has a convolution, a batch normalization, a recurrent layer and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.conv, self.norm = nn.Conv1D(4, 3, padding=1), nn.BatchNorm()
            self.lstm, self.dense = rnn.LSTM(5, layout="NTC"), nn.Dense(3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return self.dense(self.lstm(self.norm(self.conv(x))))


def _curve(numpy: bool, optimizer: str, options: dict[str, Any], hybridize: bool) -> Any:
    mx.random.seed(5)
    with mx.np_shape(numpy), mx.np_array(numpy):
        net = _Net()
        net.initialize()
        if hybridize:
            net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), optimizer, dict(options))
        criterion, losses = loss.SoftmaxCELoss(), []
        labels = onp.arange(8, dtype="float32") % 3
        data = gluon.data.ArrayDataset(
            onp.arange(192, dtype="float32").reshape(8, 4, 6) / 96, labels
        )
        for _ in range(2):
            for x, y in gluon.data.DataLoader(data, 4):
                assert type(x) is type(y) is (ndarray if numpy else mx.nd.NDArray)
                with autograd.record():
                    value = criterion(net(x), y)
                value.backward()
                trainer.step(4)
                losses.append(value.asnumpy())
        return onp.stack(losses)


OPTIMIZERS = {
    "sgd": {"momentum": 0.9, "wd": 0.01}, "nag": {"momentum": 0.9}, "adam": {},
    "rmsprop": {"centered": True}, "adagrad": {}, "adadelta": {}, "ftrl": {}, "adamax": {},
    "nadam": {}, "ftml": {}, "lamb": {}, "lars": {"momentum": 0.9}, "signum": {},
    "dcasgd": {"momentum": 0.9}, "sgld": {}, "lbsgd": {"momentum": 0.9}, "adamw": {},
}  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_follows_the_classic_curve(optimizer: str):
    options = OPTIMIZERS[optimizer]
    hybridize = optimizer in ("sgd", "adam")
    classic = _curve(False, optimizer, options, hybridize)
    onp.testing.assert_allclose(
        _curve(True, optimizer, options, hybridize), classic, rtol=1e-5, atol=1e-6
    )


METRICS: dict[str, dict[str, Any]] = {
    "acc": {}, "top_k_accuracy": {"top_k": 2}, "perplexity": {"ignore_label": None}, "ce": {},
    "nll_loss": {}, "pcc": {}, "loss": {},
}  # fmt: skip


@pytest.mark.parametrize("name", [*METRICS, "f1", "mcc", "mae", "mse", "rmse", "pearsonr"])
def test_metrics_give_the_numbers_of_ndarrays(name: str):
    label, scores = (
        onp.array([0.0, 1, 2, 1]),
        onp.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.2, 0.6, 0.2]]),
    )
    if name in ("f1", "mcc"):
        label, scores = onp.array([1.0, 0, 0, 1]), scores[:, :2]
    elif name not in METRICS:
        label, scores = onp.array([[0.5], [1], [2], [1.5]]), scores[:, :1]
    values = []
    for numpy in (False, True):
        metric = mx.metric.create(name, **METRICS.get(name, {}))
        metric.update([array(label, numpy)], [array(scores, numpy)])
        values.append(metric.get()[1])
    assert values[0] == values[1]


@pytest.mark.parametrize(
    "workers", [{}, {"num_workers": 2}, {"num_workers": 2, "thread_pool": True}]
)
def test_loaders_make_arrays_of_the_mode_of_their_thread(workers: Any, numpy_mode: None):
    data = gluon.data.ArrayDataset(_values(10, 3), onp.arange(10, dtype="int32"))
    for x, y in gluon.data.DataLoader(data, 4, **workers):
        assert type(x) is type(y) is ndarray and y.dtype == onp.int32


def test_transforms_and_images_keep_the_class(numpy_mode: None):
    from PIL import Image

    transforms = gluon.data.vision.transforms
    file = io.BytesIO()
    pixels = (onp.abs(_values(8, 9, 3)) * 255).astype("uint8")
    Image.fromarray(pixels).save(file, "PNG")
    image = mx.image.imdecode(file.getvalue())
    assert type(image) is ndarray and (image.asnumpy() == pixels).all()
    for transform in (
        transforms.Resize(6), transforms.CenterCrop(4), transforms.RandomResizedCrop(4),
        transforms.RandomFlipLeftRight(), transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1),
        transforms.RandomLighting(0.1), transforms.RandomGray(1), transforms.Cast("float32"),
        transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, 0.2)]),
    ):  # fmt: skip
        assert type(transform(image)) is ndarray, transform
    for augmenter in mx.image.CreateAugmenter(
        (3, 4, 4), rand_crop=True, rand_mirror=True, mean=True, std=True, brightness=0.1,
        contrast=0.1, saturation=0.1, hue=0.1, pca_noise=0.1, rand_gray=1.0,
    ):  # fmt: skip
        image = augmenter(image)
        assert type(image) is ndarray, augmenter


def test_iterators_give_arrays_of_the_mode(numpy_mode: None):
    batch = next(mx.io.NDArrayIter(_values(4, 2), onp.ones(4), 2))
    assert type(batch.data[0]) is type(batch.label[0]) is ndarray


def test_helpers_keep_the_class(numpy_mode: None):
    contexts = [mx.cpu(0), mx.cpu(1)]
    for data in (onp.ones((4, 2)), array(onp.ones((4, 2)))):
        assert {type(a) for a in gluon.utils.split_and_load(data, contexts)} == {ndarray}
    arrays = [array([3.0, 4.0]), array([[12.0]])]
    assert gluon.utils.clip_global_norm(arrays, 1.0) == pytest.approx(13)
    assert type(arrays[0]) is ndarray and arrays[1].asnumpy()[0, 0] == pytest.approx(12 / 13)


def test_parameters_stay_in_their_class(tmp_path: Path):
    file = str(tmp_path / "net.params")
    with mx.np_shape(), mx.np_array():
        net = nn.HybridSequential()
        net.add(nn.Dense(3), nn.BatchNorm())
        assert net[0].weight.shape == (3, -1)
        net.initialize()
        x = array(_values(2, 4))
        expected = net(x).asnumpy()
        net.save_parameters(file)
        net[0].weight.set_data(net[0].weight.data() * 1)
        net.cast("float64")
        net.cast("float32")
        net[0].weight.grad_req = "add"
        net[0].weight.zero_grad()
        net.collect_params().reset_ctx(mx.cpu(0))
        constant = gluon.Constant("constant", [1.0, 2.0])
        constant.initialize()
        found = [constant.data()]
        for same in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            found += [same[0].weight.data(), same[0].weight.grad()]
        assert {type(a) for a in found} == {ndarray}
    classic = nn.HybridSequential()
    classic.add(nn.Dense(3), nn.BatchNorm())
    classic.load_parameters(file)
    assert type(classic[0].weight.data()) is mx.nd.NDArray
    assert type(classic(x)) is ndarray
    assert (classic(x.as_nd_ndarray()).asnumpy() == expected).all()


class _Initializer(mx.init.Initializer):
    def _init_weight(self, name: Any, arr: Any) -> None:
        assert type(arr) is ndarray
        arr[:] = array(onp.ones(arr.shape))


def test_initializers_fill_arrays_of_the_mode(numpy_mode: None):
    for init in (
        mx.init.Zero(), mx.init.Constant(array([[1.0] * 4] * 4)), mx.init.Uniform(),
        mx.init.Normal(), mx.init.Orthogonal(), mx.init.Xavier(), mx.init.MSRAPrelu(),
        _Initializer(),
    ):  # fmt: skip
        parameter = gluon.Parameter("x_weight", shape=(4, 4))
        parameter.initialize(init)
        assert type(parameter.data()) is ndarray and onp.isfinite(parameter.data().asnumpy()).all()


class _Sigmoid(autograd.Function):
    def forward(self, x: Any) -> Any:
        y = 1 / (1 + mx.nd.exp(-x))
        self.save_for_backward(y)
        return y, x * 2

    def backward(self, dy: Any, unused: Any) -> Any:
        (y,) = self.saved_tensors
        assert type(dy) is type(unused) is type(y) is ndarray
        return dy * y * (1 - y)


def test_autograd_gives_arrays_of_the_class():
    x = array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = _Sigmoid()(x)[0]
    (grad,) = autograd.grad(y, [x], retain_graph=True)
    y.backward()
    value = 1 / (1 + onp.exp(-x.asnumpy()))
    assert type(y) is type(grad) is type(x.grad) is ndarray
    onp.testing.assert_allclose(x.grad.asnumpy(), value * (1 - value), rtol=1e-6)


def test_stores_keep_the_class():
    for name in ("local", "device"):
        store = mx.kv.create(name)
        store.init(3, array(onp.ones((2, 3))))
        store.push(3, [array(onp.ones((2, 3)))] * 2)
        out = array(onp.zeros((2, 3)))
        store.pull(3, out=out)
        assert type(out) is ndarray and (out.asnumpy() == 2).all()


def test_states_begin_in_the_class_of_the_mode(numpy_mode: None):
    for layer in (rnn.LSTM(3), rnn.LSTMCell(3)):
        for options in ({}, {"func": mx.np.ones}):
            states = layer.begin_state(batch_size=2, **options)
            assert [type(state) for state in states] == [ndarray, ndarray]
    cell = rnn.LSTMCell(3)
    cell.initialize()
    with mx.np_array(False):  # the class of the inputs decides
        outputs, _ = cell.unroll(2, [array(_values(1, 4)), array(_values(1, 4))])
    assert type(outputs[0]) is ndarray


@pytest.mark.parametrize("name", ["resnet18_v1", "mobilenetv2_0.25"])
def test_networks_of_the_model_zoo(name: str):
    x, found = _values(1, 3, 64, 64), []
    for numpy in (False, True):
        mx.random.seed(1)
        with mx.np_shape(numpy), mx.np_array(numpy):
            net = gluon.model_zoo.vision.get_model(name, classes=5)
            net.initialize()
            net.hybridize()
            found.append(net(array(x, numpy)))
    assert type(found[1]) is ndarray
    assert (found[0].asnumpy() == found[1].asnumpy()).all()


class _Twice(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        assert type(in_data[0]) is type(out_data[0]) is ndarray
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        assert type(out_grad[0]) is type(in_grad[0]) is ndarray
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("twice_in_numpy_mode")
class _TwiceProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return _Twice()


@pytest.mark.parametrize("hybridize", [False, True])
def test_custom_operators_get_np_arrays(hybridize: bool):
    net = nn.HybridLambda(lambda F, x: F.Custom(x, op_type="twice_in_numpy_mode"))
    net.hybridize(hybridize)
    x = array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    assert type(y) is ndarray and y.asnumpy().tolist() == [2, 4]
    assert x.grad.asnumpy().tolist() == [2, 2]


@pytest.mark.parametrize("hybridize", [False, True])
def test_outputs_have_the_classes_that_forward_gives_them(hybridize: bool):
    class Both(gluon.HybridBlock):
        def forward(self, x):
            return x.as_nd_ndarray() * 2, [x + x, mx.nd.exp(x.as_nd_ndarray())]

    net = Both()
    net.hybridize(hybridize)
    x = array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        doubled, (also, exp) = net(x)
        doubled.backward()
    assert [type(y) for y in (doubled, also, exp)] == [mx.nd.NDArray, ndarray, mx.nd.NDArray]
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("hybridize", [False, True])
def test_forward_computes_on_nd_arrays_as_np_arrays(hybridize: bool):
    class Both(gluon.HybridBlock):
        def forward(self, x):
            own = x.as_np_ndarray()
            return own * 2 + own, x * 2

    net = Both()
    net.hybridize(hybridize)
    tripled, doubled = net(mx.nd.array([1, 2]))
    assert type(tripled) is ndarray and tripled.tolist() == [3, 6]
    assert type(doubled) is mx.nd.NDArray and doubled.asnumpy().tolist() == [2, 4]
