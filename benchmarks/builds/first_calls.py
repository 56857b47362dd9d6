"""First calls of ResNet-50 in a fresh process: seconds of each, as one JSON line.

Started by two_builds.py with the build to measure in PYTHONPATH. The images are small (64 pixels,
batch 1), so that tracing, the passes and the making of kernels take nearly all of the time.
"""

from __future__ import annotations

import json
import time
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import autograd
from mxlite.gluon.model_zoo import vision

SHAPE = (1, 3, 64, 64)


def _network() -> Any:
    net = vision.resnet50_v1()
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros(SHAPE)).wait_to_read()  # the parameters get their shapes
    net.hybridize(static_alloc=True, static_shape=True)
    return net


def _seconds(call: Any) -> float:
    mx.nd.waitall()
    begin = time.perf_counter()
    call()
    mx.nd.waitall()
    return time.perf_counter() - begin


def main() -> None:
    """Measure the three first calls and write them out."""
    data = mx.nd.array(np.random.default_rng(0).random(SHAPE, np.float32))
    net = _network()
    forward = _seconds(lambda: net(data))
    net = _network()

    def train() -> None:
        with autograd.record():
            output = net(data)
        output.backward()

    both = _seconds(train)
    symbol = vision.resnet50_v1()(mx.sym.var("data"))
    bind = _seconds(lambda: symbol.simple_bind(mx.cpu(), data=SHAPE))
    print(
        json.dumps(
            {
                "hybridized ResNet-50, first forward": forward,
                "hybridized ResNet-50, first forward and backward": both,
                "simple_bind of ResNet-50": bind,
            }
        )
    )


if __name__ == "__main__":
    main()
