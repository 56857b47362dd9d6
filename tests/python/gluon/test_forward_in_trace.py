"""`hybrid_forward` while it is traced: what `F` is."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon, nd


class SeesF(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        self.seen = F
        mixed = F.zeros((2, 3)) + F.arange(3).reshape((1, 3)) + F.maximum(x, 1) + F.eye(2, 3)
        mixed = mixed + F.contrib.arange_like(x, axis=1).reshape((1, 3)) + F.full((2, 3), 2)
        mixed = F.broadcast_add(mixed, F.linalg.gemm2(x, F.ones((3, 3)))) + F.stack(x, x).sum(0)
        steps, _ = F.contrib.foreach(lambda d, s: (d + s, s + d), x, F.zeros((3,)))
        drawn = F.random.uniform(shape=(2, 3)) + F.random.normal(shape=(2, 3))
        return mixed + steps + F.power(x, 2) + F.sparse.dot(x, F.eye(3)) + 0 * drawn


def test_f_is_the_module_of_symbols_while_tracing() -> None:
    net = SeesF()
    x = nd.array(np.arange(6).reshape(2, 3))
    eager = net(x).asnumpy()
    assert net.seen is mx.nd and net.seen is not mx.sym
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager)
    assert net.seen is mx.sym and net.seen is not mx.nd
    with autograd.record():
        recorded = net(x)
    np.testing.assert_allclose(recorded.asnumpy(), eager)
    assert net.seen is mx.sym
    # Outside of the trace the module composes symbols again.
    assert isinstance(mx.sym.zeros((2,)), mx.sym.Symbol)
    assert mx.sym.random is not mx.nd.random
