"""ShardedEmbedding on several ranks computes what a table of one process does; argument: folder."""

import sys
from pathlib import Path

import mxlite as mx
import numpy as np
from mxlite import autograd
from mxlite.gluon.contrib.parallel import ShardedEmbedding
from rank_checks import invalid, refused

mesh = mx.parallel.mesh(data=-1, alone=1).use()
rank, size = mesh.rank, mesh.size
folder = Path(sys.argv[1])
ROWS, DIM, SAMPLES = 101, 5, 12  # samples of all ranks


def make(process_set, **options):
    options = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.01}, **options}
    return ShardedEmbedding(options.pop("rows", ROWS), DIM, process_set, **options)


def step(table, ids, grads, *offsets):
    with autograd.record():
        rows = table(mx.nd.array(ids, dtype="int32"), *offsets)
    rows.backward(mx.nd.array(grads))
    table.step(max(1, SAMPLES // table._group.size))
    return rows.asnumpy()


def batch(number):
    random = np.random.RandomState(number)
    return random.zipf(1.3, (SAMPLES, 3)) % ROWS, random.randn(SAMPLES, 3, DIM).astype("float32")


own = slice(SAMPLES // size * rank, SAMPLES // size * (rank + 1))
every = mx.nd.arange(ROWS)
for options, tolerance in (
    ({}, 1e-6),
    ({"dtype": "bfloat16"}, 1e-3),
    ({"optimizer": "ftrl", "optimizer_params": {"lamda1": 0.001}}, 1e-6),
    ({"rows": None}, 1e-6),
    ({"cache_rows": ROWS}, 1e-6),
):
    divided, whole = make("data", **options), make("alone", **options)
    for number in range(8):
        ids, grads = batch(number)
        got, wanted = (step(divided, ids[own], grads[own]), step(whole, ids, grads))
        np.testing.assert_allclose(got, wanted[own], atol=tolerance)
    np.testing.assert_allclose(divided(every).asnumpy(), whole(every).asnumpy(), atol=tolerance)
    held = mx.nd.contrib.all_reduce(mx.nd.array([divided.size])).asscalar()
    assert held == whole.size

# Bags, and a rank without samples, whose ids are empty.
divided, whole = make("data", combiner="mean"), make("alone", combiner="mean")
ids, grads = batch(9)
offsets = mx.nd.arange(0, 3 * SAMPLES, 3)
whole_rows = step(whole, ids.ravel(), grads[:, 0], offsets)
first = slice(0, SAMPLES) if rank == 0 else slice(0, 0)
if rank == 0:
    got = step(divided, ids.ravel(), grads[:, 0], offsets)
    np.testing.assert_allclose(got, whole_rows, atol=1e-6)
else:
    plain = divided._combiner
    divided._combiner = None
    step(divided, np.zeros((0,)), np.zeros((0, DIM)))
    divided._combiner = plain

# If one rank makes a mistake, all ranks raise, and the next calls work.
table = make("data", rows=10 if size == 1 else 10 * size)
wrong = [10 * size] if rank == size - 1 else [0]
words = ("got",) if rank == size - 1 else (f"the ids of rank {size - 1} are wrong",)
refused(lambda: table(mx.nd.array(wrong)), *words)
full = make("data", rows=None, capacity=2)


def overfill():
    with autograd.record():
        return full(mx.nd.array([0, size, 2 * size] if rank == 0 else [0]))


refused(overfill, "2 rows of" if rank == 0 else "rank 0 cannot provide rows")
invalid(lambda: make("data", policy="skip"), "policy must be one of")

# Files of another number of ranks, and files for the next job.
ids, grads = batch(20)
for rows in (ROWS, None):
    divided, whole = (make(axis, rows=rows, seed=7) for axis in ("data", "alone"))
    name = "fixed" if rows else "grows"
    if (folder / name).exists():
        divided.load(folder / name)
        whole.load(folder / name)
        assert divided.optimizer.num_update == 1
        np.testing.assert_array_equal(divided(every).asnumpy(), whole(every).asnumpy())
        divided.save(folder / f"{name}-{size}")
    else:
        step(divided, ids[own], grads[own])
        divided.save(folder / name)
    mesh.barrier()
print("done", flush=True)
