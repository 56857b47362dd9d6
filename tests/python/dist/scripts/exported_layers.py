"""Parallel layers that are exported and imported by jobs of other sizes and by other ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel

folder = Path(sys.argv[1])
hvd.init()
rank, size = hvd.rank(), hvd.size()
words = mx.nd.array([[0, 3, 11], [7, 5, 2]])
rows = mx.nd.array(np.linspace(-1, 1, 24).reshape((2, 12)))

# Layers, their options, their inputs, and whether any rank can run the program of another one.
COLUMN, ROW = parallel.ColumnParallelDense, parallel.RowParallelDense
LAYERS = {
    "embedding": (parallel.VocabParallelEmbedding, (12, 4), {}, words, False),
    "column": (COLUMN, (12,), {"in_units": 12}, rows, True),
    "uneven": (COLUMN, (13,), {"in_units": 12, "allow_uneven": True}, rows, False),
    "gathered": (COLUMN, (12,), {"in_units": 12, "gather_output": True}, rows, False),
    "row": (ROW, (12,), {"in_units": 12, "input_is_parallel": False}, rows, False),
}


def imported(path: str) -> gluon.SymbolBlock:
    return gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")


for name, (make, sizes, options, data, for_all) in LAYERS.items():
    mx.random.seed(7)
    net = nn.HybridSequential(prefix=f"{name}_")
    with net.name_scope():
        net.add(make(*sizes, **options))
    net.initialize(mx.init.Normal(1))
    net.hybridize()
    wanted = net(data).asnumpy()

    # A job of one process has exported no collectives.
    earlier = folder / f"{name}-1"
    if size > 1 and earlier.with_name(f"{name}-1-symbol.json").exists():
        alone = imported(str(earlier))(data).asnumpy()
        if alone.shape == wanted.shape:
            np.testing.assert_allclose(alone, wanted, rtol=1e-5, atol=1e-6)
        joined = mx.nd.contrib.broadcast(mx.nd.array(alone), root=0).asnumpy()
        np.testing.assert_array_equal(alone, joined)
        full = net[0].weight.full_data().asnumpy()
        if name == "embedding":
            np.testing.assert_array_equal(alone, full[data.asnumpy().astype(int)])
        else:
            np.testing.assert_allclose(alone, data.asnumpy() @ full.T, rtol=1e-5, atol=1e-6)

    own = str(folder / f"{name}-{size}{'' if rank == 0 else f'-rank{rank}'}")
    net.export(own)
    again = imported(own)
    np.testing.assert_array_equal(again(data).asnumpy(), wanted)
    again.export(own)  # an imported block is exported with what the first file said
    hvd.allreduce(mx.nd.zeros(1), name="exported").asnumpy()
    first = str(folder / f"{name}-{size}")
    try:
        block = imported(first)
    except mx.MXNetError as error:
        text = "the symbol was exported by rank 0 of process set 0"
        assert not for_all and size > 1 and text in str(error), error
        assert rank == 1 or "rank 1 cannot make its shard" in str(error), error
    else:
        assert for_all or size == 1, name
        np.testing.assert_array_equal(block(data).asnumpy(), wanted)
print("done", rank)
