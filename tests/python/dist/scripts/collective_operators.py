"""Collective operators give what NumPy gives: eagerly, hybridized, as symbols, with gradients."""

import functools

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd
from mxlite.gluon import HybridBlock
from rank_checks import agree, equal

hvd.init()
rank, size = hvd.rank(), hvd.size()
contrib = mx.nd.contrib
random = np.random.RandomState(7)


def of_all(*shape, dtype="float32"):
    """Return an array of every rank, the same on all ranks."""
    if np.dtype(dtype).kind in "iu":
        return [random.randint(1, 5, shape).astype(dtype) for _ in range(size)]
    return [random.uniform(0.5, 2, shape).astype(dtype) for _ in range(size)]


class Call(HybridBlock):
    def __init__(self, name, params):
        super().__init__()
        self.name_, self.params_ = name, params

    def hybrid_forward(self, F, x):
        return getattr(F.contrib, self.name_)(x * 2, **self.params_) * 3


def check(name, x, wanted, grad=None, head=None, rtol=1e-6, **params):
    """Compare op(2 x) * 3, where wanted is op(x) and grad the adjoint of op at the heads."""
    mine = mx.nd.array(x[rank], dtype=x[rank].dtype)
    call = functools.partial(getattr(contrib, name), **params)
    plain = call(mine)
    assert plain.dtype == mine.dtype and plain.shape == wanted.shape, (name, plain.shape)
    strided = mx.nd.array(np.repeat(x[rank], 2, axis=-1), dtype=x[rank].dtype)
    strided = strided.slice_axis(axis=-1, begin=0, end=None)[..., ::2]
    out = mx.nd.zeros(wanted.shape, dtype=mine.dtype)
    assert call(mine, out=out) is out
    symbol = getattr(mx.sym.contrib, name)(mx.sym.var("data"), **params)
    symbol = mx.sym.load_json(symbol.tojson())
    results = [plain, call(strided), out, symbol.eval(data=mine)[0]]
    agree(results, [wanted] * 4, rtol, what=f"{name} {params}")
    if grad is None:
        return
    executor = symbol.simple_bind(mx.cpu(), data=mine.shape)
    executor.arg_dict["data"][:] = mine
    executor.forward(is_train=True)
    executor.backward(mx.nd.array(head[rank]))
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), grad, rtol=1e-5)
    results = []
    for hybridize in (False, True, True):
        block = Call(name, params)
        if hybridize:
            block.hybridize()
        mine.attach_grad()
        with autograd.record():
            y = block(mine)
        y.backward(mx.nd.array(head[rank]))
        results.append((y.asnumpy(), mine.grad.asnumpy()))
        np.testing.assert_allclose(mine.grad.asnumpy(), grad * 6, rtol=1e-5, err_msg=name)
    for result in results[1:]:
        equal(result, results[0])


for shape in ((3, 4), (1,), (2, 3, 5), (70000,)):
    x, head = of_all(*shape), of_all(*shape)
    check("all_reduce", x, sum(x), sum(head), head)
    check("all_reduce", x, sum(x) / size, sum(head) / size, head, op="mean")
    check("all_reduce", x, np.min(x, axis=0), op="min")
    check("all_reduce", x, np.max(x, axis=0), op="max")
    check("all_reduce", x, np.prod(x, axis=0), op="product")
    root = size - 1
    check("broadcast", x, x[root], sum(head) * (rank == root), head, root=root)

x = of_all(2 * size, 3, 4 * size)
for axis in (0, 1, 2, -1, -2):
    n = axis % 3
    wide = [d * size if i == n else d for i, d in enumerate(x[0].shape)]
    head = of_all(*wide)
    mine = np.split(sum(head), size, axis)[rank]
    check("all_gather", x, np.concatenate(x, axis), mine, head, axis=axis)
for axis in (0, 2, -1):
    wanted = np.split(sum(x), size, axis)[rank]
    head = of_all(*wanted.shape)
    whole = np.concatenate(head, axis)
    check("reduce_scatter", x, wanted, whole, head, axis=axis)
    check("reduce_scatter", x, wanted / size, whole / size, head, rtol=1e-5, axis=axis, op="mean")
    highest = np.split(np.max(x, axis=0), size, axis)[rank]
    check("reduce_scatter", x, highest, axis=axis, op="max")
for split in (0, 2):
    for join in (0, 1, 2):
        parts = [np.split(a, size, split) for a in x]
        wanted = np.concatenate([p[rank] for p in parts], join)
        head = of_all(*wanted.shape)
        back = np.concatenate([np.split(h, size, join)[rank] for h in head], split)
        check("all_to_all", x, wanted, back, head, split_axis=split, concat_axis=join)

for dtype in ("int32", "int64", "uint8", "int8", "float64", "float16"):
    x = of_all(size, 3, dtype=dtype)
    # Ranks of several hosts are added host by host, which rounds otherwise.
    rounding = 1e-15 if hvd.local_size() < size and dtype == "float64" else 0
    check("all_reduce", x, sum(x).astype(dtype), rtol=1e-2 if dtype == "float16" else rounding)
    check("all_gather", x, np.concatenate(x, 1), rtol=0, axis=1)
    check("broadcast", x, x[0], rtol=0)
empty = contrib.all_gather(mx.nd.zeros((0, 3)))
assert empty.shape == (0, 3), empty.shape
assert contrib.all_reduce(mx.nd.zeros((0, 3))).shape == (0, 3)

# A gradient of a gradient: y = mean(x)^2, dy/dx = 2 mean(x) / n summed over the ranks' heads.
x = of_all(4)
mine = mx.nd.array(x[rank])
mine.attach_grad()
with autograd.record():
    y = contrib.all_reduce(mine) ** 3
    grad = autograd.grad(y, mine, create_graph=True, retain_graph=True)[0]
    np.testing.assert_allclose(grad.asnumpy(), size * 3 * sum(x) ** 2, rtol=1e-5)
    total = grad.sum()
total.backward()
np.testing.assert_allclose(mine.grad.asnumpy(), size**2 * 6 * sum(x), rtol=1e-5)

# Messages go around a ring; their gradients go the other way.
if size > 1:
    x, head = of_all(2, 3), of_all(2, 3)
    after, before = (rank + 1) % size, (rank - 1) % size

    class Ring(HybridBlock):
        def hybrid_forward(self, F, x):
            token = F.contrib.send(x * 2, destination=after)
            return F.contrib.recv(x, source=before) * 3, token

    for hybridize in (False, True, True):
        ring = Ring()
        if hybridize:
            ring.hybridize()
        mine = mx.nd.array(x[rank])
        mine.attach_grad()
        with autograd.record():
            y, token = ring(mine)
        autograd.backward([y, token], [mx.nd.array(head[rank]), mx.nd.ones((1,))])
        np.testing.assert_allclose(y.asnumpy(), 6 * x[before], rtol=1e-6)
        np.testing.assert_allclose(mine.grad.asnumpy(), 6 * head[after], rtol=1e-6)
        assert token.shape == (1,) and token.asnumpy()[0] == 0

    # A result that nobody uses is sent all the same, and equal calls are two calls.
    class Twice(HybridBlock):
        def hybrid_forward(self, F, x):
            F.contrib.send(x, destination=after)
            y = F.contrib.recv(x, source=before)
            F.contrib.all_reduce(x)
            return y + F.contrib.all_reduce(x) + F.contrib.all_reduce(x)

    twice = Twice()
    twice.hybridize()
    for _ in range(2):
        mx.nd.waitall()
        tensors = mx._core.comm_stats()["tensors"]
        y = twice(mx.nd.array(x[rank])).asnumpy()
        np.testing.assert_allclose(y, x[before] + 2 * sum(x), rtol=1e-5)
        mx.nd.waitall()
        assert mx._core.comm_stats()["tensors"] - tensors == 5

# The result has memory of its own.
x = mx.nd.ones((2,))
y = contrib.sum_gradient(x)
y += 5
assert x.asnumpy().tolist() == [1, 1] and y.asnumpy().tolist() == [6, 6]
print("done", rank)
