"""Train VGG-16 on JPEG pictures from a record file: speed, memory, and what reading costs.

    python examples/results/vgg16.py

Writes ``vgg16.log``, ``vgg16.json`` and ``vgg16.png`` beside this file. The pictures, 500 x 375
pixels, are drawn at random and cropped to 224 x 224. There are three runs of ``train_imagenet.py``:
reading alone, training from the record file, and training on one synthetic batch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "image_classification"))
import mxlite as mx
import numpy as np
from symbols import get_symbol

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "image_classification"
SPEED = re.compile(r"Batch \[[-\d]+\]\tSpeed: ([\d.]+) samples/sec")
LOSS = re.compile(r"Batch \[\d+-(\d+)\]\t.*cross-entropy=([\d.]+)")
CLASSES = 10
# Number of pictures for reading alone, which is fast.
MORE = 1000


def write_pictures(path: Path, count: int) -> int:
    """Write pictures whose random colors are similar within a class; return the number of bytes."""
    random = np.random.RandomState(1)
    classes = random.randint(0, 256, (CLASSES, 1, 1, 3))
    records = mx.recordio.MXRecordIO(str(path), "w")
    for number in range(count):
        label = number % CLASSES
        noise = random.randint(-90, 91, (24, 32, 3)) + classes[label]
        coarse = mx.nd.array(np.clip(noise, 0, 255), dtype="uint8")
        picture = mx.image.imresize(coarse, 500, 375).asnumpy()
        header = mx.recordio.IRHeader(0, float(label), number, 0)
        records.write(mx.recordio.pack_img(header, picture, quality=90))
    records.close()
    return path.stat().st_size


def run(folder: Path, *options: Any) -> tuple:
    """Run the script; return log and peak memory in MiB."""
    command = [sys.executable, str(SCRIPTS / "train_imagenet.py"), *map(str, options)]
    print(" ".join(command), flush=True)
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        log = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(log[-3000:])
    return log, usage.ru_maxrss / 1024


def speeds(log: str) -> list:
    """Return images/s of all lines."""
    return [float(speed) for speed in SPEED.findall(log)]


def draw(report: dict, losses: list, path: Path) -> None:
    """Draw loss, speed and memory."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (loss, speed, memory) = pyplot.subplots(1, 3, figsize=(11, 3.6))
    loss.plot(*zip(*losses), linewidth=1.2)
    loss.set(title="cross-entropy", xlabel="batch", ylim=(0, None))
    rates = report["images_per_second"]
    bars = speed.bar(["record file", "synthetic"], [rates["records"], rates["synthetic"]])
    speed.bar_label(bars, fmt="%.2f")
    speed.set(title=f"training, images/s (reading alone {rates['reading']:.0f})")
    parts = report["memory_mib"]
    known = [(name, size) for name, size in parts.items() if name != "peak"]
    known.append(("activations and the rest", parts["peak"] - sum(size for _, size in known)))
    bottom = 0.0
    for name, size in known:
        memory.bar(["peak"], [size], bottom=bottom, label=f"{name} {size:.0f}", width=0.4)
        bottom += size
    memory.set(title="memory, MiB", xlim=(-0.5, 3))
    memory.legend(fontsize=7, loc="center right")
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=4)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    count = options.iterations * options.batch_size
    network = ["--network", "vgg", "--num-layers", 16, "--num-classes", CLASSES]
    common = [
        *network,
        *("--num-examples", count, "--batch-size", options.batch_size, "--num-epochs", 1),
        *("--disp-batches", 1, "--loss", "ce", "--lr", 0.01, "--lr-factor", 1, "--seed", 1),
        *("--data-nthreads", len(os.sched_getaffinity(0))),
    ]
    images = ["--data-train", "pictures.rec", "--random-crop", 1, "--random-mirror", 1]
    images += ["--rgb-std", "58.393,57.12,57.375"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_pictures(folder / "pictures.rec", count)
        write_pictures(folder / "more.rec", MORE)
        reading, reading_mib = run(
            folder, *common, *images, "--test-io", 1, "--data-train", "more.rec"
        )
        training, peak = run(folder, *common, *images)
        few = ["--num-examples", 12 * options.batch_size, "--benchmark", 1]
        synthetic, _ = run(folder, *common, *few)
    symbol = get_symbol("vgg", num_classes=CLASSES, num_layers=16)
    shapes = symbol.infer_shape(data=(1, 3, 224, 224))[0]
    names = symbol.list_arguments()
    values = sum(
        int(np.prod(shape))
        for name, shape in zip(names, shapes)
        if name.endswith(("_weight", "_bias"))
    )
    array_mib = values * 4 / 2**20
    warm = 2
    report = {
        "iterations": options.iterations,
        "batch": options.batch_size,
        "threads": int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))),
        "load_before": load,
        "record_file_mib": size / 2**20,
        "images_per_second": {
            # Measures whole epochs, because prefetched batches take no time.
            "reading": statistics.harmonic_mean(speeds(reading)),
            "records": statistics.median(speeds(training)[warm:]),
            "synthetic": statistics.median(speeds(synthetic)[warm:]),
        },
        "memory_mib": {
            "parameters": array_mib,
            "gradients": array_mib,
            "momentum": array_mib,
            "copies in Module and kvstore": 2 * array_mib,
            "peak": peak,
        },
        "reading_peak_mib": reading_mib,
    }
    (HERE / "vgg16.log").write_text(training)
    (HERE / "vgg16.json").write_text(json.dumps(report, indent=1) + "\n")
    losses = [(int(batch), float(value)) for batch, value in LOSS.findall(training)]
    draw(report, losses, HERE / "vgg16.png")
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
