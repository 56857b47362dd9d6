"""mx.mod.Module on several workers learns what one process learns from all of their data."""

from __future__ import annotations

import os
import sys
from typing import Any

import mxlite as mx
import numpy as np

BATCH, BATCHES, EPOCHS = 24, 3, 4
OPTIONS = (("learning_rate", 0.4), ("momentum", 0.9), ("wd", 0.01))


def network() -> Any:
    hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=7, name="fc1")
    hidden = mx.sym.Activation(hidden, act_type="tanh")
    output = mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(output, mx.sym.var("softmax_label"), name="softmax")


def batches(rank: int, workers: int) -> Any:
    """Return an iterator over this worker's part of each batch of the whole job."""
    random = np.random.RandomState(3)
    data = random.uniform(-1, 1, (BATCHES, BATCH, 5)).astype("float32")
    labels = random.randint(0, 3, (BATCHES, BATCH)).astype("float32")
    part = slice(rank, None, workers)
    return mx.io.NDArrayIter(
        data[:, part].reshape(-1, 5), labels[:, part].reshape(-1), BATCH // workers
    )


def fit(module: Any, data: Any, kvstore: Any, last: int, **options: Any) -> None:
    module.fit(
        data,
        kvstore=kvstore,
        optimizer="sgd",
        optimizer_params=OPTIONS,
        initializer=mx.init.Xavier(),
        num_epoch=last,
        **options,
    )


def alone() -> dict[str, Any]:
    """Train in this process only, with the seed of rank 0."""
    mx.random.seed(5)
    module = mx.mod.Module(network())
    fit(module, batches(0, 1), None, EPOCHS)
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


# Options: --by-name (fit makes the store), --resume (from what another job has saved).
store: Any = "dist_sync"
if "--by-name" in sys.argv:
    names = ("OMPI_COMM_WORLD_RANK", "DMLC_TASK_ID")
    rank = int(next(os.environ[name] for name in names if name in os.environ))
    workers = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("DMLC_NUM_WORKER", 1)))
else:
    store = mx.kv.create(store)
    rank, workers = store.rank, store.num_workers
mx.random.seed(5 + rank)  # all get the values of rank 0
prefix = f"net-{rank}"
if "--resume" in sys.argv:
    module = mx.mod.Module.load(prefix, 2, load_optimizer_states=True)
    fit(module, batches(rank, workers), store, EPOCHS, begin_epoch=2)
else:
    module = mx.mod.Module(network())
    save = mx.callback.module_checkpoint(module, prefix, 2, save_optimizer_states=True)
    fit(module, batches(rank, workers), store, EPOCHS, epoch_end_callback=save)
found = {name: array.asnumpy() for name, array in module.get_params()[0].items()}
on_store = os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1") == "1"
assert module._update_on_kvstore == on_store and module._kvstore.num_workers == workers
for name, expected in alone().items():
    np.testing.assert_allclose(found[name], expected, rtol=3e-5, atol=3e-6, err_msg=name)
np.savez(f"found-{rank}.npz", **found)
print("done", flush=True)
