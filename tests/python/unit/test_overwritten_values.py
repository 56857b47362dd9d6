"""Programs that write to recorded arrays before backward: numbers of MXNet 1.9.1, and warnings."""

from __future__ import annotations

import sys
import tempfile
import warnings
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd

Grads = list[Any]


def var(*values: Any) -> Any:
    array = nd.array(values)
    array.attach_grad()
    return array


def product(write: Callable[[Any], Any]) -> Grads:
    x, w = var(1, 2, 3), var(4, 5, 6)
    with autograd.record():
        y = (x * w).sum()
    write(w)
    y.backward()
    return [x.grad, w.grad]


def write_from_file(w: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        nd.save(f"{folder}/arrays", [nd.array([7, 8, 9])])
        w[:] = nd.load(f"{folder}/arrays")[0]


WRITES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "fill": (lambda w: w.__setitem__(slice(None), 5), [5, 5, 5]),
    "numpy": (lambda w: w.__setitem__(slice(None), np.array([7, 8, 9])), [7, 8, 9]),
    "part of numpy": (lambda w: w.__setitem__(slice(1, 2), np.array([7])), [4, 7, 6]),
    "element": (lambda w: w.__setitem__(1, 50), [4, 50, 6]),
    "indices": (lambda w: w.__setitem__([0, 2], 1), [1, 5, 1]),
    "add": (lambda w: w.__iadd__(5), [9, 10, 11]),
    "copyto": (lambda w: nd.array([7, 8, 9]).copyto(w), [7, 8, 9]),
    "out": (lambda w: nd.elemwise_add(nd.ones(3), nd.ones(3), out=w), [2, 2, 2]),
    "optimizer": (lambda w: nd.sgd_update(w, nd.ones(3), lr=1, out=w), [3, 4, 5]),
    "load": (write_from_file, [7, 8, 9]),
    "slice": (lambda w: w[1:].__setitem__(slice(None), 70), [4, 70, 70]),
    "reshape": (lambda w: w.reshape((3, 1)).__setitem__(0, 70), [70, 5, 6]),
}


@pytest.mark.parametrize("name", WRITES)
def test_each_way_of_writing(name: str) -> None:
    write, expected = WRITES[name]
    words = r"rhs of broadcast_mul, an array of shape \(3,?\)"
    with pytest.warns(UserWarning, match=words) as seen:
        dx, dw = product(write)
    assert dx.asnumpy().tolist() == expected
    assert dw.asnumpy().tolist() == [1, 2, 3]
    assert [w.filename for w in seen] == [__file__]


def intermediate() -> Grads:
    x = var(1, 2, 3)
    with autograd.record():
        s, head = x.sigmoid(), x.sigmoid()
        y = (s * 2).sum()
    s[:] = 5
    y.backward()
    first = x.grad.copy()
    head[:] = 5
    head.backward()
    return [first, x.grad]


def recorded_views() -> Grads:
    grads = []
    for make in (lambda w: w[1:3], lambda w: w.reshape((2, 2))):
        w = var(4, 5, 6, 7)
        with autograd.record():
            v = make(w)
            y = (v * v).sum()
        v[:] = 10
        y.backward()
        grads += [w.grad, w]
    return grads


def paused_write(w: Any, view: Any) -> None:
    with autograd.pause():
        w[:] = 9


def inside_record() -> Grads:
    def run(write: Callable[[Any, Any], Any]) -> Any:
        x, w = var(1, 2, 3), var(4, 5, 6)
        view = w[0:2]
        with autograd.record():
            y = (x * w).sum()
            write(w, view)
        y.backward()
        return x.grad

    numbers = run(lambda w, view: w.__setitem__(slice(None), np.array([7, 8, 9])))
    return [numbers, run(lambda w, view: view.__setitem__(slice(None), 9)), run(paused_write)]


def copy_inside_record() -> Grads:
    x, w = var(1, 2, 3), nd.zeros(3, dtype="float16")
    with autograd.record():
        x.copyto(w)
        y = (w.astype("float32") * x).sum()
    y.backward()
    return [x.grad]


def gradient_as_operand() -> Grads:
    x = var(1, 2, 3)
    with autograd.record():
        y = (x * x).sum()
    y.backward()
    with autograd.record():
        z = (x.grad * x).sum()
        q = (x * x * x).sum()
    q.backward()
    z.backward()
    return [x.grad]


def rows() -> Grads:
    w = nd.array([[1], [2], [3]]).tostype("row_sparse")
    w.attach_grad()
    with autograd.record():
        y = nd.square(w)
    w[:] = nd.array([[4], [5], [6]]).tostype("row_sparse")
    y.backward()
    return [w.grad]


def retained() -> Grads:
    x, w = var(1, 2, 3), var(4, 5, 6)
    with autograd.record():
        y = (x * w).sum()
    y.backward(retain_graph=True)
    first = x.grad.copy()
    w[:] = 5
    y.backward()
    return [first, x.grad]


def second_order() -> Grads:
    x = var(1, 2, 3)
    with autograd.record():
        y = nd.sin(x)
    x[:] = 2
    with autograd.record():
        g = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
        z = g.sum()
    x[:] = 3
    z.backward()
    return [g, x.grad]


def renewed_state() -> Grads:
    p = gluon.Parameter("p", shape=(2,))
    p.initialize(mx.init.One())
    with autograd.record():
        y = p.data() ** 3
        with autograd.pause():
            p.set_data(p.data() * 2)
    y.backward()
    return [p.grad()]


def label() -> Grads:
    x, index = nd.array([[1, 2, 3]]), nd.array([1])
    x.attach_grad()
    with autograd.record():
        y = nd.SoftmaxOutput(x, index)
    index[:] = 2
    y.backward()
    return [x.grad]


def loop() -> Grads:
    x, w = nd.array([[1], [2], [3]]), var(2)
    x.attach_grad()
    with autograd.record():
        o, s = nd.contrib.foreach(lambda d, s: (d * s, s * w + d), x, nd.array([1]))
        y = o.sum() + s.sum()
    w[:] = 7
    y.backward()
    return [x.grad, w.grad]


def branch() -> Grads:
    x, y = var(2), var(3)
    with autograd.record():
        z = nd.contrib.cond(x < y, lambda: x * y, lambda: x + y)
    y[:] = 7
    z.backward()
    return [x.grad, y.grad]


def while_loop() -> Grads:
    x = var(2)
    with autograd.record():
        _, s = nd.contrib.while_loop(
            lambda i, a: i < 3,
            lambda i, a: (a * x, [i + 1, a * x]),
            [nd.array([0]), nd.array([1])],
            max_iterations=5,
        )
    x[:] = 7
    s[1].backward()
    return [x.grad]


def function() -> Grads:
    class Square(autograd.Function):
        def forward(self, x: Any) -> Any:
            self.save_for_backward(x)
            return x * x

        def backward(self, grad: Any) -> Any:
            return 2 * self.saved_tensors[0] * grad

    x = var(1, 2, 3)
    with autograd.record():
        y = Square()(x)
    x[:] = 9
    y.backward()
    return [x.grad]


PROGRAMS: dict[Callable[[], Grads], list[Any]] = {
    intermediate: [[-40, -40, -40], [-20, -20, -20]],
    recorded_views: [[0, 20, 20, 0], [4, 5, 6, 7], [20, 20, 20, 20], [10, 10, 10, 10]],
    inside_record: [[7, 8, 9], [9, 9, 6], [9, 9, 9]],
    copy_inside_record: [[2, 4, 6]],
    gradient_as_operand: [[3, 12, 27]],
    rows: [[[8], [10], [12]]],
    retained: [[4, 5, 6], [5, 5, 5]],
    second_order: [[-0.4161] * 3, [-0.1411] * 3],
    renewed_state: [[12, 12]],
    label: [[[0.09, 0.2447, -0.3348]]],
    loop: [[[73], [13], [9]], [110]],
    branch: [[7], [2]],
    while_loop: [[67]],
    function: [[18, 18, 18]],
}


@pytest.mark.filterwarnings("ignore:backward")
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_of_1_9_1(program: Callable[[], Grads]) -> None:
    for found, expected in zip(program(), PROGRAMS[program]):
        np.testing.assert_allclose(found.asnumpy(), expected, atol=1e-4)


# -- blocks ----------------------------------------------------------------------------------------


class Deep(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.w = self.params.get("w", shape=(3,))

    def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:  # noqa: N803
        a = F.exp(x * w * 0.1)
        b = F.sigmoid(a + w)
        c = F.relu(b * x - 0.5)
        return F.broadcast_mul(c, w) + F.square(x * a)


DEEP = {
    "x": ([4.8583, 2.2823, 17.0442], [4.3541, 9.0455, 61.0826]),
    "w": ([0.6894, 4.9794, 35.1994], [3.0133, 8.0777, 60.0806]),
    "xw": ([4.5791, 2.3384, 17.0316], [3.3878, 8.8777, 52.8169]),
    "y": ([0.7432, 5.1507, 35.2214], [3.5892, 14.4382, 71.9813]),
}


@pytest.mark.filterwarnings("ignore:backward")
@pytest.mark.parametrize("written", DEEP)
@pytest.mark.parametrize("hybridize", [False, True])
def test_a_block_whose_operands_are_written(written: str, hybridize: bool) -> None:
    net = Deep()
    net.initialize()
    net.w.set_data(nd.array([1, 2, 3]))
    net.hybridize(hybridize)
    x = var(1, 2, 3)
    with autograd.record():
        y = net(x)
    if "x" in written:
        x[:] = nd.array([4, -1, 2])
    if "w" in written:
        net.w.set_data(nd.array([0.5, -0.3, 2]))
    if "y" in written:
        y[:] = 0
    y.backward()
    for found, expected in zip((net.w.grad(), x.grad), DEEP[written]):
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4)


def network(prefix: str) -> gluon.HybridSequential:
    net = gluon.nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(gluon.nn.Dense(3, in_units=2, activation="tanh"), gluon.nn.Dense(2, in_units=3))
    net.initialize()
    for i, p in enumerate(net.collect_params().values()):
        values = np.linspace(-1, 1, p.data().size).reshape(p.shape)
        p.set_data(nd.array(values) * 0.5 + i * 0.1)
    return net


@pytest.mark.filterwarnings("ignore:backward")
@pytest.mark.parametrize("hybridize", [False, True])
def test_a_gan_that_steps_between_its_two_backwards(hybridize: bool) -> None:
    g, d = network("g_"), network("d_")
    g.hybridize(hybridize)
    d.hybridize(hybridize)
    of_g = gluon.Trainer(g.collect_params(), "sgd", {"learning_rate": 0.1})
    of_d = gluon.Trainer(d.collect_params(), "adam", {"learning_rate": 0.1})
    for k in range(1, 4):
        noise = nd.array([[1, 2], [-1, 0.5]]) * k
        real = nd.array([[3, -2], [1, 0.7]]) * k
        with autograd.record():
            fake = g(noise)
            loss_d = (d(real) ** 2).mean() - d(fake.detach()).mean()
            loss_g = (d(fake) ** 2).mean()
        loss_d.backward(retain_graph=True)
        of_d.step(2)
        loss_g.backward()
        of_g.step(2)
    expected = [
        [[-0.4796, -0.3123], [-0.1024, 0.0466], [0.3169, 0.4907]],
        [-0.4118, 0.0796, 0.5915],
        [[-0.3123, -0.0875, 0.1288], [0.3132, 0.4889, 0.6731]],
        [-0.1584, 0.7626],
    ]
    for p, value in zip(g.collect_params().values(), expected):
        np.testing.assert_allclose(p.data().asnumpy(), value, atol=2e-4)


@pytest.mark.filterwarnings("ignore:backward")
@pytest.mark.parametrize("hybridize", [False, True])
def test_states_of_an_rnn_that_are_copied_in_place(hybridize: bool) -> None:
    cell = gluon.rnn.RNNCell(2, input_size=2)
    cell.initialize(mx.init.Constant(0.1))
    cell.hybridize(hybridize)
    x, states = nd.array([[1, 2]]), cell.begin_state(1)
    with autograd.record():
        output, after = cell(x, states)
        loss = (output * output).sum()
    states[0][:] = after[0]
    loss.backward()
    np.testing.assert_allclose(cell.i2h_weight.grad().asnumpy(), [[0.5332, 1.0664]] * 2, atol=1e-4)
    np.testing.assert_allclose(cell.h2h_weight.grad().asnumpy(), [[0.1553] * 2] * 2, atol=1e-4)


def test_a_gradient_of_gradients_of_a_hybridized_block_warns() -> None:
    net = Deep()
    net.initialize()
    net.hybridize()
    x = var(1, 2, 3)
    with autograd.record():
        y = net(x)
    x[:] = 2
    with autograd.record(), pytest.warns(UserWarning, match="input 0 of .*changed in place"):
        autograd.grad(y, x, create_graph=True)


# -- warnings --------------------------------------------------------------------------------------


def test_one_warning_for_each_line() -> None:
    lines = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            product(lambda w: w.__setitem__(slice(None), 1))
            lines.append(sys._getframe().f_lineno - 1)
            product(lambda w: w.__setitem__(slice(None), 2))
    assert [w.lineno for w in seen] == [lines[0], lines[0] + 2]
    assert all(w.category is UserWarning and w.filename == __file__ for w in seen)
    text = str(seen[0].message)
    assert "broadcast_mul" in text and f"{__file__}:{lines[0]}" in text
    assert "computed from its new value" in text and "call backward before the write" in text


def test_a_warning_that_is_an_error_is_raised_each_time() -> None:
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="changed in place"):
                product(lambda w: w.__setitem__(slice(None), 1))


def test_writes_of_a_trainer_are_those_of_its_line() -> None:
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    x = var(1, 2, 3).reshape((1, 3))
    x.attach_grad()
    with autograd.record():
        first, second = net(x).sum(), net(x).sum()
    first.backward()
    trainer.step(1)
    line = sys._getframe().f_lineno - 1
    with pytest.warns(UserWarning, match="weight of FullyConnected") as seen:
        second.backward()
    assert [(w.filename, w.lineno) for w in seen] == [(__file__, line)]
    np.testing.assert_allclose(x.grad.asnumpy(), net.weight.data().asnumpy().sum(0, keepdims=True))


def test_a_value_that_backward_does_not_read_is_written_without_a_warning() -> None:
    x = var(1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with autograd.record():
            y = x + 1
        x += 1
        y.backward()
    assert x.grad.asnumpy().tolist() == [1, 1]


def test_numpy_written_into_a_part_reaches_packed_weights() -> None:
    net = gluon.nn.Dense(64, in_units=64, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    x = nd.ones((8, 64))
    assert net(x).asnumpy().max() == 64
    net.weight.data()[1:2] = np.zeros((1, 64))
    assert net(x).asnumpy()[0, :3].tolist() == [64, 0, 64]
