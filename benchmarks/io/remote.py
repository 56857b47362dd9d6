"""Training and reading from a server of this host that sends 200 MB/s, and from the local file.

    python benchmarks/io/remote.py --json out.json

The pictures are those of pipeline.py. `train` is ResNet-18 at 112 x 112 pixels, `batches` are
float32 batches of 224 x 224 pixels, `records` are the bytes of all records. Both sources take turns
in random order; the local file is in the page cache. The ratio is the time for the local file
divided by that for the server, turn by turn: below 0.95 the server costs more than 5 %.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent / "python")]
import mxlite as mx  # noqa: E402
from command_line import add_options  # noqa: E402
from common import Timing, progress, report, result, table, write_json  # noqa: E402
from mxlite import autograd, recordio  # noqa: E402
from photos import make_photos  # noqa: E402


class Training:
    """ResNet-18 and its trainer."""

    def __init__(self) -> None:
        self._net = mx.gluon.model_zoo.vision.resnet18_v1(classes=10)
        self._net.initialize()
        self._net.hybridize()
        self._loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self._trainer = mx.gluon.Trainer(self._net.collect_params(), "sgd")

    def step(self, batch: mx.io.DataBatch) -> None:
        """Update the weights by a batch."""
        data, label = batch.data[0], batch.label[0] % 10
        with autograd.record():
            loss = self._loss(self._net(data), label)
        loss.backward()
        self._trainer.step(data.shape[0])


def iterate(base: str, side: int, threads: int, use: Callable[[Any], None]) -> None:
    """Call a function with every batch of the records."""
    batches = mx.io.ImageRecordIter(
        path_imgrec=f"{base}/photos.rec",
        path_imgidx=f"{base}/photos.idx",
        data_shape=(3, side, side),
        resize=side + side // 7,
        rand_crop=True,
        batch_size=32,
        preprocess_threads=threads,
        verbose=False,
    )
    for batch in batches:
        use(batch)
    mx.nd.waitall()


def read_records(base: str) -> None:
    """Read all records in order."""
    with recordio.MXRecordIO(f"{base}/photos.rec", "r") as file:
        while file.read() is not None:
            pass


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--rate", type=float, default=200, help="MB/s of the server: %(default)s")
    add_options(parser, "json", "threads", rounds=7)
    options = parser.parse_args(arguments)
    folder = Path(tempfile.gettempdir()) / f"mxlite-photos-{options.images}"
    size = make_photos(folder, options.images).stat().st_size
    training = Training()
    runs: dict[str, tuple[Callable[[str], None], str, float]] = {
        "train": (
            lambda base: iterate(base, 112, options.threads, training.step),
            "images/s",
            options.images,
        ),
        "batches": (
            lambda base: iterate(base, 224, options.threads, lambda batch: None),
            "images/s",
            options.images,
        ),
        "records": (read_records, "MB/s", size / 1e6),
    }
    seconds: dict[tuple[str, str], list[float]] = {}
    command = [sys.executable, str(Path(__file__).with_name("range_server.py")), str(folder)]
    with subprocess.Popen(
        [*command, "--rate", str(options.rate)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as server:  # fmt: skip
        assert server.stdout and server.stdin
        sources = {"local": str(folder), "server": server.stdout.readline().strip()}
        cases = [(name, source) for name in runs for source in sources]
        for turn in progress(range(options.rounds + 1), options.rounds + 1, "remote files"):
            for name, source in random.Random(turn).sample(cases, len(cases)):
                begin = time.perf_counter()
                runs[name][0](sources[source])
                if turn:  # the first one compiles
                    seconds.setdefault((name, source), []).append(time.perf_counter() - begin)
        server.stdin.close()
    rows, results = [], []
    for name, source in cases:
        _, unit, amount = runs[name]
        values = seconds[name, source]
        pairs = zip(seconds[name, "local"], values)
        entry: dict[str, Any] = result(f"{name} {source}", Timing(values), unit=unit, amount=amount)
        entry["ratio"] = statistics.median(local / own for local, own in pairs)
        results.append(entry)
        spread = f"{entry['q1']:.0f} - {entry['q3']:.0f}"
        rows.append(
            [name, source, f"{entry['median']:.0f} {unit}", spread, f"{entry['ratio']:.3f}"]
        )
    print(table(["what", "source", "median", "quartiles", "server / local"], rows))
    if options.json:
        settings = {
            "images": options.images,
            "bytes": size,
            "rate_mb": options.rate,
            "threads": options.threads,
            "rounds": options.rounds,
            "load_before": os.getloadavg()[2],
        }
        write_json(options.json, report("io remote", settings, results))


if __name__ == "__main__":
    main()
