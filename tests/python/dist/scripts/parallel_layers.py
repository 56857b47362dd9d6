"""Parallel layers have the values and gradients of the layers that one process has."""

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel
from rank_checks import agree

hvd.init()
rank, size = hvd.rank(), hvd.size()
random = np.random.RandomState(11)


def tolerance(dtype, terms):
    """Return the tolerance for rounding in sums with a number of terms."""
    eps = {"float32": 2e-7, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    return eps * max(8, np.sqrt(terms))


def block(whole, axis):
    """Return this rank's block of an array."""
    return np.array_split(whole, size, axis)[rank]


def same(got, wanted, dtype, terms, what):
    got, wanted = (np.asarray(a.astype("float32").asnumpy()) for a in (got, wanted))
    scale = max(1.0, float(np.abs(wanted).max()))
    assert got.shape == wanted.shape, (what, got.shape, wanted.shape)
    error = float(np.abs(got - wanted).max()) / scale if got.size else 0.0
    assert error <= tolerance(dtype, terms), (what, error, tolerance(dtype, terms))


def run(layer, x, *more, head=None):
    """Return the output, and the gradient of the first input for a head gradient or ones."""
    x.attach_grad()
    with autograd.record():
        y = layer(x, *more)
    y.backward(head)
    return y, x.grad


def part(array, axis):
    """Return this rank's block of an array as float32; the whole array if there is no axis."""
    return array if axis is None else mx.nd.array(block(array.astype("float32").asnumpy(), axis))


def compare(make, plain, shape, dtype, units, output_axis, input_axis=None):
    """Compare a layer with the plain one of the same values."""
    x = mx.nd.array(random.uniform(-1, 1, shape).astype("float32"))
    for hybridize in (False, True):
        mx.random.seed(3)
        net, reference = make(), plain()
        net.initialize(mx.init.Uniform(0.5))
        net.cast(dtype)
        given, whole = part(x, input_axis).astype(dtype), x.astype(dtype)
        net(given)  # finds unknown sizes
        reference.initialize()
        reference.cast(dtype)
        reference(whole)
        pairs = [*zip(net.collect_params().values(), reference.collect_params().values())]
        for ours, theirs in pairs:
            assert ours.shape == theirs.shape, (ours, theirs)
            theirs.set_data(ours.full_data())
        if hybridize:
            net.hybridize()
        for _ in range(2 if hybridize else 1):
            head = np.random.RandomState(5).uniform(-1, 1, reference(whole).shape)
            head = mx.nd.array(head).astype(dtype)
            y, grad = run(net, given, head=part(head, output_axis).astype(dtype))
            wanted, wanted_grad = run(reference, whole, head=head)
            assert str(y.dtype) == str(given.dtype)
            what = (type(net).__name__, dtype, hybridize)
            terms = max(shape[-1], units) * (4 if dtype == "float32" else 1)
            same(y, part(wanted, output_axis), dtype, terms, what)
            same(grad, part(wanted_grad, input_axis), dtype, terms, (*what, "input"))
            for ours, theirs in pairs:
                shard = part(theirs.grad(), ours.shard and ours.shard[0])
                same(ours.grad(), shard, dtype, terms, (*what, ours.name))


def compare_dense(dtype, units, uneven):
    """Compare both layers; the rows' blocks have the sizes of the columns' outputs."""
    options = {"activation": "tanh", "allow_uneven": uneven}

    def plain():
        return nn.Dense(units, activation="tanh")

    def columns(**more):
        return parallel.ColumnParallelDense(units, **options, **more)

    compare(columns, plain, (5, 24), dtype, units, 1)
    compare(lambda: columns(gather_output=True), plain, (5, 24), dtype, units, None)
    compare(
        lambda: parallel.RowParallelDense(7, in_units=2 * units, **options),
        lambda: nn.Dense(7, activation="tanh"),
        (5, 2 * units),
        dtype,
        units,
        None,
        1,
    )


def sequence_parallel():
    """Return layers whose input and output are this rank's positions."""
    net = nn.HybridSequential()
    options = {"flatten": False, "sequence_axis": 1}
    net.add(
        parallel.SequenceParallelLayerNorm(in_channels=8),
        parallel.ColumnParallelDense(24, activation="tanh", in_units=8, **options),
        parallel.RowParallelDense(6, in_units=24, **options),
    )
    return net


def plain_sequence():
    net = nn.HybridSequential()
    net.add(
        nn.LayerNorm(in_channels=8),
        nn.Dense(24, activation="tanh", in_units=8, flatten=False),
        nn.Dense(6, in_units=24, flatten=False),
    )
    return net


compare(sequence_parallel, plain_sequence, (2, 12, 8), "float32", 24, 1, 1)
for dtype in ("float32", "float16", "bfloat16"):
    compare_dense(dtype, 12, False)
    compare_dense(dtype, 13, True)
    compare(
        lambda: parallel.RowParallelDense(7, use_bias=False, flatten=False),
        lambda: nn.Dense(7, use_bias=False, flatten=False),
        (2, 3, 24),
        dtype,
        7,
        None,
        2,
    )
    compare(
        lambda: parallel.RowParallelDense(7, in_units=24, input_is_parallel=False),
        lambda: nn.Dense(7),
        (5, 2, 12),
        dtype,
        7,
        None,
    )


# An MLP of both layers, whose hidden layer is never gathered.
class MLP(gluon.HybridBlock):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def hybrid_forward(self, F, x):
        return self.second(self.first(x))


compare(
    lambda: MLP(
        parallel.ColumnParallelDense(24, activation="relu", in_units=10),
        parallel.RowParallelDense(6, in_units=24),
    ),
    lambda: MLP(nn.Dense(24, activation="relu"), nn.Dense(6)),
    (8, 10),
    "float32",
    24,
    None,
)

# Embeddings have even and uneven vocabularies and ids of several types. Ids out of range are
# clipped.
for dtype in ("float32", "float16", "bfloat16"):
    for vocabulary in (12, 13, size):
        mx.random.seed(3)
        net = parallel.VocabParallelEmbedding(vocabulary, 5)
        reference = nn.Embedding(vocabulary, 5)
        for layer in (net, reference):
            layer.initialize(mx.init.Uniform(1))
            layer.cast(dtype)
        reference.weight.set_data(net.weight.full_data())
        assert net.weight.data().shape[0] == len(np.array_split(np.arange(vocabulary), size)[rank])
        for ids_type in ("float32", "int32", "int64", "uint8"):
            ids = random.randint(0, vocabulary, (4, 6))
            if ids_type != "uint8":
                ids[0, 0] = -1
            ids[1, 0] = vocabulary + 3
            ids = mx.nd.array(ids, dtype=ids_type)
            net.hybridize(ids_type != "float32")
            head = mx.nd.array(random.uniform(-1, 1, (4, 6, 5))).astype(dtype)
            with autograd.record():
                y, wanted = net(ids), reference(ids)
            autograd.backward([y, wanted], [head, head])
            assert (y == wanted).asnumpy().all(), (dtype, vocabulary, ids_type)
            grad = part(reference.weight.grad(), net.weight.shard and net.weight.shard[0])
            same(net.weight.grad(), grad, dtype, 24, (dtype, vocabulary, ids_type))
# NaN in a row that no rank looks up does not spread.
net = parallel.VocabParallelEmbedding(2 * size, 3)
net.initialize(mx.init.One())
values = net.weight.data()
values[0, :] = float("nan")
asked = mx.nd.array([2 * r + 1 for r in range(size)])
assert (net(asked).asnumpy() == 1).all()
y = net(mx.nd.array([0.0])).asnumpy()
assert np.isnan(y).all()

# The loss on the logits of all ranks is compared with the plain loss on whole logits.
for dtype in ("float32", "float16", "bfloat16"):
    for classes in (12, 13, size, 1000):
        for shape in ((9,), (3, 4)):
            logits = mx.nd.array(random.normal(0, 4, (*shape, classes))).astype(dtype)
            labels = random.randint(0, classes, shape)
            if classes > 12:
                labels.flat[0] = 77 if classes < 77 else classes + 3  # clipped
            labels = mx.nd.array(labels)
            weights = mx.nd.array(random.uniform(0, 2, (*shape,))).astype(dtype)
            plain = gluon.loss.SoftmaxCrossEntropyLoss(weight=0.5)
            factors = weights.astype("float32").expand_dims(-1)
            whole = logits.astype("float32")
            wanted, wanted_grad = run(plain, whole, labels, factors)
            for hybridize in (False, True):
                ours = parallel.VocabParallelSoftmaxCELoss(classes, weight=0.5)
                ours.hybridize(hybridize)
                pred = part(logits, -1).astype(dtype)
                got, grad = run(ours, pred, labels, weights)
                same(got, wanted, "float32", classes, ("loss", dtype, classes))
                same(grad, part(wanted_grad, -1), dtype, classes, ("gradient", dtype, classes))

# Labels that are ignored; logits that overflow without their highest value subtracted.
classes = 4 * size + 1
logits = random.normal(0, 1, (6, classes)).astype("float32")
logits[0] += 1e30
logits[1] -= 1e30
logits[2, 1:] = -np.inf
labels = np.array([1, 2, 0, -1, 3, -1], "float32")
ours = parallel.VocabParallelSoftmaxCELoss(classes, ignore_label=-1)
got, found_grad = run(ours, mx.nd.array(block(logits, 1)), mx.nd.array(labels))
shifted = logits.astype("float64") - logits.max(axis=1, keepdims=True)
p = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
valid = labels != -1
index = labels.astype(int).clip(0)
wanted = np.where(valid, -np.log(p[np.arange(6), index]), 0)
grad = p.copy()
grad[np.arange(6), index] -= 1
grad *= valid[:, None]
agree([got, found_grad], [wanted, block(grad, 1)], 1e-5, 1e-6)

# Margins of face classification; the gradient by a directional difference of the reference.
classes = 3 * size + 1
cosines = random.uniform(-0.95, 0.95, (7, classes))
labels = random.randint(0, classes, 7)


def margin_loss(cosines, margin, scale):
    """Return the losses in float64."""
    logits = cosines.copy()
    target = cosines[np.arange(7), labels]
    logits[np.arange(7), labels] = np.cos(margin[0] * np.arccos(target) + margin[1]) - margin[2]
    logits *= scale
    highest = logits.max(axis=1, keepdims=True)
    total = np.log(np.exp(logits - highest).sum(axis=1)) + highest[:, 0]
    return total - logits[np.arange(7), labels]


for margin in ((1, 0.5, 0), (1, 0, 0.35), (1.2, 0.3, 0.2), (1, 0, 0)):
    ours = parallel.VocabParallelSoftmaxCELoss(classes, margin=margin, scale=16)
    for hybridize in (False, True):
        ours.hybridize(hybridize)
        pred = mx.nd.array(block(cosines, 1))
        got, found_grad = run(ours, pred, mx.nd.array(labels))
        wanted = margin_loss(cosines, margin, 16)
        np.testing.assert_allclose(got.asnumpy(), wanted, rtol=2e-5, atol=2e-5)
        grad = np.zeros_like(cosines)
        for c in range(classes):
            step = np.zeros_like(cosines)
            step[:, c] = 1e-6
            change = margin_loss(cosines + step, margin, 16) - margin_loss(
                cosines - step, margin, 16
            )
            grad[:, c] = change / 2e-6
        np.testing.assert_allclose(found_grad.asnumpy(), block(grad, 1), rtol=1e-3, atol=1e-4)
print("done", rank)
