"""Changes each entry of a checkpoint's table: a load succeeds or raises and changes nothing.

    PYTHONPATH=python python tests/fuzz/checkpoint_states.py            # all changes
    PYTHONPATH=python python tests/fuzz/checkpoint_states.py --count 300 --seed 2

The checksums of a changed file fit again, as if another program had written it. An error must be of
a documented class and name the file. A load that raises must leave every object, and all random
generators, as they were; after a load that accepts a change, a good file must load.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import struct
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, checkpoint, gluon
from mxlite.gluon import nn

VALUES: tuple[Any, ...] = (
    None, -1, 0, 2**70, 1.5, float("nan"), "x", True, [], {}, {"list": []}, {"dict": []},
    {"tuple": [1]}, {"bytes": "00"}, {"array": 0}, {"array": 10**6},
)  # fmt: skip
DOCUMENTED = (mx.base.FileFormatError, mx.base.ShapeError, mx.base.DTypeError, mx.base.ValueError_)
Path_ = tuple[Any, ...]


def make(seed: int) -> dict[str, Any]:
    """Return one object of each kind after some use, which depends on the seed."""
    mx.random.seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    random.gauss(0, 1)
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3), nn.Dense(2, in_units=3))
    net.initialize(mx.init.Normal(1), ctx=[mx.cpu(0), mx.cpu(1)])
    net[0].weight.grad_req = "add"
    schedule = mx.lr_scheduler.MultiFactorScheduler([1, 5], 0.5, base_lr=0.1)
    options = {"lr_scheduler": schedule, "clip_gradient": 1.0, "wd": 0.1}
    trainer = gluon.Trainer(net.collect_params(), "adam", options)
    x = np.random.rand(12, 2).astype("float32")
    loader = gluon.data.DataLoader(
        gluon.data.ArrayDataset(x, x[:, 0]), 5, shuffle=True, last_batch="rollover"
    )
    metric = mx.metric.CompositeEvalMetric([mx.metric.Accuracy(), mx.metric.TopKAccuracy(2)])
    metric.add(mx.metric.F1(average="micro"))
    metric.update([mx.nd.array([0, 1])], [mx.nd.array(x[:2])])
    rows = mx.io.NDArrayIter(x, x[:, 0], 5, shuffle=True, last_batch_handle="roll_over")
    rows.next()
    inside = mx.io.PrefetchingIter(mx.io.NDArrayIter(x, x[:, 0], 5))
    resized = mx.io.ResizeIter(inside, 4)
    resized.next()
    for _ in range(seed):
        for batch, _ in loader:
            with autograd.record():
                losses = [net(batch.as_in_context(ctx)).sum() for ctx in (mx.cpu(0), mx.cpu(1))]
            autograd.backward(losses)
            trainer.step(5)
            break
    alone = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=1.0)
    alone(5 * seed)
    return {"net": net, "trainer": trainer, "data": loader, "metric": metric, "rows": rows,
            "resized": resized, "schedule": alone}  # fmt: skip


def read_table(content: bytes) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of the arrays, and the table of contents."""
    offset, length = struct.unpack("<QQ", content[-32:-16])
    return content[:offset], json.loads(content[offset : offset + length])


def write_table(path: Path, arrays: bytes, table: dict[str, Any]) -> None:
    """Write a file whose checksums fit."""
    raw = json.dumps(table).encode()
    head = struct.pack("<QQI", len(arrays), len(raw), mx._core.crc32c(raw))
    path.write_bytes(arrays + raw + head + struct.pack("<I", mx._core.crc32c(head)) + b"MXLCKEND")


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the paths to all values below a JSON value."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*path, key)
            yield from places(value[key], (*path, key))


def changes(table: dict[str, Any]) -> list[tuple[Path_, Any]]:
    """Return all changes, which replace a value by each of VALUES, or remove it (``...``)."""
    found = []
    for path in places(table["tree"]):
        if not (len(path) > 9 and "array" in path):
            found += [(path, value) for value in (*VALUES, ...)]
    return found


def changed(table: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """Return a copy of a table with one change."""
    table = copy.deepcopy(table)
    at = table["tree"]
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return table


def state(objects: dict[str, Any], path: Path) -> Any:
    """Return what a checkpoint of the objects holds now."""
    checkpoint.save(path, objects)
    arrays, table = read_table(path.read_bytes())
    return arrays, json.dumps([table["arrays"], table["tree"]])


def run(folder: Path, count: int | None, seed: int) -> tuple[int, int]:
    """Apply changes; return how many loads were refused and accepted. A finding is an error."""
    good, bad, other = (folder / name for name in ("good.ckpt", "bad.ckpt", "other.ckpt"))
    checkpoint.save(good, make(2))
    arrays, table = read_table(good.read_bytes())
    objects = make(1)
    checkpoint.load(good, objects)  # the unchanged file must load
    objects = make(1)
    before = state(objects, other)
    chosen = changes(table)
    if count is not None:
        chosen = random.Random(seed).sample(chosen, count)
    refused = 0
    for path, value in chosen:
        write_table(bad, arrays, changed(table, path, value))
        where = f"{value!r} at {path}"
        try:
            checkpoint.load(bad, objects)
        except DOCUMENTED as error:
            refused += 1
            assert str(bad) in str(error), f"{where}: the file is not named: {error}"
            assert state(objects, folder / "now.ckpt") == before, f"{where}: changed, then {error}"
        except Exception as error:
            raise AssertionError(f"{where}: {error!r}") from error
        else:
            try:
                checkpoint.load(other, objects)
            except Exception as error:
                raise AssertionError(f"{where}: then a good file raised {error!r}") from error
            objects = make(1)  # a change may have added an attribute
            before = state(objects, other)
    return refused, len(chosen) - refused


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="number of changes; default: all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        refused, accepted = run(Path(folder), options.count, options.seed)
    print(f"{refused} changed checkpoints refused, {accepted} loaded, nothing half-changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
