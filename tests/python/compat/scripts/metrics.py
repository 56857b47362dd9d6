"""Metrics: builtin ones, composites, custom ones, as training loops use them."""

import mxnet as mx
import numpy as np
from mxnet import metric, nd


def show(name, value):
    names, values = (name, value) if isinstance(name, list) else ([name], [value])
    print(" ".join("%s=%.6f" % pair for pair in zip(names, values)))


labels = nd.array([0, 1, 1, 0])
scores = nd.array([[0.3, 0.7], [0.2, 0.8], [0.9, 0.1], [0.6, 0.4]])
for made in ("acc", "accuracy", "f1", "ce", "nll_loss", "mcc"):
    m = metric.create(made)
    m.update([labels], [scores])
    show(*m.get())
for made in (
    metric.TopKAccuracy(top_k=2),
    metric.Perplexity(ignore_label=None),
    metric.F1("micro"),
):
    three = nd.array([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.5, 0.25, 0.25], [0.2, 0.5, 0.3]])
    made.update([labels], [scores if isinstance(made, metric.F1) else three])
    show(*made.get())
for made in (metric.MAE(), metric.MSE(), metric.RMSE(), metric.PearsonCorrelation()):
    made.update([nd.array([1, 2, 3, 4])], [nd.array([1.5, 2, 2.5, 6])])
    show(*made.get())
loss = metric.Loss()
loss.update(None, [nd.array([1, 2, 3])])
loss.update(None, [nd.array([6.0])])
show(*loss.get())

accuracy = metric.Accuracy()
print(accuracy.get()[0], np.isnan(accuracy.get()[1]), accuracy)
accuracy.update(labels=[labels, labels], preds=[scores, nd.array([0, 1, 1, 1])])
print(accuracy.get_name_value(), accuracy.num_inst)
accuracy.reset()
print(accuracy.num_inst)

both = metric.CompositeEvalMetric()
both.add(metric.Accuracy())
both.add(metric.CrossEntropy())
both.update([labels], [scores])
print(["%s %.4f" % pair for pair in both.get_name_value()])
listed = metric.create(["acc", "ce"])
listed.update([labels], [scores])
print(listed.get()[0])


def wrong_share(label, pred):
    return float((pred.argmax(axis=1) != label).mean())


custom = metric.np(wrong_share)
custom.update([labels], [scores])
show(*custom.get())
custom = metric.CustomMetric(
    lambda label, pred: (float(np.abs(label - pred[:, 1]).sum()), 4), "mine"
)
custom.update([labels], [scores])
show(*custom.get())


class Brier(metric.EvalMetric):
    """Mean squared distance of probabilities from the outcomes."""

    def __init__(self, name="brier"):
        super(Brier, self).__init__(name)

    def update(self, labels, preds):
        for label, pred in zip(labels, preds):
            truth = nd.one_hot(label, pred.shape[1])
            self.sum_metric += ((pred - truth) ** 2).sum().asscalar()
            self.num_inst += pred.shape[0]


brier = Brier()
for _ in range(2):
    brier.update([labels], [scores])
show(*brier.get())
print(brier.get_config()["name"])
metric.check_label_shapes([labels], [scores])
try:
    metric.check_label_shapes([labels, labels], [scores])
except ValueError as error:
    print("ValueError")
try:
    metric.create("no such metric")
except Exception as error:
    print("not registered", isinstance(error, Exception))
named = metric.Accuracy(name="val", output_names=["softmax"], label_names=["softmax_label"])
named.update_dict({"softmax_label": labels}, {"softmax": scores, "other": scores})
show(*named.get())
