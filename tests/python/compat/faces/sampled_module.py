"""Makes the calls of InsightFace's partial FC script: centres with their own collectives."""

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
from mxnet import nd

CLASSES, FEATURES, BATCH, SCALE, MARGIN = 40, 8, 16, 16.0, 0.2
hvd.init()
rank, size = hvd.rank(), hvd.size()
context = mx.cpu(0)
assert 0 <= hvd.local_rank() < size
own = CLASSES // size
chosen_count = own if size == 1 else own // 2


class DistributedOptimizer(mx.optimizer.Optimizer):
    """Sums gradients of all ranks before the update of another optimizer."""

    def __init__(self, optimizer, prefix):
        self._optimizer, self._prefix = optimizer, prefix

    def __getattr__(self, item):
        return getattr(self._optimizer, item)

    def create_state_multi_precision(self, index, weight):
        return self._optimizer.create_state_multi_precision(index, weight)

    def update(self, index, weight, grad, state):
        self._allreduce(index, grad)
        return self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        self._allreduce(index, grad)
        return self._optimizer.update_multi_precision(index, weight, grad, state)

    def _allreduce(self, index, grad):
        if isinstance(index, (tuple, list)):
            for i, (number, part) in enumerate(zip(index, grad)):
                hvd.allreduce_(part, average=False, name=self._prefix + str(number), priority=-i)
        else:
            hvd.allreduce_(grad, average=False, name=self._prefix + str(index))

    def set_learning_rate(self, lr):
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        self._optimizer.set_wd_mult(args_wd_mult)


def gathered(array):
    """Join the arrays of all ranks: each adds its rows to zeros."""
    whole = nd.zeros((array.shape[0] * size, *array.shape[1:]), ctx=context, dtype=array.dtype)
    whole[rank * array.shape[0] : (rank + 1) * array.shape[0]] = array
    return hvd.allreduce(whole, average=False)


class Bank:
    """Centres and momentum of this rank's classes."""

    def __init__(self):
        self.weight = nd.random_normal(loc=0, scale=0.1, shape=(own, FEATURES), ctx=context)
        self.momentum = nd.zeros_like(self.weight)

    def sample(self, labels):
        """Return chosen rows, and labels as positions among them (-1: of another rank)."""
        local = labels - rank * own
        positives = np.unique(local[(local >= 0) & (local < own)])
        others = np.setdiff1d(np.arange(own), positives)
        more = np.random.choice(others, max(0, chosen_count - len(positives)), replace=False)
        rows = np.sort(np.concatenate([positives, more])).astype("int64")
        places = {row: place for place, row in enumerate(rows)}
        return rows, np.array([places.get(label, -1) for label in local], "float32")

    def get(self, rows):
        index = nd.array(rows, ctx=context, dtype="int64")
        return self.weight[index], self.momentum[index]

    def set(self, rows, weight, momentum):
        index = nd.array(rows, ctx=context, dtype="int64")
        self.weight[index], self.momentum[index] = weight, momentum


def largest(rows):
    """Return the greatest value of all ranks: sums of arrays that have one rank's values each."""
    each = nd.zeros((size, len(rows)), ctx=context)
    each[rank] = nd.max(rows, axis=1)
    return nd.max(hvd.allreduce(each, average=False), axis=0).reshape((-1, 1))


def step(module, bank, images, labels):
    module.forward(mx.io.DataBatch([nd.array(images)], []), is_train=True)
    features = module.get_outputs(merge_multi_context=True)[-1]
    every = gathered(features)
    every_label = gathered(nd.array(labels, ctx=context)).asnumpy().astype("int64")
    rows, places = bank.sample(every_label)
    weight, momentum = bank.get(rows)
    every.attach_grad()
    weight.attach_grad()
    with mx.autograd.record():
        unit = nd.L2Normalization(every, mode="instance")
        centres = nd.L2Normalization(weight, mode="instance")
        cosines = nd.dot(unit, centres, transpose_b=True)
        chosen = nd.one_hot(nd.array(places), depth=len(rows), on_value=1.0, off_value=0.0)
        angles = nd.arccos(cosines * chosen)
        scores = (cosines + chosen * (nd.cos(angles + MARGIN) - cosines)) * SCALE
    highest = largest(scores)
    powers = nd.exp(nd.broadcast_sub(scores, highest))
    total = hvd.allreduce(nd.sum(powers, axis=1, keepdims=True), average=False)
    probability = nd.broadcast_div(powers, total)
    true = hvd.allreduce(nd.sum(probability * chosen, axis=1), average=False)
    scores.backward(out_grad=probability - chosen)
    whole_grad = hvd.allreduce(every.grad, average=False)
    count = features.shape[0]
    module.backward([whole_grad[rank * count : (rank + 1) * count] / size])
    module.update()
    nd.sgd_mom_update(
        weight, weight.grad, momentum, lr=0.1, momentum=0.9, wd=5e-4,
        rescale_grad=1.0 / (count * size), out=weight,
    )  # fmt: skip
    bank.set(rows, weight, momentum)
    mx.nd.waitall()
    return float(-np.log(np.maximum(true.asnumpy(), 1e-30)).mean())


mx.random.seed(rank)
np.random.seed(rank)
data = mx.symbol.Variable("data")
body = mx.symbol.FullyConnected(mx.symbol.identity(data), num_hidden=FEATURES, name="fc1")
symbol = mx.symbol.BatchNorm(body, fix_gamma=True, eps=2e-5, momentum=0.9, name="bn1")
module = mx.mod.Module(symbol, data_names=["data"], label_names=None, context=context)
module.bind(data_shapes=[("data", (BATCH, 12))], for_training=True, inputs_need_grad=False)
module.init_params(initializer=mx.init.Normal(0.1))
args, states = module.get_params()
for part in (args, states):
    for name in sorted(part):
        part[name] = hvd.broadcast(part[name], 0, name)
module.set_params(args, states)
sgd = mx.optimizer.SGD(
    learning_rate=0.1,
    momentum=0.9,
    wd=5e-4,
    rescale_grad=1.0 / BATCH,
    multi_precision=False,
    lr_scheduler=mx.lr_scheduler.MultiFactorScheduler(step=[1000], factor=0.1, base_lr=0.1),
)
module.init_optimizer(kvstore=None, optimizer=DistributedOptimizer(sgd, prefix="face"))
bank = Bank()
centres = np.random.RandomState(5).randn(CLASSES, 12)
random = np.random.RandomState(10 + rank)
losses = []
for _ in range(80):
    labels = random.randint(0, CLASSES, BATCH)
    noise = 0.2 * random.randn(BATCH, 12)
    losses.append(step(module, bank, (centres[labels] + noise).astype("float32"), labels))
args, states = module.get_params()
mx.model.save_checkpoint(f"face-{rank}", 0, module.symbol, args, states)
print("rank", rank, "losses", np.mean(losses[:5]), np.mean(losses[-5:]), flush=True)
