"""Three stages of a pipeline and this rank's part of a batch."""

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import gluon

hvd.init()
batch_size = 8
stages = [gluon.nn.Dense(4, in_units=4) for _ in range(3)]
loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
data = mx.nd.ones((8, 4)) if hvd.rank() == 0 else None
label = mx.nd.zeros(8) if hvd.rank() == 2 else None
