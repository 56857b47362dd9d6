"""Measures images per second of im2rec on mxlite and MXNet 1.9.1, in turns, and their limits.

    python benchmarks/io/packing.py --mxnet-python PYTHON --json out.json

The limit of `--pass-through` is reading the files and writing their bytes to one file; that of
`--resize 256` is decoding the pictures and encoding small ones, with as many threads, in memory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent / "python")]
from command_line import add_options  # noqa: E402
from common import Timing, progress, report, result, table, write_json  # noqa: E402
from photos import make_photos  # noqa: E402

RESIZE = 256


def copy_files(folder: Path, target: Path) -> None:
    """Read the files and write their bytes to one file."""
    with open(target, "wb", buffering=1 << 20) as output:
        for name in sorted((folder / "images").iterdir()):
            output.write(name.read_bytes())
        os.fdatasync(output.fileno())


def decode_and_encode(folder: Path, threads: int) -> None:
    """Only decode all pictures and encode a small one for each."""
    from mxlite import _core

    names = sorted((folder / "images").iterdir())
    whole = _core.decode_image(names[0].read_bytes(), to_rgb=False)
    height, width = whole.shape[:2]
    side = RESIZE * width // height
    pictures = [_core.decode_image(name.read_bytes(), to_rgb=False) for name in names[:16]]
    small = [_core.resize_image(picture, side, RESIZE).asnumpy() for picture in pictures]

    def run(part: int) -> None:
        for i in range(part, len(names), threads):
            _core.decode_image(names[i].read_bytes(), to_rgb=False)
            _core.encode_image(small[i % 16], False, 95)

    workers = [threading.Thread(target=run, args=(part,)) for part in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def pack(folder: Path, options: list[str]) -> None:
    """Run mxlite's im2rec."""
    from mxlite.tools import im2rec

    with contextlib.redirect_stdout(io.StringIO()):
        status = im2rec.main([*options, str(folder / "photos"), str(folder / "images")])
    assert status == 0, f"im2rec ended with {status}"


def pack_with_mxnet(python: str, folder: Path, options: list[str]) -> None:
    """Run 1.9.1's im2rec; the start of Python and the import are part of it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [python, "-m", "mxnet.tools.im2rec", *options]
    command += [str(folder / "photos"), str(folder / "images")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=2000)
    add_options(parser, "json", "threads")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--mxnet-python", help="with MXNet 1.9.1 and cv2")
    options = parser.parse_args(arguments)
    threads = ["--num-thread", str(options.threads)]
    with tempfile.TemporaryDirectory(prefix="mxlite-packing-") as scratch:
        folder = Path(scratch)
        make_photos(folder, options.images)
        resize = ["--resize", str(RESIZE), *threads]
        runs: dict[str, Callable[[], None]] = {
            "pass-through limit": lambda: copy_files(folder, folder / "copy"),
            "pass-through mxlite": lambda: pack(folder, ["--pass-through", *threads]),
            "resize limit": lambda: decode_and_encode(folder, options.threads),
            "resize mxlite": lambda: pack(folder, resize),
        }
        if options.mxnet_python:
            python = options.mxnet_python
            runs["pass-through mxnet"] = lambda: pack_with_mxnet(
                python, folder, ["--pass-through", *threads]
            )
            runs["resize mxnet"] = lambda: pack_with_mxnet(python, folder, resize)
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for turn in progress(range(options.turns + 1), options.turns + 1, "packing"):
            # Removes old files, so that all programs write new files, and waits for pending writes.
            for name in random.Random(turn).sample(sorted(runs), len(runs)):
                for written in ("copy", "images.rec", "images.idx"):
                    (folder / written).unlink(missing_ok=True)
                os.sync()
                begin = time.perf_counter()
                runs[name]()
                if turn:
                    seconds[name].append(time.perf_counter() - begin)
    rows, results = [], []
    for name, values in seconds.items():
        ours = seconds[name.split()[0] + " mxlite"]
        ratio = statistics.median(other / mine for mine, other in zip(ours, values))
        entry: dict[str, Any] = result(
            f"im2rec {name}", Timing(values), unit="images/s", amount=options.images
        )
        entry["ratio"] = ratio
        results.append(entry)
        rows.append([name, f"{entry['median']:.0f}", f"{ratio:.2f}"])
    print(table(["im2rec", "images/s", "mxlite / it"], rows))
    if options.json:
        settings = {
            "images": options.images,
            "threads": options.threads,
            "turns": options.turns,
            "load_before": os.getloadavg()[2],
        }
        write_json(options.json, report("io packing", settings, results))


if __name__ == "__main__":
    main()
