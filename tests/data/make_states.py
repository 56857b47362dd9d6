"""Write optimizer states as MXNet 1.9.1 pickles them, for the tests to read.

Run in an environment with MXNet 1.9.1 (Python 3.8, NumPy below 1.24):

    python tests/data/make_states.py tests/data/states_1.9.1.json.gz
"""

import base64
import gzip
import json
import pickle
import sys

import mxnet as mx
import numpy as np

MOMENTUM = ("sgd", "nag", "lbsgd", "signum", "lars", "ccsgd")


def plain(state):
    """Return a state as JSON values."""
    if isinstance(state, (tuple, list)):
        return [plain(part) for part in state]
    if isinstance(state, mx.nd.NDArray):
        values = state.asnumpy().astype("float64").ravel().tolist()
        return {"dtype": str(np.dtype(state.dtype)), "stype": state.stype, "values": values}
    return state


def case(name, dtype, protocols, stype="default"):
    """Return the pickles of an optimizer after two updates of two parameters."""
    options = {"momentum": 0.9} if name in MOMENTUM else {}
    schedule = mx.lr_scheduler.MultiFactorScheduler([3, 5], 0.5, base_lr=0.25)
    schedule.warmup_final_lr = np.float64(0.25)  # pickled as a NumPy number
    optimizer = mx.optimizer.create(
        name,
        wd=0 if name == "groupadagrad" else 0.01,
        multi_precision=dtype == "float16",
        lr_scheduler=schedule,
        **options,
    )
    update = mx.optimizer.get_updater(optimizer)
    weight = mx.nd.array([[1, 2], [3, 4]], dtype=dtype).tostype(stype)
    gradient = mx.nd.ones((2, 2), dtype=dtype).tostype(stype)
    for _ in range(2):
        update(0, gradient, weight)
        update(3, gradient, weight)
    content = (update.states, optimizer)
    return {
        "name": name,
        "dtype": dtype,
        "num_update": optimizer.num_update,
        "states": {str(index): plain(state) for index, state in update.states.items()},
        "pickles": {
            protocol: base64.b64encode(pickle.dumps(content, protocol)).decode()
            for protocol in protocols
        },
    }


cases = []
for optimizer_name in sorted(mx.optimizer.Optimizer.opt_registry):
    for element in ("float32", "float16"):
        everything = range(6) if optimizer_name in ("sgd", "adam") else [4]
        cases.append(case(optimizer_name, element, everything))
cases.append(case("sgd", "float32", [0, 4], "row_sparse"))
with gzip.GzipFile(sys.argv[1], "wb", mtime=0) as packed:
    packed.write(json.dumps(cases).encode())
