"""csr data and weights stored by rows in modules: linear model, factorization, embeddings."""

import zlib

import mxnet as mx
import numpy as np

rng = np.random.RandomState(0)


class ByName(mx.init.Initializer):
    """Weights that depend on their names only."""

    def _init_weight(self, name, arr):
        values = np.random.RandomState(zlib.crc32(name.encode()) % 1000)
        arr[:] = values.uniform(-0.2, 0.2, arr.shape)

    _init_default = _init_weight


def fit(symbol, batches, metric, optimizer, epochs=2, **options):
    label = batches.provide_label[0][0]
    names = [description[0] for description in batches.provide_data]
    module = mx.mod.Module(symbol, data_names=names, label_names=[label])
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(ByName())
    options["rescale_grad"] = 1.0 / batches.batch_size
    module.init_optimizer(optimizer=optimizer, optimizer_params=options)
    metric = mx.metric.create(metric)
    for _ in range(epochs):
        batches.reset()
        metric.reset()
        for batch in batches:
            module.forward_backward(batch)
            module.update()
            module.update_metric(metric, batch.label)
    params, _ = module.get_params()
    sums = {k: (v.stype, "%.4f" % v.asnumpy().sum()) for k, v in sorted(params.items())}
    print(optimizer, "%s %.5f" % metric.get(), sums)


columns, samples = 40, 160
dense = rng.rand(samples, columns) * (rng.rand(samples, columns) < 0.15)
labels = (dense.dot(rng.randn(columns)) > 0).astype("float32")
matrix = mx.nd.array(dense).tostype("csr")


def rows(label):
    return mx.io.NDArrayIter(matrix, label, 20, last_batch_handle="discard")


data = mx.sym.Variable("data", stype="csr")
weight = mx.sym.Variable("weight", shape=(columns, 2), stype="row_sparse")
scores = mx.sym.broadcast_add(mx.sym.sparse.dot(data, weight), mx.sym.Variable("b", shape=(2,)))
linear = mx.sym.SoftmaxOutput(scores, name="softmax")
for name in ("sgd", "adagrad", "adam", "ftrl"):
    fit(linear, rows(labels), "nll_loss", name, learning_rate=0.2)

factors = mx.sym.Variable("v", shape=(columns, 4), stype="row_sparse")
first = mx.sym.Variable("w1", shape=(columns, 1), stype="row_sparse")
pairs = 0.5 * mx.sym.sum(mx.sym.square(mx.sym.dot(data, factors)), axis=1, keepdims=True)
squares = mx.sym.sum(mx.sym.square(factors), axis=1, keepdims=True)
own = 0.5 * mx.sym.dot(mx.sym.square(data), squares)
output = mx.sym.dot(data, first) + pairs - own
machine = mx.sym.LogisticRegressionOutput(output, mx.sym.Variable("softmax_label"))
fit(machine, rows(labels.reshape(-1, 1)), "mse", "sgd", learning_rate=0.5, wd=0.001)

users, items = rng.randint(0, 30, 400), rng.randint(0, 20, 400)
score = (rng.randn(30, 3)[users] * rng.randn(20, 3)[items]).sum(axis=1).astype("float32")


def embedded(name, count):
    table = mx.sym.Variable(name + "_weight", stype="row_sparse")
    index = mx.sym.Variable(name)
    return mx.sym.Embedding(index, table, input_dim=count, output_dim=3, sparse_grad=True)


product = mx.sym.sum(embedded("user", 30) * embedded("item", 20), axis=1)
net = mx.sym.LinearRegressionOutput(mx.sym.Flatten(product), mx.sym.Variable("score"))
pairs = mx.io.NDArrayIter({"item": items, "user": users}, score, 40, label_name="score")
for name, rate in (("sgd", 2.0), ("adam", 0.05)):
    fit(net, pairs, "mse", name, learning_rate=rate, wd=1e-3)
