"""Makes the calls of InsightFace's data-parallel script: a Module whose symbol has the margin."""

import logging

import mxnet as mx
import numpy as np

CLASSES, FEATURES, SCALE, MARGIN = 10, 8, 16.0, 0.3
logging.basicConfig(level=logging.INFO)


def network():
    pixels, label = mx.symbol.Variable("data"), mx.symbol.Variable("softmax_label")
    body = mx.symbol.FullyConnected((pixels - 0.5) * 2.0, num_hidden=FEATURES, name="fc1")
    body = mx.symbol.BatchNorm(body, fix_gamma=True, eps=2e-5, momentum=0.9, name="bn1")
    weight = mx.symbol.Variable(
        "fc7_weight", shape=(CLASSES, FEATURES), lr_mult=1.0, wd_mult=1.0, init=mx.init.Normal(0.01)
    )
    weight = mx.symbol.L2Normalization(weight, mode="instance")
    unit = mx.symbol.L2Normalization(body, mode="instance", name="fc1n") * SCALE
    scores = mx.sym.FullyConnected(
        data=unit, weight=weight, no_bias=True, num_hidden=CLASSES, name="fc7"
    )
    target = mx.sym.pick(scores, label, axis=1)
    moved = mx.sym.cos(mx.sym.arccos(target / SCALE) + MARGIN) * SCALE
    change = mx.sym.expand_dims(moved - target, 1)
    chosen = mx.sym.one_hot(label, depth=CLASSES, on_value=1.0, off_value=0.0)
    scores = scores + mx.sym.broadcast_mul(chosen, change)
    softmax = mx.symbol.SoftmaxOutput(scores, label, name="softmax", normalization="valid")
    # The loss for the log: the same scores once more.
    logarithm = mx.symbol.log(mx.symbol.SoftmaxActivation(data=scores) + 1e-5)
    loss = mx.symbol.sum(logarithm * chosen) / mx.symbol.sum(mx.sym.slice_axis(
        mx.sym.ones_like(chosen), axis=1, begin=0, end=1))  # fmt: skip
    outputs = [mx.symbol.BlockGrad(body), softmax, mx.symbol.MakeLoss(mx.sym.BlockGrad(-loss))]
    return mx.symbol.Group(outputs)


class Accuracy(mx.metric.EvalMetric):
    def __init__(self):
        super().__init__("acc", axis=1, output_names=None, label_names=None)

    def update(self, labels, preds):
        found = mx.ndarray.argmax(preds[1], axis=1).asnumpy().astype("int32").flatten()
        wanted = labels[0].asnumpy().astype("int32").flatten()
        self.sum_metric += (found == wanted).sum()
        self.num_inst += len(found)


class LossValue(mx.metric.EvalMetric):
    def __init__(self):
        super().__init__("lossvalue", axis=1, output_names=None, label_names=None)

    def update(self, labels, preds):
        self.sum_metric += preds[-1].asnumpy()[0]
        self.num_inst += 1


random = np.random.RandomState(0)
centres = random.rand(CLASSES, 12)
labels = random.randint(0, CLASSES, 400)
pixels = (centres[labels] + 0.1 * random.randn(400, 12)).astype("float32")
batches = mx.io.PrefetchingIter(mx.io.NDArrayIter(pixels, labels.astype("float32"), 40))
metric = mx.metric.CompositeEvalMetric([Accuracy(), LossValue()])
model = mx.mod.Module(context=[mx.cpu()], symbol=network())
checkpoints = []


def after_batch(param):
    speedometer(param)
    if param.nbatch == 9:
        args, states = model.get_params()
        mx.model.save_checkpoint("face", param.epoch, model.symbol, args, states)
        checkpoints.append(param.epoch)


speedometer = mx.callback.Speedometer(40, 5, auto_reset=False)
model.fit(
    batches,
    begin_epoch=0,
    num_epoch=6,
    eval_data=None,
    eval_metric=metric,
    kvstore=mx.kvstore.create("device"),
    optimizer=mx.optimizer.SGD(learning_rate=0.2, momentum=0.9, wd=5e-4, rescale_grad=1.0),
    initializer=mx.init.Xavier(rnd_type="gaussian", factor_type="out", magnitude=2),
    allow_missing=True,
    batch_end_callback=after_batch,
    epoch_end_callback=None,
)
values = dict(metric.get_name_value())
symbol, args, states = mx.model.load_checkpoint("face", 5)
assert sorted(symbol.list_arguments()) == sorted([*args, "data", "softmax_label"])
print("epochs", checkpoints, "accuracy", values["acc"], "loss", values["lossvalue"])
