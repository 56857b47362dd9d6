"""Inference speed of image networks.

MXNet 1.x: ``example/image-classification/benchmark_score.py``.

    python benchmarks/benchmark_score.py                           # six networks, 1 to 32 images
    python benchmarks/benchmark_score.py --network resnet-50 --batch-size 32 --dtype bfloat16
    python benchmarks/benchmark_score.py --ctx gpu --dtype float16          # on the first GPU

Images are random and on the device before timing starts. An iteration ends when its output is
computed. Result lines have MXNet's format; a table, and a plot if matplotlib is installed, follow.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mxlite as mx
from command_line import add_options
from common import (
    Timing,
    machine,
    progress,
    report,
    result,
    time_each,
    usable_cores,
    write_json,
)
from mxlite.base import ValueError_
from scoring.networks import DEFAULT, NETWORKS, build, describe, image_size, zoo_name
from scoring.report import plot, text

BATCH_SIZES = [1, 2, 4, 8, 16, 32]
DTYPES = ("float32", "float16", "bfloat16", "int8")
# The slowest cells take seconds for one iteration, so they get fewer iterations by default.
MIN_ITERATIONS = 3
MIN_WARM_UP = 2
CALIBRATION_IMAGES = 4  # images that determine the ranges of an int8 network's layers


def check_batch_size(batch_size: int) -> int:
    """Return ``batch_size``; raise if it is below 1.

    Parameters
    ----------
    batch_size : int
        Images in a batch.

    Returns
    -------
    int
        The batch size.

    Raises
    ------
    ValueError
        If it is below 1.
    """
    if batch_size < 1:
        raise ValueError_(f"benchmark_score: batch size must be at least 1, got {batch_size}")
    return batch_size


class Scorer:
    """One network, hybridized, whose speed is measured at several batch sizes.

    Parameters
    ----------
    network : str
        A name of MXNet's list or of the model zoo.
    dtype : str
        One of :data:`DTYPES`.
    device : Device, optional
        Device to run on; ``mx.cpu(0)`` by default.

    Raises
    ------
    ValueError
        If the network is unknown.
    DeviceError
        If the device does not exist.
    """

    def __init__(self, network: str, dtype: str = "float32", device: Any = None) -> None:
        self.network, self.dtype = network, dtype
        self.device = mx.cpu(0) if device is None else device
        self.net = build(network)
        self.net.collect_params().reset_ctx(self.device)
        self.original = self.net  # the network that `describe` counts
        if dtype == "int8":
            self.net = mx.contrib.quantization.quantize_net_v2(
                self.net,
                calib_data=[self.images(CALIBRATION_IMAGES)],
                calib_mode="naive",
                ctx=self.device,
            )
        elif dtype != "float32":
            self.net.cast(dtype)
        self.net.hybridize(static_alloc=True, static_shape=True)

    def images(self, batch_size: int) -> Any:
        """Return random images of shape ``(batch_size, 3, size, size)``, uniform in [-1, 1)."""
        size = image_size(self.network)
        shape = (check_batch_size(batch_size), 3, size, size)
        data = mx.nd.random.uniform(-1.0, 1.0, shape=shape, ctx=self.device)
        if self.dtype != "int8":  # the quantized network reads float32
            data = data.astype(self.dtype)
        data.wait_to_read()
        return data

    def score(
        self, batch_size: int, iterations: int = 10, warm_up: int = 5, seconds: float = 10.0
    ) -> Timing:
        """Time forward passes.

        Parameters
        ----------
        batch_size : int
            Images in a batch.
        iterations : int
            Timed forward passes.
        warm_up : int
            Passes before them; the first one builds the executable.
        seconds : float
            Time limit, which slow cells keep by fewer iterations (at least 3) and warm-ups (2).

        Returns
        -------
        Timing
            One measurement for each timed pass.

        Raises
        ------
        ValueError
            Batch size below 1.
        """
        data = self.images(batch_size)

        def forward() -> None:
            self.net(data).wait_to_read()

        forward()
        begin = time.perf_counter()
        forward()
        once = time.perf_counter() - begin
        affordable = int(seconds / max(once, 1e-9))
        for _ in range(min(warm_up, max(MIN_WARM_UP, affordable // 2)) - 2):
            forward()
        return time_each(forward, min(iterations, max(MIN_ITERATIONS, affordable)))


def positive(value: str) -> int:
    """Parse a whole number of at least 1 for argparse."""
    try:
        return check_batch_size(int(value))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{value!r}: expected a whole number of at least 1"
        ) from None


def batch_sizes(value: str) -> list[int]:
    """Parse one batch size or several, separated by commas, for argparse."""
    return [positive(part) for part in value.split(",")]


def network_names(value: str) -> list[str]:
    """Parse network names, separated by commas, or ``all``, for argparse."""
    names = DEFAULT if value == "all" else value.split(",")
    try:
        for name in names:
            zoo_name(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).partition(": ")[2]) from None
    return list(names)


def dtype_names(value: str) -> list[str]:
    """Parse dtypes, separated by commas, for argparse."""
    names = value.split(",")
    for name in names:
        if name not in DTYPES:
            raise argparse.ArgumentTypeError(f"{name!r}: expected {' or '.join(DTYPES)}")
    return names


def device(value: str) -> Any:
    """Parse ``cpu``, ``gpu`` or ``gpu(1)`` for argparse."""
    name, _, index = value.rstrip(")").partition("(")
    if name not in ("cpu", "gpu") or not (index or "0").isdigit():
        raise argparse.ArgumentTypeError(f"{value!r}: expected cpu, gpu or gpu(number)")
    found = mx.gpu(int(index or 0)) if name == "gpu" else mx.cpu(int(index or 0))
    if name == "gpu" and int(index or 0) >= mx.num_gpus():
        raise argparse.ArgumentTypeError(f"{value!r}: {mx.num_gpus()} GPUs are usable here")
    return found


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    line = argparse.ArgumentParser(
        description="Inference speed of image networks.",
        epilog=f"networks: {', '.join(NETWORKS)} and every name of gluon.model_zoo.vision",
    )
    line.add_argument(
        "--network",
        type=network_names,
        default="all",
        help="name, several with commas, or all: %(default)s",
    )
    line.add_argument(
        "--batch-size",
        type=batch_sizes,
        help="images in a batch, several with commas (default: 1 2 4 8 16 32)",
    )
    line.add_argument(
        "--dtype",
        type=dtype_names,
        default="float32",
        help="float32, float16 (on GPUs), bfloat16 or int8 (on CPUs), several with commas",
    )
    line.add_argument(
        "--ctx", type=device, default="cpu", help="cpu, gpu or such as gpu(1): %(default)s"
    )
    line.add_argument("--iterations", type=positive, default=10, help="timed passes: %(default)s")
    line.add_argument("--warm-up", type=positive, default=5, help="passes before: %(default)s")
    line.add_argument(
        "--repeats", type=positive, default=1, help="rounds over all cells: %(default)s"
    )
    line.add_argument(
        "--seconds",
        type=float,
        default=8.0,
        help="time for the timed passes of a cell; slow cells do fewer passes: %(default)s",
    )
    line.add_argument(
        "--old-lines",
        action="store_true",
        help="result lines as MXNet before 1.3 wrote them",
    )
    add_options(line, "json")
    line.add_argument(
        "--plot",
        metavar="FILE",
        default="benchmark_score.png",
        help="PNG to draw, none for '': %(default)s",
    )
    return line


def log_result(batch_size: int, dtype: str, speed: float, old: bool) -> None:
    """Write one result line in the wording of MXNet 1.2 and before, or of 1.3 and later."""
    if old:
        logging.info("batch size %2d, image/sec: %f", batch_size, speed)
    else:
        logging.info("batch size %2d, dtype %s, images/sec: %f", batch_size, dtype, speed)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    arguments : list of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0.
    """
    logging.basicConfig(level=logging.INFO)
    options = parser().parse_args(arguments)
    sizes = options.batch_size or BATCH_SIZES
    if options.network == DEFAULT:
        logging.info("It may take some time to run all models, set --network to run a specific one")
    if options.batch_size is None:
        logging.info(
            "run batchsize %s by default, set --batch-size to run a specific one", BATCH_SIZES
        )
    on_cpu = options.ctx.device_type == "cpu"
    flags = machine()["flags"]
    if on_cpu and "int8" in options.dtype and not {"avx_vnni", "avx512_vnni"} & set(flags):
        logging.info("this CPU has no VNNI, with which int8 is faster: weights have 7 bits here")
    if on_cpu and "float16" in options.dtype:
        logging.info("float16 is computed in float32 on CPUs, and slow")
    if on_cpu and "bfloat16" in options.dtype and not {"avx512_bf16", "amx_bf16"} & set(flags):
        logging.info("this CPU has neither AVX512-BF16 nor AMX: bfloat16 is emulated and slow")

    cells = [(name, dtype) for name in options.network for dtype in options.dtype]
    timings: dict[tuple[str, str, int], Timing] = {}
    facts: dict[str, dict[str, Any]] = {}
    rounds = [(cell, size) for _ in range(options.repeats) for cell in cells for size in sizes]
    scorer: Scorer | None = None
    for (name, dtype), size in progress(rounds, len(rounds), "scoring"):
        if scorer is None or (scorer.network, scorer.dtype) != (name, dtype):
            scorer = None
            gc.collect()
            scorer = Scorer(name, dtype, options.ctx)
            logging.info("network: %s", name)
            if name in ("densenet121", "squeezenet1.1"):
                logging.info("network: %s is converted from gluon modelzoo", name)
                logging.info(
                    "you can run benchmark/python/gluon/benchmark_gluon.py for more models"
                )
            logging.info("device: %s", options.ctx)
        timing = scorer.score(size, options.iterations, options.warm_up, options.seconds)
        facts.setdefault(name, describe(name, scorer.original))
        log_result(size, dtype, size / timing.mean, options.old_lines)
        timings.setdefault((name, dtype, size), Timing([])).seconds.extend(timing.seconds)

    results = [
        result(
            f"{name} batch {size} {dtype}",
            timing,
            unit="images/s",
            amount=size,
            network=name,
            batch=size,
            dtype=dtype,
        )
        for (name, dtype, size), timing in timings.items()
    ]
    print(text(results, facts, usable_cores()))
    if options.plot:
        print(plot(results, options.plot))
    if options.json:
        settings = {
            "iterations": options.iterations,
            "warm_up": options.warm_up,
            "repeats": options.repeats,
            "seconds": options.seconds,
            "threads": usable_cores(),
            "device": str(options.ctx),
        }
        write_json(options.json, report("scoring", settings, results, networks=facts))
        print(f"figures: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
