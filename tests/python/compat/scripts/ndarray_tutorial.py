"""A walk through arrays: creation, arithmetic, indexing, broadcasting, files."""

import os
import pickle
import tempfile

import mxnet as mx
import numpy as np
from mxnet import nd

a = nd.array(((1, 2, 3), (5, 6, 7)))
print(a, a.shape, a.size, a.dtype == np.float32, a.ndim, a.context, len(a))
print(nd.zeros((2, 3)), nd.ones((2,), dtype="int32"), nd.full((2, 2), 7))
print(nd.arange(1, 6, step=2), nd.arange(4, repeat=2), nd.linspace(0, 1, 3), nd.eye(2, 3, 1))
print(nd.empty((2, 2)).shape, nd.zeros_like(a).sum(), nd.ones_like(a).mean())

b = nd.ones((2, 3)) * 2
print(a + b, a - b, a * b, a / b, a % b, a**b, 1 / b, 2 - a, 2**b, -a, abs(-a))
print(a > 2, a >= 2, a == b, a != b, a < b, a <= b)
b += a
print(b)
b[:] = 3
b /= 2
print(b, nd.dot(a, b.T), nd.dot(a.T, b, transpose_a=False))

x = nd.arange(24).reshape((2, 3, 4))
print(x[1], x[0, 1], x[:, 1:3, ::2], x[..., 0], x[-1, -1, -1].asscalar(), x[1, ::-1])
x[0] = 0
x[1, 1:, 2] = nd.array([100, 200])
x[:, 0, 0] = 9
print(x)
index = nd.array([1, 0], dtype="int32")
print(x[index, index], x[:, [0, 2], 1], nd.take(x, nd.array([1])), x.slice_axis(2, 0, 2))
print(x.reshape((-1, 0)).shape, x.reshape((0, -1)).shape, x.reshape((-3, 0)).shape)
print(x.reshape((-4, 1, 2, 0, 0)).shape, x.reshape((-2,)).shape, nd.flatten(x).shape)
print(x.transpose((2, 0, 1)).shape, x.swapaxes(0, 2).shape, x.T.shape, x.expand_dims(1).shape)

print(x.sum(), x.sum(axis=0), x.max(axis=(0, 2)), x.argmax(axis=2), x.mean(axis=1, keepdims=True))
print(nd.norm(a), a.clip(2, 5), a.prod(axis=0), nd.nansum(a), x.min().asscalar())
print(nd.concat(a, a, dim=1), nd.stack(a, a).shape, nd.split(a, num_outputs=3, axis=1)[1])
print(nd.broadcast_to(nd.array([[1], [2]]), (2, 3)), a.broadcast_like(nd.zeros((2, 3))).shape)
print(nd.broadcast_add(nd.ones((2, 1)), nd.ones((1, 3))), nd.maximum(a, 4), nd.minimum(4, a))
print(nd.topk(a, k=2), nd.topk(a, k=1, ret_typ="value"), nd.sort(a, is_ascend=0), a.argsort())
print(nd.one_hot(nd.array([0, 2]), 3), nd.pick(a, nd.array([0, 2])), nd.where(a > 4, a, -a))
print(
    nd.tile(nd.array([1, 2]), reps=(2, 2)), nd.repeat(nd.array([1, 2]), repeats=2), a.flip(axis=1)
)
print(nd.exp(nd.zeros((1,))), nd.sqrt(a), a.square(), nd.relu(a - 3), nd.sigmoid(nd.zeros((1,))))
print(nd.softmax(a), nd.log_softmax(nd.zeros((1, 2))), nd.Activation(a - 3, act_type="relu"))

c = a.astype("int32")
print(c, c.dtype == np.int32, (c + 1).dtype == np.int32, a.astype("float16").dtype == np.float16)
print(c / 2, 7 % c)
print(type(a.asnumpy()).__name__, a.asnumpy().tolist(), a[0, 0].asscalar() == 1, bool(a[0, 0]))
d = a.copy()
d[:] = 0
print(a.sum(), d.sum(), a.copyto(d) is d, d.sum(), a.as_in_context(mx.cpu()) is a)
print([row.asnumpy().tolist() for row in a], (a == a.copy()).asnumpy().all())

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "arrays")
    nd.save(path, [a, c])
    print([v.dtype == w.dtype for v, w in zip(nd.load(path), [a, c])], nd.load(path)[1])
    nd.save(path, {"a": a, "c": c})
    print(sorted(nd.load(path)), nd.load(path)["a"])
print(pickle.loads(pickle.dumps(a)))

for wrong in (
    lambda: a + nd.ones((4, 5)),
    lambda: a.reshape((5, 5)),
    lambda: x.asscalar(),
    lambda: bool(a),
    lambda: nd.dot(a, a),
    lambda: a[5],
    lambda: nd.concat(a, nd.ones((3, 4)), dim=0),
):
    try:
        wrong()
        print("no error")
    except Exception as error:
        print("error", isinstance(error, (mx.base.MXNetError, ValueError, IndexError)))
nd.waitall()
