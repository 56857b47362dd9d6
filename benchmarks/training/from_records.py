"""Training from a record file beside training on one batch in memory: what reading costs.

    python benchmarks/training/from_records.py --network resnetv1-50 --json out.json

JPEG pictures of 500 x 375 pixels, as in the pipeline's benchmark, are decoded, cropped, mirrored
and normalized by ImageRecordIter while a hybridized network trains (forward, softmax cross entropy,
backward, SGD with momentum). Both kinds of steps take turns in one process; the pipeline alone is
measured, too. On a CPU, decoding takes cores from training. `cpu share` is the minimum of this
cost.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "io"), str(BENCHMARKS.parent / "python")]
import mxlite as mx  # noqa: E402
from command_line import add_options  # noqa: E402
from common import Timing, report, result, table, usable_cores, write_json  # noqa: E402
from photos import make_photos  # noqa: E402
from scoring.networks import build, image_size  # noqa: E402


def pipeline(record: Path, options: argparse.Namespace, size: int) -> mx.io.ImageRecordIter:
    """Return the iterator that training reads from."""
    return mx.io.ImageRecordIter(
        path_imgrec=str(record),
        data_shape=(3, size, size),
        batch_size=options.batch_size,
        resize=max(256, size),
        shuffle=True,
        rand_crop=True,
        rand_mirror=True,
        mean_r=123.68,
        mean_g=116.779,
        mean_b=103.939,
        std_r=58.393,
        std_g=57.12,
        std_b=57.375,
        preprocess_threads=options.decode_threads,
    )


def endless(batches: mx.io.ImageRecordIter) -> Callable[[], Any]:
    """Return a function that gives the next batch, of the next epoch after the last."""

    def following() -> Any:
        try:
            return batches.next()
        except StopIteration:
            batches.reset()
            return batches.next()

    return following


def training_step(network: str, batch: int) -> Callable[[Any, Any], None]:
    """Return a function that trains on data and labels."""
    net = build(network)
    net.hybridize(static_alloc=True, static_shape=True)
    objective = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    objective.hybridize()
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": 0.9, "wd": 1e-4}
    )

    def step(data: Any, label: Any) -> None:
        with mx.autograd.record():
            loss = objective(net(data), label)
        loss.backward()
        trainer.step(batch)

    return step


def measured(count: int, action: Callable[[], Any]) -> tuple[float, float]:
    """Return wall and CPU seconds of one of `count` calls."""
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        action()
    mx.nd.waitall()
    return (time.perf_counter() - begin) / count, (time.process_time() - cpu) / count


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="resnetv1-50", help="a name of benchmark_score")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4, help="steps of a turn: %(default)s")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--decode-threads", type=int, default=usable_cores())
    parser.add_argument("--folder", type=Path, help="where the pictures are kept")
    add_options(parser, "json")
    options = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    folder = options.folder or Path(tempfile.gettempdir()) / "mxlite-photos"
    record = make_photos(folder, options.images)
    size, batch = image_size(options.network), options.batch_size

    read = endless(pipeline(record, options, size))
    measured(8, read)  # batches that were prefetched
    reading, reading_cpu = measured(max(8, options.images // batch), read)

    following = endless(pipeline(record, options, size))
    step = training_step(options.network, batch)
    kept = following()

    def synthetic() -> None:
        step(kept.data[0], kept.label[0])

    def from_records() -> None:
        found = following()
        step(found.data[0], found.label[0])

    for warm in (synthetic, from_records):
        measured(2, warm)
    wall: dict[str, list[float]] = {"synthetic": [], "records": []}
    cpu: dict[str, list[float]] = {"synthetic": [], "records": []}
    for turn in range(options.turns):
        runs = [("synthetic", synthetic), ("records", from_records)]
        for name, run in runs if turn % 2 else reversed(runs):
            # The queue of batches is as full before each turn as training leaves it.
            seconds, cpu_seconds = measured(options.steps, run)
            wall[name].append(seconds)
            cpu[name].append(cpu_seconds)
    slower = [a / b - 1 for a, b in zip(wall["records"], wall["synthetic"])]
    rates = {name: batch / statistics.median(values) for name, values in wall.items()}
    rates["reading alone"] = batch / reading
    share = reading_cpu / statistics.median(cpu["synthetic"])
    rows = [[name, f"{rate:.2f}"] for name, rate in rates.items()]
    print(table([f"{options.network} batch {batch}", "images/s"], rows))
    print(
        f"from records {100 * statistics.median(slower):.1f} % slower; the pipeline alone is "
        f"{rates['reading alone'] / rates['synthetic']:.1f} times as fast as training; cpu share "
        f"of decoding {100 * share:.1f} %"
    )
    if options.json:
        settings = {
            key: value for key, value in vars(options).items() if key not in ("json", "folder")
        }
        settings["load_before"] = load
        entries = [
            result(f"training {name}", Timing(values), unit="images/s", amount=batch)
            for name, values in wall.items()
        ]
        entries.append(result("reading", Timing([reading]), unit="images/s", amount=batch))
        write_json(
            options.json,
            report(
                "training from records",
                settings,
                entries,
                slower=statistics.median(slower),
                decoding_share_of_cpu=share,
                pipeline_over_training=rates["reading alone"] / rates["synthetic"],
            ),
        )


if __name__ == "__main__":
    main()
