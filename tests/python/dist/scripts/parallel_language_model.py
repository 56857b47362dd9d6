"""A small language model on a mesh has the losses of one process at every step."""

import sys

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel

data_ranks, tensor_ranks = int(sys.argv[1]), int(sys.argv[2])
mesh = mx.parallel.mesh(data=data_ranks, tensor=tensor_ranks)
group = mesh.group("tensor")
VOCABULARY, WIDTH, LENGTH, BATCH, STEPS = 31, 16, 10, 8, 12


class Layer(gluon.HybridBlock):
    """Attention over earlier words and a divided or plain MLP, both with a residual."""

    def __init__(self, first, second):
        super().__init__()
        self.norm = nn.LayerNorm(in_channels=WIDTH)
        self.first, self.second = first, second

    def hybrid_forward(self, F, x):
        scores = F.batch_dot(x, x, transpose_b=True) / WIDTH**0.5
        order = F.arange(LENGTH)
        later = F.broadcast_greater(
            F.reshape(order, shape=(1, -1)), F.reshape(order, shape=(-1, 1))
        )
        scores = F.broadcast_sub(scores, F.expand_dims(later, axis=0) * 1e4)
        x = x + F.batch_dot(F.softmax(scores), x)
        return x + self.second(self.first(self.norm(x)))


class Model(gluon.HybridBlock):
    def __init__(self, divided):
        super().__init__()
        self.layers = nn.HybridSequential()
        options = {"flatten": False, "in_units": WIDTH}
        if divided:
            self.table = parallel.VocabParallelEmbedding(VOCABULARY, WIDTH, group)
            self.head = parallel.ColumnParallelDense(
                VOCABULARY, group, allow_uneven=True, **options
            )
        else:
            self.table = nn.Embedding(VOCABULARY, WIDTH)
            self.head = nn.Dense(VOCABULARY, **options)
        for _ in range(2):
            if divided:
                first = parallel.ColumnParallelDense(
                    30, group, activation="relu", allow_uneven=True, **options
                )
                second = parallel.RowParallelDense(
                    WIDTH, group, flatten=False, in_units=30, allow_uneven=True
                )
            else:
                first = nn.Dense(30, activation="relu", **options)
                second = nn.Dense(WIDTH, flatten=False, in_units=30)
            self.layers.add(Layer(first, second))

    def hybrid_forward(self, F, x):
        return self.head(self.layers(self.table(x)))


# Words that follow from the two before them, with some labels that are ignored.
random = np.random.RandomState(4)
text = [1, 2]
for _ in range(4000):
    text.append((text[-1] * 3 + text[-2] + int(random.rand() < 0.1)) % VOCABULARY)
text = np.array(text, "float32")

for hybridize, checkpoint in ((False, False), (True, False), (True, True)):
    mx.random.seed(2)
    ours, plain = Model(True), Model(False)
    ours.initialize(mx.init.Xavier())
    plain.initialize()
    for mine, theirs in zip(ours.collect_params().values(), plain.collect_params().values()):
        assert mine.shape == theirs.shape, (mine, theirs)
        theirs.set_data(mine.full_data())
    if checkpoint:
        for layer in ours.layers:
            layer.checkpoint()
    ours.hybridize(hybridize)
    options = ("adam", {"learning_rate": 0.01})
    trainer = hvd.DistributedTrainer(
        ours.collect_params(), *options, process_set=mesh.group("data")
    )
    reference = gluon.Trainer(plain.collect_params(), *options, kvstore=None)
    divided_loss = parallel.VocabParallelSoftmaxCELoss(VOCABULARY, group, ignore_label=-1)
    plain_loss = gluon.loss.SoftmaxCrossEntropyLoss()
    curve = []
    share = BATCH // data_ranks
    mine = slice(mesh.coordinate("data") * share, (mesh.coordinate("data") + 1) * share)
    for step in range(STEPS):
        begins = (np.arange(BATCH) * 97 + step * 31) % 3900
        words = np.stack([text[b : b + LENGTH] for b in begins])
        targets = np.stack([text[b + 1 : b + 1 + LENGTH] for b in begins])
        kept = random.rand(*targets.shape) > 0.2
        random.seed(step)  # the same on all ranks
        with autograd.record():
            weights = mx.nd.array(kept).expand_dims(-1)
            wanted = plain_loss(plain(mx.nd.array(words)), mx.nd.array(targets), weights)
        wanted.backward()
        reference.step(BATCH)
        labels = np.where(kept, targets, -1)
        with autograd.record():
            got = divided_loss(ours(mx.nd.array(words[mine])), mx.nd.array(labels[mine]))
        got.backward()
        trainer.step(share)
        np.testing.assert_allclose(got.asnumpy(), wanted.asnumpy()[mine], rtol=1e-3)
        curve.append(float(wanted.mean().asscalar()))
    assert curve[-1] < 0.9 * curve[0], curve
print("done", mesh.rank)
