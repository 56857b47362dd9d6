"""Two outputs with an iterator and a metric of their own, and a monitor on an autoencoder."""

import logging
import sys
import zlib

import mxnet as mx
import numpy as np

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
logging.getLogger().addFilter(lambda record: "Time cost" not in record.getMessage())
rng = np.random.RandomState(0)


class ByName(mx.init.Initializer):
    """Weights that depend on their names only."""

    def _init_weight(self, name, arr):
        values = np.random.RandomState(zlib.crc32(name.encode()) % 1000)
        arr[:] = values.uniform(-0.2, 0.2, arr.shape)


class Twice(mx.io.DataIter):
    """Gives every label to both outputs."""

    def __init__(self, batches):
        super(Twice, self).__init__()
        self.batches, self.batch_size = batches, batches.batch_size

    @property
    def provide_data(self):
        return self.batches.provide_data

    @property
    def provide_label(self):
        shape = self.batches.provide_label[0][1]
        return [("digit_label", shape), ("parity_label", shape)]

    def reset(self):
        self.batches.reset()

    def next(self):
        batch = self.batches.next()
        label = batch.label[0]
        return mx.io.DataBatch(batch.data, [label, label % 2], batch.pad, batch.index)


class PerTask(mx.metric.EvalMetric):
    """Accuracy of each output."""

    def __init__(self, count):
        self.count = count
        super(PerTask, self).__init__("per-task")

    def reset(self):
        self.right, self.total = [0] * self.count, [0] * self.count

    def update(self, labels, preds):
        mx.metric.check_label_shapes(labels, preds)
        for i, (label, pred) in enumerate(zip(labels, preds)):
            chosen = mx.nd.argmax_channel(pred).asnumpy().astype("int32")
            self.right[i] += (chosen == label.asnumpy().astype("int32")).sum()
            self.total[i] += len(chosen)

    def get(self):
        pairs = [("task%d" % i, r / t) for i, (r, t) in enumerate(zip(self.right, self.total))]
        return zip(*pairs)

    def get_name_value(self):
        return list(zip(*self.get()))


X = rng.rand(160, 12).astype("float32")
Y = (X[:, :4].argmax(axis=1)).astype("float32")
data = mx.sym.Variable("data")
hidden = mx.sym.FullyConnected(data, name="fc1", num_hidden=16)
hidden = mx.sym.Activation(hidden, act_type="relu", name="relu1")
digit = mx.sym.FullyConnected(hidden, name="fc2", num_hidden=4)
parity = mx.sym.FullyConnected(hidden, name="fc3", num_hidden=2)
net = mx.sym.Group(
    [mx.sym.SoftmaxOutput(digit, name="digit"), mx.sym.SoftmaxOutput(parity, name="parity")]
)
module = mx.mod.Module(net, label_names=("digit_label", "parity_label"))
train = Twice(mx.io.NDArrayIter(X[:128], Y[:128], 16))
check = Twice(mx.io.NDArrayIter(X[128:], Y[128:], 16))
module.bind(train.provide_data, train.provide_label)
module.init_params(ByName())
options = (("learning_rate", 0.5), ("momentum", 0.9))
module.init_optimizer(optimizer_params=options)
metric = PerTask(2)
for epoch in range(3):
    train.reset()
    metric.reset()
    for batch in train:
        module.forward_backward(batch)
        module.update()
        module.update_metric(metric, batch.label)
    print(epoch, ["%s %.4f" % pair for pair in metric.get_name_value()])
print(["%s %.4f" % pair for pair in module.score(check, PerTask(2))])

x = data
for i, size in enumerate((6, 3, 6)):
    x = mx.sym.FullyConnected(x, num_hidden=size, name="layer%d" % i)
    x = mx.sym.Activation(x, act_type="tanh", name="tanh%d" % i)
x = mx.sym.FullyConnected(x, num_hidden=12, name="last")
net = mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label"), name="loss")
batches = mx.io.NDArrayIter(X, X, 40, label_name="label")
# The gradient of data is not computed: 1.9.1 shows unrelated memory under its name.
pattern = r"(?!layer0_backward_output0|loss_backward|label$|data$).*"
monitor = mx.mon.Monitor(3, pattern=pattern, sort=True)
module = mx.mod.Module(net, label_names=["label"])
module.bind(batches.provide_data, batches.provide_label)
module.install_monitor(monitor)
module.init_params(ByName())
module.init_optimizer(optimizer="rmsprop", optimizer_params={"learning_rate": 0.01})
for batch in batches:
    monitor.tic()
    module.forward_backward(batch)
    module.update()
    monitor.toc_print()
