"""Gluon: a recurrent network over characters, and videos read with CTC."""

import zlib

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn


class ByName(mx.init.Initializer):
    """Weights that depend on their names only."""

    def _init_weight(self, name, arr):
        values = np.random.RandomState(zlib.crc32(name.encode()) % 1000)
        arr[:] = values.uniform(-0.15, 0.15, arr.shape)

    _init_bias = _init_weight


class Characters(gluon.Block):
    def __init__(self, kind, count, **kwargs):
        super(Characters, self).__init__(**kwargs)
        with self.name_scope():
            self.encoder = nn.Embedding(count, 8)
            self.rnn = getattr(rnn, kind)(12, 2, input_size=8)
            self.decoder = nn.Dense(count, in_units=12)

    def forward(self, x, state):
        output, state = self.rnn(self.encoder(x), state)
        return self.decoder(output.reshape((-1, 12))), state


text = "the quick brown fox jumps over the lazy dog. " * 6
letters = sorted(set(text))
codes = np.array([letters.index(c) for c in text])
columns = codes[: len(codes) // 3 * 3].reshape(3, -1).T
loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
for kind in ("LSTM", "GRU", "RNN"):
    net = Characters(kind, len(letters), prefix=kind.lower() + "_")
    net.initialize(ByName())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    state = net.rnn.begin_state(batch_size=3)
    for start in range(0, 60, 12):
        x, y = nd.array(columns[start : start + 12]), nd.array(columns[start + 1 : start + 13])
        state = [s.detach() for s in state] if isinstance(state, list) else state.detach()
        with autograd.record():
            output, state = net(x, state)
            loss = loss_function(output, y.reshape((-1,)))
        loss.backward()
        grads = [param.grad() for param in net.collect_params().values()]
        norm = gluon.utils.clip_global_norm(grads, 5)
        trainer.step(36)
        print(kind, "loss %.4f norm %.3f" % (loss.mean().asscalar(), norm))
    print(sorted(net.collect_params().keys())[:3])


class Reader(nn.HybridBlock):
    def __init__(self, **kwargs):
        super(Reader, self).__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv3D(4, kernel_size=(3, 5, 5), strides=(1, 2, 2), padding=(1, 2, 2))
            self.norm = nn.InstanceNorm(in_channels=4)
            self.drop = nn.Dropout(0.0, axes=(1, 2))
            self.pool = nn.MaxPool3D((1, 2, 2), (1, 2, 2))
            self.gru = rnn.GRU(6, bidirectional=True)
            self.dense = nn.Dense(7, flatten=False)

    def hybrid_forward(self, F, x):
        x = self.pool(self.drop(F.relu(self.norm(self.conv(x)))))
        x = F.transpose(x, (2, 0, 1, 3, 4)).reshape((0, 0, -1))
        return F.transpose(F.log_softmax(self.dense(self.gru(x)), axis=2), (1, 0, 2))


rng = np.random.RandomState(0)
videos = nd.array(rng.rand(3, 2, 8, 12, 12))
words = nd.array([[1, 2, 3, -1], [2, 2, -1, -1], [5, 4, 3, 2]])
for hybridize in (False, True):
    net = Reader(prefix="reader_")
    net.initialize(ByName())
    if hybridize:
        net.hybridize()
    loss_function = gluon.loss.CTCLoss(layout="NTC", label_layout="NT")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    for _ in range(4):
        with autograd.record():
            output = net(videos)
            loss = loss_function(output, words)
        loss.backward()
        trainer.step(3)
        print(hybridize, ["%.4f" % value for value in loss.asnumpy()])
    lengths = nd.array([3, 2, 4])
    with_lengths = gluon.loss.CTCLoss("TNC")(nd.transpose(output, (1, 0, 2)), words, None, lengths)
    print(["%.4f" % value for value in with_lengths.asnumpy()])
