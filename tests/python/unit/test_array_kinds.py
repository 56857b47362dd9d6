"""A class of arrays besides NDArray, as numpy mode has one, works everywhere."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core, autograd, gluon, nd
from recording import differentiated


class Numpy(nd.NDArray):
    """Stands for the class of numpy mode."""


@pytest.fixture(autouse=True)
def _numpy_class() -> Iterator[None]:
    _core.set_numpy_class(Numpy)
    yield
    _core.set_numpy_class(mx.np.ndarray)


def _made(values: Any) -> nd.NDArray:
    return _core.with_numpy(nd.array(values), True)


def test_kinds() -> None:
    rows = nd.sparse.row_sparse_array(([[1.0]], [1]), shape=(3, 1))
    arrays = (nd.ones(1), _made([1]), rows, nd.ones((1, 1)).tostype("csr"))
    kinds = [_core.array_kind(x) for x in (*arrays, 1.0, None, mx.sym.var("x"))]
    assert kinds == ["dense", "dense", "sparse", "sparse", None, None, None]
    for wrong in (3, dict):
        with pytest.raises(TypeError, match="cls must be a subclass of NDArray or None, got "):
            _core.set_numpy_class(wrong)


def test_results_of_operators_have_the_class() -> None:
    x, y, plain = _made([1, 2]), _made([3, 4]), nd.array([3, 4])
    results = [x + y, 2 - x, x > y, -x, nd.concat(plain, x, dim=0), x.reshape((2, 1)), x.T]
    results += [x.astype("int32"), x.copy(), x.as_in_context(mx.cpu(1)), x.copyto(mx.cpu()), abs(x)]
    results += [x[0:1], x[1], x[nd.array([0, 1])], x[[1, 0]], x.detach(), *nd.split(x, 2, axis=0)]
    assert {type(result) for result in results} == {Numpy}
    assert (x + y).asnumpy().tolist() == [4, 6]
    assert type(plain + 1) is type(_core.with_numpy(x, False)) is nd.NDArray
    for wrong in (lambda: x + plain, lambda: plain * x):
        with pytest.raises(TypeError, match=r"operands must be arrays of one class.*as_np_ndarray"):
            wrong()


def test_writes_keep_the_object() -> None:
    x, plain = _made([1, 2]), nd.zeros(2)
    same = x
    x += _core.with_numpy(plain, True)
    x[:] = 5
    x[0:1] = nd.array([7])
    assert x is same
    assert nd.elemwise_add(x, plain, out=plain) is plain
    assert plain.asnumpy().tolist() == [7, 5]
    assert nd.elemwise_add(plain, plain, out=x) is x
    assert plain.copyto(x) is x
    assert (type(x), x.asnumpy().tolist()) == (Numpy, [7, 5])


def test_gradients_have_the_class_of_their_variables() -> None:
    x, y = _made([1, 2]), nd.array([3, 4])
    differentiated(
        lambda x, y: (_core.with_numpy(x, False) * y).sum(), x, y
    )  # the history is that of x
    assert (type(x.grad), type(y.grad)) == (Numpy, nd.NDArray)
    assert (x.grad.asnumpy().tolist(), y.grad.asnumpy().tolist()) == ([3, 4], [1, 2])
    with autograd.record():
        (first,) = autograd.grad([(x * x).sum()], [x], create_graph=True)
        first.sum().backward()
    assert (type(first), x.grad.asnumpy().tolist()) == (Numpy, [2, 2])


class _Net(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.inner = gluon.nn.Dense(2)
        self.seen: set[type] = set()

    def forward(self, x: nd.NDArray) -> Any:
        hidden = self.inner(x)
        self.seen.add(type(hidden))
        return hidden, hidden + x


@pytest.mark.parametrize("record", [False, True])
def test_hybridized_blocks(record: bool) -> None:
    net = _Net()
    net.initialize()
    plain, x = nd.ones((3, 2)), _made(np.ones((3, 2)))
    wanted = [out.asnumpy().tolist() for out in net(plain)]
    net.hybridize()
    net.seen.clear()
    for _ in range(2):  # one compiled graph for each class
        for given, cls in ((x, Numpy), (plain, nd.NDArray)):
            with autograd.record(record):
                outputs = net(given)
            assert [type(out) for out in outputs] == [cls, cls]
            assert [out.asnumpy().tolist() for out in outputs] == wanted
            if record:
                outputs[0].backward()
                assert net.inner.bias.grad().asnumpy().tolist() == [3, 3]
    assert net.seen == {Numpy, nd.NDArray}


def test_optimizers_update_such_weights_together() -> None:
    weights, grads = [_made([1.0, 2]), _made([3.0])], [_made([1.0, 1]), nd.ones(1)]
    mx.optimizer.SGD(learning_rate=1).update([0, 1], weights, grads, [None, None])
    assert [weight.asnumpy().tolist() for weight in weights] == [[0, 1], [2]]


def test_pickles_and_copies_keep_the_class(tmp_path: Any) -> None:
    x = _made([[1, 2]])
    copies = [pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)]
    assert {type(made) for made in copies} == {Numpy}
    assert all(made.asnumpy().tolist() == [[1, 2]] for made in copies)
    rows = x.tostype("row_sparse")
    for other in (nd.ones(1), rows):
        assert type(pickle.loads(pickle.dumps(other))) is type(other)
    nd.save(str(tmp_path / "x.params"), [x])
    assert nd.load(str(tmp_path / "x.params"))[0].asnumpy().tolist() == [[1, 2]]


def test_beside_sparse_arrays_and_stores() -> None:
    x = _made([[1.0, 2]])
    rows = x.tostype("row_sparse")
    assert (rows.stype, x.stype) == ("row_sparse", "default")
    assert (rows * x).asnumpy().tolist() == [[1, 4]]
    store = mx.kv.create("local")
    store.init("w", nd.array(x))
    store.push("w", [x, x])
    store.pull("w", out=x)
    assert x.asnumpy().tolist() == [[2, 4]]
