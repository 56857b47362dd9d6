"""A bucketed language model: recurrent cells, BucketingModule, perplexity, checkpoints."""

import random
import zlib

import mxnet as mx
import numpy as np

VOCABULARY, HIDDEN = 30, 12
random.seed(1)
np.random.seed(1)
rng = np.random.RandomState(3)


class ByName(mx.init.Initializer):
    """Weights that depend on their names only."""

    def _init_weight(self, name, arr):
        values = np.random.RandomState(zlib.crc32(name.encode()) % 1000)
        arr[:] = values.uniform(-0.1, 0.1, arr.shape)

    _init_bias = _init_weight


sentences = []
for _ in range(120):
    start = rng.randint(1, VOCABULARY)
    words = start + 3 * np.arange(rng.randint(3, 10))
    sentences.append([int(word % (VOCABULARY - 1) + 1) for word in words])
train = mx.rnn.BucketSentenceIter(sentences, 8, buckets=[6, 10], invalid_label=0)
stack = mx.rnn.SequentialRNNCell()
for layer in range(2):
    stack.add(mx.rnn.LSTMCell(HIDDEN, prefix="lstm%d_" % layer))
    stack.add(mx.rnn.DropoutCell(0.0))


def sym_gen(length):
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    embedded = mx.sym.Embedding(data, input_dim=VOCABULARY, output_dim=8, name="embed")
    stack.reset()
    outputs, _ = stack.unroll(length, inputs=embedded, merge_outputs=True)
    flat = mx.sym.Reshape(outputs, shape=(-1, HIDDEN))
    scores = mx.sym.FullyConnected(flat, num_hidden=VOCABULARY, name="scores")
    label = mx.sym.Reshape(label, shape=(-1,))
    head = mx.sym.SoftmaxOutput(scores, label, name="softmax", use_ignore=True, ignore_label=0)
    return head, ("data",), ("softmax_label",)


module = mx.mod.BucketingModule(sym_gen, default_bucket_key=train.default_bucket_key)
module.bind(train.provide_data, train.provide_label)
module.init_params(ByName())
module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 1.0})
metric = mx.metric.Perplexity(ignore_label=0)
for epoch in range(2):
    train.reset()
    metric.reset()
    for batch in train:
        module.forward_backward(batch)
        module.update()
        module.update_metric(metric, batch.label)
    print("epoch", epoch, *metric.get())
print(module.score(train, mx.metric.Perplexity(0)))
args, aux = module.get_params()
print(sorted((name, array.shape) for name, array in args.items()), aux)
symbol = module._curr_module.symbol
mx.rnn.save_rnn_checkpoint(stack, "lm", 2, symbol, args, aux)
loaded, again, _ = mx.rnn.load_rnn_checkpoint(stack, "lm", 2)
print(loaded.list_outputs(), all((args[k] == again[k]).asnumpy().all() for k in args))
