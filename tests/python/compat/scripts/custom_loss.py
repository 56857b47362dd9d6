"""Losses: builtin ones by value, weights, own subclasses, masking, hybridized."""

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import loss as gloss

pred = nd.array([[1.0, 2, 3], [0.5, -1, 2]])
label = nd.array([[1.5, 2, 2], [0, 0, 0]])
classes = nd.array([2, 0])
signs = nd.array([[1, -1, 1], [-1, 1, -1]])
for loss in (gloss.L2Loss(), gloss.L1Loss(), gloss.HuberLoss(rho=0.5), gloss.L2Loss(weight=2.0)):
    print(type(loss).__name__, loss(pred, label))
for loss in (gloss.SoftmaxCrossEntropyLoss(), gloss.SoftmaxCELoss(sparse_label=True, axis=-1)):
    print(loss(pred, classes))
print(gloss.SoftmaxCELoss(sparse_label=False)(pred, nd.one_hot(classes, 3)))
print(gloss.SigmoidBinaryCrossEntropyLoss()(pred, (signs + 1) / 2))
print(gloss.SigmoidBCELoss(from_sigmoid=True)(nd.sigmoid(pred), (signs + 1) / 2))
print(gloss.HingeLoss()(pred, signs), gloss.SquaredHingeLoss()(pred, signs))
print(gloss.LogisticLoss()(pred, signs), gloss.LogisticLoss(label_format="binary")(pred, signs > 0))
print(gloss.KLDivLoss(from_logits=False)(pred, nd.softmax(label)))
print(gloss.TripletLoss()(pred, label, -label), gloss.PoissonNLLLoss()(pred, nd.abs(label)))
print(gloss.CosineEmbeddingLoss()(pred, label + 1, nd.array([1, -1])))
print(gloss.L2Loss()(pred, label, nd.array([[1], [0]])))


class SmoothedCrossEntropy(gloss.Loss):
    """Cross entropy against labels that give a share to the other classes."""

    def __init__(self, smoothing=0.1, weight=None, batch_axis=0, **kwargs):
        super(SmoothedCrossEntropy, self).__init__(weight, batch_axis, **kwargs)
        self._smoothing = smoothing

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        log_p = F.log_softmax(pred, axis=-1)
        nll = -F.pick(log_p, label, axis=-1)
        smooth = -F.mean(log_p, axis=-1)
        loss = (1 - self._smoothing) * nll + self._smoothing * smooth
        return gloss._apply_weighting(F, loss, self._weight, sample_weight)


smoothed = SmoothedCrossEntropy(0.2)
print(smoothed, smoothed(pred, classes), smoothed(pred, classes, nd.array([1, 0])))
eager = smoothed(pred, classes)
smoothed.hybridize()
print((smoothed(pred, classes) - eager).abs().max() < 1e-6)


class MaskedLoss(gloss.SoftmaxCELoss):
    """Ignores steps after a sequence's length."""

    def hybrid_forward(self, F, pred, label, valid_length):
        weights = F.ones_like(label).expand_dims(axis=-1)
        weights = F.SequenceMask(weights, valid_length, use_sequence_length=True, axis=1)
        return super(MaskedLoss, self).hybrid_forward(F, pred, label, weights)


masked = MaskedLoss()
print(masked(nd.ones((3, 4, 10)), nd.ones((3, 4)), nd.array([4, 2, 0])))

pred.attach_grad()
with autograd.record():
    total = gloss.SoftmaxCELoss()(pred, classes).mean()
total.backward()
print(total, pred.grad)
print(gloss.CTCLoss(layout="NTC", label_layout="NT")(nd.zeros((1, 4, 3)), nd.array([[1, 1]])))
