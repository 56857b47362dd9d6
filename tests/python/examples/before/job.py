"""Data and a network of the programs in the pages about several processes."""

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel

accuracy, batch_size, epochs, global_batch = 1.0, 8, 1, 8
data, label = mx.nd.random.uniform(shape=(8, 4)), mx.nd.zeros(8)
tokens, targets = mx.nd.ones((2, 3)), mx.nd.ones((2, 3))
dataset = gluon.data.ArrayDataset(data.asnumpy(), label.asnumpy())
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
net = nn.Dense(512, in_units=4)
net.initialize()
