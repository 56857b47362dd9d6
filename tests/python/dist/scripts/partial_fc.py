"""PartialFC computes on several ranks what one process does; checkpoints fit any ranks."""

import sys
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd
from mxlite.gluon.contrib import parallel
from rank_checks import agree, fails, in_step

hvd.init()
rank, size = hvd.rank(), hvd.size()
reference = Path(sys.argv[1])
CLASSES, UNITS, BATCH, STEPS = 4103, 24, 12, 4  # more rows than are drawn at a time
random = np.random.RandomState(3)
embeddings = random.randn(STEPS, BATCH, UNITS).astype("float32")
labels = random.randint(0, CLASSES, (STEPS, BATCH)).astype("int32")
labels[0, :3] = [0, CLASSES - 1, 0]
own = slice(rank * BATCH // size, (rank + 1) * BATCH // size)


def make(ratio=1.0):
    return parallel.PartialFC(
        CLASSES, UNITS, sample_ratio=ratio, margins=(1, 0.3, 0.2), scale=16, seed=5
    )


def train(head, first, last):
    """Return losses and gradients of all samples, which this rank's samples are a part of."""
    losses, grads = [], []
    for step in range(first, last):
        x = mx.nd.array(embeddings[step, own])
        x.attach_grad()
        with autograd.record():
            loss = head(x, mx.nd.array(labels[step, own], dtype="int32"))
        weighted = mx.nd.array(np.arange(1, BATCH + 1)[own])  # samples have gradients of their own
        loss.backward(weighted)
        head.step(BATCH // size)
        for found, array in ((losses, loss), (grads, x.grad)):
            found.append(mx.nd.contrib.all_gather(array, axis=0).asnumpy())
    return losses, grads


def whole(array):
    """Return the rows of all ranks."""
    return hvd.allgather(array, name="rows").asnumpy()


head = make()
assert len(head.classes) == head.weight.shape[0]
losses, grads = train(head, 0, 2)
head.save(reference.parent / f"centres{size}")
more_losses, more_grads = train(head, 2, STEPS)
result = [*losses, *more_losses, *grads, *more_grads, whole(head.weight), whole(head.momentum)]
if size == 1:
    np.savez(reference, *result)
with np.load(reference) as kept:
    wanted = [kept[name] for name in kept.files]
agree(result, wanted, 2e-4, 2e-5)
# Every number of ranks continues from the centres that one and two ranks saved.
for saved in {1, size}:
    other = make()
    other.load(reference.parent / f"centres{saved}")
    again, _ = train(other, 2, STEPS)
    agree(again, wanted[2:4], 2e-4, 2e-5)
    agree([whole(other.weight)], wanted[-2:-1], 2e-4, 2e-5)

# With a part of the centres, the loss is that of the rows that the operator chooses.
head = make(0.1)
weight = head.weight.asnumpy()
step = mx.nd.zeros((1,), dtype="int64")
rows = mx.nd.contrib.sample_classes(mx.nd.array(labels[0]), step, **head._sampling)[0].asnumpy()
mine = np.zeros((CLASSES,), "float32")
mine[head.classes.start + rows] = 1
chosen = mx.nd.contrib.all_reduce(mx.nd.array(mine)).asnumpy() > 0
assert (
    chosen.sum() == sum(mx.nd.contrib.all_gather(mx.nd.array([len(rows)]), axis=0).asnumpy())
    and chosen[labels[0]].all()
)
losses, _ = train(head, 0, 1)
centres = make().weight
centres = whole(centres).astype("float64")
unit = embeddings[0] / np.linalg.norm(embeddings[0], axis=1, keepdims=True)
cosines = unit @ (centres / np.linalg.norm(centres, axis=1, keepdims=True)).T
at = np.arange(BATCH), labels[0]
logits = 16 * cosines
logits[at] = 16 * (np.cos(np.arccos(cosines[at]) + 0.3) - 0.2)
logits[:, ~chosen] = -np.inf
agree(losses, [np.log(np.exp(logits).sum(axis=1)) - logits[at]], 1e-4, 1e-5)
others = np.setdiff1d(np.arange(len(weight)), rows)
assert (head.weight.asnumpy()[others] == weight[others]).all()
assert (head.weight.asnumpy()[rows] != weight[rows]).any(axis=1).all()

# Mistakes are errors on all ranks.
x = mx.nd.ones((2, UNITS))
for bad in (-1, CLASSES):
    label = mx.nd.array([0, bad if rank == size - 1 else 1], dtype="int32")
    words = f"must be from 0 to {CLASSES - 1}, got {bad}"
    fails(lambda label=label: head(x, label), words, kind=IndexError)
in_step()
broken = reference.parent / f"broken{size}"
broken.mkdir(exist_ok=True)
(broken / "centres-00000-of-00009.params").write_bytes(b"x")
fails(lambda: make().load(broken), "the files of all ranks of one save")
in_step()
print("done")
