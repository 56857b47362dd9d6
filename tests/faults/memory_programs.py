"""Programs for out_of_memory.py: each gives the same result whenever it is run.

A program is a pair: a function, and a function that computes the expected result without the
engine, or None if the result is not compared.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, Callable

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn

FOLDER = tempfile.mkdtemp(prefix="mxlite-memory-")


def arrays() -> Any:
    """Operators, views, reductions, indexing."""
    a = mx.nd.array(np.arange(12, dtype="float32").reshape(3, 4))
    b = mx.nd.dot(a, a.T) + mx.nd.ones((3, 3))
    c = mx.nd.concat(b, b[1:2], dim=0)
    c[0] = 5
    d = mx.nd.topk(c, k=2, ret_typ="value", axis=1)
    return float((d.sum() + a[:, 1:3].max() + mx.nd.take(a, mx.nd.array([0, 2])).sum()).asscalar())


def arrays_expected() -> float:
    """Return what `arrays` computes, by NumPy."""
    a = np.arange(12, dtype="float32").reshape(3, 4)
    b = a @ a.T + 1
    c = np.concatenate([b, b[1:2]])
    c[0] = 5
    return float(np.sort(c, axis=1)[:, -2:].sum() + a[:, 1:3].max() + a[[0, 2]].sum())


def large_arrays() -> None:
    """Blocks that fill whole pages, and are freed and used again."""
    kept = [mx.nd.ones((600, 600)) * i for i in range(4)]
    del kept[1]
    (kept[0] + kept[1]).wait_to_read()
    mx.nd.zeros((512, 1024)).asnumpy()


def training() -> None:
    """Two steps of an MLP, eager."""
    net = nn.Sequential()
    net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dense(3))
    _train(net, mx.nd.ones((4, 5)))


def hybrid() -> None:
    """Two steps of a convolutional network, hybridized."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.MaxPool2D(), nn.Flatten(), nn.Dropout(0.5), nn.Dense(3))
    net.hybridize(static_alloc=True)
    _train(net, mx.nd.ones((2, 3, 8, 8)))


def _train(net: Any, data: Any) -> None:
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(2):
        with autograd.record():
            value = loss(net(data), mx.nd.zeros((data.shape[0],)))
        value.backward()
        trainer.step(data.shape[0])
    value.asnumpy()


def symbols() -> None:
    """A symbol bound, run, written and read again."""
    x = mx.sym.var("x")
    out = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh"), num_hidden=3, name="fc")
    again = mx.sym.load_json(mx.sym.SoftmaxOutput(out, name="softmax").tojson())
    executor = again.simple_bind(mx.cpu(), x=(2, 4), softmax_label=(2,))
    executor.forward(is_train=True, x=mx.nd.ones((2, 4)))
    executor.backward()
    executor.outputs[0].asnumpy()


def module() -> None:
    """One epoch of Module.fit."""
    out = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    data = mx.io.NDArrayIter(np.ones((6, 3), "float32"), np.zeros(6, "float32"), 2)
    mod = mx.mod.Module(mx.sym.SoftmaxOutput(out, name="softmax"))
    mod.fit(data, num_epoch=1, optimizer_params={"learning_rate": 0.1})


def files() -> None:
    """Parameters, records and checkpoints, written and read."""
    path = os.path.join(FOLDER, f"{os.getpid()}")
    mx.nd.save(path, {"a": mx.nd.ones((3, 3)), "b": mx.nd.zeros((2,), dtype="int32")})
    mx.nd.load(path)["a"].asnumpy()
    writer = mx.recordio.MXRecordIO(path, "w")
    for i in range(5):
        writer.write(b"x" * i)
    writer.close()
    reader = mx.recordio.MXRecordIO(path, "r")
    while reader.read() is not None:
        pass
    reader.close()


class _Double(mx.operator.CustomOp):
    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(
        self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
    ) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("double_for_memory")
class _DoubleProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Any:
        return _Double()


class _Square(autograd.Function):
    def forward(self, x: Any) -> Any:
        self.save_for_backward(x)
        return x * x

    def backward(self, grad: Any) -> Any:
        return 2 * grad * self.saved_tensors[0]


def custom() -> Any:
    """Operators and functions written in Python, with gradients."""
    x = mx.nd.ones((2, 2)) * 3
    x.attach_grad()
    with autograd.record():
        y = mx.nd.Custom(_Square()(x), op_type="double_for_memory")
    y.backward()
    return x.grad.asnumpy().tolist()


def sparse() -> None:
    """Sparse arrays and a sparse update."""
    rows = mx.nd.sparse.row_sparse_array(([[1.0, 2.0]], [1]), shape=(4, 2))
    table = mx.nd.sparse.csr_matrix(np.eye(4, dtype="float32"))
    mx.nd.sparse.dot(table, mx.nd.ones((4, 2))).asnumpy()
    rows.retain(mx.nd.array([1])).asnumpy()
    weight = mx.nd.ones((4, 2)).tostype("row_sparse")
    mx.optimizer.SGD().update(0, weight, rows, None)
    weight.asnumpy()


def store() -> None:
    """A local store with an optimizer."""
    kv = mx.kv.create("local")
    kv.init(3, mx.nd.ones((2, 3)))
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.1))
    kv.push(3, [mx.nd.ones((2, 3)), mx.nd.ones((2, 3))])
    out = mx.nd.zeros((2, 3))
    kv.pull(3, out=out)
    out.asnumpy()


def loops() -> None:
    """A recurrent layer and a loop in a hybridized block."""
    net = gluon.rnn.LSTM(4)
    net.initialize()
    net(mx.nd.ones((3, 2, 5))).asnumpy()
    mx.nd.contrib.foreach(lambda x, s: (x + s, x * s), mx.nd.ones((3, 2)), mx.nd.ones((2,)))[
        0
    ].asnumpy()


def _write_images() -> str:
    path = os.path.join(FOLDER, "images.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    pixels = np.zeros((12, 12, 3), "uint8")
    for i in range(6):
        header = mx.recordio.IRHeader(0, float(i), i, 0)
        writer.write(mx.recordio.pack_img(header, pixels, img_fmt=".png"))
    writer.close()
    return path


def images() -> None:
    """A pipeline of images, with threads."""
    data = mx.io.ImageRecordIter(
        path_imgrec=IMAGES, data_shape=(3, 8, 8), batch_size=2, preprocess_threads=2, rand_crop=True
    )
    for batch in data:
        batch.data[0].asnumpy()


def loader() -> None:
    """A DataLoader with threads around an iterator that reads ahead."""
    set_ = gluon.data.ArrayDataset(np.ones((6, 2), "float32"), np.zeros(6, "float32"))
    for data, _ in gluon.data.DataLoader(set_, 2, num_workers=2, thread_pool=True):
        data.asnumpy()
    for batch in mx.io.PrefetchingIter(mx.io.NDArrayIter(np.ones((6, 2), "float32"), None, 2)):
        batch.data[0].asnumpy()


def profiled() -> None:
    """Operators while the profiler records."""
    mx.profiler.set_config(filename=os.path.join(FOLDER, f"{os.getpid()}.json"), profile_all=True)
    mx.profiler.set_state("run")
    (mx.nd.ones((3, 3)) * 2).asnumpy()
    mx.profiler.set_state("stop")
    mx.profiler.dumps()


IMAGES = _write_images()
PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]] = {
    "arrays": (arrays, arrays_expected),
    "large_arrays": (large_arrays, None),
    "training": (training, None),
    "hybrid": (hybrid, None),
    "symbols": (symbols, None),
    "module": (module, None),
    "files": (files, None),
    "custom": (custom, lambda: [[12.0, 12.0], [12.0, 12.0]]),
    "sparse": (sparse, None),
    "store": (store, None),
    "loops": (loops, None),
    "images": (images, None),
    "loader": (loader, None),
    "profiled": (profiled, None),
}
