"""Measures the inference speed of a network on random images.

``mxlite score resnet50_v1 --batch-size 32`` builds a network of the model zoo, hybridizes it, and
prints images per second. benchmarks/benchmark_score.py of the sources compares networks.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

from .. import gluon
from .. import ndarray as nd
from .._progress import track
from ..base import MXNetError
from ..context import cpu, gpu


def images_per_second(
    net: gluon.HybridBlock, data: nd.NDArray, passes: int, warm_up: int = 2
) -> float:
    """Return the speed of forward passes, from the median of their times."""
    seconds = []
    for number in track(range(passes + warm_up), "score", "pass"):
        begin = time.perf_counter()
        net(data).wait_to_read()
        if number >= warm_up:
            seconds.append(time.perf_counter() - begin)
    return int(data.shape[0]) / statistics.median(seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 for an unknown network or an absent GPU."""
    parser = argparse.ArgumentParser(
        prog="mxlite score", description="Measure the inference speed of a network."
    )
    parser.add_argument("network", nargs="?", default="resnet50_v1", help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, default=1, help="images in a batch (%(default)s)")
    parser.add_argument("--size", type=int, default=224, help="height and width (%(default)s)")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 ... (%(default)s)")
    parser.add_argument("--passes", type=int, default=10, help="timed passes (%(default)s)")
    parser.add_argument("--gpu", type=int, metavar="NUMBER", help="the GPU to use (the CPU)")
    options = parser.parse_args(arguments)
    if min(options.batch_size, options.size, options.passes) < 1:
        parser.error("--batch-size, --size and --passes must be at least 1")
    device = cpu() if options.gpu is None else gpu(options.gpu)
    try:
        net = gluon.model_zoo.vision.get_model(options.network)
        net.initialize(ctx=device)
        net.cast(options.dtype)
        net.hybridize(static_alloc=True, static_shape=True)
        shape = (options.batch_size, 3, options.size, options.size)
        data = nd.random.uniform(-1, 1, shape=shape, ctx=device).astype(options.dtype)
        speed = images_per_second(net, data, options.passes)
    except (MXNetError, TypeError) as error:
        print(f"score: {error}", file=sys.stderr)
        return 1
    print(
        f"{options.network} on {device}, batch size {options.batch_size:2}, "
        f"dtype {options.dtype}, images/sec: {speed:f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
