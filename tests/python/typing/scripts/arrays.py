"""Arrays: creation, indexing, operators, sparse arrays, files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import nd


def normalized(x: mx.nd.NDArray) -> mx.nd.NDArray:
    mean = x.mean(axis=1, keepdims=True)
    deviation = nd.sqrt(nd.square(nd.broadcast_sub(x, mean)).mean(axis=1, keepdims=True))
    return nd.broadcast_div(x - mean, deviation + 1e-5)


def main() -> None:
    x = nd.arange(12).reshape((3, 4))
    y = nd.random.normal(0, 1, shape=(3, 4), ctx=mx.cpu())
    x[1:, 0] = 7
    both = nd.concat(x, y, dim=0)
    stacked = nd.stack(x, y, axis=1)
    halves = nd.split(both, num_outputs=2, axis=0)
    values, indices = nd.topk(x, k=2, ret_typ="both")
    picked = nd.pick(x, nd.array([0, 1, 2]), axis=1)
    print(normalized(both).shape, stacked.shape, halves[0].shape, values.shape, indices.dtype)
    print(picked.asnumpy().sum(), nd.where(x > 3, x, y).argmax(axis=1).astype("int32").size)
    print(nd.dot(x, y, transpose_b=True).shape, nd.linalg.gemm2(x, y.T).shape)
    print(mx.__version__, x.transpose((1, 0)).shape, x.transpose(1, 0).shape)
    host: np.ndarray[Any, Any] = x.asnumpy()
    total: float = x.sum().asscalar()
    print(host.dtype, total, bool((x == y).sum() > 0), len(x), 1 - x, x**2, np.float32(2) * x)
    csr = nd.sparse.csr_matrix(np.eye(3, dtype="float32"))
    print(nd.sparse.dot(csr, x).shape, csr.tostype("default").shape, csr.indices.shape)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arrays.params"
        nd.save(str(path), {"x": x, "y": y})
        loaded = nd.load(str(path))
        print(type(loaded))
    nd.waitall()


if __name__ == "__main__":
    main()
