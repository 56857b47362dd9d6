"""Recurrent layers and cells, gradients and a learning rate schedule."""

from __future__ import annotations

from collections import Counter

import mxlite as mx
from mxlite import autograd, gluon
from mxlite.gluon import nn, rnn


class Tagger(gluon.Block):
    def __init__(self, words: int, tags: int) -> None:
        super().__init__()
        with self.name_scope():
            self.embedding = nn.Embedding(words, 8)
            self.lstm = rnn.LSTM(16, num_layers=2, layout="NTC", bidirectional=True)
            self.output = nn.Dense(tags, flatten=False)

    def forward(
        self, words: mx.nd.NDArray, states: list[mx.nd.NDArray]
    ) -> tuple[mx.nd.NDArray, list[mx.nd.NDArray]]:
        hidden, states = self.lstm(self.embedding(words), states)
        return self.output(hidden), states


def main() -> None:
    net = Tagger(20, 4)
    net.initialize(mx.init.Normal(0.1))
    words = mx.nd.array([[1, 2, 3], [4, 5, 6]])
    states = net.lstm.begin_state(batch_size=2)
    tags, states = net(words, states)
    print(tags.shape, [state.shape for state in states])
    cell = rnn.GRUCell(8, input_size=4)
    cell.initialize()
    outputs, last = cell.unroll(3, mx.nd.ones((2, 3, 4)), layout="NTC", merge_outputs=True)
    print(outputs.shape, len(last))
    schedule = mx.lr_scheduler.FactorScheduler(step=10, factor=0.5, base_lr=0.1)
    trainer = gluon.Trainer(net.collect_params(), mx.optimizer.Adam(lr_scheduler=schedule))
    print(trainer.learning_rate)
    vocabulary = mx.contrib.text.vocab.Vocabulary(Counter("abcab"))
    print(len(vocabulary), mx.contrib.amp.init.__name__, gluon.contrib.estimator.__name__)
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = (x * x).sum() + 2 * x[0]
    y.backward()
    print(x.grad.asnumpy(), -x / 2 >= x.abs(), x.T.dtype)


if __name__ == "__main__":
    main()
