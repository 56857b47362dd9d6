"""A small training, which programs of the pages continue."""

import mxlite as mx
from mxlite import autograd, checkpoint, gluon
from mxlite.gluon import nn

epoch, epochs, batch_size = 0, 2, 8
data, label = mx.nd.random.uniform(shape=(8, 4)), mx.nd.array([0, 1] * 4)
dataset = gluon.data.ArrayDataset(data.asnumpy(), label.asnumpy())
loader = gluon.data.DataLoader(dataset, batch_size=batch_size)
net = nn.HybridSequential()
net.add(nn.Dense(4, in_units=4, activation="relu"), nn.Dense(2, in_units=4))
net.blocks = net._children.values()
net.initialize()
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
metric = mx.metric.Accuracy()
with autograd.record():
    _loss = loss_fn(net(data), label)
_loss.backward()
trainer.step(batch_size)
metric.update(label, net(data))
checkpoint.save("run.ckpt", net=net, trainer=trainer)
